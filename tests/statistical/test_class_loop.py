"""Whole runs over classes of laws: how good the policy is, how tight its certificate, and how fast regret grows.

Seeds 0 to 2 of the built-in tasks; every policy is evaluated in the true model. Rollouts of evaluation are counted.
"""

import numpy as np
import pytest

import bidual as bd
from bidual.dual import GradientAscent

SEEDS = range(3)


def _learn(name, rollouts, seed, explorer=None):
    """A sixth of the rollouts evaluates the policy."""
    task, fresh = bd.tasks.find(name).build(), rollouts // 6
    settings = {"episodes": rollouts - fresh, "evaluation": fresh, "seed": seed, "explorer": explorer}
    return task, bd.learn(task.problem, task.mdp, task.model, **settings)


def _truth(task, policy):
    """F and g of a policy in the true model."""
    psi, program = task.problem.embedding.features.stage(task.mdp.successors), task.problem.program()
    embedding = bd.policies.embedding(task.mdp, psi, policy)
    return program.functions.values(program.image(embedding), np.zeros(0))


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_thousand_rollouts_of_perturbations(seed):
    task, found = _learn("perturbation", 1000, seed)
    f, g = _truth(task, found.policy)
    optimum = bd.tasks.find("perturbation").optimum
    assert f - optimum <= 0.003
    assert g.max() <= 0.003
    assert found.lower <= optimum + 1e-6
    assert f <= found.upper + 1e-9
    assert found.upper - found.lower <= 0.001


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_three_hundred_rollouts_open_the_lock(seed):
    _, found = _learn("lock-discrete", 300, seed)
    assert found.upper >= 1 - 1e-9
    assert found.upper - found.lower <= 0.005


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_regret_and_violation_of_the_papers_loop_grow_like_a_root(seed):
    """Positive parts of those of the mixture, which are what the theorem is about, from the fiftieth rollout on."""
    task, found = _learn("perturbation", 1200, seed, bd.explorers.PrimalDual(GradientAscent(), canonical=True))
    slopes = found.regret(task.mdp).slopes(50)
    assert slopes["regret"] <= 0.55
    assert slopes["violation"] <= 0.55
