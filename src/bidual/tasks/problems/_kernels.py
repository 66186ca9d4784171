"""Maximum mean discrepancy: the distance of two laws of the state in the space of a kernel's mean embeddings.

    MMD(d, q)  =  max over |w| <= 1 in the kernel's space of  E_d w - E_q w  =  sqrt((d - q)' K (d - q))

d is the time-averaged law of the state, and its mean embedding is one of the paper's own examples of Psi. With K = F F'
it is the Euclidean norm of F' (d - q), so that the problem has as many numbers as the kernel has rank.
"""

import cvxpy as cp
import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from bidual._base.errors import ProblemError
from bidual.problem.modelling import Problem
from bidual.tasks.problems._declare import Limits, declare
from bidual.tasks.problems._sources import Source, sum_over_time

_RANK = 1e-12  # eigenvalues below this share of the largest are 0


def mean_discrepancy(mdp: Source, target: ArrayLike, kernel: ArrayLike, *, limits: Limits | None = None) -> Problem:
    """Mean discrepancy: bring the time-averaged law of the state as close to a target law as the kernel can tell.

    ``mean_discrepancy(mdp, target, bd.problems.gaussian_kernel(cells, width=2.0))``. Unlike distances of visits it
    knows which states are near each other: mass in a neighbouring state counts nearly as mass in the right one.

    Args:
        mdp: the model, an environment or an embedding, as the module says.
        target: a probability for every state.
        kernel: a positive semidefinite matrix over the states.
        limits: the constraints by name, as the module says; there is ``x.visits`` for functions.
    """
    declared = declare(mdp, {}, limits, visits=True)
    x, visits = declared.quantities.x, declared.quantities.visits()
    law = (visits if x.total else sum_over_time(visits)) / x.horizon
    size = law.shape[0]
    wanted, factor = _read_law(target, size), _factorise(kernel, size)
    return Problem(cp.Minimize(cp.norm(factor.T @ (law - wanted))), declared.constraints)


def gaussian_kernel(points: ArrayLike, width: float | None = None) -> Float[np.ndarray, "S S"]:
    """Return exp(-|x - y|^2 / (2 width^2)) over points, one row for each state; by default the median distance.

    The median is over pairs of different points.
    """
    places = np.asarray(points, dtype=np.float64)
    places = places[:, None] if places.ndim == 1 else places
    if places.ndim != 2 or places.size == 0 or not np.isfinite(places).all():
        raise ProblemError(f"points must be finite numbers, one row for each state; got shape {places.shape}")
    squared = np.sum((places[:, None] - places[None]) ** 2, axis=-1)
    if width is None:
        apart = squared[squared > 0]
        width = float(np.sqrt(np.median(apart))) if apart.size else 1.0
    if not (np.isfinite(width) and width > 0):
        raise ProblemError(f"the width of a kernel must be a positive number; got {width!r}")
    return np.exp(-squared / (2 * width**2))


def _read_law(target: ArrayLike, size: int) -> Float[np.ndarray, "S"]:
    law = np.asarray(target, dtype=np.float64)
    if law.shape != (size,):
        raise ProblemError(f"the target must have one probability for each of {size} states; got shape {law.shape}")
    if not (np.all(law >= 0) and abs(float(law.sum()) - 1) <= 1e-9):
        raise ProblemError(
            f"the target must be a law: probabilities that sum to 1; got a sum of {float(law.sum()):.6g}"
        )
    return law


def _factorise(kernel: ArrayLike, size: int) -> Float[np.ndarray, "S r"]:
    """Return F with F F' = K, to rounding."""
    K = np.asarray(kernel, dtype=np.float64)
    if K.shape != (size, size) or not np.isfinite(K).all() or not np.allclose(K, K.T, rtol=1e-12, atol=0.0):
        raise ProblemError(f"the kernel must be a symmetric matrix over the {size} states; got shape {K.shape}")
    values, vectors = np.linalg.eigh((K + K.T) / 2)
    if values[-1] <= 0 or values[0] < -_RANK * size * values[-1]:
        raise ProblemError(
            f"the kernel must be positive semidefinite and not 0; its least eigenvalue is {values[0]:.3g}"
        )
    kept = values > _RANK * values[-1]
    return vectors[:, kept] * np.sqrt(values[kept])
