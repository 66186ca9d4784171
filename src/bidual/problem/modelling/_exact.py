"""Atoms whose cone form is exactly the function that CVXPY evaluates.

For a few atoms CVXPY's reduction approximates: powers and p-norms by rational exponents, quadratic forms by dropping
small eigenvalues. Then a bound on the cone form is not one on the user's function. Those are rewritten, and so
are the sum of the k largest of k numbers and sorted products, whose cone forms have no provable bound.
"""

from collections.abc import Sequence

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.atoms.atom import Atom

from bidual._base.errors import ProblemError


def rebuild_exactly(expression: Atom, arguments: Sequence[cp.Expression]) -> cp.Expression:
    """Rebuild the expression over other arguments, in a form that reduces exactly."""
    if isinstance(expression, cp.QuadForm):
        return _sum_of_squares(arguments[0], arguments[1])
    # Squares and Euclidean norms are second-order cones as they are.
    if isinstance(expression, cp.PowerApprox | cp.PnormApprox) and expression.get_data()[0] == 2:
        return expression.copy(list(arguments))
    if isinstance(expression, cp.PowerApprox):
        return cp.Power(arguments[0], expression.get_data()[0])
    if isinstance(expression, cp.PnormApprox):
        return cp.Pnorm(arguments[0], *expression.get_data())
    if isinstance(expression, cp.sum_largest) and expression.k >= arguments[0].size // expression.size:
        # The cone form of all entries has no multipliers inside the dual cone; of more, none at all.
        return cp.Sum(arguments[0], axis=expression.axis, keepdims=expression.keepdims)
    if isinstance(expression, cp.dotsort) and not arguments[1].parameters():
        return _sum_of_largest(arguments[0], np.asarray(arguments[1].value, dtype=np.float64))
    if isinstance(expression, cp.GeoMeanApprox) and expression.approx_error > 0:
        raise ProblemError(
            f"the weights of the geometric mean {expression} are no simple fractions, so CVXPY would approximate it: "
            "use weights with small denominators"
        )
    return expression.copy(list(arguments))


def _sum_of_largest(x: cp.Expression, weights: np.ndarray) -> cp.Expression:
    """Rewrite the sorted product of x and weights w_1 >= ... >= w_n as sums of the k largest (Abel's summation).

    It is w_n sum(x) + sum_k (w_k - w_{k+1}) (the sum of the k largest of x). CVXPY's own cone form asks for a doubly
    stochastic matrix, whose rows and columns are dependent equations: no multipliers can be shown to solve them.
    """
    ordered = np.sort(np.append(weights.ravel(), np.zeros(x.size - weights.size)))[::-1]
    steps = ordered[:-1] - ordered[1:]
    terms = [cp.multiply(float(steps[k]), cp.sum_largest(x, int(k) + 1)) for k in np.flatnonzero(steps)]
    return cp.AddExpression([cp.multiply(float(ordered[-1]), cp.sum(x)), *terms])


def _sum_of_squares(x: cp.Expression, P: cp.Expression) -> cp.Expression:
    """Rewrite x' P x as || F' x ||^2 with F F' = P, to rounding."""
    if P.variables() or P.parameters():
        raise ProblemError("the matrix of a quadratic form must be a constant: write cp.sum_squares(F @ x) instead")
    value = P.value
    matrix = np.asarray(sp.coo_array(value).toarray() if sp.issparse(value) else value, dtype=np.float64)
    eigenvalues, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    sign = 1.0 if eigenvalues.sum() >= 0 else -1.0
    eigenvalues = sign * eigenvalues
    if eigenvalues.min() < -1e-14 * matrix.shape[0] * max(eigenvalues.max(), 0.0):
        raise ProblemError(
            f"the matrix of a quadratic form has the eigenvalue {sign * eigenvalues.min():.3g} beside "
            f"{sign * eigenvalues.max():.3g}: it is not semidefinite, so the form is not convex"
        )
    factor = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
    squares = cp.sum_squares(factor.T @ cp.vec(x, order="F"))
    return squares if sign > 0 else -squares
