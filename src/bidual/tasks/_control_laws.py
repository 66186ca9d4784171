"""The dynamics of the built-in systems under controls: one law for environments (NumPy) and for planners (JAX)."""

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, final

import numpy as np
from jaxtyping import Float

# The double integrator: position and speed, a force, steps of 0.2.
A = np.array([[1.0, 0.2], [0.0, 1.0]])
B = np.array([[0.0], [0.2]])

# The point mass: steps of 0.1 under a push of up to 1 in both directions, against a drag and a wind.
STEP, PUSH, DRAG, WIND = 0.1, 2.0, 0.5, (0.0, -0.3)


@final
@dataclass(frozen=True)
class PendulumLaw:
    """angle'' = pull sin(angle) + gain u - friction angle', by semi-implicit Euler steps."""

    pull: float
    gain: float
    friction: float
    dt: float
    repeat: int  # steps for which a control is held
    torque: float
    fastest: float  # the speed is held to it


# Pendulum-v1 of Gymnasium: g = 10, m = l = 1, so 3 g / 2 l and 3 / m l^2.
DENSE = PendulumLaw(pull=15.0, gain=3.0, friction=0.0, dt=0.05, repeat=1, torque=2.0, fastest=8.0)
# That of H-UCRL (Curi, Berkenkamp and Krause 2020): g = 9.81, m = 0.3, l = 0.5, friction 0.005, all over m l^2.
SPARSE = PendulumLaw(pull=19.62, gain=1 / 0.075, friction=0.005 / 0.075, dt=1 / 80, repeat=4, torque=1.0, fastest=15.0)


# InvertedPendulum-v5 of Gymnasium, as MuJoCo compiles it: masses of cart and pole, the pole's centre beside and above
# the hinge and its moment of inertia about it; damping of both joints, newtons of a unit of control, gravity, seconds
# of a step and steps for which a control is held.
CART, POLE, BESIDE, ABOVE, INERTIA = 10.471975511966, 5.018591641363, 0.0005, 0.3, 0.640424269244
DAMPING, GEAR, GRAVITY, POLE_STEP, POLE_REPEAT = 1.0, 100.0, 9.81, 0.02, 2


EFFORT = "control @ control"  # the squared size of the control, as a signal


def step_integrator(s: Float[Any, "2"], u: Float[Any, "1"]) -> Float[Any, "2"]:
    """Advance the double integrator, without its noise."""
    return A @ s + B @ u


def step_point_mass(s: Float[Any, "4"], u: Float[Any, "2"], xp: ModuleType) -> Float[Any, "4"]:
    """Advance the point mass, without its noise: a drag that grows with the square of the speed."""
    place, velocity = s[:2], s[2:]
    speed = xp.sqrt(velocity @ velocity + 1e-12)  # differentiable at rest
    then = velocity + STEP * (PUSH * u + xp.asarray(WIND) - DRAG * speed * velocity)
    return xp.concatenate([place + STEP * then, then])


def step_pendulum(law: PendulumLaw, s: Float[Any, "2"], u: Float[Any, "1"], xp: ModuleType) -> Float[Any, "2"]:
    """Return angle and speed of a pendulum after a control was held."""
    angle, speed = s[0], s[1]
    for _ in range(law.repeat):
        force = law.pull * xp.sin(angle) + law.gain * u[0] - law.friction * speed
        speed = xp.clip(speed + force * law.dt, -law.fastest, law.fastest)
        angle = angle + speed * law.dt
    return xp.stack([angle, speed])


def step_observed_pendulum(law: PendulumLaw, x: Float[Any, "3"], u: Float[Any, "1"], xp: ModuleType) -> Float[Any, "3"]:
    """Return the same as observations: from cosine and sine of the angle and the speed to those of the next state."""
    angle, speed = step_pendulum(law, xp.stack([xp.arctan2(x[1], x[0]), x[2]]), u, xp)
    return xp.stack([xp.cos(angle), xp.sin(angle), speed])


def step_inverted_pendulum(s: Float[Any, "4"], u: Float[Any, "1"], xp: ModuleType) -> Float[Any, "4"]:
    """Return place of MuJoCo's cart, angle of its pole (0 is upright), and their speeds, on a rail without ends."""
    for _ in range(POLE_REPEAT):
        s = advance_runge_kutta(lambda s: _compute_pole_rate(s, u, xp), s, POLE_STEP)
    return s


def advance_runge_kutta(rate: Callable[[Any], Any], s: Float[Any, "k"], step: float) -> Float[Any, "k"]:
    """Advance by a Runge-Kutta step of order 4."""
    first = rate(s)
    second = rate(s + 0.5 * step * first)
    third = rate(s + 0.5 * step * second)
    fourth = rate(s + step * third)
    return s + step / 6.0 * (first + 2.0 * second + 2.0 * third + fourth)


def _compute_pole_rate(s: Float[Any, "4"], u: Float[Any, "1"], xp: ModuleType) -> Float[Any, "4"]:
    """Return speeds and accelerations, from two equations of motion that are linear in the accelerations."""
    coupling = POLE * (ABOVE * xp.cos(s[1]) - BESIDE * xp.sin(s[1]))
    slope = -POLE * (ABOVE * xp.sin(s[1]) + BESIDE * xp.cos(s[1]))  # of the coupling
    push = GEAR * u[0] - DAMPING * s[2] - slope * s[3] ** 2
    torque = -GRAVITY * slope - DAMPING * s[3]
    total = CART + POLE
    determinant = total * INERTIA - coupling**2
    place, angle = INERTIA * push - coupling * torque, total * torque - coupling * push
    return xp.stack([s[2], s[3], place / determinant, angle / determinant])
