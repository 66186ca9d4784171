"""Running the policy gives what the solution says.

Each comparison is a z-test at 4.5 standard errors with a fixed seed: a correct program fails with probability below
7e-6 per comparison.
"""

import numpy as np
import pytest

import bidual as bd
from tests.helpers import simulate

STANDARD_ERRORS = 4.5


@pytest.fixture(scope="module")
def solved():
    task = bd.tasks.find("riverswim").build()
    return task, bd.solve(task.problem, task.mdp)


@pytest.mark.parametrize("kind", ["policy", "mixture"])
@pytest.mark.parametrize("part", [0, 1])
def test_simulated_signals_agree_with_the_embedding(solved, kind, part):
    task, solution = solved
    psi = task.problem.embedding.features.stage(task.mdp.successors).signals[0]
    returns = simulate(getattr(solution, kind), task.mdp, psi[part], episodes=1500, seed=part)
    error = returns.std(ddof=1) / np.sqrt(len(returns))
    assert abs(returns.mean() - solution.embedding[:, part].sum()) <= STANDARD_ERRORS * error


def test_the_comparison_has_power(solved):
    """The same test fails for a policy that swims right less often."""
    task, solution = solved
    lazy = solution.policy.table.copy()
    lazy[..., 1] *= 0.9
    lazy[..., 0] = 1 - lazy[..., 1]
    psi = task.problem.embedding.features.stage(task.mdp.successors).signals[0]
    returns = simulate(bd.policies.MarkovPolicy(lazy), task.mdp, psi[1], episodes=1500, seed=1)
    error = returns.std(ddof=1) / np.sqrt(len(returns))
    assert abs(returns.mean() - solution.embedding[:, 1].sum()) > STANDARD_ERRORS * error
