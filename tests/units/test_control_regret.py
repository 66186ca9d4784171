"""Regret of policies of controls: by exact moments in a linear law, and paired with a policy on the same noise."""

from dataclasses import replace

import numpy as np
import pytest

import bidual as bd
from bidual._base.keys import Draw, Purpose
from bidual.learning.outputs import compute_exact_regret, drop_random_controls, estimate_paired_regret
from bidual.tasks.lqr import exact
from bidual.world.policies import AffineFeedback, ControlPolicy
from tests.units.test_riccati_explorer import explored, prepared

H, FIRST = 6, np.array([1.0, 0.0])
SETUP = prepared(horizon=H)
LAW, LIMITS = exact(H), (np.array([-5.0]), np.array([5.0]))


def policy(factor=1.0):
    """The optimal law of `lqr`, or one with other gains."""
    found = LAW.solve()
    return ControlPolicy(AffineFeedback(found.offsets, np.zeros((H, 2)), factor * found.gains), *LIMITS)


BEST, OTHER = policy(), policy(0.7)
OPTIMUM = LAW.solve().value(FIRST)


def regret_of(*executed):
    signals = SETUP.problem.embedding.features
    return compute_exact_regret(SETUP.program, signals, LAW, FIRST, executed, OPTIMUM)


def test_the_optimal_law_has_none_and_others_add_up():
    found, one = regret_of(BEST, OTHER, BEST, OTHER), regret_of(OTHER)
    assert one.regret[0] > 0.01
    np.testing.assert_allclose(found.regret, one.regret[0] * np.array([0, 1, 1, 2]), atol=1e-9)
    np.testing.assert_allclose(found.positive_regret, found.regret, atol=1e-9)
    assert found.error is None


def test_paired_episodes_agree_with_exact_moments():
    """Within five standard errors, which are far smaller than those of single means."""
    found = estimate_paired_regret(SETUP.program, SETUP.env, (OTHER, BEST, OTHER), BEST, paths=200)
    true = regret_of(OTHER).regret[0] * np.array([1, 1, 2])
    assert found.error is not None
    assert np.all(np.abs(found.regret - true) <= 5 * found.error)
    alone = np.std([SETUP.program.at(SETUP.env.collect(OTHER, draw).observed)[0] for draw in draws(50)])
    assert found.error[0] <= 0.5 * alone / np.sqrt(200)
    np.testing.assert_array_equal(found.regret[1] - found.regret[0], 0.0)  # the reference itself, on the same noise


def draws(count):
    return [Draw(1, Purpose.SHOW, i + 1) for i in range(count)]


def test_a_run_is_compared_without_its_random_controls():
    turns = explored(SETUP, 4)
    kept = drop_random_controls([turn.choice.policy for turn in turns])
    assert len(kept) == 3
    with pytest.raises(bd.ProblemError, match="no policy was planned"):
        drop_random_controls([turns[0].choice.policy])


def test_what_is_not_exact_is_refused():
    tight = replace(BEST, low=-0.5 * LIMITS[1] / 5, high=0.5 * LIMITS[1] / 5)
    with pytest.raises(bd.ProblemError, match="5 deviations of its limits"):
        regret_of(tight)
    with pytest.raises(bd.ProblemError, match="affine laws"):
        regret_of(explored(SETUP, 1)[0].choice.policy)
    with pytest.raises(bd.ProblemError, match="at least 2"):
        estimate_paired_regret(SETUP.program, SETUP.env, (BEST,), BEST, paths=1)
