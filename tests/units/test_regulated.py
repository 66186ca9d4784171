"""The policy that is returned where controls are planned: limits are tightened by what is not known of them."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual._base.keys import Draw, Purpose
from bidual.learning.outputs import Regulated
from bidual.learning.setup import set_up
from bidual.loop.vpdpo import start_state, vpdpo
from bidual.models import KNR
from bidual.planners import control
from bidual.planners.control import law_of
from bidual.problem.features import computed, linear, signal
from bidual.world.policies import ControlPolicy, RandomControls
from tests.control_envs import Slider

H = 10
FEATURES = computed(
    distance=signal(lambda x, u, y: y[0] ** 2, 0.0, 4.0), effort=signal(lambda x, u, y: u @ u, 0.0, 4.0)
)
X = FEATURES.embedding(H, total=True)
LINEAR = bd.Problem(cp.Minimize(X.distance), {"effort": X.effort <= 3.0})
CONVEX = bd.Problem(cp.Minimize(cp.norm(cp.hstack([X.distance, 1.0]))), {"effort": X.effort <= 3.0})
EXPLORER = bd.explorers.Controls(control.Mean(), control.icem(32, 3), control.Feedback(), rollouts=8)
QUICK = Regulated(EXPLORER.sampler, EXPLORER.execution, rollouts=16, max_plans=6)


@pytest.fixture(scope="module")
def knowledge():
    """After three episodes, one of them at random."""
    setting = set_up(LINEAR, Slider(), KNR(linear(), ridge=1e-3), EXPLORER, delta=0.05, seed=0)
    first = start_state(setting.program, setting.explorer, setting.knowledge)
    turns = vpdpo(setting.program, setting.env, setting.explorer, first, seed=0)
    return [next(turns) for _ in range(3)][-1].state.knowledge


def _effort(problem, knowledge, regulated):
    made = regulated(problem, knowledge, np.random.default_rng(0))
    return made.embedding.sum(axis=0)[1], made


@pytest.mark.parametrize("problem", [LINEAR, CONVEX])
def test_limits_are_tightened_by_what_is_not_known(problem, knowledge):
    """The limit binds, so mixtures lie on it; with room they keep away from it, by no more than the largest share."""
    without, _ = _effort(problem, knowledge, replace(QUICK, deviations=0.0))
    assert without == pytest.approx(3.0, abs=1e-4)
    careful, made = _effort(problem, knowledge, QUICK)
    assert 0.85 * 3.0 - 1e-4 <= careful <= 2.999
    assert QUICK.max_plans < made.plans <= 2 * QUICK.max_plans
    most, _ = _effort(problem, knowledge, replace(QUICK, deviations=1e6))
    assert most == pytest.approx(0.85 * 3.0, abs=1e-4)


def test_limits_that_cannot_be_kept_tighter_stay(knowledge):
    effort, _ = _effort(LINEAR, knowledge, replace(QUICK, deviations=1e6, most=10.0))
    assert effort == pytest.approx(3.0, abs=1e-4)


def test_without_limits_nothing_is_drawn(knowledge):
    problem = bd.Problem(cp.Minimize(X.distance))
    one, other = (_effort(problem, knowledge, replace(QUICK, draws=draws))[1] for draws in (2, 50))
    np.testing.assert_array_equal(one.embedding, other.embedding)


@pytest.mark.parametrize("execution", [control.Feedback(), control.OpenLoop(), control.Mpc(every=4)])
def test_a_policy_is_rolled_out_as_its_plan_was(execution, knowledge):
    draw = Draw(3, Purpose.PLAN, 1)
    dynamics, stage = knowledge.world.dynamics(), knowledge.stage
    plan = control.Regulator(control.icem(16, 2), execution, 4, draw)(dynamics, stage, np.ones((H, 2)))
    again = control.embedding(law_of(plan.actions), dynamics, stage, 4, draw.seed_words())
    np.testing.assert_array_equal(again, plan.embedding)


def test_controls_at_random_are_no_law():
    room = np.ones(1)
    with pytest.raises(bd.PolicyError, match="RandomControls cannot be followed"):
        law_of(ControlPolicy(RandomControls(H, 2, -room, room, 0.5), -room, room))
