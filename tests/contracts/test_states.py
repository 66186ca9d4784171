"""States of the loop as files: every explorer goes on from what was read as if nothing had happened."""

import copy
import itertools
import json
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual._base import archive
from bidual.learning.learned import LearnProgress
from bidual.learning.learner import Learner
from bidual.learning.runs import pack_state, unpack_state
from bidual.learning.setup import set_up
from bidual.learning.state import start_learn_state
from bidual.loop.explorers import PlanMixture
from bidual.loop.explorers._replanning import ReplanState
from bidual.loop.vpdpo import vpdpo
from bidual.models import Candidates, LinearMDP, LowRank, Tabular
from bidual.planners import control
from bidual.problem.features import computed, linear, signal
from bidual.tasks.riverswim import riverswim
from tests.classes import around
from tests.contracts.test_explorers import EXPLORERS
from tests.control_envs import Slider

RIVER = riverswim(budget=2.5, states=3, horizon=5)
MODELS = {"declared": Tabular(RIVER.mdp), "open": Tabular(), "per step": Tabular(RIVER.mdp, stationary=False)}
MODELS |= {"class": LowRank(*around(RIVER.mdp, 6)), "paper's class": LowRank(*around(RIVER.mdp, 6), set="paper")}
MODELS |= {"linear": LinearMDP(np.eye(6).reshape(3, 2, 6))}
LOCK = bd.tasks.find("lock").build(horizon=3)
MODELS |= {"latent": LOCK.model}
CASES = [(name, "declared") for name in EXPLORERS] + [
    (name, model)
    for name in ("alternating", "primal-dual")
    for model in ("open", "per step", "class", "paper's class", "linear", "latent")
]
BEFORE, AFTER = 12, 12


class Run:
    """A setting with its first course."""

    def __init__(self, explorer, model="declared"):
        problem, env = (LOCK.problem, LOCK.env) if model == "latent" else (RIVER.problem, RIVER.mdp)
        self.setting = set_up(problem, env, MODELS[model], explorer, delta=0.1, seed=3)
        self.first = start_learn_state(self.setting)

    def after(self, learn_state, count):
        """The turns of so many more episodes, and the course after them."""
        learner, setting = Learner(self.setting, learn_state, None), self.setting
        turns = vpdpo(setting.program, setting.env, setting.explorer, learn_state.loop, seed=3)
        taken = []
        for turn in itertools.islice(turns, count):
            learner.take(turn)
            taken.append(turn)
        return taken, learner.learn_state()


def _stored(learn_state, run, again, path):
    words, arrays = pack_state(learn_state, run.first)
    archive.write(path, "state", {"state": words}, arrays)
    manifest, read = archive.read(path, "state")
    return unpack_state(manifest["state"], read, again.first)


@pytest.mark.parametrize(("name", "model"), CASES)
def test_a_run_goes_on_from_a_file_as_if_it_had_never_stopped(name, model, tmp_path):
    run, again = Run(EXPLORERS[name], model), Run(copy.deepcopy(EXPLORERS[name]), model)
    _, stopped = run.after(run.first, BEFORE)
    rest, end = run.after(stopped, AFTER)
    resumed, other_end = again.after(_stored(stopped, run, again, tmp_path / "state"), AFTER)
    for one, other in zip(rest, resumed, strict=True):
        np.testing.assert_array_equal(one.choice.policy.actions, other.choice.policy.actions)
        np.testing.assert_array_equal(one.episodes[0].states, other.episodes[0].states)
        assert one.choice.plans == other.choice.plans
    _, arrays = pack_state(end, run.first)
    _, others = pack_state(other_end, again.first)
    assert list(arrays) == list(others)
    for key, array in arrays.items():
        assert array.dtype == others[key].dtype
        assert array.tobytes() == others[key].tobytes()


PULLED = computed(distance=signal(lambda x, u, y: x[0] ** 2, 0.0, 4.0), effort=signal(lambda x, u, y: u @ u, 0.0, 4.0))
SOUGHT = control.icem(16, 2)
CONTROLS = {
    "receding": bd.explorers.Controls(control.Thompson(), SOUGHT, control.Mpc(every=4), rollouts=4),
    "convex": bd.explorers.Controls(control.Hallucinated(rank=2), SOUGHT, control.OpenLoop(), rollouts=4),
}


class Controlled(Run):
    """The same over a double integrator."""

    def __init__(self, name):
        x = PULLED.embedding(6, total=True)
        objective = cp.square(x.distance - 1) if name == "convex" else x.distance
        problem = bd.Problem(cp.Minimize(objective), {"effort": x.effort <= 2.0})
        model, explorer = bd.models.KNR(linear(), noise=0.02), copy.deepcopy(CONTROLS[name])
        self.setting = set_up(problem, Slider(), model, explorer, delta=0.1, seed=3)
        self.first = start_learn_state(self.setting)


@pytest.mark.parametrize("name", ["receding", pytest.param("convex", marks=pytest.mark.slow)])
def test_controls_go_on_from_a_file_as_if_nothing_had_happened(name, tmp_path):
    run, again = Controlled(name), Controlled(name)
    _, stopped = run.after(run.first, 4)
    rest, end = run.after(stopped, 3)
    resumed, other_end = again.after(_stored(replace(stopped, policies=()), run, again, tmp_path / "state"), 3)
    for one, other in zip(rest, resumed, strict=True):
        assert one.choice.policy.fingerprint == other.choice.policy.fingerprint
        assert one.choice.plans == other.choice.plans
        np.testing.assert_array_equal(one.episodes[0].observations, other.episodes[0].observations)
        np.testing.assert_array_equal(one.episodes[0].controls, other.episodes[0].controls)
    turn_state, other_owed = (each.loop.memory.turn_state for each in (end, other_end))
    assert (turn_state is None) == (CONTROLS[name].dual is not None)
    if turn_state is not None:
        np.testing.assert_array_equal(turn_state.debt, other_owed.debt)
        assert turn_state.spread.any()  # there was a mixture
    _, arrays = pack_state(replace(end, policies=()), run.first)
    _, others = pack_state(replace(other_end, policies=()), again.first)
    assert [array.tobytes() for array in arrays.values()] == [array.tobytes() for array in others.values()]


def test_what_does_not_change_is_not_stored():
    """The problem, its features and the settings are referred to: after 12 episodes some kilobytes are left."""
    run = Run(EXPLORERS["alternating"])
    words, arrays = pack_state(run.after(run.first, BEFORE)[1], run.first)
    assert sum(array.nbytes for array in arrays.values()) + len(json.dumps(words)) < 30_000
    assert pack_state(run.first, run.first) == ({"first": 0}, {})


def _remembering(run, memory):
    """The first course, with something else in the explorer's memory."""
    return replace(run.first, loop=replace(run.first.loop, memory=memory))


def test_what_is_shared_stays_shared():
    run = Run(EXPLORERS["optimistic"])
    policy = run.after(run.first, 1)[0][0].choice.policy
    twice = _remembering(run, (policy, policy, 0.1, np.float64(0.1), None))
    words, arrays = pack_state(twice, run.first)
    one, other, number, scalar, nothing = unpack_state(json.loads(json.dumps(words)), arrays, run.first).loop.memory
    assert one is other
    assert (number, type(number)) == (0.1, float)
    assert (scalar, type(scalar)) == (0.1, np.float64)
    assert nothing is None


def test_a_stranger_is_not_stored():
    run = Run(EXPLORERS["optimistic"])
    with pytest.raises(bd.ArchiveError, match=r"a builtins\.dict has no place in a stored state"):
        pack_state(_remembering(run, {"a": 1}), run.first)


@pytest.mark.parametrize(
    ("words", "match"),
    [
        ({"make": "Path", "of": []}, "KeyError"),
        ({"make": "system", "of": ["true"]}, "KeyError"),
        ({"make": "LoopState", "of": [1]}, "ValueError"),
        ({"first": 10**6}, "IndexError"),
        ({"same": 5}, "IndexError"),
        ({"array": "7", "scalar": False}, "KeyError"),
        ({"float": "one"}, "ValueError"),
        ({}, "KeyError"),
        (7, "is a int, not that of a run"),
        ({"make": "tuple", "of": []}, "is a tuple, not that of a run"),
    ],
)
def test_a_damaged_state_is_refused(words, match):
    with pytest.raises(bd.ArchiveError, match=match):
        unpack_state(words, {}, Run(EXPLORERS["greedy"]).first)


def test_looks_are_stored_with_the_candidates_that_were_left():
    run = Run(EXPLORERS["optimistic"], "class")
    history = (
        LearnProgress(16, 1.0, None, None, 3, 0.5, Candidates((1, 2), (6, 6))),
        LearnProgress(32, None, None, None, 4, 0.75),
    )
    words, arrays = pack_state(replace(run.first, history=history), run.first)
    assert unpack_state(json.loads(json.dumps(words)), arrays, run.first).history == history


def test_looks_of_files_that_are_older_than_candidates_are_read():
    run = Run(EXPLORERS["optimistic"], "class")
    progress = LearnProgress(16, 1.0, None, None, 3, 0.5)
    words, arrays = pack_state(replace(run.first, history=(progress,)), run.first)
    (stored,) = [one for one in _nodes(words) if one.get("make") == "Look"]
    assert stored["of"].pop() is None  # as it was written then
    assert unpack_state(words, arrays, run.first).history == (progress,)
    stored["of"].pop()  # but what has no default must be there
    with pytest.raises(bd.ArchiveError, match="ValueError"):
        unpack_state(words, arrays, run.first)


def test_mixtures_of_files_that_are_older_than_what_they_expect_are_read():
    """A named tuple that has grown, which is stored without what its policies expect."""
    run = Run(EXPLORERS["optimistic"])
    memory = ReplanState(PlanMixture((), np.ones(1), 3), None, None)
    learn_state = replace(run.first, loop=replace(run.first.loop, memory=memory))
    words, arrays = pack_state(learn_state, run.first)
    (stored,) = [one for one in _nodes(words) if one.get("make") == "Mixed"]
    stored["of"].pop()  # as it was written then
    mixed = unpack_state(words, arrays, run.first).loop.memory.mixed
    assert (mixed.policies, mixed.plans, mixed.expected) == ((), 3, ())
    stored["of"].pop()  # but what has no default must be there
    with pytest.raises(bd.ArchiveError, match="ValueError"):
        unpack_state(words, arrays, run.first)


def _nodes(words):
    """All that is made in a stored state."""
    if isinstance(words, dict):
        yield words
        for part in words.get("of", ()):
            yield from _nodes(part)
