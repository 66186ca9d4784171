"""Finite classes of densities over vectors: likelihoods, points to plan with, whole runs, and what is refused."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual.learning.outputs import run_fresh_episodes
from bidual.learning.setup import set_up
from bidual.models.classes._points import DensityClass, draw_points
from tests.boats import BUOYS, CURRENTS, SPREADS, TRUE, Boat, H, model, optimum, problem, sailing

TRUTH = TRUE[0] * len(SPREADS) + TRUE[1]


def _setting(**settings):
    return set_up(problem(1.0), Boat(), model(**settings), None, delta=0.1, seed=3)


def _episodes(setting, count):
    N = len(setting.knowledge.hypotheses.points)
    table = bd.policies.DeterministicPolicy(np.ones((H, N + 2), dtype=np.int32), 3)
    return run_fresh_episodes(setting.env, setting.knowledge.to_environment_policy(table), 0, 0, count)


def test_normal_densities_are_those_of_the_formula():
    one = bd.models.NormalDensities(BUOYS, np.array([0.5, 2.0]))
    x = np.random.default_rng(0).normal(size=(6, 2))
    for z, mean in enumerate(BUOYS):
        plain = np.exp(-0.5 * ((x - mean) / [0.5, 2.0]) ** 2) / (np.array([0.5, 2.0]) * np.sqrt(2 * np.pi))
        np.testing.assert_allclose(np.exp(one.log_density(x))[:, z], plain.prod(axis=1), rtol=1e-12)
    drawn = one.sample(np.random.default_rng(1), 4000)
    assert drawn.shape == (4, 4000, 2)
    np.testing.assert_allclose(drawn.mean(axis=1), BUOYS, atol=5 * 2.0 / 4000**0.5)
    np.testing.assert_allclose(drawn.std(axis=1), np.broadcast_to([0.5, 2.0], (4, 2)), rtol=5 / (2 * 4000) ** 0.5)


def test_likelihoods_are_those_of_plain_loops():
    """Of the observations themselves, whatever the points; the last of three episodes teaches one step alone."""
    setting = _setting(points=24)
    episodes = _episodes(setting, 3)
    episodes[2] = replace(episodes[2], only=2)
    known = setting.knowledge.update(*episodes[:1]).update(*episodes[1:])
    slowly = np.zeros((H, 12))
    for one in episodes:
        for h in range(H) if one.only is None else [one.only]:
            for i, current in enumerate(CURRENTS):
                for j, spread in enumerate(SPREADS):
                    x, y = one.observations[h : h + 1], one.observations[h + 1]
                    phi = sailing(current)(x)[0, one.actions[h]]
                    mu = np.exp(-0.5 * np.square((y - BUOYS) / spread).sum(axis=1)) / (2 * np.pi * spread**2)
                    slowly[h, i * 3 + j] += np.log(phi @ mu)
    np.testing.assert_allclose(known.points.likelihoods, slowly, rtol=1e-9)
    assert known.counts.episodes == 3
    np.testing.assert_array_equal(known.counts.pairs.sum(axis=(1, 2)), [2, 2, 3, 2, 2])


def test_points_integrate_every_density_of_the_class():
    """Means of cos(a.x) over weighted points against the exact ones, exp(-spread^2 |a|^2 / 2) cos(a.mean).

    The weights of a density are at most J d / N, so the variance of such a mean is at most that: five errors.
    """
    densities = [bd.models.NormalDensities(BUOYS, spread) for spread in SPREADS]
    x, shares = draw_points(densities, 6000, 0)
    hypotheses = DensityClass((sailing(CURRENTS[0]),), tuple(densities), x, shares, 3)
    weights = hypotheses.factors().mus[:, :4, :6000]
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, atol=1e-12)
    found = weights @ np.cos(x @ [1.0, 2.0])
    for j, spread in enumerate(SPREADS):
        exact = np.exp(-0.5 * 5.0 * spread**2) * np.cos(BUOYS @ [1.0, 2.0])
        np.testing.assert_allclose(found[j], exact, atol=5 * (12 / 6000) ** 0.5)
    assert draw_points(densities, 13, 0)[1].min() == 1 / 13


def test_signals_are_planned_with_where_the_points_are():
    setting = _setting(points=24)
    inner, x = setting.knowledge.points, setting.knowledge.hypotheses.points
    near = np.exp(-np.square(x - BUOYS[2]).sum(axis=1) / 0.1)
    np.testing.assert_allclose(inner.pieces.stage[0, 1, :24], np.repeat(near[:, None], 3, axis=1))
    ((position, table),) = inner.pieces.arrivals
    assert position == 0
    np.testing.assert_allclose(table[0, :24, :, :24], np.broadcast_to(near, (24, 3, 24)))


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_the_boat_learns_to_sail(seed):
    """What is left holds the truth; the policy's mean is near the best for the fee that it paid.

    Value and fee differ by the last arrival alone, with a deviation below 0.5: 100 episodes have an error of 0.05.
    """
    found = bd.learn(problem(1.0), Boat(), model(points=64), episodes=60, evaluation=100, seed=seed)
    inside = found.knowledge.confidence_set.inside
    assert inside[:, TRUTH].all()
    assert max(found.candidates.left) <= 4
    assert found.lower is not None
    assert found.upper is None
    paid = found.outputs[0].constraints["fee"].value
    assert abs(found.value - optimum(paid, 500)) <= 0.2
    assert "nearest of them: no bound on other policies is claimed" in " ".join(found.assumptions)
    assert found.output("uniform mixture").objective.lower is None


def test_the_papers_loop_and_its_collection_learn_it_too(tmp_path):
    """A stored run goes on to the same end; the policy acts on observations after it was saved."""
    declared = model(points=36, collection="paper")
    arguments, explorer = (problem(1.0), Boat(), declared), bd.explorers.PrimalDual()
    settings = {"evaluation": 20, "seed": 4, "explorer": explorer}
    bd.learn(*arguments, episodes=20, **(settings | {"evaluation": 0}), run=tmp_path / "run")
    found = bd.learn(*arguments, episodes=40, **settings, run=bd.runs.Folder(tmp_path / "run", resume=True))
    whole = bd.learn(*arguments, episodes=40, **settings)
    assert found.to_dict() | {"seconds": 0} == whole.to_dict() | {"seconds": 0}
    assert found.knowledge.rollouts == H
    assert found.knowledge.confidence_set.inside[:, TRUTH].all()
    found.save(tmp_path / "a.bidual")
    again = bd.load(tmp_path / "a.bidual")
    for x in np.random.default_rng(0).normal(size=(20, 2)):
        assert again.reset(0).act(x) == found.policy.reset(0).act(x)


def _phi(change):
    return lambda x: change(sailing(CURRENTS[0])(x))


NORMAL = bd.models.NormalDensities(BUOYS, 0.1)
REFUSED = {
    "no densities": (dict(mus=[]), "mus must be a list of AbstractDensities"),
    "no functions": (dict(phis=[]), "phis must be a list of functions, at least one"),
    "too few points": (dict(points=3), "points must be at least 4, one for every density"),
    "no points": (dict(points=0), "points must be a whole number"),
    "collection": (dict(collection="all"), "collection must be one of"),
    "unlike": (dict(mus=[NORMAL, bd.models.NormalDensities(BUOYS[:3], 0.1)]), "of one d and one D"),
    "dimension": (
        dict(mus=[bd.models.NormalDensities(np.eye(4)[:, :3], 0.1)]),
        "over 3 numbers, the environment shows 2",
    ),
    "shape": (dict(phis=[_phi(lambda p: p[..., :3])]), r"phis\[0\] of 8 observations must have shape \(8, 3, 4\)"),
    "sum": (dict(phis=[_phi(lambda p: 2 * p)]), r"phis\[0\] gives .* probabilities of the 4 densities"),
    "negative": (dict(phis=[_phi(lambda p: p * 2 - 0.25)]), r"phis\[0\] gives .* probabilities of the 4 densities"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_class_is_refused(case):
    changes, message = REFUSED[case]
    settings = {"phis": [sailing(CURRENTS[0])], "mus": [NORMAL], "points": 8} | changes
    with pytest.raises(bd.ModelError, match=message):
        set_up(problem(1.0), Boat(), bd.models.LowRankDensities(**settings), None, delta=0.1, seed=0)


@pytest.mark.parametrize("deviation", [0.0, -1.0, np.inf])
def test_deviations_are_positive(deviation):
    with pytest.raises(bd.ModelError, match="deviation must be positive"):
        bd.models.NormalDensities(BUOYS, deviation)


@pytest.mark.parametrize("signal", [lambda step: step.reward, lambda step: float(step.info["fuel"])])
def test_signals_that_only_the_environment_knows_are_refused(signal):
    x = bd.features.signals(pay=bd.features.observed(signal, 0.0, 1.0)).embedding(H)
    with pytest.raises(bd.ModelError, match="compute every signal from observation, action and next observation"):
        bd.learn(bd.Problem(cp.Maximize(cp.sum(x.pay))), Boat(), model(points=12), episodes=2)


def test_episodes_that_end_early_and_densities_of_nothing_end_the_run():
    with pytest.raises(bd.EnvError, match=r"an episode ended after 3 of 5 steps, but densities .* say nothing of ends"):
        bd.learn(problem(1.0), Boat(ends=3), model(points=12), episodes=3, evaluation=0)
    bd.learn(problem(1.0), Boat(ends=H), model(points=12), episodes=3, evaluation=0)  # at the end anyway

    nowhere = bd.models.LowRankDensities([sailing(CURRENTS[1])], [_Nowhere()], points=12)
    with pytest.raises(bd.EnvError, match=r"misspecified: at step 1 every candidate gives .* the density 0"):
        bd.learn(problem(1.0), Boat(), nowhere, episodes=3, evaluation=0)


class _Nowhere(bd.models.AbstractDensities):
    """Densities on small squares far from every buoy."""

    def log_density(self, observations):
        inside = np.all(np.abs(observations[:, None] - BUOYS - 10.0) <= 0.5, axis=-1)
        return np.where(inside, 0.0, -np.inf)

    def sample(self, rng, count):
        return BUOYS[:, None] + 10.0 + rng.uniform(-0.5, 0.5, (4, count, 2))
