"""The ridge estimate of a law phi(s, a) . mu, and its radius at all times and for all value functions at once.

Let phi_i be the features of the i-th transition, e_i the indicator of where it led, A = sum phi_i phi_i^T,
Lambda = A + lambda I and G = sum phi_i e_i^T (d rows, S columns), so that mu_hat = Lambda^-1 G. For v in {0, 1}^S the
noise eta_i = e_i . v - phi_i . mu v has mean 0 given the past and lies in an interval of length 1: it is
1/2-sub-Gaussian. With N_v = sum phi_i eta_i, Theorem 1 of Abbasi-Yadkori et al. (2011) says that

    ||N_v||_{Lambda^-1} <= 1/2 sqrt(2 log(1/delta') + log det(Lambda / lambda)) =: beta       for all times at once

with probability 1 - delta'. v and its complement have opposite noise, and v = 0 has none, so that over n possible
arrivals delta' = delta / (2^(n-1) - 1) covers all vertices. Now G v = A mu v + N_v. For **any** x in R^d, then, and
P v = phi . mu v the probability that a row with features phi gives to v,

    |x . G v - P v| = |x . N_v + (A x - phi) . mu v| <= beta ||x||_Lambda + ||A x - phi|| B =: r,

B a bound on ||mu v||. The left side is convex in v, so its largest value over [0, 1]^S is at a vertex: c = x . G
satisfies |(c - P) v| <= r for every v in [0, 1]^S, that is

    sum (P - c)+ <= r   and   sum (c - P)+ <= r.

The best x is close to Lambda^-1 phi, for which c = phi . mu_hat, ||x||_Lambda = ||phi||_{Lambda^-1} is the elliptical
bonus and the bias is lambda ||Lambda^-1 phi|| B <= sqrt(lambda) ||phi||_{Lambda^-1} B. Since any x will do, its
accuracy does not matter, only that the two norms are not too small: a bound on their rounding errors is added.

The logarithm of the determinant comes from eigenvalues: each of them is at most the computed one plus the norm of the
error (Weyl), however badly conditioned Lambda is.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from bidual.models.counts._counts import Counts

_EPS = float(np.finfo(np.float64).eps)


class Fit(NamedTuple):
    """The estimate of every row, and the norms that bound its error; `mus` is 1 where all steps share mu."""

    solved: Float[np.ndarray, "law S A d"]  # x
    centre: Float[np.ndarray, "law S A S"]  # c, not a law: it may be negative and need not sum to 1
    spread: Float[np.ndarray, "law S A"]  # ||x||_Lambda
    bias: Float[np.ndarray, "law S A"]  # ||A x - phi||
    rounding: Float[np.ndarray, "law S A"]  # of c . v for v in [0, 1]^S
    log_det: Float[np.ndarray, "mus"]  # log det(Lambda / lambda)

    def radius(self, log_claims: float, bound: float) -> Float[np.ndarray, "law S A"]:
        """Compute r for `log_claims` = log(1 / delta')."""
        beta = 0.5 * np.sqrt(2 * log_claims + self.log_det)
        radius = beta[:, None, None] * self.spread + bound * self.bias + self.rounding
        return radius * (1 + 16 * _EPS)  # rounding error of this line itself


def fit_ridge(phi: Float[np.ndarray, "step S A d"], counts: Counts, ridge: float, *, stationary: bool) -> Fit:
    """Fit the estimate to counts, which are sufficient statistics."""
    laws, S, A = counts.pairs.shape
    features, d, shape = _broadcast_features(phi, laws), phi.shape[-1], (laws, S, A)
    sizes, n = np.abs(features), np.where(find_learnable_rows(counts), counts.pairs, 0.0).reshape(laws, S * A, 1)
    second, rough = (_sum_rows(part, n * part, stationary=stationary) for part in (features, sizes))
    first, moves = (
        sum_arrivals(phi, counts, counts.transitions, stationary=stationary),
        _sum_rows(sizes, n, stationary=stationary),
    )
    values, vectors = np.linalg.eigh(second + ridge * np.eye(d))
    values = np.maximum(values, ridge)
    x = ((features @ vectors) / values[:, None]) @ vectors.swapaxes(1, 2)
    # Every number below is a sum of at most SA L products of sums of d: so many roundings of the sum of their sizes.
    unit = (S * A * laws + 8 * d + 8) * _EPS
    size = np.abs(x) @ rough + ridge * np.abs(x)
    residual = np.linalg.norm(x @ second - features, axis=-1) + unit * np.linalg.norm(size + sizes, axis=-1)
    larger = values + unit * (np.trace(rough, axis1=1, axis2=2) + d * ridge)[:, None]
    return Fit(
        solved=x.reshape(*shape, d),
        centre=(x @ first).reshape(*shape, S),
        spread=np.sqrt(np.sum(x * (x @ second + ridge * x) + unit * np.abs(x) * size, axis=-1)).reshape(shape),
        bias=residual.reshape(shape),
        rounding=(unit * (np.abs(x) @ moves)).reshape(shape),
        log_det=np.sum(np.log(larger / ridge), axis=-1),
    )


def count_log_vertices(possible: int) -> float:
    """Return log(2^(n-1) - 1): the number of vertices for the union bound over n possible arrivals."""
    n = max(possible, 2)
    return float((n - 1) * np.log(2.0) + np.log1p(-(2.0 ** (1 - n))))


def find_learnable_rows(counts: Counts) -> Bool[np.ndarray, "S A"]:
    """Return the rows that the estimate is fitted to: phi need not describe states that are never left."""
    return counts.support.allowed & ~counts.support.absorbing[:, None]


def sum_arrivals(
    phi: Float[np.ndarray, "step S A d"], counts: Counts, numbers: Float[np.ndarray, "law S A K"], *, stationary: bool
) -> Float[np.ndarray, "mus d S"]:
    """Compute G for any numbers of transitions on the lists, observed or drawn."""
    laws, S, A, _ = numbers.shape
    dense = np.zeros((laws, S, A, S))
    law, s, a, place = np.nonzero(np.where(find_learnable_rows(counts)[..., None], numbers, 0.0))
    dense[law, s, a, counts.support.states[s, a, place]] = numbers[law, s, a, place]
    return _sum_rows(_broadcast_features(phi, laws), dense.reshape(laws, S * A, S), stationary=stationary)


def _broadcast_features(phi: Float[np.ndarray, "step S A d"], laws: int) -> Float[np.ndarray, "law rows d"]:
    _, S, A, d = phi.shape
    return np.broadcast_to(phi, (laws, S, A, d)).reshape(laws, S * A, d)


def _sum_rows(
    features: Float[np.ndarray, "law rows d"], numbers: Float[np.ndarray, "law rows n"], *, stationary: bool
) -> Float[np.ndarray, "mus d n"]:
    """Sum over all rows, and over the steps where they share mu."""
    total = features.swapaxes(1, 2) @ numbers
    return total.sum(axis=0, keepdims=True) if stationary else total
