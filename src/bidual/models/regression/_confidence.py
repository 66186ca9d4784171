"""The certified set of W: an ellipsoid that holds the true W at all times with probability 1 - delta.

Differences are y = W phi + noise; given the past the noise is sub-Gaussian with deviation s in every direction, n
numbers at a time, and S bounds the spectral norm of W. F has the features of all transitions in rows, V = F'F, M = Y'F.
For a fixed matrix U the product over all transitions of exp((<eps, x> - |x|^2 / 2) / s^2), x = (U - W) phi, is a
supermartingale. Two mixtures over U are taken, both along v theta' for v uniform on the unit sphere of R^n, and both
end in the same mean over the sphere: with the largest eigenvalue rho^2 of a matrix G,

    E_v exp(v'Gv / 2) >= E_v exp(rho^2 v_1^2 / 2) = 1F1(1/2; n/2; rho^2 / 2) =: K(rho).

**Around 0.** U = W + v (theta - w)' with w = W'v and theta normal around 0 with covariance s^2 / lambda. The integral
over theta is det(Lambda / lambda)^(-1/2) exp((|v'(W_hat - W) Lambda^(1/2)|^2 - lambda |w|^2) / (2 s^2)), because the
penalised squares are their minimum and |w - w_hat|^2 in the norm of Lambda = V + lambda I. With |w| <= S and Ville's
inequality

    |(W_hat - W) Lambda^(1/2)| <= s rho,
    log K(rho) = lambda S^2 / (2 s^2) + logdet(Lambda / lambda) / 2 + log(1 / delta).

**Around W itself.** theta normal around w with covariance s^2 / kappa (a prior may depend on the fixed W, not on data):

    |(M - W V) (V + kappa I)^(-1/2)| <= s rho,   log K(rho) = logdet(I + V / kappa) / 2 + log(1 / delta),

without any S. Adding tau |w|^2 <= tau S^2, tau = s^2 / S^2, and completing the square gives an ellipsoid,

    |(W - C) (P + tau I)^(1/2)| <= sqrt(s^2 rho^2 + tau S^2),
    P = V (V + kappa I)^-1 V,   C = M (V + kappa I)^-1 V (P + tau I)^-1.

Half of delta goes to the first, with lambda = d a, and half to thirteen of the second with kappa = a, 4 a, 16 a, ...;
the unit a = s^2 / S^2 is fixed before the first episode. All hold at once, so that the choice may depend on the data:
the set by which what was seen is displaced least.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve

from bidual.models.regression._moments import Moments

WIDTHS = 13  # the number of kappas
_EPS = float(np.finfo(np.float64).eps)


class Confidence(NamedTuple):
    """All W with |(W - centre) precision^(1/2)| <= radius in the spectral norm, and which of the sets it is."""

    centre: Float[np.ndarray, "n d"]
    precision: Float[np.ndarray, "d d"]
    radius: float
    number: int | None = None  # 0: around 0; k > 0: around W with the k-th width; None: that of the net

    @property
    def spectrum(self) -> tuple[Float[np.ndarray, "d"], Float[np.ndarray, "d d"]]:
        """The eigenvalues of the precision, ascending, and a column for each."""
        values, vectors = np.linalg.eigh(self.precision)
        return np.maximum(values, np.finfo(np.float64).tiny), vectors


class SetScale(NamedTuple):
    """The numbers that the sets rest on: the deviation s of the noise, the bound S, and the unit a of the priors."""

    deviation: float
    bound: float
    unit: float


def find_confidence(moments: Moments, declared: SetScale, delta: float) -> Confidence:
    """Return the set, of those above, whose laws displace least what was seen; all of them hold at once."""
    values, vectors = np.linalg.eigh(moments.gram)
    values = np.maximum(values, 0.0)
    s, S, _ = declared
    tau = (s / S) ** 2
    best, least = 0, np.inf
    for number in range(WIDTHS + 1):
        rho, prior = solve_rho(moments, values, declared, delta, number), scale_prior(declared, len(values), number)
        if number == 0:
            squared, weights = (s * rho) ** 2, values + prior
        else:
            squared, weights = (s * rho) ** 2 + tau * S**2, values**2 / (values + prior) + tau
        displaced = squared * float(np.sum(values / weights))
        if displaced < least:
            best, least = number, displaced
    rho, prior = solve_rho(moments, values, declared, delta, best), scale_prior(declared, len(values), best)
    if best == 0:
        return _surround_zero(moments, s * rho, prior)
    return _surround_truth(moments, (values, vectors), declared, s * rho, prior)._replace(number=best)


def scale_prior(declared: SetScale, d: int, number: int) -> float:
    """Return lambda for number 0, else kappa."""
    return declared.unit * (d if number == 0 else 4.0 ** (number - 1))


def bound_gram_error(moments: Moments) -> float:
    """Bound what rounding has done to V and its eigenvalues, in the spectral norm."""
    return 2 * moments.unit * float(np.trace(moments.gram))


def solve_rho(moments: Moments, values: Float[np.ndarray, "d"], declared: SetScale, delta: float, number: int) -> float:
    """Compute rho of a set, for its share of delta, from the eigenvalues of V: never too small."""
    prior, share = scale_prior(declared, len(values), number), delta / 2 / (1 if number == 0 else WIDTHS)
    # Weyl: no eigenvalue is off by more than the matrix.
    level = 0.5 * float(np.sum(np.log1p((values + bound_gram_error(moments)) / prior))) - np.log(share)
    if number == 0:
        level += 0.5 * prior * (declared.bound / declared.deviation) ** 2
    return float(np.sqrt(2 * invert_kummer(len(moments.squares), level * (1 + 64 * _EPS))))


def invert_kummer(n: int, level: float) -> float:
    """Return a z, hardly above the least one, with log 1F1(1/2; n/2; z) >= level.

    All terms of the series are positive, so that every partial sum is a lower bound.
    """
    if not level < 1e8:  # no set of that size says anything
        return np.inf
    low, high = 0.0, max(level, 1.0)
    while _sum_kummer(n, high) < level:
        low, high = high, 2 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if _sum_kummer(n, middle) >= level else (middle, high)
    return high


def _sum_kummer(n: int, z: float) -> float:
    """Return the logarithm of a partial sum of the series of 1F1(1/2; n/2; z), less its rounding."""
    k = np.arange(int(z + 12 * np.sqrt(z) + 40))  # beyond its largest term, near z, by far
    ratios = np.log((k + 0.5) * z) - np.log((k + 0.5 * n) * (k + 1))
    terms = np.concatenate([[0.0], np.cumsum(ratios)])
    largest = terms.max()
    total = largest + np.log(np.sum(np.exp(terms - largest)))
    return float(total - 4 * len(k) * _EPS * (1 + np.abs(terms).max()))


def _surround_zero(moments: Moments, radius: float, ridge: float) -> Confidence:
    """Return the ridge estimate, with roundings added to the radius."""
    precision = moments.gram + ridge * np.eye(len(moments.gram))
    centre = cho_solve(cho_factor(precision), moments.cross.T).T
    lost = bound_gram_error(moments) + moments.unit * ridge
    off = _bound_residual(moments, centre, precision, moments.cross, lost) / np.sqrt(ridge)
    return Confidence(centre, precision, _inflate(radius, off, lost / ridge), 0)


def _surround_truth(
    moments: Moments,
    spectrum: tuple[Float[np.ndarray, "d"], Float[np.ndarray, "d d"]],
    declared: SetScale,
    radius: float,
    kappa: float,
) -> Confidence:
    """Return the ellipsoid of C and P + tau, with roundings added to the radius."""
    (s, S, _), (values, vectors) = declared, spectrum
    tau, lost = (s / S) ** 2, bound_gram_error(moments)
    weights = values**2 / (values + kappa) + tau
    precision = (vectors * weights) @ vectors.T
    precision = (precision + precision.T) / 2
    shrunk = moments.cross @ ((vectors * (values / (values + kappa))) @ vectors.T)
    centre = shrunk @ ((vectors / weights) @ vectors.T)
    # The set of the exact sums lies in one of the computed ones, with this radius instead of s rho.
    of_sums = (_bound_cross_error(moments) + S * lost) / np.sqrt(kappa)
    radius = radius * np.sqrt(1 + lost / kappa) + of_sums
    error = 8 * (len(values) + 2) * _EPS * float(np.trace(precision))
    off = _bound_residual(moments, centre, precision, shrunk, error) / np.sqrt(tau)
    return Confidence(centre, precision, _inflate(float(np.sqrt(radius**2 + tau * S**2)), off, error / tau))


def _bound_cross_error(moments: Moments) -> float:
    """Bound what rounding has done to M, in the Frobenius norm."""
    return moments.unit * float(np.sqrt(moments.squares.sum() * np.trace(moments.gram)))


def _bound_residual(
    moments: Moments,
    centre: Float[np.ndarray, "n d"],
    precision: Float[np.ndarray, "d d"],
    target: Float[np.ndarray, "n d"],
    lost: float,
) -> float:
    """Bound |centre precision - target|, which exactly would be 0, with all roundings."""
    residual = float(np.linalg.norm(centre @ precision - target))
    return residual + 2 * float(np.linalg.norm(centre)) * lost + _bound_cross_error(moments)


def _inflate(radius: float, off: float, lost: float) -> float:
    """Return a radius that holds in the norm of the computed precision, around the computed centre."""
    return float((radius + off) * np.sqrt(1 + lost) * (1 + 64 * _EPS))
