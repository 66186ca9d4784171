"""What every episode of controls paid: the numbers, that they outlive a stop, and the figure of them."""

from dataclasses import replace
from functools import cache

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual.learning.learned import EpisodeValues

pytest.importorskip("gymnasium")


def _learn(name, episodes, **options):
    task = bd.tasks.find(name).with_settings({"horizon": "5"})
    options = {"evaluation": 6, **options}
    return bd.learn(task.problem, task.env, task.model, explorer=task.explorer, episodes=episodes, **options)


@cache
def _learned(name):
    return replace(_learn(name, 5), task=name)


def test_linear_functionals_are_paid_by_single_episodes():
    """Their mean is that of the mixture of the policies run, which is summed up in another way."""
    solution = _learned("lqr-effort")
    mixture = solution.output("uniform mixture")
    assert solution.values_per_episode.averaged == ()
    assert list(solution.values_per_episode.values) == ["objective", "effort"]
    for name, interval in (("objective", mixture.objective), ("effort", mixture.constraints["effort"])):
        values = solution.values_per_episode.values[name]
        assert values.shape == (5,)
        assert np.ptp(values) > 0
        np.testing.assert_allclose(values.mean(), interval.value, rtol=1e-9)


def test_curved_functionals_are_those_of_all_episodes_so_far():
    solution = _learned("lqr-match")
    assert solution.values_per_episode.averaged == ("objective",)
    objective = solution.values_per_episode.values["objective"]
    np.testing.assert_allclose(objective[-1], solution.output("uniform mixture").objective.value, rtol=1e-9)
    effort = solution.output("uniform mixture").constraints["effort"].value
    np.testing.assert_allclose(solution.values_per_episode.values["effort"].mean(), effort, rtol=1e-9)


def test_signs_are_those_of_the_user():
    """The first episode is run at random, whatever the problem: what it costs is what it earns less."""
    task = bd.tasks.find("lqr-effort").with_settings({"horizon": "5"})
    turned = bd.Problem(cp.Maximize(-task.problem.objective.expr))
    earned = bd.learn(turned, task.env, task.model, explorer=task.explorer, episodes=1, evaluation=0)
    assert list(earned.values_per_episode.values) == ["objective"]
    np.testing.assert_allclose(
        earned.values_per_episode.values["objective"],
        -_learned("lqr-effort").values_per_episode.values["objective"][:1],
    )


@pytest.mark.slow
def test_a_run_that_goes_on_has_the_numbers_of_all_its_episodes(tmp_path):
    whole = _learn("lqr-match", 5)
    _learn("lqr-match", 3, run=tmp_path / "run")
    resumed = _learn("lqr-match", 5, run=bd.runs.Folder(tmp_path / "run", resume=True))
    for name, values in whole.values_per_episode.values.items():
        # Sums of what was counted before the stop and after it are rounded apart.
        np.testing.assert_allclose(resumed.values_per_episode.values[name], values, rtol=1e-12)


def test_other_models_have_bounds_instead():
    task = bd.tasks.find("riverswim").build()
    assert bd.learn(task.problem, task.mdp, episodes=2, evaluation=0).values_per_episode is None


def test_the_figure_has_every_episode_and_the_limits():
    solution = _learned("lqr-effort")
    top, bottom = bd.report.learning_figure(solution, optimum=1.0).axes
    assert (top.get_ylabel(), bottom.get_ylabel()) == ("objective (minimize)", "effort")
    for axes, name in ((top, "objective"), (bottom, "effort")):
        values = solution.values_per_episode.values[name]
        lines = {line.get_label().split("\n")[0]: line for line in axes.lines}
        np.testing.assert_array_equal(lines["each episode"].get_ydata(), values)
        halves = [values[t // 2 : t].mean() for t in range(1, 6)]
        np.testing.assert_allclose(np.asarray(lines["mean of the last half"].get_ydata()), halves)
    assert [np.asarray(line.get_ydata())[0] for line in bottom.lines if line.get_label() == "limit"] == [3.0]
    assert [np.asarray(line.get_ydata())[0] for line in top.lines if line.get_label() == "the true optimum"] == [1.0]
    assert [c.get_label() for c in top.containers] == ["the policy returned,\non 6 fresh episodes"]
    assert "lqr-effort: what the episodes paid" in top.get_title()


def test_what_single_episodes_do_not_pay_is_one_line():
    top, _ = bd.report.learning_figure(_learned("lqr-match")).axes
    labels = [line.get_label().split("\n")[0] for line in top.lines]
    assert "all episodes so far" in labels
    assert "each episode" not in labels


def test_an_episode_at_random_does_not_flatten_the_others():
    values = np.array([1000.0, 7.0, 6.0, 5.0, 6.0])
    solution = replace(_learned("lqr-effort"), values_per_episode=EpisodeValues({"objective": values}))
    (axes,) = bd.report.learning_figure(solution, title="mine").axes
    low, high = axes.get_ylim()
    assert high <= 200
    assert low <= 5
    (mark,) = [line for line in axes.lines if line.get_marker() == "^"]
    np.testing.assert_array_equal(mark.get_xydata(), [[1.0, high]])
    assert axes.get_title() == "mine"
