"""Planning by trying: sequences of controls are drawn around a nominal one, tried in the model, and averaged.

    minimise over u_0, e_0, u_1, e_1, ...    sum_t theta_{h+t} . psi(s_t, u_t, s_{t+1}) - bonus_t,
    s_{t+1} the mean next state of s_t under the control u_t and the extras e_t, s_0 = s

One routine with four switches is MPPI, CEM, iCEM and DMD-MPC: how costs become weights (`utility`), how far the nominal
sequence and the variance of the draws follow the weighted ones (`mean_step`, `covariance_step`), and whether the
noise of a step resembles that of the step before (`colour`). Nothing of this is a bound: the answer is a sequence and
its cost.
"""

import math
from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from bidual._base.errors import ProblemError
from bidual.models import AbstractDynamics
from bidual.planners.control._extras import join_extras, split_extras
from bidual.planners.control._search import AbstractSearch, Searched, Subproblem

_NARROWEST = 0.1  # of the first deviation: draws that have shrunk to a point bring no improvement


@final
@dataclass(frozen=True)
class Exponential:
    """Weights exp(-(J - min J) / scale), scale = temperature * (median J - min J): the same for costs in any unit."""

    temperature: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise ProblemError(f"the temperature must be a number above 0; got {self.temperature!r}")

    def weights(self, costs: Float[Array, "K"]) -> Float[Array, "K"]:
        """Compute the weight of each sequence, before normalisation; 0 for those that failed."""
        ordered, finite = jnp.sort(costs), jnp.isfinite(costs)
        median = ordered[jnp.maximum(jnp.sum(finite) - 1, 0) // 2]
        scale = self.temperature * (median - ordered[0])
        relative = jnp.where(finite, costs - ordered[0], 0.0) / jnp.where(scale > 0, scale, 1.0)
        return jnp.where(finite, jnp.exp(-relative), 0.0)


@final
@dataclass(frozen=True)
class Elites:
    """Equal weights for the cheapest sequences, and none for the others."""

    share: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ProblemError(f"the share of elites must be above 0 and at most 1; got {self.share!r}")

    def weights(self, costs: Float[Array, "K"]) -> Float[Array, "K"]:
        """Return 1 for the elites, of which there are at least two where there are two sequences."""
        count = min(max(2, math.ceil(self.share * costs.size)), costs.size)
        return jnp.where((costs <= jnp.sort(costs)[count - 1]) & jnp.isfinite(costs), 1.0, 0.0)


@final
@dataclass(frozen=True)
class Sampling(AbstractSearch):
    """Search by sampling and averaging sequences. `mppi`, `cem`, `icem` and `dmd` build the usual variants.

    Args:
        samples: number of sequences per round.
        iterations: number of rounds.
        deviation: deviation of the noise, in halves of the range of a control (from the middle to a limit); in
            units of the control where that has no limits. Extras have the range [-1, 1].
        colour: correlation of the noise at neighbouring steps, from 0 (white) to less than 1.
        utility: the weights of sequences as a function of their costs.
        mean_step: share of the way from the nominal sequence to the weighted mean, above 0 and at most 1.
        covariance_step: likewise for the variances, from 0 (never changed) to 1.
        keep: the cheapest sequence so far competes in every round and is the answer if nothing beats it.
        warm: replanning starts from the rest of the plan before.
    """

    samples: int = 256
    iterations: int = 8
    deviation: float = 0.5
    colour: float = 0.9
    utility: Exponential | Elites = Elites()
    mean_step: float = 1.0
    covariance_step: float = 1.0
    keep: bool = True
    warm: bool = True

    def __post_init__(self) -> None:
        for name, least in (("samples", 2), ("iterations", 1)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ProblemError(f"{name} must be a whole number of at least {least}; got {value!r}")
        if not 0 < self.deviation < math.inf:
            raise ProblemError(f"the deviation of the noise must be a number above 0; got {self.deviation!r}")
        if not 0 <= self.colour < 1:
            raise ProblemError(f"colour must be at least 0 and less than 1; got {self.colour!r}")
        if not 0 < self.mean_step <= 1:
            raise ProblemError(f"mean_step must be above 0 and at most 1; got {self.mean_step!r}")
        if not 0 <= self.covariance_step <= 1:
            raise ProblemError(f"covariance_step must lie between 0 and 1; got {self.covariance_step!r}")

    @property
    def continued(self) -> bool:
        """Whether `warm` is set."""
        return self.warm

    def __call__(self, problem: Subproblem, key: Key[Array, ""], nominal: Float[Array, "T q"]) -> Searched:
        """Draw sequences and average them, for `iterations` rounds."""
        return _sample(self, problem, key, clip_controls(problem.dynamics, nominal))


def mppi(samples: int = 256, iterations: int = 8, deviation: float = 0.5, temperature: float = 0.1) -> Sampling:
    """Return model predictive path integral control (Williams et al. 2017): a weighted mean, correlated noise."""
    utility = Exponential(temperature)
    return Sampling(samples, iterations, deviation, utility=utility, covariance_step=0.0)


def cem(samples: int = 256, iterations: int = 8, deviation: float = 0.5, share: float = 0.1) -> Sampling:
    """Return the cross-entropy method with white noise: mean and variance of the elites."""
    return Sampling(samples, iterations, deviation, colour=0.0, utility=Elites(share))


def icem(samples: int = 256, iterations: int = 8, deviation: float = 0.5, share: float = 0.1) -> Sampling:
    """Return the improved cross-entropy method (Pinneri et al. 2020): coloured noise, and the best sequence is kept."""
    return Sampling(samples, iterations, deviation, utility=Elites(share))


def dmd(
    samples: int = 256,
    iterations: int = 8,
    deviation: float = 0.5,
    temperature: float = 0.1,
    mean_step: float = 0.5,
    covariance_step: float = 0.1,
) -> Sampling:
    """Return dynamic mirror descent (Wagener et al. 2019): steps towards exponentially weighted mean and variance."""
    utility = Exponential(temperature)
    return Sampling(
        samples, iterations, deviation, utility=utility, mean_step=mean_step, covariance_step=covariance_step
    )


def find_middle(dynamics: AbstractDynamics) -> tuple[Float[Array, "q"], Float[Array, "q"]]:
    """Return the middle of the range of every control and extra, and half the range; 1 where there is no limit."""
    low, high = (jnp.asarray(end, dtype=float) for end in dynamics.limits)
    bounded = jnp.isfinite(low) & jnp.isfinite(high)
    centre = jnp.where(bounded, low / 2 + high / 2, jnp.clip(jnp.zeros_like(low), low, high))
    half = jnp.where(bounded, high / 2 - low / 2, 1.0)
    extras = dynamics.sizes[2]
    return join_extras(centre, jnp.zeros(extras)), join_extras(half, jnp.ones(extras))


def clip_controls(dynamics: AbstractDynamics, sequence: Float[Array, "*batch q"]) -> Float[Array, "*batch q"]:
    """Clip controls to their limits, and project extras onto the unit ball."""
    m = dynamics.sizes[1]
    low, high = (jnp.asarray(end, dtype=float) for end in dynamics.limits)
    u, e = split_extras(sequence, m)
    # Not e / max(|e|, 1), whose derivative at 0 is not a number.
    inside = e * jax.lax.rsqrt(jnp.maximum(jnp.sum(e * e, axis=-1, keepdims=True), 1.0))
    return join_extras(jnp.clip(u, low[(None,) * (u.ndim - 1)], high[(None,) * (u.ndim - 1)]), inside)


def sum_path_costs(problem: Subproblem, sequences: Float[Array, "T K q"]) -> Float[Array, "K"]:
    """Compute the cost of each sequence over the steps before the horizon; +inf where that is not a finite number."""
    one = jax.vmap(problem.step, in_axes=(None, 0, 0))

    def advance(t: Int[Array, ""], now: tuple[Array, Array]) -> tuple[Array, Array]:
        states, total = now
        after, cost = one(problem.theta[t], states, sequences[t])
        return after, total + cost

    K, s = sequences.shape[1], problem.s
    _, total = jax.lax.fori_loop(0, problem.length, advance, (jnp.broadcast_to(s[None], (K, s.size)), jnp.zeros(K)))
    return jnp.where(jnp.isfinite(total), total, jnp.inf)


def _sample(sampler: Sampling, problem: Subproblem, key: Key[Array, ""], nominal: Float[Array, "T q"]) -> Searched:
    """Improve mean and variance of the sequences, iteration by iteration, from drawn and weighted ones."""
    dynamics, (T, q) = problem.dynamics, nominal.shape
    _, half = find_middle(dynamics)
    colour = jnp.asarray(_colour(T, sampler.colour), dtype=nominal.dtype)
    first = jnp.full((T, q), sampler.deviation**2, dtype=nominal.dtype)

    def improve(i: Int[Array, ""], now: tuple[Searched, Searched]) -> tuple[Searched, Searched]:
        mean, best = now
        white = jr.normal(jr.fold_in(key, i), (T, sampler.samples, q), dtype=nominal.dtype)
        noise = jnp.einsum("tr,rkq->tkq", colour, white) * (jnp.sqrt(mean.variance) * half[None])[:, None]
        drawn = clip_controls(dynamics, mean.nominal[:, None] + noise)
        if sampler.keep:
            drawn = drawn.at[:, 0].set(best.nominal).at[:, 1].set(mean.nominal)
        costs = sum_path_costs(problem, drawn)
        least = jnp.argmin(costs)
        better = costs[least] < best.cost
        best = Searched(
            jnp.where(better, drawn[:, least], best.nominal), jnp.minimum(costs[least], best.cost), best.variance
        )
        return _follow_weights(sampler, mean, drawn, sampler.utility.weights(costs), half), best

    start = Searched(nominal, jnp.asarray(jnp.inf, dtype=nominal.dtype), first)
    mean, best = jax.lax.fori_loop(0, sampler.iterations, improve, (start, start))
    last = sum_path_costs(problem, mean.nominal[:, None])[0]
    if not sampler.keep:
        return Searched(mean.nominal, last, mean.variance)
    chosen = jnp.where(last < best.cost, mean.nominal, best.nominal)
    return Searched(chosen, jnp.minimum(last, best.cost), mean.variance)


def _follow_weights(
    sampler: Sampling, mean: Searched, drawn: Float[Array, "T K q"], weights: Float[Array, "K"], half: Float[Array, "q"]
) -> Searched:
    """Update nominal sequence and variances after a round; they stay where every sequence failed."""
    total = jnp.sum(weights)
    shares = weights / jnp.where(total > 0, total, 1.0)
    towards = jnp.einsum("k,tkq->tq", shares, drawn)
    nominal = mean.nominal + sampler.mean_step * (towards - mean.nominal)
    variance = mean.variance
    if sampler.covariance_step > 0:
        spread = jnp.einsum("k,tkq->tq", shares, ((drawn - towards[:, None]) / half[None, None]) ** 2)
        variance = variance + sampler.covariance_step * (spread - variance)
        variance = jnp.maximum(variance, (_NARROWEST * sampler.deviation) ** 2)
    some: Bool[Array, ""] = total > 0
    return Searched(jnp.where(some, nominal, mean.nominal), mean.cost, jnp.where(some, variance, mean.variance))


def _colour(T: int, correlation: float) -> Float[np.ndarray, "T T"]:
    """Return the matrix that turns white noise into AR(1) noise of variance 1 and this correlation, without a loop."""
    lag = np.subtract.outer(np.arange(T), np.arange(T))
    matrix = np.where(lag >= 0, correlation ** np.maximum(lag, 0), 0.0)
    matrix[:, 1:] *= math.sqrt(1 - correlation**2)
    return matrix
