"""Callbacks of `learn`: what they see, how they stop, what is left where they fail; and what is logged."""

import logging

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd

SLOW_EVALUATION = 60  # episodes; most tests need few


def coin(limit=0.9):
    """One step of a bandit whose second action pays 0.6 and costs 1."""
    P = np.zeros((3, 2, 3))
    P[0, 0, 1], P[0, 1, 1:] = 1.0, (0.4, 0.6)
    P[1:, :, 1:] = np.eye(2)[:, None]
    mdp = bd.TabularMDP(P, 0, horizon=2)
    x = mdp.embedding(reward=[0, 0, 1.0], cost=[[0, 1.0], [0, 0], [0, 0]])
    return bd.Problem(cp.Maximize(cp.sum(x.reward)), {"cost": cp.sum(x.cost) <= limit}), mdp


def learn(**options):
    problem, mdp = coin()
    return bd.learn(problem, mdp, bd.models.Tabular(mdp), **{"episodes": 40, "evaluation": 5} | options)


class Seen(bd.callbacks.AbstractCallback):
    """Everything that was seen; stops or raises at an episode."""

    def __init__(self, stop_at=None, fail_at=None):
        self.episodes, self.progress, self.stop_at, self.fail_at = [], [], stop_at, fail_at

    def on_episode(self, episode):
        self.episodes.append(episode)
        if episode.number == self.fail_at:
            raise ZeroDivisionError("mine")
        return episode.number == self.stop_at

    def on_progress(self, progress):
        self.progress.append(progress)


def test_every_episode_and_every_bound_is_seen():
    seen = Seen()
    learned = learn(callback=seen)
    assert [one.number for one in seen.episodes] == list(range(1, 41))
    assert tuple(seen.progress) == learned.history
    for one, policy in zip(seen.episodes, learned.executed, strict=True):
        assert one.policy.table.tolist() == policy.table.tolist()
        assert one.values == {
            "objective": float(one.episode.states[1] == 2),
            "cost": float(one.episode.actions[0] == 1),
        }
    assert learned.values_per_episode is None  # the callback is the way to see them where bounds are computed


@pytest.mark.parametrize(("batch", "episodes"), [(1, 7), (4, 8)])
def test_true_stops_after_the_batch_and_learning_concludes(batch, episodes):
    seen, other = Seen(stop_at=7), Seen()
    learned = learn(callback=[seen, other], batch=batch)
    assert learned.episodes == len(seen.episodes) == len(other.episodes) == episodes
    assert learned.evaluation_episodes == 5
    assert learned.history[-1].episodes == episodes


def test_bounds_can_stop():
    class Enough(bd.callbacks.AbstractCallback):
        def on_progress(self, progress):
            return progress.episodes >= 16

    assert learn(callback=Enough()).episodes == 16


@pytest.mark.parametrize("stored", [False, True])
def test_a_callback_that_raises_stops_with_its_error_and_the_state(stored, tmp_path):
    run = tmp_path / "run" if stored else None
    with pytest.raises(ZeroDivisionError, match="mine") as failed:
        learn(callback=Seen(fail_at=11), run=run)
    assert failed.value.state.episodes == 11
    assert "after 11 episodes" in failed.value.__notes__[0]
    whole = learn()
    if run is None:
        rest = learn(state=failed.value.state)
    else:
        assert "stored up to episode 11" in failed.value.__notes__[0]
        rest = learn(run=bd.runs.Folder(run, resume=True))
    assert (rest.value, rest.lower, rest.upper, rest.episodes) == (whole.value, whole.lower, whole.upper, 40)
    np.testing.assert_array_equal(rest.policy.table, whole.policy.table)


def test_one_that_leaves_the_program_stores_first(tmp_path):
    class Leave(bd.callbacks.AbstractCallback):
        def on_progress(self, progress):
            raise SystemExit(3)

    with pytest.raises(SystemExit) as left:
        learn(callback=Leave(), run=tmp_path / "run")
    assert left.value.code == 3
    assert learn(run=bd.runs.Folder(tmp_path / "run", resume=True)).episodes == 40


def test_the_function_that_displays_progress_may_fail_too():
    def display(progress):
        raise OSError("no terminal")

    with pytest.raises(OSError, match="no terminal") as failed:
        learn(progress=display)
    assert 0 < failed.value.state.episodes <= 16


def test_the_goal_is_a_callback():
    problem, mdp = coin()
    options = {"episodes": 1000, "seed": 1}
    goal = bd.stop_when(gap=0.4, violation=0.4)
    first = bd.learn(problem, mdp, bd.models.Tabular(mdp), stop_when=goal, **options)
    second = bd.learn(problem, mdp, bd.models.Tabular(mdp), callback=goal, **options)
    assert first.episodes == second.episodes < 1000
    assert (first.value, first.lower, first.upper, first.status) == (
        *(second.value, second.lower, second.upper),
        second.status,
    )
    with pytest.raises(bd.ProblemError, match="one goal"):
        learn(callback=goal, stop_when=goal)


def test_the_best_solution_is_kept():
    class All(bd.callbacks.AbstractCallback):
        def __init__(self):
            self.solutions = []

        def on_solution(self, solution):
            self.solutions.append(solution)

    best, everything = bd.callbacks.KeepBest(violation=0.2), All()
    learned = learn(episodes=300, evaluation=SLOW_EVALUATION, callback=[best, everything])
    assert [one.episodes for one in everything.solutions] == [128, 256, 300]
    assert everything.solutions[-1].value == learned.value
    assert best.solution in everything.solutions
    worst = [one.constraint("cost").violation_upper for one in everything.solutions]
    kept = [one for one, over in zip(everything.solutions, worst, strict=True) if over <= 0.2]
    if kept:
        assert best.solution.lower == max(one.lower for one in kept)
    else:
        assert best.solution.constraint("cost").violation_upper == min(worst)


def test_settings_are_checked():
    for settings in ({"level": -1}, {"every": 0}, {"every": True}):
        with pytest.raises(bd.ProblemError, match=r"of LogProgress must be a whole number"):
            bd.callbacks.LogProgress(**settings)
    with pytest.raises(bd.ProblemError, match="violation >= 0"):
        bd.callbacks.KeepBest(-1.0)


def test_an_answer_that_is_none_of_true_false_and_none_is_an_error():
    class Says(bd.callbacks.AbstractCallback):
        def on_episode(self, episode):  # pyright: ignore[reportIncompatibleMethodOverride]: it is to be wrong
            return "stop"

    with pytest.raises(TypeError, match=r"Says.on_episode must return True to stop.*'stop'") as failed:
        learn(callback=Says())
    assert failed.value.state.episodes == 1


def test_bounds_and_episodes_are_logged(caplog):
    caplog.set_level(logging.INFO, logger="bidual")
    learn()
    (*_, last) = [r.getMessage() for r in caplog.records if r.name == "bidual.learn"]
    assert last.startswith("40 episodes, bound ")
    caplog.clear()
    caplog.set_level(logging.DEBUG, logger="bidual")
    learn(callback=bd.callbacks.LogProgress(logging.DEBUG, every=20))
    records = [r for r in caplog.records if r.name == "bidual.learn"]
    assert [r.getMessage().split(":")[0] for r in records if r.getMessage().startswith("episode ")] == [
        "episode 20",
        "episode 40",
    ]
    assert {r.levelno for r in records} == {logging.DEBUG}


def test_solves_are_logged(caplog):
    caplog.set_level(logging.DEBUG, logger="bidual")
    solution = bd.solve(*coin())
    levels = [(r.levelname, r.getMessage()) for r in caplog.records if r.name == "bidual.solve"]
    assert levels[-1][0] == "INFO"
    assert levels[-1][1].startswith("optimal: maximize 0.54")
    assert [level for level, _ in levels[:-1]] == ["DEBUG"] * solution.plans
