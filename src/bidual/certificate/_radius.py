"""The radius of a set of regressions, derived again from the sums over transitions.

What holds with the promised probability, at all times at once, is one of the two inequalities below; their proofs are
in `models/regression/_confidence.py`. With V and M the sums of phi phi' and y phi', s the deviation of the noise, S the
bound on |W| and lambda, kappa fixed beforehand,

    |(M (V + lambda)^-1 - W) (V + lambda)^(1/2)| <= s rho        or        |(M - W V) (V + kappa)^(-1/2)| <= s rho.

The stated centre C and precision Q are any matrices. For the first let T = V + lambda, N = M, t = lambda; for the
second X = (V + kappa)^-1 V, T = V X + tau, N = M X, t = tau. In both T >= t, and W is within r of N T^-1 in the norm of
T^(1/2), where r is s rho, or the root of s^2 rho^2 + tau S^2. So

    |(W - C) Q^(1/2)| <= (r + |C T - N| / sqrt(t)) sqrt(1 + |Q - T| / t),

with |C T - N| and |Q - T| as computed and all roundings. It shares no code with the model: factors of Cholesky in the
place of eigenvalues, and logarithms of factorials in the place of the recursion for the series.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.special import gammaln

from bidual._base.errors import CertificateError
from bidual.certificate.rounding import EPS
from bidual.models import LinearLaws, SetEvidence

_WIDTHS = 13
_STEPS = 50  # of halving: to 1e-15 of z


class _Ellipsoid(NamedTuple):
    """T and N above, their least eigenvalue t, the radius r, and what rounding can do to T and to N."""

    T: Float[np.ndarray, "d d"]
    N: Float[np.ndarray, "n d"]
    least: float
    radius: float
    errors: tuple[float, float]


def derive_radius(laws: LinearLaws, evidence: SetEvidence) -> float:
    """Return a radius with which the set around the stated centre, in the stated precision, is certified."""
    moments, s, S, delta, number = evidence
    arrays = moments.gram, moments.cross, moments.squares
    lawful = all(np.isfinite(part).all() for part in arrays) and np.all(moments.gram.diagonal() >= 0)
    if not (lawful and np.all(moments.squares >= 0) and 0 < s < np.inf and 0 < S < np.inf and 0 < delta < 1):
        raise CertificateError("the sums of a regression, its noise or its bound are no numbers that prove a radius")
    if not 0 <= number <= _WIDTHS:
        raise CertificateError(f"there is no set of regressions with the number {number}")
    try:
        exact = _surround(evidence)
    except LinAlgError:
        return np.inf
    Q, C = laws.precision, laws.W
    of_T, of_N = exact.errors
    off = float(np.linalg.norm(C @ exact.T - exact.N)) + float(np.linalg.norm(C)) * of_T + of_N
    away = float(np.linalg.norm(Q - exact.T)) + of_T
    root = exact.radius + off / np.sqrt(exact.least)
    return float(root * np.sqrt(1 + away / exact.least) * (1 + 64 * EPS))


def _surround(evidence: SetEvidence) -> _Ellipsoid:
    """Return T, N, t and r of a set."""
    moments, s, S, delta, number = evidence
    V, M, d, n = moments.gram, moments.cross, len(moments.gram), len(moments.squares)
    once = (8 * d + 16) * EPS  # in a product of matrices
    unit = 4 * moments.count * EPS + 2 * once  # in the sums over transitions
    lost = unit * float(np.trace(V))
    cross = unit * float(np.sqrt(moments.squares.sum() * np.trace(V))) + unit * float(np.linalg.norm(M))
    tau = (s / S) ** 2
    if number == 0:
        ridge = tau * d
        level = _half_logdet(V, lost, ridge) + np.log(2 / delta) + 0.5 * ridge * (S / s) ** 2
        T = V + ridge * np.eye(d)
        size = float(np.linalg.norm(T))
        return _Ellipsoid(T, M, ridge, s * _find_rho(n, level), (lost + once * size, cross))
    kappa = tau * 4.0 ** (number - 1)
    level = _half_logdet(V, lost, kappa) + np.log(2 * _WIDTHS / delta)
    # With the sums as they were rounded, in the place of the exact ones.
    rho = s * _find_rho(n, level) * np.sqrt(1 + lost / kappa) + (cross + S * lost) / np.sqrt(kappa)
    shifted = V + kappa * np.eye(d)
    X = cho_solve(cho_factor(shifted), V)
    inexact = (np.linalg.norm(shifted @ X - V) + once * np.linalg.norm(shifted) * np.linalg.norm(X)) / kappa
    T = V @ X + tau * np.eye(d)
    T = (T + T.T) / 2
    N = M @ X
    of_T = float(np.linalg.norm(V) * (inexact + once * np.linalg.norm(X)))
    of_N = float(np.linalg.norm(M) * (inexact + once * np.linalg.norm(X)))
    return _Ellipsoid(T, N, tau, float(np.sqrt(rho**2 + tau * S**2)), (of_T + once * tau * d, of_N))


def _half_logdet(V: Float[np.ndarray, "d d"], lost: float, prior: float) -> float:
    """Bound half the logarithm of det(I + V / prior) from above."""
    d = len(V)
    values = np.diag(np.linalg.cholesky(V + (prior + lost) * np.eye(d)))
    return float(np.sum(np.log(values)) - 0.5 * d * np.log(prior)) * (1 + 16 * EPS) + 16 * d * EPS * (
        1 + abs(np.log(prior))
    )


def _find_rho(n: int, level: float) -> float:
    """Return a rho with log 1F1(1/2; n/2; rho^2 / 2) >= level: every part of its series is below it."""
    if not level < 1e8:
        return np.inf
    high = max(1.0, level)
    while _sum_terms(n, high) < level:
        high *= 2
    low = 0.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if _sum_terms(n, middle) >= level else (middle, high)
    return float(np.sqrt(2 * high) * (1 + 4 * EPS))


def _sum_terms(n: int, z: float) -> float:
    """Bound the logarithm of a partial sum of (1/2)_k z^k / ((n/2)_k k!) from below, less its roundings."""
    k = np.arange(1.0, 2 * z + 60)
    parts = gammaln(k + 0.5), gammaln(k + n / 2), gammaln(k + 1), k * np.log(z), np.full_like(k, gammaln(n / 2))
    terms = parts[0] - parts[1] - parts[2] + parts[3] + parts[4] - gammaln(0.5)
    rounded = 16 * EPS * (np.sum(np.abs(parts), axis=0) + 1)
    return float(np.logaddexp.reduce(np.concatenate([[0.0], terms - rounded])) * (1 - 8 * EPS) - len(k) * EPS)
