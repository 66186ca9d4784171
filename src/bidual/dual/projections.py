"""Projections onto the sets of the paper's dual variables, in closed form.

    alpha:          the ball    {alpha : |alpha| <= L}
    (beta, gamma):  the truncated cone    {(beta, gamma) : |beta| <= L gamma, 0 <= gamma <= Gamma}

With L the Lipschitz constant of the function, no function needs rescaling (the paper's L is 1). Projecting in turn
onto the slab 0 <= gamma <= Gamma and onto the cone, as one might, can end at a point of the set that is not the
nearest one.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class Pair(NamedTuple):
    """The linear part and the multiplier of one constraint."""

    beta: Float[np.ndarray, "n"]
    gamma: float


def project_onto_ball(alpha: Float[np.ndarray, "n"], radius: float) -> Float[np.ndarray, "n"]:
    """Project onto {|alpha| <= radius}."""
    size = float(np.linalg.norm(alpha))
    return alpha if size <= radius else alpha * (radius / size)


def project_onto_cone(beta: Float[np.ndarray, "n"], gamma: float, slope: float, height: float) -> Pair:
    """Project onto {|beta| <= slope gamma, 0 <= gamma <= height}.

    In the plane of r = |beta| and gamma there are five regions: inside; above the lid (only gamma is cut); beyond
    the rim (both are); beside the wall, from where the way is square to it; and below the apex.
    """
    size = float(np.linalg.norm(beta))
    if size <= slope * gamma:
        nearest, level = min(size, slope * height), min(gamma, height)
    else:
        level = float(np.clip((slope * size + gamma) / (1 + slope**2), 0.0, height))
        nearest = slope * level
    return Pair(beta * (nearest / size) if size > 0 else np.zeros_like(beta), level)
