"""Planners of controls on a true law: the pendulum of Gymnasium, from hanging at rest, for a hundred steps.

Seeds are fixed, but another processor rounds otherwise and then plans otherwise. So medians are judged. Of sixty plans
a quarter of those of DMD-MPC with 1024 sequences cost more than 370, and a sixth of those of iCEM with 512; then the
median of 25 does in 3 of 1000 cases.
"""

import jax.numpy as jnp
import numpy as np
import pytest

from bidual._base.keys import Draw, Purpose
from bidual.models import Simulated, Stage
from bidual.planners.control import Chain, Descent, Feedback, Mpc, OpenLoop, Regulator, cem, dmd, icem, mppi
from bidual.problem.features import computed

HORIZON, SEEDS = 100, 9


def _pendulum(s, u):
    """Gymnasium's Pendulum-v1: g = 10, m = l = 1, steps of 0.05 s, speed held to 8."""
    speed = jnp.clip(s[1] + (15.0 * jnp.sin(s[0]) + 3.0 * u[0]) * 0.05, -8.0, 8.0)
    return jnp.stack([s[0] + speed * 0.05, speed])


def _cost(x, u, y):
    angle = jnp.mod(x[0] + jnp.pi, 2 * jnp.pi) - jnp.pi
    return angle**2 + 0.1 * x[1] ** 2 + 0.001 * u[0] ** 2


PENDULUM = Simulated(np.array([-2.0]), np.array([2.0]), np.zeros(2), _pendulum)
HANGING = Stage(computed(cost=_cost), HORIZON, np.array([[np.pi, 0.0]]))
THETA = np.ones((HORIZON, 1))


def _values(sampler, execution, seeds=SEEDS):
    draws = [Draw(seed, Purpose.PLAN, 0) for seed in range(seeds)]
    return np.array([Regulator(sampler, execution, 1, draw)(PENDULUM, HANGING, THETA).value for draw in draws])


def test_the_pendulum_is_gymnasiums():
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("Pendulum-v1").unwrapped
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(50):
        s, u = rng.uniform([-6, -8], [6, 8]), rng.uniform(-2, 2, 1)
        env.state = s.copy()
        _, reward, *_ = env.step(u)
        # One step in single precision.
        np.testing.assert_allclose(_pendulum(jnp.float32(s), jnp.float32(u)), env.state, atol=1e-5)
        assert abs(float(_cost(jnp.float32(s), jnp.float32(u), None)) + reward) <= 1e-4


@pytest.mark.parametrize(
    ("sampler", "most"),
    [
        (icem(512, 40), 370.0),
        pytest.param(dmd(1024, 40), 370.0, marks=pytest.mark.slow),
        pytest.param(mppi(512, 40), 385.0, marks=pytest.mark.slow),
    ],
)
def test_sampled_plans_swing_up(sampler, most):
    assert np.median(_values(sampler, OpenLoop(), 25)) <= most


def test_descending_is_better_than_sampling_alone():
    """With the sequence itself executed: medians of nine are about 300 and 350, and no descent ends above its start."""
    sampled = _values(icem(512, 40), OpenLoop())
    descended = _values(Chain(icem(512, 40), Descent(20)), OpenLoop())
    assert np.median(descended) <= 0.95 * np.median(sampled)


def test_white_noise_does_not():
    """What the colour of the noise is for, and that the test above has power."""
    assert np.median(_values(cem(512, 40), OpenLoop())) >= 430.0


def test_descent_from_a_sampled_plan_never_makes_it_worse():
    plain, descended = _values(icem(512, 40), OpenLoop()), _values(icem(512, 40), Feedback())
    # The same path costs a little more or less in single precision, where it is not stable.
    assert (descended <= plain + 0.5).all()
    assert np.median(descended) <= np.median(plain) - 20.0


def test_replanning_makes_good_plans_of_poor_ones():
    """A sixteenth of the draws at a time, planned again at every fifth step."""
    once, again = _values(icem(256, 5), OpenLoop()), _values(icem(256, 5), Mpc(every=5))
    assert np.median(once) >= 430.0
    assert np.median(again) <= 390.0
