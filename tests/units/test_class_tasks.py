"""Tasks that come with a class of laws: their optima from outside, and what the class holds."""

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual.models.classes._factors import read_factors
from bidual.tasks import _lock_class as _lock
from tests.helpers import occupancy_program

TASKS = {"lock-discrete": 576, "lock-discrete-spread": 576, "perturbation": 64}


def _factors(task):
    everything = np.ones((task.mdp.num_states, task.mdp.num_actions), dtype=bool)
    return read_factors(task.model.phis, task.model.mus, shared=False, horizon=task.mdp.horizon, allowed=everything)


def _dense(mdp):
    """The law of a model that changes with the step, (H, S, A, S)."""
    lists = mdp.successors
    H, S, A, _ = lists.probabilities.shape
    law = np.zeros((H, S, A, S))
    states = np.broadcast_to(lists.states, lists.probabilities.shape)
    h, s, a, _ = np.indices(states.shape)
    np.add.at(law, (h, s, a, states), lists.probabilities)
    return law


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("seed", ["1", "2", "7"])
def test_the_truth_is_one_of_the_candidates_of_every_step(name, seed):
    task = bd.tasks.find(name).with_settings({"seed": seed})
    for one, law in zip(_factors(task), _dense(task.mdp), strict=True):
        assert one.count == TASKS[name]
        off = np.abs(one.laws(np.arange(one.count)) - law).max(axis=(1, 2, 3))
        assert np.flatnonzero(off <= 1e-12).size == 1


def test_seeds_are_other_locks():
    one, other = (_dense(bd.tasks.find("lock-discrete").with_settings({"seed": seed}).mdp) for seed in "12")
    assert np.abs(one - other).max() > 0.1


@pytest.mark.parametrize(("actions", "count"), [(2, 144), (3, 256), (10, 1936)])
def test_locks_with_other_actions(actions, count):
    task = bd.tasks.find("lock-discrete").build(actions=actions, horizon=2)
    assert [one.count for one in _factors(task)] == [count] * 2
    assert bd.solve(task.problem, task.mdp).value == pytest.approx(1, abs=1e-9)


def test_a_lock_of_one_action_is_refused():
    with pytest.raises(bd.TaskError, match="actions=1: a lock needs at least 2"):
        bd.tasks.find("lock-discrete").build(actions=1)


def test_some_candidates_hold_that_no_action_works():
    """As many as there are groupings before the step and after it: 16. The dead stay dead whatever is done."""
    for one in _factors(bd.tasks.find("lock-discrete").build()):
        dead = (one.phis[..., [_lock.A, _lock.B, _lock.GOAL]].sum(axis=-1) == 0)[:, :-1].all(axis=(1, 2))
        assert dead.sum() * len(one.mus) == 16


def test_a_policy_that_acts_at_random_hardly_ever_opens_the_lock():
    lock = _lock.lock(5, 5, 1)
    x = lock.mdp.embedding(goal=lock.goal)
    fair = bd.policies.MarkovPolicy(np.full((5, 24, 5), 0.2))
    (opened,) = bd.policies.embedding(lock.mdp, x.features.stage(lock.mdp.successors), fair).sum(axis=0)
    assert opened == pytest.approx(5**-5, rel=1e-9)


def _latent_optimum(horizon, budget):
    """The lock as its own latent chain, A, B and C at every step: d[h, z, right or wrong] by CVXPY and Clarabel."""
    d = [cp.Variable((3, 2), nonneg=True) for _ in range(horizon)]
    arrived, flow = np.array([0.5, 0.5, 0.0]), []
    for one in d:
        flow.append(cp.sum(one, axis=1) == arrived)
        good, dead = (one[0, 0] + one[1, 0]) / 2, one[0, 1] + one[1, 1] + cp.sum(one[2])
        arrived = cp.hstack([good, good, dead])
    opened = d[-1][0, 0] + d[-1][1, 0]
    shares = sum(cp.sum(one, axis=1) for one in d) / horizon
    return cp.Problem(cp.Minimize(cp.norm(shares - 1 / 3)), [*flow, opened >= budget]).solve(solver=cp.CLARABEL)


@pytest.mark.parametrize(("horizon", "budget", "seed"), [(5, 0.8, 1), (5, 0.5, 2), (3, 0.9, 3), (8, 0.3, 4)])
def test_spreading_behind_the_lock_is_as_good_as_in_the_latent_chain(horizon, budget, seed):
    """The share of C is at most (1 - budget)(H - 1)/H: those who may die do so at once, or when C has its third."""
    task = bd.tasks.find("lock-discrete-spread").build(budget=budget, horizon=horizon, seed=seed)
    value, outside = bd.solve(task.problem, task.mdp, gap=1e-7).value, _latent_optimum(horizon, budget)
    assert abs(value - outside) <= 2e-6
    share = min((1 - budget) * (horizon - 1) / horizon, 1 / 3)
    assert abs(outside - (1 / 3 - share) * 1.5**0.5) <= 2e-6


def test_the_pinned_optimum_of_the_lock():
    assert abs(_latent_optimum(5, 0.8) - bd.tasks.find("lock-discrete-spread").optimum) <= 1e-6


def test_the_pinned_optimum_of_the_perturbations():
    """By the occupancy program, which knows nothing of low rank."""
    entry = bd.tasks.find("perturbation")
    task = entry.build()
    stage = task.problem.embedding.features.stage(task.mdp.successors).signals[0]
    _, flow, (*signals, cost) = occupancy_program(task.mdp, stage)
    distance = cp.norm(cp.hstack(signals) / 5 - 0.7)
    value = cp.Problem(cp.Minimize(distance), [*flow, cost / 5 <= 0.35]).solve(solver=cp.CLARABEL)
    assert abs(value - entry.optimum) <= 1e-6


def test_perturbations_are_near_by():
    """Candidates share 0.7 of phi and of mu, so that their laws differ by at most 0.3 + 0.3 in total variation."""
    for one, law in zip(_factors(bd.tasks.find("perturbation").build()), _dense(_perturb()), strict=True):
        apart = np.abs(one.laws(np.arange(64)) - law).sum(axis=-1) / 2
        assert 0.05 < np.median(apart.max(axis=(1, 2))) < apart.max() <= 0.6


def _perturb():
    return bd.tasks.find("perturbation").build().mdp


@pytest.mark.parametrize("name", ["perturbation", pytest.param("lock-discrete-spread", marks=pytest.mark.slow)])
def test_a_few_episodes_are_learned_with_true_bounds(name):
    """Of three steps: with five, early bounds over all perturbations take half a minute."""
    task = bd.tasks.find(name).build(horizon=3)
    optimum = bd.solve(task.problem, task.mdp).value
    found = bd.learn(task.problem, task.mdp, task.model, episodes=24, evaluation=10)
    assert found.lower <= optimum + 1e-6
    inside, steps = found.knowledge.build_confidence_set().inside, zip(_factors(task), _dense(task.mdp), strict=True)
    for h, (one, law) in enumerate(steps):
        true = int(np.abs(one.laws(np.arange(one.count)) - law).max(axis=(1, 2, 3)).argmin())
        assert inside[h, true]


@pytest.mark.parametrize(
    ("horizon", "episodes"), [(3, 40), pytest.param(5, 60, marks=pytest.mark.slow)], ids=["three steps", "five steps"]
)
def test_the_lock_is_opened(horizon, episodes):
    """At random one episode of 125, or 3125, would open it: what is right at a step is learned there alone."""
    task = bd.tasks.find("lock-discrete").build(horizon=horizon)
    found = bd.learn(task.problem, task.mdp, task.model, episodes=episodes, evaluation=10)
    assert found.knowledge.left.tolist() == [1] * horizon
    assert found.outputs[0].objective.value == 1.0
    assert found.upper >= 1 - 1e-6
