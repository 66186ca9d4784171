"""Direct calls of Clarabel: CVXPY's own interface to it costs more than solving these small programs.

It is imported by name because it is a compiled module without type information.
"""

from importlib import import_module

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from bidual.problem.convex._cones import Cones

_HOPELESS = ("PrimalInfeasible", "DualInfeasible")


def run_clarabel(
    q: Float[np.ndarray, "n"], A: sp.sparray, b: Float[np.ndarray, "r"], cones: Cones, *, nonneg: int, zero: int
) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "r"]]:
    """Solve min q.x  s.t.  b - A x in cones x (>= 0)^nonneg x {0}^zero; return the primal and the dual solution."""
    clarabel = import_module("clarabel")

    # Clarabel requires its own index type, sorted.
    matrix = sp.csc_matrix(A)
    matrix.sort_indices()
    empty = sp.csc_matrix((q.size, q.size))
    product = [*make_clarabel_cones(cones), clarabel.NonnegativeConeT(nonneg), clarabel.ZeroConeT(zero)]
    # Two digits more than the default: the duals become costs of plans, and their errors a gap that stays. Where
    # factors break down, more regularisation often reaches them. Where both fail, an objective of moderate size and
    # the default.
    size, status, nearly = max(1.0, float(np.abs(q).max(initial=0.0))), "", None
    attempts = ((1e-10, 1.0, 1e-8), (1e-10, 1.0, 1e-7), (1e-8, size, 1e-8), (1e-6, size, 1e-8))
    for tolerance, scale, regularisation in attempts:
        if nearly and tolerance > attempts[0][0]:
            break
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.max_threads = 1
        settings.max_iter = 100
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
        settings.static_regularization_constant = regularisation
        answer = clarabel.DefaultSolver(empty, q / scale, matrix, b, product, settings).solve()
        status = str(answer.status)
        if status == "Solved":
            return np.array(answer.x), scale * np.array(answer.z)
        if status == "AlmostSolved" and nearly is None:
            nearly = np.array(answer.x), scale * np.array(answer.z)
        if status in _HOPELESS:
            break
    if nearly:
        return nearly
    raise np.linalg.LinAlgError(f"the cone solver ended with {status}")


def make_clarabel_cones(cones: Cones) -> list[object]:
    """Return the product of cones in Clarabel's types."""
    clarabel = import_module("clarabel")

    product: list[object] = []
    product += [clarabel.ZeroConeT(cones.zero)] if cones.zero else []
    product += [clarabel.NonnegativeConeT(cones.nonneg)] if cones.nonneg else []
    product += [clarabel.SecondOrderConeT(size) for size in cones.second_order]
    product += [clarabel.ExponentialConeT()] * cones.exponential
    product += [clarabel.PowerConeT(exponent) for exponent in cones.power]
    return product
