"""The dynamics of a car in a valley, a cart with a pole and an acrobot: the classic control systems of Gymnasium.

One law each for environments (NumPy) and planners (JAX). Forces are numbers between -1 and 1; Gymnasium's cart and
acrobot have only the two or three forces -1, 0 and 1.
"""

from types import ModuleType
from typing import Any

from jaxtyping import Float

from bidual.tasks._control_laws import advance_runge_kutta

# MountainCarContinuous-v0: the ends of the road, the largest speed, what force and slope do in a step.
LEFT, RIGHT, FASTEST, POWER, SLOPE = -1.2, 0.6, 0.07, 0.0015, 0.0025

# CartPole-v1: gravity, masses of cart and pole, half the pole's length, newtons of full force, seconds of a step.
GRAVITY, CART, POLE, HALF, FORCE, CART_STEP = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02

# Acrobot-v1: both links have mass, length and moment of inertia 1 and their centre in the middle.
CENTRE, LINK_STEP = 0.5, 0.2
LINKS_FASTEST = (12.566370614359172, 28.274333882308138)  # 4 pi and 9 pi


def step_mountain_car(s: Float[Any, "2"], u: Float[Any, "1"], xp: ModuleType) -> Float[Any, "2"]:
    """Return position and speed of the car; it is stopped at the left end, and pushes against the right one."""
    speed = xp.clip(s[1] + POWER * u[0] - SLOPE * xp.cos(3.0 * s[0]), -FASTEST, FASTEST)
    position = xp.clip(s[0] + speed, LEFT, RIGHT)
    return xp.stack([position, xp.where((position == LEFT) & (speed < 0), 0.0, speed)])


def step_cartpole(s: Float[Any, "4"], u: Float[Any, "1"], xp: ModuleType) -> Float[Any, "4"]:
    """Return position and speed of the cart, angle (0 is upright) and speed of the pole, by an explicit Euler step."""
    sine, cosine, total = xp.sin(s[2]), xp.cos(s[2]), CART + POLE
    push = (FORCE * u[0] + POLE * HALF * s[3] ** 2 * sine) / total
    turn = (GRAVITY * sine - cosine * push) / (HALF * (4.0 / 3.0 - POLE * cosine**2 / total))
    return s + CART_STEP * xp.stack([s[1], push - POLE * HALF * turn * cosine / total, s[3], turn])


def step_acrobot(s: Float[Any, "4"], u: Float[Any, "1"], xp: ModuleType) -> Float[Any, "4"]:
    """Return both angles of the acrobot (0 is hanging and straight) and their speeds, by a Runge-Kutta step."""
    then = advance_runge_kutta(lambda s: _accelerate_links(s, u, xp), s, LINK_STEP)
    upper, lower = LINKS_FASTEST
    return xp.stack([then[0], then[1], xp.clip(then[2], -upper, upper), xp.clip(then[3], -lower, lower)])


def _accelerate_links(s: Float[Any, "4"], u: Float[Any, "1"], xp: ModuleType) -> Float[Any, "4"]:
    """Return speeds and accelerations of two links with a torque between them (Sutton and Barto 2018, "the book")."""
    bend = CENTRE * xp.sin(s[1])
    both = 1.0 + CENTRE**2 + CENTRE * xp.cos(s[1])  # inertia that the links have in common
    whole = 2.0 + CENTRE**2 + 1.0 + CENTRE**2 + 2.0 * CENTRE * xp.cos(s[1])
    lower = CENTRE * GRAVITY * xp.sin(s[0] + s[1])
    upper = -bend * s[3] ** 2 - 2.0 * bend * s[3] * s[2] + (CENTRE + 1.0) * GRAVITY * xp.sin(s[0]) + lower
    second = u[0] + both / whole * upper - bend * s[2] ** 2 - lower
    second = second / (1.0 + CENTRE**2 - both**2 / whole)
    return xp.stack([s[2], s[3], -(both * second + upper) / whole, second])


def observe_acrobot(s: Float[Any, "4"], xp: ModuleType) -> Float[Any, "6"]:
    """Return the observation of the acrobot: cosine and sine of both angles, and the speeds."""
    return xp.stack([xp.cos(s[0]), xp.sin(s[0]), xp.cos(s[1]), xp.sin(s[1]), s[2], s[3]])


def step_observed_acrobot(x: Float[Any, "6"], u: Float[Any, "1"], xp: ModuleType) -> Float[Any, "6"]:
    """Return the next observation of the acrobot from an observation."""
    s = xp.stack([xp.arctan2(x[1], x[0]), xp.arctan2(x[3], x[2]), x[4], x[5]])
    return observe_acrobot(step_acrobot(s, u, xp), xp)
