"""Gradient ascent and the leader: certified gaps that fall at least like 1 / sqrt t, on problems of the rover's size.

Nothing is random here; the tests are slow, not statistical. The exponent is fitted to the gaps at the looks.
"""

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual.tasks.rover import build_rover_world

PLAYERS = {"ascent": bd.dual.GradientAscent(Gamma=2.0), "leader": bd.dual.FollowTheLeader(Gamma=2.0)}


def _norm_constraint():
    mdp, _, reward, _ = build_rover_world(0.1, 30)
    x = mdp.embedding(total=True, visits=True, reward=reward)
    near = cp.norm(x.visits / 30 - np.full(64, 1 / 64)) <= 0.25
    return bd.Problem(cp.Maximize(x.reward), {"near": near}), mdp


def _problem(name):
    if name == "norm constraint":
        return _norm_constraint()
    task = bd.tasks.find(name).build()
    return task.problem, task.mdp


def _gaps(name, player, plans):
    problem, mdp = _problem(name)
    solution = bd.solve(problem, mdp, dual=PLAYERS[player], max_plans=plans, gap=1e-12)
    points = [(p.plans, p.gap) for p in solution.history if p.gap is not None and p.plans >= 100]
    counts, gaps = np.array(points).T
    changed = np.append(True, np.diff(gaps) != 0)
    return solution, counts[changed], gaps[changed]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rover", "rover-match", "norm constraint"])
@pytest.mark.parametrize("player", PLAYERS)
def test_gaps_fall_like_the_root_of_the_plans(name, player):
    solution, counts, gaps = _gaps(name, player, 10_000)
    slope = np.polyfit(np.log(counts), np.log(gaps), 1)[0]
    assert slope <= -0.45
    # What was certified at the end is what the player believed, up to rounding.
    assert solution.gap <= gaps[-1] * 1.2 + 1e-9


@pytest.mark.parametrize("player", PLAYERS)
def test_gaps_fall_on_the_rover(player):
    solution, counts, gaps = _gaps("rover", player, 1000)
    assert np.polyfit(np.log(counts), np.log(gaps), 1)[0] <= -0.45
    assert solution.upper >= 1.536288 - 1e-6
    assert solution.lower <= 1.536289
    assert solution.gap <= 0.02
