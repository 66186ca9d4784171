"""Log-likelihoods of candidate laws, and the set of candidates that may be true.

For the true law m* and any other m the ratio of likelihoods exp(L_m - L_m*) is a martingale of mean 1, whatever
policies were run. By Ville's inequality it ever exceeds n H / delta with probability at most delta / (n H), so that
{m: L_m >= max L - log(n H / delta)} holds the truth at all steps and all times with probability 1 - delta.

The same argument rejects a class: a mixture over all laws is a martingale against the true law as well, and where its
likelihood is H / delta times that of the best candidate, the truth is no candidate.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import gammaln, logsumexp

from bidual._base.types import Episode
from bidual.models.classes._factors import Factors
from bidual.models.counts._counts import Counts

CLASS_SETS = ("likelihood", "paper")
VALID = 8.0  # the constant with which the set of the paper is proved to hold the truth
_ROUNDING = 1e-9  # of sums of up to a million logarithms: the set is larger by that much, never smaller
_BLOCK = 2**14  # probabilities at a time: of large classes a few transitions, which fit into the cache
_PRIORS = np.array([1.0, 4.0, 16.0, 64.0])  # weights of the mean of the class in the mixture of all laws, in samples


def start_likelihoods(factors: Sequence[Factors]) -> Float[np.ndarray, "H n"]:
    """Return the log-likelihoods before the first episode, all 0; -inf pads steps with fewer candidates."""
    counts = np.array([one.count for one in factors])
    return np.where(np.arange(counts.max()) < counts[:, None], 0.0, -np.inf)


def add_episodes(
    likelihoods: Float[np.ndarray, "H n"], factors: Sequence[Factors], episodes: Sequence[Episode]
) -> Float[np.ndarray, "H n"]:
    """Add the log-likelihoods of more episodes."""
    total = likelihoods.copy()
    states, actions = np.stack([one.states for one in episodes]), np.stack([one.actions for one in episodes])
    only = np.array([-1 if one.only is None else one.only for one in episodes])
    for h, one in enumerate(factors):
        kept = (only < 0) | (only == h)
        where = states[kept, h], actions[kept, h], states[kept, h + 1]
        add_transitions(total[h, : one.count], one, where, np.ones(int(kept.sum())))
    return total


def compute_likelihoods(factors: Sequence[Factors], counts: Counts) -> Float[np.ndarray, "H n"]:
    """Compute the log-likelihoods from counts of every step, which are sufficient statistics."""
    total = start_likelihoods(factors)
    for h, one in enumerate(factors):
        s, a, place = np.nonzero(counts.transitions[h])
        seen = s, a, counts.support.states[s, a, place]
        add_transitions(total[h, : one.count], one, seen, counts.transitions[h][s, a, place])
    return total


def add_transitions(
    total: Float[np.ndarray, "n"], one: Factors, seen: tuple[Int[np.ndarray, "t"], ...], times: Float[np.ndarray, "t"]
) -> None:
    """Add to `total`, of every pair, the log-likelihood of transitions, each counted `times` times."""
    few = max(1, _BLOCK // one.count)
    for start in range(0, len(times), few):
        p = one.probabilities(*(part[start : start + few] for part in seen))
        if not one.nonnegative:
            np.maximum(p, 0.0, out=p)  # negative entries are rounding errors: all of them are laws
        with np.errstate(divide="ignore"):
            np.log(p, out=p)
        total += p[0] if len(p) == 1 == times[start] else times[start : start + few] @ p


def find_likely(
    likelihoods: Float[np.ndarray, "H n"], sizes: Int[np.ndarray, "H"], log_share: float
) -> Bool[np.ndarray, "H n"]:
    """Find the candidates whose likelihood is close to the best; `log_share` is log(H / delta).

    `sizes` are those of the class: excluded candidates had their share of delta too.
    """
    best = likelihoods.max(axis=1, keepdims=True)
    rounding = _ROUNDING * np.maximum(1.0, np.abs(best))
    return (likelihoods > -np.inf) & (likelihoods >= best - np.log(sizes)[:, None] - log_share - rounding)


def find_near_best(
    likelihoods: Float[np.ndarray, "H n"],
    factors: Sequence[Factors],
    pairs: Float[np.ndarray, "H S A"],
    log_share: float,
    c: float = VALID,
    best: Int[np.ndarray, "H"] | None = None,
) -> Bool[np.ndarray, "H n"]:
    """Find the set of the paper: sum over the samples of |P_m - P_best|_1^2 <= c log(n H / delta).

    Why it holds the truth with c = 8 is proved in docs/certificates.md, "The class set". The best may be another one by
    rounding, or because an oracle says so: the proof then has half the difference of the logarithms on the right.
    """
    inside = np.zeros(likelihoods.shape, dtype=bool)
    for h, one in enumerate(factors):
        s, a = np.nonzero(pairs[h])
        i, j = one.split(np.arange(one.count))
        laws = np.matmul(one.phis[:, s, a][i], one.mus[j])  # of the sampled pairs alone
        own = likelihoods[h, : one.count]
        centre = int(own.argmax()) if best is None else int(best[h])
        distance = np.abs(laws - laws[centre]).sum(axis=-1)
        rounding = _ROUNDING * max(1.0, abs(float(own.max())))
        limit = c * (np.log(one.count) + log_share + rounding + (float(own.max()) - float(own[centre])) / 2)
        inside[h, : one.count] = distance**2 @ pairs[h, s, a] <= limit
    return inside


def compute_mixture_log_likelihood(transitions: Float[np.ndarray, "S A K"], mean: Float[np.ndarray, "S A K"]) -> float:
    """Compute the log-likelihood of a mixture over all laws: Dirichlet rows around `mean`, for a few strengths.

    Transitions of probability 0 under `mean` have likelihood 0, so they must be excluded before.
    """
    n, seen = transitions.sum(axis=-1), transitions > 0
    prior = _PRIORS[:, None] * mean[seen]
    rows = np.sum(gammaln(_PRIORS)[:, None, None] - gammaln(_PRIORS[:, None, None] + n), axis=(1, 2))
    entries = np.sum(gammaln(prior + transitions[seen]) - gammaln(prior), axis=1)
    return float(logsumexp(rows + entries) - np.log(len(_PRIORS)))
