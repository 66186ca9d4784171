"""What episodes say about a policy: means and intervals of objective and constraints, in the minimising form."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float

from bidual import bounds
from bidual._keys import Draw, Purpose
from bidual._types import Episode
from bidual.bounds import Split
from bidual.convex import AffineProgram, ConvexProgram
from bidual.envs import AbstractEnvironment
from bidual.outputs._corners import Corners
from bidual.outputs._functionals import Functionals
from bidual.outputs._samples import mean_embedding
from bidual.policies import AbstractPolicy


@final
@dataclass(frozen=True, eq=False)
class Estimates:
    """f (number 0) and g (from 1 on): what was seen on average, and bounds; infinite where nothing is claimed."""

    mean: Float[np.ndarray, "rows"]
    lower: Float[np.ndarray, "rows"]
    upper: Float[np.ndarray, "rows"]
    episodes: int

    def within(self, other: "Estimates") -> "Estimates":
        """Both at once: the mean over all episodes, and the better of the bounds."""
        if self.episodes == 0:
            return other
        total = self.episodes + other.episodes
        mean = (self.episodes * self.mean + other.episodes * other.mean) / total
        return Estimates(mean, np.maximum(self.lower, other.lower), np.minimum(self.upper, other.upper), total)


def fresh_episodes(
    env: AbstractEnvironment, policy: AbstractPolicy, seed: int, first: int, count: int
) -> list[Episode]:
    """Episodes of a policy that nothing was learned from."""
    return env.collect_many(policy, [Draw(seed, Purpose.EVALUATE, number) for number in range(first, first + count)])


def evaluated(
    program: AffineProgram | ConvexProgram,
    linear: Functionals,
    episodes: Sequence[Episode],
    corners: Corners | None,
    split: Split,
    number: int,
) -> Estimates:
    """Estimates from fresh episodes of one policy, in evaluation round `number`.

    Linear functionals get betting intervals. Curved ones are evaluated at the mean embedding, and bounded from above
    where they are functions of a few numbers.
    """
    estimates = _unbounded(_curved_means(program, linear, episodes), len(episodes))
    paid = linear.payments(episodes)
    claims = linear.numbers.size + (corners is not None)
    delta_lower, delta_upper = split.evaluation(number, max(1, claims))
    if corners is not None:
        estimates.upper[:] = corners.upper(episodes, delta_lower + delta_upper)
    for column, (place, low, high) in enumerate(zip(linear.numbers, linear.low, linear.high, strict=True)):
        samples = paid[:, column]
        estimates.mean[place] = samples.mean()
        estimates.lower[place] = bounds.lower(samples, float(low), float(high), delta_lower)
        estimates.upper[place] = bounds.upper(samples, float(low), float(high), delta_upper)
    return estimates


def executed(
    program: AffineProgram | ConvexProgram,
    linear: Functionals,
    process: bounds.Executed | bounds.Restarts,
    episodes: Sequence[Episode],
    delta: float,
) -> Estimates:
    """Estimates for the mixture of the policies that were run, from the very episodes they were run for."""
    estimates = _unbounded(_curved_means(program, linear, episodes), len(episodes))
    if linear.numbers.size:
        lower, upper = process.interval(delta, delta)
        estimates.mean[linear.numbers] = process.mean
        estimates.lower[linear.numbers], estimates.upper[linear.numbers] = lower, upper
    return estimates


def in_model(program: AffineProgram | ConvexProgram, embedding: Float[np.ndarray, "H d"]) -> Estimates:
    """What the learned model says, where no episode was spent on the policy: a guess without bounds."""
    return _unbounded(_at_mean(program, embedding), 0)


def _curved_means(
    program: AffineProgram | ConvexProgram, linear: Functionals, episodes: Sequence[Episode]
) -> Float[np.ndarray, "rows"]:
    """Functionals at the mean embedding; those of a linear program are all averaged elsewhere."""
    if isinstance(program, AffineProgram):
        return np.zeros(1 + program.limits.size)
    return _at_mean(program, mean_embedding(linear.payments.pieces, episodes))


def _unbounded(mean: Float[np.ndarray, "rows"], count: int) -> Estimates:
    return Estimates(mean, np.full(mean.shape, -np.inf), np.full(mean.shape, np.inf), count)


def _at_mean(program: AffineProgram | ConvexProgram, embedding: Float[np.ndarray, "H d"]) -> Float[np.ndarray, "rows"]:
    if isinstance(program, AffineProgram):
        f, g = program.values(embedding)
    else:
        f, g = program.functions.values(program.image(embedding), np.zeros(program.num_auxiliary))
    return np.append(f, g)
