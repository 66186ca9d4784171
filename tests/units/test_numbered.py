"""Learning from observations as an environment gives them: policies, files, runs, workers and the command line."""

import csv
import json
import subprocess
import sys
from dataclasses import replace

import cvxpy as cp
import gymnasium
import numpy as np
import pytest

import bidual as bd
from bidual import cli
from bidual._base.keys import Draw, Purpose
from bidual.learning.runs._restored import _check_met
from bidual.learning.setup import set_up
from bidual.learning.state import start_learn_state
from bidual.world.envs import gymnasium_environment, parallel, processes
from bidual.world.policies import DeterministicPolicy
from tests.remote_envs import Rooms, name_room
from tests.units.test_forged import rewrite

H, LIMIT = 8, 8
HALL, TOWER = ({"name": n, "doors": np.array([i, 4 - i], dtype=np.uint8)} for n, i in (("hall", 0), ("tower", 4)))


def _problem(budget=6.0):
    x = bd.features.signals(
        prize=bd.features.observed(lambda t: t.reward[0], at_end=True), steps=lambda t: t.reward[1]
    ).embedding(H)
    return bd.Problem(cp.Maximize(cp.sum(x.prize)), {"steps": cp.sum(x.steps) <= budget})


def _learn(episodes=60, env=Rooms, **named):
    options = {"states_limit": LIMIT, "evaluation": 20, "seed": 3} | named
    return bd.learn(_problem(), env() if isinstance(env, type) else env, episodes=episodes, **options)


@pytest.fixture(scope="module")
def learned():
    return _learn()


@pytest.fixture(scope="module")
def saved(learned, tmp_path_factory):
    path = tmp_path_factory.mktemp("numbered") / "rooms.bidual"
    learned.save(path)
    return path


def _same(one, other):
    assert json.dumps(one.to_dict() | {"seconds": 0}) == json.dumps(other.to_dict() | {"seconds": 0})
    assert np.array_equal(one.policy.table, other.policy.table)
    assert one.policy.numbering.to_json() == other.policy.numbering.to_json()


# Results


def test_it_says_how_observations_were_numbered(learned):
    assert learned.assumptions[0] == ("at most 8 different observations can occur, numbered as they were met: 4 so far")
    assert learned.value > 0.3
    assert learned.knowledge.met


def _truth():
    """`Rooms` with its law: rooms 0 to 3, and the state of ended episodes."""
    law, end = np.zeros((5, 2, 5)), 4
    for room in range(4):
        law[room, 0, max(0, room - 1)] = 1.0
        law[room, 1, [room + 1 if room < 3 else end, max(0, room - 1)]] = 5 / 6, 1 / 6
    law[end, :, end] = 1.0
    mdp = bd.TabularMDP(law, np.array([0.5, 0.5, 0, 0, 0]), H)
    prize = np.zeros((5, 2, 5))
    prize[3, 1, end] = 1.0
    x = mdp.embedding(prize=prize, steps=np.array([[0.0, 1.0]] * 4 + [[0.0, 0.0]]))
    problem = bd.Problem(cp.Maximize(cp.sum(x.prize)), {"steps": cp.sum(x.steps) <= 6.0})
    return bd.solve(problem, mdp)


def test_bounds_hold_though_numbers_depend_on_what_was_seen():
    """A bound on all policies is one on the true optimum, with any limit that is true; looser with larger ones."""
    optimum = _truth().value
    tight, wide = (_learn(episodes=200, evaluation=0, states_limit=limit).upper for limit in (5, 40))
    assert optimum <= tight <= wide + 1e-9
    assert tight < 1.0


def test_policies_act_on_observations(learned):
    assert learned.policy.reset(0).act(HALL) in (0, 1)
    action, _ = learned.policy.predict(HALL)
    assert action in (0, 1)
    assert learned.policy.most_likely().reset(0).act(HALL) in (0, 1)
    learned.policy.reset(0).act({"name": "cellar", "doors": [0, 0]})  # as in a state that it knows nothing of
    with pytest.raises(bd.PolicyError, match="cannot be numbered: a set is no number"):
        learned.policy.reset(0).act({1})


def test_all_that_was_not_met_is_one_state_to_every_policy_that_was_run(learned):
    """So what a policy does there does not depend on the number that an observation gets."""
    for policy in learned.executed[:3]:
        assert len({tuple(row) for row in policy.actions[:, 5:LIMIT].T}) == 1
    table = learned.policy.table
    assert all(np.array_equal(table[:, s], table[:, 4]) for s in range(5, LIMIT))


def test_states_have_their_observations_as_names(learned, tmp_path):
    frame = learned.policy.to_frame()
    assert '{"doors":[0,4],"name":"hall"}' in set(frame.state)
    bd.policies.write_table(learned.policy, tmp_path / "rooms.csv", "csv")
    with (tmp_path / "rooms.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["state"] for row in rows} >= {'{"doors":[0,4],"name":"hall"}', "ended", "not met (7)"}
    assert bd.report.visits_figure(learned).axes[0].get_yticklabels()[-1].get_text() == "ended"


def test_a_file_acts_on_observations_in_another_process(learned, saved):
    """Without the environment, and without anything of this module."""
    code = (
        "import sys, json, numpy as np, bidual as bd\n"
        "policy = bd.load(sys.argv[1])\n"
        "rooms = [{'name': n, 'doors': np.array([i, 4 - i])} for i, n in enumerate(['hall', 'stairs', 'attic'])]\n"
        "print(json.dumps([[policy.reset(s).act(r) for r in rooms] for s in range(5)]))"
    )
    done = subprocess.run([sys.executable, "-c", code, saved], capture_output=True, text=True, check=True)
    rooms = [{"name": n, "doors": np.array([i, 4 - i])} for i, n in enumerate(["hall", "stairs", "attic"])]
    assert json.loads(done.stdout) == [[learned.policy.reset(s).act(r) for r in rooms] for s in range(5)]


def test_a_file_is_checked_and_evaluated(saved, capsys):
    assert "check passed" in str(bd.check(saved))
    assert cli.main(["check", "--exact", str(saved)]) == 0
    assert "exact" in capsys.readouterr().out
    policy = bd.load(saved)
    result = bd.evaluate(_problem(), Rooms(), policy, episodes=50, states_limit=LIMIT)
    assert result.objective.value > 0.3
    assert result.to_dict() == bd.evaluate(_problem(), Rooms(), policy, episodes=50, states_limit=LIMIT).to_dict()


def test_a_policy_is_not_run_where_observations_have_other_numbers(saved):
    policy = bd.load(saved)
    with pytest.raises(bd.PolicyError, match="same states=, num_states= and states_limit="):
        bd.evaluate(_problem(), Rooms(), policy, episodes=5, states_limit=LIMIT, states=name_room)
    plain = bd.policies.MarkovPolicy(policy.table)
    with pytest.raises(bd.PolicyError, match="this policy does not say which number means what"):
        bd.evaluate(_problem(), Rooms(), plain, episodes=5, states_limit=LIMIT)
    env = gymnasium_environment(Rooms(), H, states_limit=LIMIT)
    with pytest.raises(bd.PolicyError, match=r"otherwise than the environment: run it with bd.evaluate"):
        env.collect(policy, Draw(0, Purpose.LEARN, 1))


def test_samples_belong_to_the_numbering_too(saved, tmp_path):
    """Whoever calls states by other names has another policy, of which nothing was seen."""

    def swap(manifest, _):
        keys = manifest["numbering"]["keys"]
        keys[0], keys[1] = keys[1], keys[0]

    forged = tmp_path / "forged.bidual"
    forged.write_bytes(saved.read_bytes())
    rewrite(forged, swap)
    with pytest.raises(bd.CertificateError, match="another policy"):
        bd.check(forged)
    assert cli.main(["check", "--exact", str(forged)]) != 0


def test_certifying_further_meets_more_and_repeats_itself(learned):
    more = learned.certify(40)
    assert more.evaluation_episodes == 60
    assert more.policy is learned.policy
    assert more.to_dict() == learned.certify(40).to_dict()
    assert more.to_dict() == learned.certify(15).certify(25).to_dict()


# What is asked of a problem


def test_arrays_and_declarations_about_numbers_are_refused():
    def fails(features, model=None):
        problem = bd.Problem(cp.Maximize(cp.sum(features.embedding(H))))
        bd.learn(problem, Rooms(), model, episodes=5, states_limit=LIMIT)

    prize = bd.features.signals(prize=lambda t: t.reward[0])
    with pytest.raises(bd.ProblemError, match="'stairs' is about numbers of states, but observations are numbered as"):
        fails(bd.features.signals(prize=lambda t: t.reward[0], stairs=np.zeros(LIMIT)))
    with pytest.raises(bd.ProblemError, match="'visits' is about numbers of states"):
        fails(bd.features.concat(prize, bd.features.visits(LIMIT + 1)))
    for model in (
        bd.models.Tabular(absorbing=[1]),
        bd.models.Tabular(initial=0),
        bd.models.Tabular(support=np.zeros((LIMIT + 1, 1), dtype=int)),
        bd.models.LinearMDP(np.ones((LIMIT + 1, 2, 1))),
    ):
        with pytest.raises(bd.ProblemError, match="the model declares something of single states"):
            fails(prize, model)


def test_nothing_is_suggested_that_is_refused(learned):
    assert not any("support" in one for one in learned.suggestions)


def test_opened_environments_have_numbers_already():
    with pytest.raises(bd.ProblemError, match="a GymnasiumEnvironment has numbers already"):
        _learn(env=gymnasium_environment(Rooms(), H))


def test_too_many_observations_end_learning_with_what_was_learned():
    with pytest.raises(
        bd.EnvError, match=r"more than 2 different observations.*episode \d+: .*states_limit="
    ) as caught:
        _learn(states_limit=2)
    assert caught.value.state.episodes < 60
    assert len(caught.value.state.met) <= 2


# Functions of the user


def test_a_function_is_asked_for_where_it_is_missing(tmp_path):
    learned = _learn(states=name_room)
    assert "the function states keeps what matters" in learned.assumptions[1]
    assert learned.policy.reset(0).act(HALL) in (0, 1)
    learned.save(tmp_path / "rooms.bidual")
    assert b"name_room" not in (tmp_path / "rooms.bidual").read_bytes()
    without = bd.load(tmp_path / "rooms.bidual")
    with pytest.raises(bd.PolicyError, match=r"functions are not stored in files: .* bd.load\(path, states=function\)"):
        without.reset(0).act(HALL)
    policy = bd.load(tmp_path / "rooms.bidual", states=name_room)
    assert [policy.reset(s).act(HALL) for s in range(5)] == [learned.policy.reset(s).act(HALL) for s in range(5)]
    assert "check passed" in str(bd.check(tmp_path / "rooms.bidual"))


def test_a_function_is_not_taken_where_there_was_none(saved):
    with pytest.raises(bd.ArchiveError, match="learned without a function states="):
        bd.load(saved, states=name_room)


def test_numbers_of_a_function_are_part_of_the_policy_too(tmp_path):
    env = gymnasium_environment(Rooms(), H, states=lambda obs: int(obs["doors"][0]), num_states=5)
    learned = bd.learn(_problem(), env, episodes=30, evaluation=5, seed=0)
    assert learned.policy.reset(0).act(HALL) in (0, 1)
    assert learned.policy.names.states is None
    assert "the function states keeps what matters" in learned.assumptions[0]


# Runs


def test_an_interrupted_run_ends_as_if_it_had_never_stopped(tmp_path):
    class Stops(Rooms):
        resets = 0

        def reset(self, **named):
            Stops.resets += 1
            if Stops.resets == 31:
                raise KeyboardInterrupt
            return super().reset(**named)

    whole = _learn(run=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        _learn(env=Stops, run=bd.runs.Folder(tmp_path / "stopped", every=7))
    resumed = _learn(run=bd.runs.Folder(tmp_path / "stopped", resume=True))
    _same(whole, resumed)
    _same(whole, _learn())


def test_a_stopped_run_is_finished_and_goes_on_with_what_it_met(tmp_path):
    _learn(episodes=20, run=tmp_path / "run", evaluation=0)
    finished = bd.finish(_problem(), Rooms(), tmp_path / "run", evaluation=10, states_limit=LIMIT, store=False)
    assert len(finished.policy.numbering.keys) >= 3
    with pytest.raises(bd.RunError, match="another observations"):
        bd.finish(_problem(), Rooms(), tmp_path / "run", evaluation=10, states_limit=LIMIT, states=name_room)


def test_a_state_goes_on_in_a_fresh_environment():
    class Fails(Rooms):
        steps = 0

        def step(self, action):
            Fails.steps += 1
            if Fails.steps == 60:
                raise OSError("the stairs are broken")
            return super().step(action)

    with pytest.raises(bd.EnvError) as caught:
        _learn(env=Fails)
    state = caught.value.state
    _same(_learn(), _learn(state=state))
    opened = gymnasium_environment(Rooms(), H, states_limit=LIMIT)
    first = start_learn_state(set_up(_problem(), opened, None, None, delta=0.05, seed=3))
    for met in (state.met[:1], (*state.met, *"abcdefgh"), (state.met[0], *state.met)):
        with pytest.raises(ValueError, match="other observations than those that were counted"):
            _check_met(replace(state, met=met))
    _check_met(state)
    _check_met(first)


def test_stopping_early_evaluates_on_the_way():
    stop = bd.stop_when(gap=0.7, violation=5.0)
    first, second = (_learn(episodes=300, stop_when=stop) for _ in range(2))
    _same(first, second)
    assert first.episodes < 300


# Workers


def test_workers_number_observations_as_one_process_would():
    with processes(2) as executor:
        here = gymnasium_environment(Rooms, H, states_limit=LIMIT)
        there = parallel(Rooms, H, executor, workers=2, states_limit=LIMIT)
        policy = DeterministicPolicy(np.ones((H, LIMIT + 1), dtype=int), 2)
        draws = [Draw(0, Purpose.LEARN, number) for number in range(9)]
        for part in (draws[:4], draws[4:]):
            alone, shared = here.collect_many(policy, part), there.collect_many(policy, part)
            assert all(np.array_equal(one.states, other.states) for one, other in zip(alone, shared, strict=True))
        assert here.numbering.keys == there.numbering.keys
        setup = set_up(_problem_without_lambdas(), there, None, None, delta=0.1, seed=0)
        assert setup.env.numbering.grows


def _prize(step):
    return step.reward[0]


def _problem_without_lambdas():
    x = bd.features.signals(prize=_prize).embedding(H)
    return bd.Problem(cp.Maximize(cp.sum(x.prize)))


def test_workers_learn_the_same():
    problem = _problem_without_lambdas()
    with processes(2) as executor:
        there = parallel(Rooms, H, executor, workers=2, states=name_room, states_limit=LIMIT)
        shared = bd.learn(problem, there, episodes=24, evaluation=10, batch=6, seed=1)
    alone = bd.learn(
        problem, Rooms(), episodes=24, evaluation=10, batch=6, seed=1, states=name_room, states_limit=LIMIT
    )
    _same(shared, alone)


# Spaces with few elements


class Grid(gymnasium.Env):
    """Two coordinates, as many environments show them."""

    observation_space = gymnasium.spaces.Box(1, 3, (2,), np.int32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = np.array([1, 1], dtype=np.int32)
        return self.place, {}

    def step(self, action):
        self.place = np.minimum(self.place + np.eye(2, dtype=np.int32)[action], 3).astype(np.int32)
        return self.place, 0.0, False, False, {}


def test_spaces_with_few_elements_take_arrays_and_declarations(tmp_path):
    corner = np.zeros(9)
    corner[8] = 1.0
    x = bd.features.signals(corner=corner).embedding(6)
    problem = bd.Problem(cp.Maximize(cp.sum(x.corner)))
    place, moves = np.arange(9), np.array([[3, 0], [0, 1]])
    support = np.array([[[min(p // 3 + d // 3, 2) * 3 + min(p % 3 + d % 3, 2)] for d in (3, 1)] for p in place])
    assert moves.shape == (2, 2)
    model = bd.models.Tabular(support=np.concatenate([support, np.full((1, 2, 1), 9)]), initial=0)
    learned = bd.learn(problem, Grid(), model, episodes=10, evaluation=10, seed=0)
    assert learned.value == 2.0
    assert learned.upper == pytest.approx(2.0, abs=1e-6)  # nothing was left to learn
    learned.save(tmp_path / "grid.bidual")
    env, actor, seen = Grid(), bd.load(tmp_path / "grid.bidual").reset(0), []
    obs, _ = env.reset()
    for _ in range(6):
        seen.append(obs.tolist())
        obs, *_ = env.step(actor.act(obs))
    assert seen[4:] == [[3, 3], [3, 3]]


# The command line

FILE = """
import cvxpy as cp
import bidual as bd
from tests.remote_envs import Rooms, name_room

env, states, states_limit = Rooms(), name_room, 8
x = bd.features.signals(prize=lambda t: t.reward[0]).embedding(6)
problem = bd.Problem(cp.Maximize(cp.sum(x.prize)))
"""


def test_the_command_line_learns_evaluates_and_exports(tmp_path, monkeypatch, capsys):
    def run(*arguments):
        code = cli.main([str(one) for one in arguments])
        told = capsys.readouterr()
        assert "Traceback" not in told.err
        return code, told.out, told.err

    monkeypatch.chdir(tmp_path)
    (tmp_path / "rooms.py").write_text(FILE)
    short = ("--episodes", 20, "--evaluation", 10)
    code, out, err = run("learn", "rooms.py", *short, "--out", "results", "--run", "run", "--verbose")
    assert code == 0
    assert "at most 8 different values of the function states can occur" in out
    assert "bd.load('results/solution.bidual', states=states)" in err
    code, out, _ = run("evaluate", "results/solution.bidual", "rooms.py", "--episodes", 20)
    assert (code, "20 fresh episodes" in out) == (0, True)
    code, out, _ = run("export", "run", "--format", "csv", "--out", "rooms.csv")
    assert (code, '"[""hall"",1]"' in (tmp_path / "rooms.csv").read_text()) == (0, True)
    code, out, _ = run("check", "results/solution.bidual")
    assert (code, "check passed" in out) == (0, True)
