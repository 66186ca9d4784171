"""What episodes say about a policy: means and intervals of objective and constraints, in the minimising form."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from bidual import bounds
from bidual._keys import Draw, Purpose
from bidual._types import Episode
from bidual.bounds import Alone, Split
from bidual.certificate import Estimates, Round, Spans, at_embedding, of_round
from bidual.convex import AffineProgram, ConvexProgram
from bidual.envs import AbstractEnvironment
from bidual.outputs._corners import Corners
from bidual.outputs._functionals import Functionals
from bidual.outputs._samples import mean_embedding
from bidual.policies import AbstractPolicy


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
    split: Split | Alone,
    number: int,
) -> Estimates:
    """Estimates from fresh episodes of one policy, in evaluation round `number`."""
    curved = linear.numbers.size < 1 + program.equality.size
    seen = Round(
        number=number,
        paid=linear.payments(episodes),
        image=None if corners is None else corners.payments(episodes),
        embedding=mean_embedding(linear.payments.pieces, episodes) if curved else None,
    )
    return of_round(program, spans_of(linear), None if corners is None else corners.spans, split, seen)


def spans_of(linear: Functionals) -> Spans:
    """The linear functionals with their ranges."""
    return Spans(linear.numbers, linear.low, linear.high)


def executed(
    program: AffineProgram | ConvexProgram,
    linear: Functionals,
    process: bounds.Executed | bounds.Restarts,
    embedding: Float[np.ndarray, "H d"] | None,
    count: int,
    delta: float,
) -> Estimates:
    """Estimates for the mixture of the policies of `count` episodes, from the very episodes they were run for.

    `embedding` is the mean over these, which only the curved functionals need.
    """
    mean = np.zeros(1 + program.equality.size) if embedding is None else at_embedding(program, embedding)
    estimates = Estimates.unbounded(mean, count)
    if linear.numbers.size:
        lower, upper = process.interval(delta, delta)
        estimates.mean[linear.numbers] = process.mean
        estimates.lower[linear.numbers], estimates.upper[linear.numbers] = lower, upper
    return estimates


def in_model(program: AffineProgram | ConvexProgram, embedding: Float[np.ndarray, "H d"]) -> Estimates:
    """What the learned model says, where no episode was spent on the policy: a guess without bounds."""
    return Estimates.unbounded(at_embedding(program, embedding), 0)
