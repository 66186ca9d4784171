"""Confidence radii: bounds on the distance of a true row from its empirical frequencies, at all times at once.

For a row with n samples and frequencies phat the ratio of any mixture likelihood to the true likelihood is a
martingale with mean 1, so by Ville's inequality it never exceeds rows/delta except with probability delta/rows. With
Dirichlet(1/K, ..., 1/K) as the mixture, over K possible successors, this reads

    n KL(phat || P) <= log(rows / delta) + log(maximum likelihood / mixture likelihood)     for all n,

the joint ball. For a single successor the same argument with a Beta(1/2, 1/2) mixture bounds its probability: the box.
Two older sets are there for comparison. They hold for one n at a time, and for all n by giving the
n-th the share 1 / (n (n + 1)) of delta: empirical Bernstein limits for every successor (Maurer and Pontil 2009,
Theorem 4) and the distance in L1 (Weissman et al. 2003).
All assume that successive samples of a row are independent draws of one law, which does not change with time.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import gammaln, xlogy

_HALVINGS = 60  # of [0, 1]: down to the last bit that matters


def compute_ball_radius(
    counts: Float[np.ndarray, "*rows K"], possible: Int[np.ndarray, "*rows"], log_rows_over_delta: float
) -> Float[np.ndarray, "*rows"]:
    """Compute the radius of n KL(phat || P) for every row; `possible` is K, which may exceed the length of lists."""
    n = counts.sum(axis=-1)
    likelihood = np.sum(xlogy(counts, counts), axis=-1) - xlogy(n, n)
    prior = 1.0 / np.maximum(possible, 1)
    # Successors without a sample contribute the same to both sides, so lists need not hold them.
    terms = gammaln(counts + prior[..., None]) - gammaln(prior)[..., None]
    mixture = np.sum(np.where(counts > 0, terms, 0.0), axis=-1) - gammaln(n + 1)
    return log_rows_over_delta + likelihood - mixture


def compute_box_limits(
    counts: Float[np.ndarray, "*rows K"], log_entries_over_delta: float
) -> tuple[Float[np.ndarray, "*rows K"], Float[np.ndarray, "*rows K"]]:
    """Compute the least and the largest probability of every successor: n kl(phat_k, p) <= radius_k."""
    n = np.broadcast_to(counts.sum(axis=-1, keepdims=True), counts.shape)
    misses = n - counts
    likelihood = xlogy(counts, counts) + xlogy(misses, misses) - xlogy(n, n)
    mixture = gammaln(counts + 0.5) + gammaln(misses + 0.5) - 2 * gammaln(0.5) - gammaln(n + 1)
    room = log_entries_over_delta + likelihood - mixture
    phat = np.divide(counts, n, out=np.zeros_like(counts), where=n > 0)

    def outside(p: np.ndarray) -> np.ndarray:
        return likelihood - xlogy(counts, p) - xlogy(misses, 1 - p) > room

    return _find_edge(outside, phat, np.zeros_like(phat)), _find_edge(outside, phat, np.ones_like(phat))


def compute_bernstein_limits(
    counts: Float[np.ndarray, "*rows K"], log_entries_over_delta: float
) -> tuple[Float[np.ndarray, "*rows K"], Float[np.ndarray, "*rows K"]]:
    """Compute the ends of every probability by |phat - p| <= sqrt(2 v L / n) + 7 L / (3 (n - 1)).

    v = phat (1 - phat) n / (n - 1) is the sample variance and L = log(4 entries n (n + 1) / delta), for two sides.
    """
    n = np.broadcast_to(counts.sum(axis=-1, keepdims=True), counts.shape)
    seen = np.maximum(n, 2.0)
    phat, L = counts / seen, log_entries_over_delta + np.log(4 * seen * (seen + 1))
    width = np.sqrt(2 * phat * (1 - phat) * L / (seen - 1)) + 7 * L / (3 * (seen - 1))
    known = n >= 2
    return np.where(known, np.maximum(phat - width, 0.0), 0.0), np.where(known, np.minimum(phat + width, 1.0), 1.0)


def bound_l1_distance(
    n: Float[np.ndarray, "*rows"], possible: Int[np.ndarray, "*rows"], log_rows_over_delta: float
) -> Float[np.ndarray, "*rows"]:
    """Bound |phat - p|_1 by sqrt(2 (log(2^K - 2) + log(rows n (n + 1) / delta)) / n), and by 2."""
    seen = np.maximum(n, 1.0)
    subsets = possible * np.log(2.0) + np.log1p(-(2.0 ** (1.0 - np.maximum(possible, 2))))
    bound = np.sqrt(2 * (subsets + log_rows_over_delta + np.log(seen * (seen + 1))) / seen)
    return np.where(n > 0, np.minimum(bound, 2.0), 2.0)


def _find_edge(outside: Callable[[np.ndarray], np.ndarray], inner: np.ndarray, outer: np.ndarray) -> np.ndarray:
    """Find by bisection the end of an interval between a point inside and an end of [0, 1], rounded outward."""
    for _ in range(_HALVINGS):
        middle = 0.5 * (inner + outer)
        is_out = outside(middle)
        inner, outer = np.where(is_out, inner, middle), np.where(is_out, middle, outer)
    return outer


class StartRow(NamedTuple):
    """States that episodes can start in, their frequencies, and the radius of the ball around these."""

    states: Int[np.ndarray, "K"]
    frequencies: Float[np.ndarray, "K"]
    radius: float  # per sample; 0 where the law is known, inf where there is no sample


def start_row(
    starts: Float[np.ndarray, "S"], initial: Float[np.ndarray, "S"] | None, log_share: float, *, pathwise: bool = False
) -> StartRow:
    """Return the row from counts of first states; with `pathwise` chance itself may be chosen."""
    if initial is not None:
        states = np.flatnonzero(initial)
        law = initial[states]
        return StartRow(states, np.zeros_like(law), np.inf) if pathwise else StartRow(states, law, 0.0)
    n = starts.sum()
    if n == 0:
        return StartRow(np.arange(starts.size), np.zeros(starts.size), np.inf)
    radius = compute_ball_radius(starts[None], np.array([starts.size]), log_share)[0]
    return StartRow(np.arange(starts.size), starts / n, float(radius / n))
