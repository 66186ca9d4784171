"""Direct calls of Clarabel: CVXPY's own interface to it costs more than solving these small programs.

It is imported by name because it is a compiled module without type information.
"""

from importlib import import_module

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from bidual.problem.convex._cones import Cones

_ENOUGH = ("Solved", "AlmostSolved")
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
    # Two digits more than the default: the duals become costs of plans, and their errors a gap that stays. Where that
    # fails, an objective of moderate size and the default.
    size, status = max(1.0, float(np.abs(q).max(initial=0.0))), ""
    for tolerance, scale in ((1e-10, 1.0), (1e-8, size), (1e-6, size)):
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.max_threads = 1
        settings.max_iter = 100
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
        answer = clarabel.DefaultSolver(empty, q / scale, matrix, b, product, settings).solve()
        status = str(answer.status)
        if status in _ENOUGH:
            return np.array(answer.x), scale * np.array(answer.z)
        if status in _HOPELESS:
            break
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
