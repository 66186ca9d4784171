"""Compilation of CVXPY expressions to arrays, through CVXPY's own reduction to cone form."""

import warnings
from collections.abc import Sequence
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.constraints.zero import Zero
from cvxpy.error import DCPError, SolverError
from cvxpy.reductions.dcp2cone.cone_matrix_stuffing import ParamConeProg
from cvxpy.settings import PARAM_PROB
from jaxtyping import Float
from numpy.typing import ArrayLike

from bidual._base.errors import ProblemError
from bidual.problem.convex import Cones, ConicForm, Image
from bidual.problem.features.embedding import Embedding
from bidual.problem.modelling._lift import Piece


def reduce_to_cones(problem: cp.Problem) -> ParamConeProg:
    """Reduce the problem to cone form, its parameters still symbols. CVXPY keeps the ids of the user's constraints."""
    try:
        with warnings.catch_warnings():
            # Issued for any geometric mean of many numbers; approximated ones never reach this point (`exact`).
            warnings.filterwarnings("ignore", message="geo_mean is being approximated")
            data, _, _ = problem.get_problem_data(
                # Quadratic objectives become second-order cones as well: one form of dual for everything.
                cp.CLARABEL,
                canon_backend=cp.SCIPY_CANON_BACKEND,
                solver_opts={"use_quad_obj": False},
            )
    except DCPError:
        raise
    except (SolverError, NotImplementedError, ValueError) as error:
        raise ProblemError(f"CVXPY cannot reduce this problem to the cones bidual knows: {error}") from error
    cone = data[PARAM_PROB]
    dims = cone.cone_dims
    if dims.psd or getattr(dims, "pnd", None):
        raise ProblemError(
            "it needs semidefinite or high-dimensional power cones (matrix inequalities, eigenvalues); bidual supports "
            "linear, second-order, exponential and three-dimensional power cones. A cp.norm of a matrix is its largest "
            'singular value: write cp.norm(x, "fro") where the norm of all entries is meant'
        )
    return cone


def compile_image(pieces: Sequence[Piece], embedding: Embedding, cone: ParamConeProg) -> Image:
    """Return the affine pieces as one image; `cone` is the program whose constraints are ``piece == 0``, in order."""
    c, _, A, b = _extract_arrays(cone)
    if _flatten(c).size != embedding.size:
        blocks = [_differentiate_rows(piece.affine, [embedding]) for piece in pieces]
        matrix, offset = sp.csr_array(sp.vstack([m for m, _ in blocks])), np.concatenate([o for _, o in blocks])
    else:  # CVXPY writes every row, those of {0} included, as the limit minus the expression
        matrix, offset = sp.csr_array(-sp.csr_array(A)), -_flatten(b)
    H, d = embedding.horizon, embedding.features.dimension
    if not embedding.total:
        # CVXPY flattens column by column: all steps of the first feature first.
        h, feature = np.divmod(np.arange(H * d), d)
        matrix = sp.csr_array(matrix[:, feature * H + h])
    return Image(matrix, offset, H, embedding.total)


def _differentiate_rows(
    expression: cp.Expression, variables: Sequence[cp.Variable]
) -> tuple[sp.csr_array, Float[np.ndarray, "r"]]:
    """Compute the rows from CVXPY's derivatives: a cumulative sum has variables of its own in cone form."""
    before = [variable.value for variable in variables]
    for variable in variables:
        variable.value = np.zeros(variable.shape)
    rows = [sp.csr_array(sp.csc_array(expression.grad[variable]).T) for variable in variables]
    offset = np.asarray(expression.value, dtype=np.float64).ravel(order="F")
    for variable, value in zip(variables, before, strict=True):
        variable.value = value
    return sp.csr_array(sp.hstack(rows)), offset


def compile_pieces(pieces: Sequence[Piece]) -> ParamConeProg:
    """Return the cone program that `compile_image` reads."""
    return reduce_to_cones(cp.Problem(cp.Minimize(0), [Zero(cp.vec(piece.affine, order="F")) for piece in pieces]))


def extract_affine_rows(expression: cp.Expression, variables: Sequence[cp.Variable]) -> tuple[sp.csc_array, np.ndarray]:
    """Return an affine expression, flattened, as a sparse matrix over the given variables, and its offset."""
    cone = reduce_to_cones(cp.Problem(cp.Minimize(0), [Zero(cp.vec(expression, order="F"))]))
    c, _, A, b = _extract_arrays(cone)
    if _flatten(c).size != sum(variable.size for variable in variables):
        matrix, offset = _differentiate_rows(expression, variables)
        return sp.csc_array(matrix), offset
    columns = np.concatenate([_find_columns(cone, variable) for variable in variables])
    return sp.csc_array(-sp.csc_array(A)[:, columns]), -_flatten(b)


def extract_conic_form(
    cone: ParamConeProg,
    constraints: Sequence[Sequence[cp.Constraint]],
    images: Sequence[cp.Variable],
    auxiliary: Sequence[cp.Variable],
) -> ConicForm:
    """Return the arrays of a cone program, at the parameters' present values.

    Args:
        cone: the program.
        constraints: the CVXPY constraints that hold the limits of each of the user's constraints, in order.
        images: the variables that stand for images.
        auxiliary: the user's other variables, which come first among the rest.

    Variables that CVXPY dropped have no part in this program: their columns are 0.
    """
    c, offset, A, b = _extract_arrays(cone)
    G, c = sp.csc_array(-sp.csc_array(A)), _flatten(c)
    y_columns = [_find_columns(cone, variable) for variable in images]
    first = [_find_columns(cone, variable) for variable in auxiliary]
    taken = np.concatenate([*y_columns, *first, np.zeros(0, dtype=int)])
    rest = np.setdiff1d(np.arange(c.size), taken)
    y, u = np.concatenate([*y_columns, np.zeros(0, dtype=int)]), np.concatenate([*first, rest])
    owner, sign = _find_owners(cone, constraints)
    return ConicForm(
        c_y=np.where(y >= 0, c[y], 0.0),
        c_u=np.where(u >= 0, c[u], 0.0),
        offset=float(offset),
        G_y=sp.csr_array(_select_columns(G, y)),
        G_u=_select_columns(G, u),
        h=_flatten(b),
        cones=_read_cones(cone),
        owner=owner,
        sign=sign,
    )


def _select_columns(G: sp.csc_array, columns: np.ndarray) -> sp.csc_array:
    """Select columns; -1 stands for an empty one."""
    picked = sp.csc_array(G[:, np.maximum(columns, 0)] * (columns >= 0))
    picked.eliminate_zeros()  # code that asks for the rows of a variable must not find explicit zeros
    return picked


def _find_columns(cone: ParamConeProg, variable: cp.Variable) -> np.ndarray:
    start = cone.var_id_to_col.get(variable.id)
    return np.full(variable.size, -1) if start is None else start + np.arange(variable.size)


def _find_owners(cone: ParamConeProg, constraints: Sequence[Sequence[cp.Constraint]]) -> tuple[np.ndarray, np.ndarray]:
    """Return for every row of the program the scalar constraint whose limit it holds, and the sign of its dual."""
    owners: dict[int, tuple[int, float]] = {}
    start = 0
    for group in constraints:
        for side, constraint in enumerate(group):
            owners[constraint.id] = (start, -1.0 if side else 1.0)
        start += group[0].size
    owner, sign = [], []
    for constraint in cone.constraints:
        first, factor = owners.get(constraint.id, (-1, 0.0))
        size = constraint.size
        owner.append(first + np.arange(size) if first >= 0 else np.full(size, -1))
        sign.append(np.full(size, factor))
    return np.concatenate([*owner, np.zeros(0, dtype=int)]), np.concatenate([*sign, np.zeros(0)])


def _read_cones(cone: ParamConeProg) -> Cones:
    dims = cone.cone_dims
    return Cones(int(dims.zero), int(dims.nonneg), tuple(dims.soc), int(dims.exp), tuple(float(a) for a in dims.p3d))


def _extract_arrays(cone: ParamConeProg) -> tuple[Any, ...]:
    """Return c, offset, A and b at the parameters' present values; CVXPY's own annotation is vaguer than that."""
    return cone.apply_parameters()


def _flatten(part: ArrayLike | sp.sparray) -> np.ndarray:
    """Flatten an array or a sparse matrix: CVXPY returns either, depending on the problem."""
    return np.asarray(sp.coo_array(part).toarray() if sp.issparse(part) else part, dtype=np.float64).ravel()
