"""Linear problems as rows over the embedding, read off CVXPY's reduction.

Every player works on this form: minimise a.Psi + offset subject to rows.Psi <= limits (or ==). Only the affine
images that objective and constraints really use become rows: one for the objective and one for a budget, whatever
the horizon and the number of states.
"""

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from bidual.problem.convex._program import AffineProgram

if TYPE_CHECKING:
    from cvxpy.reductions.dcp2cone.cone_matrix_stuffing import ParamConeProg


def read_affine_program(
    cone: "ParamConeProg", order: list[int], sizes: list[int], *, horizon: int, total: bool
) -> AffineProgram:
    """Read the rows off CVXPY's own reduction to cone form.

    Args:
        cone: the parametric cone program of a problem whose only variable is the embedding.
        order: the CVXPY ids of the constraints, in the user's order.
        sizes: their numbers of scalar rows.
        horizon: H.
        total: whether the embedding is summed over time.
    """
    c, offset, A, b = (_to_dense(part) for part in cone.apply_parameters())
    start, rows, limits, equality = 0, {}, {}, {}
    for constraint in cone.constraints:
        stop = start + constraint.size
        # The cone form is b - A'x in {0} or >= 0, and CVXPY stores -A' as A.
        rows[constraint.id] = -A[start:stop]
        limits[constraint.id] = b[start:stop]
        equality[constraint.id] = np.full(constraint.size, type(constraint).__name__ == "Zero")
        start = stop
    m = sum(sizes)

    def gather(found: dict[int, np.ndarray]) -> np.ndarray:
        return np.concatenate([found[i] for i in order]) if order else np.zeros((0, 0))

    return AffineProgram(
        objective=_arrange_by_step(c[None], horizon, total)[0],
        offset=float(offset),
        rows=_arrange_by_step(gather(rows).reshape(m, np.size(c)), horizon, total),
        limits=gather(limits).reshape(m),
        equality=gather(equality).reshape(m).astype(bool),
        units=np.ones(m),  # both are known once a model is (see `rounding`)
        resolution=np.zeros(m),
    )


def _to_dense(part: object) -> Float[np.ndarray, "..."]:
    """Convert to a dense array: CVXPY returns arrays, sparse matrices or numbers, depending on the problem."""
    return np.asarray(sp.csr_array(part).toarray() if sp.issparse(part) else part, dtype=np.float64)


def _arrange_by_step(flat: Float[np.ndarray, "m n"], horizon: int, total: bool) -> Float[np.ndarray, "m H d"]:
    if total:
        return np.repeat(flat[:, None, :], horizon, axis=1)
    # CVXPY flattens column by column: all steps of the first feature first.
    m, n = flat.shape
    return np.ascontiguousarray(flat.reshape(m, n // horizon, horizon).transpose(0, 2, 1))
