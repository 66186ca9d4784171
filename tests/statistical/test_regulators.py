"""Learning a linear-quadratic regulator against Riccati's answer: posterior draws explore, the estimate does not.

A noisy double integrator, 20 steps, noise 0.1. The first episode is idle, so nothing is known of what a force does:
the estimate then says that forces do nothing, plans none, and never learns otherwise. Every policy that was run is
evaluated exactly, by its moments, as if forces had no limits. Seeds are fixed. The figures are medians over seeds: the
slope of the log of the regret after episode 20, and the mean excess of the last 50 of 120 episodes. Over seeds 0 to 7
draws have excesses of 0.0004 to 0.0025 of the optimum (best of 16: 0.0002 to 0.011). Their slopes are small because
the first draw often costs more than all later ones together: the excess says more.
"""

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual.learning.setup import set_up
from bidual.loop.vpdpo import start_state, vpdpo
from bidual.planners import control
from bidual.planners.control import RiccatiLaws, linear_quadratic
from tests.control_envs import Slider

H, T, NOISE = 20, 120, 0.1
A, B = np.array([[1.0, 0.2], [0.0, 1.0]]), np.array([[0.0], [0.2]])
M = np.diag([1.0, 1.0, 0.1, 0.0, 0.0])  # of (state, control, next state)
START = np.array([1.0, 0.0])
TRUTH = linear_quadratic(A, B, M, NOISE**2 * np.eye(2), H)
BEST = TRUTH.solve()
OPTIMUM = BEST.value(START)
MODEL = bd.models.KNR(bd.features.linear(), ridge=1.0, noise=NOISE, box=((-50.0, -50.0), (50.0, 50.0)))
SIGNALS = bd.features.computed(cost=lambda x, u, y: x @ x + 0.1 * u @ u)


def _value(policy):
    """What an affine law pays in the truth, exactly."""
    law = policy.controller
    offsets = law.controls - np.einsum("hmn,hn->hm", law.gains, law.states)
    means, covariances = TRUTH.moments(RiccatiLaws(law.gains, offsets, BEST.P, BEST.p, BEST.v), START)
    return float(np.einsum("ij,hij->", M, covariances + np.einsum("hi,hj->hij", means, means)))


def _regrets(optimism, seed):
    """Of every episode after the idle one. One descent from any sequence is exact here: sampling hardly matters."""
    explorer = bd.explorers.Controls(optimism, control.icem(8, 1), control.Feedback(steps=1), rollouts=1, push=0.0)
    problem = bd.Problem(cp.Minimize(SIGNALS.embedding(H, total=True).cost))
    setting = set_up(problem, Slider(NOISE, most=20.0), MODEL, explorer, delta=0.05, seed=seed)
    state = start_state(setting.program, explorer, setting.knowledge)
    regrets = []
    for turn in vpdpo(setting.program, setting.env, explorer, state, seed=seed):
        if turn.number > 1:
            regrets.append(_value(turn.choice.policy) - OPTIMUM)
        if turn.number == T:
            break
    return np.array(regrets)


def _figures(optimism, seeds):
    """Median slope of the regret after episode 20, and median excess of the last 50 episodes."""
    runs = [_regrets(optimism, seed) for seed in seeds]
    late = np.log(np.arange(20, T))
    slopes = [np.polyfit(late, np.log(np.cumsum(run)[19:]), 1)[0] for run in runs]
    return float(np.median(slopes)), float(np.median([run[-50:].mean() for run in runs])) / OPTIMUM


def test_posterior_draws_learn_what_forces_do():
    slope, excess = _figures(control.Thompson(), (1,))
    assert slope <= 0.65
    assert excess <= 0.01


def test_the_estimate_locks_in():
    """The power of the tests beside it: without exploring, slope and excess are those of never learning."""
    slope, excess = _figures(control.Mean(), (0,))
    assert slope >= 0.95
    assert excess >= 0.5


@pytest.mark.slow
@pytest.mark.parametrize("optimism", [control.Thompson(), control.BestOf(16)])
def test_optimism_over_eight_seeds(optimism):
    slope, excess = _figures(optimism, range(8))
    assert slope <= 0.65
    assert excess <= 0.01
