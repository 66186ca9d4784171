"""The least value of a quadratic cost over linear laws, by a proof that is checked step by step.

With y = (1, s, u, w), s' = s + W_hat phi + w + noise and a price mu >= 0, any functions V_h(s) = (1, s) G_h (1, s)'
with V_H = 0 and

    V_h(s) <= E[cost_h(s, u, s') + V_{h+1}(s')] + mu (|w|^2 - radius^2 phi' Lambda^-1 phi)     for all s, u and w   (*)

prove that no policy pays less than V_0(first) under any law of the set: there |w|^2 <= radius^2 phi' Lambda^-1 phi with
w = (W - W_hat) phi, so that the last term is at most 0, and adding up over the steps of any policy leaves
V_0(first) <= E[sum of costs]. Controls within limits are some of all controls.

(*) states that a matrix is positive semidefinite. Riccati's recursion finds the largest V_h, where it is barely so.
Each G_h is reduced by a margin, and the matrix is then proved positive definite in spite of all roundings: entries are
known up to eps times the sum of the absolute values of their terms. It shares no code with the planner.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from bidual._base.errors import CertificateError
from bidual.certificate._ball import Least
from bidual.certificate._radius import derive_radius
from bidual.certificate.rounding import EPS
from bidual.models import LinearLaws

_MARGIN = 1e-9  # relative to a number: far above rounding, far below any digit of interest
_EXPONENTS = np.arange(-8.0, 8.5, 0.5)  # the exponents of ten of the prices
_NOTHING = Least(-np.inf, 0.0)


class _Setting(NamedTuple):
    """The data that all prices share."""

    costs: Float[np.ndarray, "H x x"]  # over (1, s, u, w, s')
    sizes: Float[np.ndarray, "H x x"]  # the sums of absolute values in their entries
    lift: Float[np.ndarray, "*H x y"]  # from (1, s, u, w) to (1, s, u, w, s'); or from (1, s, w), where u is a law
    price: Float[np.ndarray, "x x"]  # |w|^2 - radius^2 phi' C phi, C above Lambda^-1
    variance: Float[np.ndarray, "n"]
    roundings: float  # in one entry
    reach: Float[np.ndarray, "H x y"] | None = None  # sums of absolute values in the lift, where it is a product


def bound_least_over_laws(
    laws: LinearLaws, theta: Float[np.ndarray, "H p"], magnitude: Float[np.ndarray, "H p"], terms: int
) -> Least:
    """Bound the least theta . Psi over policies and laws from below; -inf where no proof succeeds."""
    if not np.all(np.isfinite(theta)):
        raise CertificateError("the cost contains NaN or infinity: nothing can be certified")
    if not laws.underestimates(theta):
        return _NOTHING
    laws = check_radius(laws)
    setting = _prepare_setting(laws, theta, magnitude, terms)
    return _NOTHING if setting is None else search_price(setting, laws)


def check_radius(laws: LinearLaws) -> LinearLaws:
    """Return the set with the radius that is derived for it; that of the net is taken as it is."""
    return laws if laws.evidence is None else replace(laws, radius=derive_radius(laws, laws.evidence))


def search_price(setting: _Setting, laws: LinearLaws) -> Least:
    """Search for the price that proves the highest bound."""
    unit = float(np.abs(setting.costs).max()) / max(laws.radius, np.finfo(float).tiny)
    if not 0 < unit < np.inf:
        return _NOTHING
    start = np.append(1.0, laws.first)
    best, step, at = _NOTHING, 0.5, 0.0
    for exponent in _EXPONENTS:
        found = _prove_bound(setting, unit * 10.0**exponent, start)
        best, at = (found, exponent) if found.value > best.value else (best, at)
    while np.isfinite(best.value) and step > 0.01:
        step /= 2
        for exponent in (at - step, at + step):
            found = _prove_bound(setting, unit * 10.0**exponent, start)
            best, at = (found, exponent) if found.value > best.value else (best, at)
    return best


def _prepare_setting(
    laws: LinearLaws, theta: Float[np.ndarray, "H p"], magnitude: Float[np.ndarray, "H p"], terms: int
) -> _Setting | None:
    """Build the forms of all steps over (1, s, u, noise, s'), with their sizes; None where a bound fails."""
    n, m, constant = laws.sizes
    size = 1 + 3 * n + m
    forms = np.stack([_homogenise(*form) for form in laws.forms])
    seen = np.r_[0 : 1 + n + m, 1 + 2 * n + m : size]  # (1, s, u, s')
    costs, sizes = np.zeros((len(theta), size, size)), np.zeros((len(theta), size, size))
    costs[:, seen[:, None], seen] = np.tensordot(theta, forms, axes=1)
    sizes[:, seen[:, None], seen] = np.tensordot(magnitude, np.abs(forms), axes=1)
    moved = np.zeros((n, 1 + 2 * n + m))
    moved[:, 1 : 1 + n + m] = laws.W[:, : n + m]
    moved[:, 1 : 1 + n] += np.eye(n)
    moved[:, 0] = laws.W[:, n + m] if constant else 0.0
    moved[:, 1 + n + m :] = np.eye(n)
    above = _bound_inverse(laws.precision)
    if above is None or not np.isfinite(laws.radius):
        return None
    phi = np.append(np.arange(1, 1 + n + m), [0] if constant else []).astype(np.int64)
    price = np.zeros((size, size))
    price[np.ix_(phi, phi)] -= laws.radius**2 * (1 + 4 * EPS) * above
    w = np.arange(1 + n + m, 1 + 2 * n + m)
    price[w, w] += 1.0
    roundings = 4.0 * (2 * size + terms + theta.shape[1] + 16) * EPS
    return _Setting(costs, sizes, np.concatenate([np.eye(1 + 2 * n + m), moved]), price, laws.deviation**2, roundings)


def _homogenise(form: Float[np.ndarray, "x x"], slope: Float[np.ndarray, "x"], constant: float) -> np.ndarray:
    """Return a quadratic function of x as a form of (1, x)."""
    return np.block([[np.full((1, 1), constant), slope[None]], [slope[:, None], form]])


def _prove_bound(setting: _Setting, mu: float, start: Float[np.ndarray, "a"]) -> Least:
    """Compute V_0(first) of functions for which (*) is proved at every step."""
    n = setting.variance.size
    rows, columns = setting.lift.shape[-2:]
    lifts = np.broadcast_to(setting.lift, (len(setting.costs), rows, columns))
    reaches = np.abs(lifts) if setting.reach is None else setting.reach
    after = np.r_[0, rows - n : rows]  # (1, s')
    G = np.zeros((n + 1, n + 1))
    with np.errstate(all="ignore"):  # an overflow is not positive definite
        steps = zip(setting.costs[::-1], setting.sizes[::-1], lifts[::-1], reaches[::-1], strict=True)
        for cost, size, lift, reach in steps:
            N, added = cost + mu * setting.price, size + mu * np.abs(setting.price)
            N[np.ix_(after, after)] += G
            added[np.ix_(after, after)] += np.abs(G)
            N[0, 0] += np.diagonal(N)[-n:] @ setting.variance
            added[0, 0] += np.diagonal(added)[-n:] @ setting.variance
            Q = lift.T @ N @ lift
            found = _bound_below(Q, reach.T @ added @ reach, setting.roundings, n + 1)
            if found is None:
                return _NOTHING
            G = found
        value, largest = start @ G @ start, np.abs(start) @ np.abs(G) @ np.abs(start)
        return Least(float(value), float(setting.roundings * largest)) if np.isfinite(value) else _NOTHING


def _bound_below(
    Q: Float[np.ndarray, "y y"], sizes: Float[np.ndarray, "y y"], roundings: float, a: int
) -> Float[np.ndarray, "a a"] | None:
    """Return a form of the first `a` numbers that is nowhere above Q; None if this cannot be proved.

    Q - G is tested after a congruence, which preserves its sign: (1, s) and (u, w) are nearly decoupled then.
    """
    if not np.isfinite(Q).all() or not _is_positive_definite(Q[a:, a:], roundings * sizes[a:, a:]):
        return None
    X = np.linalg.solve(Q[a:, a:], Q[a:, :a]).T
    G = Q[:a, :a] - X @ Q[a:, :a]
    margin = _MARGIN * np.maximum(sizes.diagonal()[:a], EPS * sizes.max())
    G = (G + G.T) / 2 - np.diag(margin)
    turn = np.eye(len(Q))
    turn[:a, a:] = -X
    rest, total = Q.copy(), sizes.copy()
    rest[:a, :a] -= G
    total[:a, :a] += np.abs(G)
    return (
        G if _is_positive_definite(turn @ rest @ turn.T, roundings * (np.abs(turn) @ total @ np.abs(turn).T)) else None
    )


def _is_positive_definite(matrix: Float[np.ndarray, "k k"], unsure: Float[np.ndarray, "k k"]) -> bool:
    """Check that every symmetric matrix with entries within `unsure` of this one is positive definite.

    By Gershgorin it is, if the matrix less the sums of the rows of `unsure` on its diagonal is; and that one is scaled
    to a diagonal of 1 first, so that units do not matter. Its norm is at most k, its eigenvalues err by some k eps k.
    """
    least = (matrix + matrix.T) / 2 - np.diag(unsure.sum(axis=1))
    diagonal = least.diagonal()
    if not (np.isfinite(least).all() and np.all(diagonal > 0)):
        return False
    units = 1 / np.sqrt(diagonal)
    return bool(np.linalg.eigvalsh(least * np.outer(units, units))[0] > 64 * len(matrix) ** 2 * EPS)


def _bound_inverse(precision: Float[np.ndarray, "d d"]) -> Float[np.ndarray, "d d"] | None:
    """Return a matrix that is provably above the inverse.

    If T Lambda T' is within rho < 1 of the identity, Lambda >= (1 - rho) T^-1 T^-T and Lambda^-1 <= T'T / (1 - rho),
    whatever T is: that of Cholesky has a small rho.
    """
    d = len(precision)
    try:
        T = np.linalg.inv(np.linalg.cholesky(precision))
    except np.linalg.LinAlgError:
        return None
    lost = 8 * (d + 2) * EPS
    rho = np.linalg.norm(T @ precision @ T.T - np.eye(d)) * (1 + lost)
    rho += lost * np.linalg.norm(np.abs(T) @ np.abs(precision) @ np.abs(T).T)
    if not rho < 0.5:
        return None
    own = np.abs(T).T @ np.abs(T)
    return (T.T @ T + np.diag(lost * own.sum(axis=1))) * ((1 + 8 * EPS) / (1 - rho))
