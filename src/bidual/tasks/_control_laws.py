"""How the built-in systems under controls move: one law for environments (NumPy) and for planners (JAX)."""

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


def integrated(s: Float[Any, "2"], u: Float[Any, "1"]) -> Float[Any, "2"]:
    """The double integrator, without its noise."""
    return A @ s + B @ u


def pushed(s: Float[Any, "4"], u: Float[Any, "2"], xp: ModuleType) -> Float[Any, "4"]:
    """The point mass, without its noise: a drag that grows with the square of the speed."""
    place, velocity = s[:2], s[2:]
    speed = xp.sqrt(velocity @ velocity + 1e-12)  # differentiable at rest
    then = velocity + STEP * (PUSH * u + xp.asarray(WIND) - DRAG * speed * velocity)
    return xp.concatenate([place + STEP * then, then])


def swung(law: PendulumLaw, s: Float[Any, "2"], u: Float[Any, "1"], xp: ModuleType) -> Float[Any, "2"]:
    """Angle and speed of a pendulum after a control was held."""
    angle, speed = s[0], s[1]
    for _ in range(law.repeat):
        force = law.pull * xp.sin(angle) + law.gain * u[0] - law.friction * speed
        speed = xp.clip(speed + force * law.dt, -law.fastest, law.fastest)
        angle = angle + speed * law.dt
    return xp.stack([angle, speed])
