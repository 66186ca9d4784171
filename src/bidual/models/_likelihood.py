"""How well every candidate law explains what was seen, and which candidates may be true.

For the true law m* and any other m the ratio of likelihoods exp(L_m - L_m*) is a martingale of mean 1, whatever
policies were run. By Ville's inequality it ever exceeds n H / delta with probability at most delta / (n H), so that
{m: L_m >= max L - log(n H / delta)} holds the truth at all steps and all times with probability 1 - delta.

The same argument shows that a class is wrong: a mixture over all laws is a martingale against the true law as well, and
where it explains what was seen H / delta times better than the best candidate does, the truth is no candidate.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import gammaln, logsumexp

from bidual._types import Episode
from bidual.models._counts import Counts
from bidual.models._factors import Factors

CLASS_SETS = ("likelihood", "paper")
VALID = 8.0  # the constant with which the set of the paper is known to hold the truth
_ROUNDING = 1e-9  # of sums of up to a million logarithms: the set is larger by that much, never smaller
_BLOCK = 2**14  # probabilities at a time: of large classes a few transitions, which fit into the cache
_PRIORS = np.array([1.0, 4.0, 16.0, 64.0])  # how many samples the mean of the class is worth in the mixture of all laws


def no_likelihoods(factors: Sequence[Factors]) -> Float[np.ndarray, "H n"]:
    """Before the first episode every candidate explains everything; -inf fills up where a step has fewer of them."""
    counts = np.array([one.count for one in factors])
    return np.where(np.arange(counts.max()) < counts[:, None], 0.0, -np.inf)


def add_episodes(
    likelihoods: Float[np.ndarray, "H n"], factors: Sequence[Factors], episodes: Sequence[Episode]
) -> Float[np.ndarray, "H n"]:
    """The log-likelihoods after more episodes."""
    total = likelihoods.copy()
    states, actions = np.stack([one.states for one in episodes]), np.stack([one.actions for one in episodes])
    only = np.array([-1 if one.only is None else one.only for one in episodes])
    for h, one in enumerate(factors):
        kept = (only < 0) | (only == h)
        where = states[kept, h], actions[kept, h], states[kept, h + 1]
        _add(total[h, : one.count], one, where, np.ones(int(kept.sum())))
    return total


def likelihoods_of(factors: Sequence[Factors], counts: Counts) -> Float[np.ndarray, "H n"]:
    """The same from counts of every step, which is all that they depend on."""
    total = no_likelihoods(factors)
    for h, one in enumerate(factors):
        s, a, place = np.nonzero(counts.transitions[h])
        seen = s, a, counts.support.states[s, a, place]
        _add(total[h, : one.count], one, seen, counts.transitions[h][s, a, place])
    return total


def _add(
    total: Float[np.ndarray, "n"], one: Factors, seen: tuple[Int[np.ndarray, "t"], ...], times: Float[np.ndarray, "t"]
) -> None:
    """Add to `total`, of every pair, the log-likelihood of states, actions and arrivals, each seen so many times."""
    few = max(1, _BLOCK // one.count)
    for start in range(0, len(times), few):
        p = one.probabilities(*(part[start : start + few] for part in seen))
        if not one.nonnegative:
            np.maximum(p, 0.0, out=p)  # what is below 0 is rounding: all of them are laws
        with np.errstate(divide="ignore"):
            np.log(p, out=p)
        total += p[0] if len(p) == 1 == times[start] else times[start : start + few] @ p


def likely(
    likelihoods: Float[np.ndarray, "H n"], sizes: Int[np.ndarray, "H"], log_share: float
) -> Bool[np.ndarray, "H n"]:
    """Candidates that are not so much worse than the best; `log_share` is log(H / delta).

    `sizes` are those of the class: candidates that were excluded since had their share of delta too.
    """
    best = likelihoods.max(axis=1, keepdims=True)
    rounding = _ROUNDING * np.maximum(1.0, np.abs(best))
    return (likelihoods > -np.inf) & (likelihoods >= best - np.log(sizes)[:, None] - log_share - rounding)


def near_best(
    likelihoods: Float[np.ndarray, "H n"],
    factors: Sequence[Factors],
    pairs: Float[np.ndarray, "H S A"],
    log_share: float,
    c: float = VALID,
) -> Bool[np.ndarray, "H n"]:
    """The set of the paper: sum over what was tried of |P_m - P_best|_1^2 <= c log(n H / delta)."""
    inside = np.zeros(likelihoods.shape, dtype=bool)
    for h, one in enumerate(factors):
        everyone = np.arange(one.count)
        laws = one.laws(everyone)
        best = laws[int(likelihoods[h, : one.count].argmax())]
        distance = np.abs(laws - best).sum(axis=-1)
        inside[h, : one.count] = np.sum(pairs[h] * distance**2, axis=(1, 2)) <= c * (np.log(one.count) + log_share)
    return inside


def of_all_laws(transitions: Float[np.ndarray, "S A K"], mean: Float[np.ndarray, "S A K"]) -> float:
    """The log-likelihood of a mixture over all laws: rows from Dirichlet laws around `mean`, for a few strengths.

    Transitions that `mean` holds impossible have likelihood 0, so they must be told apart before.
    """
    n, seen = transitions.sum(axis=-1), transitions > 0
    prior = _PRIORS[:, None] * mean[seen]
    rows = np.sum(gammaln(_PRIORS)[:, None, None] - gammaln(_PRIORS[:, None, None] + n), axis=(1, 2))
    entries = np.sum(gammaln(prior + transitions[seen]) - gammaln(prior), axis=1)
    return float(logsumexp(rows + entries) - np.log(len(_PRIORS)))
