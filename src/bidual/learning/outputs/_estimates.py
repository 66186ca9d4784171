"""Estimates of a policy from episodes: means and intervals of objective and constraints, in the minimising form."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from bidual._base.keys import Draw, Purpose
from bidual._base.types import Episode
from bidual.certificate import Estimates, Round, Spans, at_embedding, bounds, of_round
from bidual.certificate.bounds import Alone, Split
from bidual.learning.outputs._functionals import Corners, Functionals
from bidual.learning.outputs._samples import mean_embedding
from bidual.problem.convex import AbstractProgram
from bidual.world.envs import AbstractEnvironment
from bidual.world.policies import AbstractPolicy


def fresh_episodes(
    env: AbstractEnvironment, policy: AbstractPolicy, seed: int, first: int, count: int
) -> list[Episode]:
    """Run episodes of a policy that nothing was learned from."""
    return env.collect_many(policy, [Draw(seed, Purpose.EVALUATE, number) for number in range(first, first + count)])


def estimate_policy(
    program: AbstractProgram,
    linear: Functionals,
    episodes: Sequence[Episode],
    corners: Corners | None,
    split: Split | Alone,
    number: int,
) -> Estimates:
    """Compute estimates from fresh episodes of one policy, in evaluation round `number`."""
    curved = linear.numbers.size < 1 + program.equality.size
    seen = Round(
        number=number,
        values=linear.payments(episodes),
        image=None if corners is None else corners.payments(episodes),
        embedding=mean_embedding(linear.payments.pieces, episodes) if curved else None,
    )
    return of_round(program, spans_of(linear), None if corners is None else corners.spans, split, seen)


def spans_of(linear: Functionals) -> Spans:
    """Return the linear functionals with their ranges."""
    return Spans(linear.numbers, linear.low, linear.high)


def estimate_executed(
    program: AbstractProgram,
    linear: Functionals,
    process: bounds.Executed | bounds.Restarts,
    embedding: Float[np.ndarray, "H d"] | None,
    count: int,
    delta: float,
) -> Estimates:
    """Compute estimates for the mixture of the policies of `count` episodes, from these episodes themselves.

    `embedding` is the mean over these, which only the curved functionals need.
    """
    mean = np.zeros(1 + program.equality.size) if embedding is None else at_embedding(program, embedding)
    estimates = Estimates.unbounded(mean, count)
    if linear.numbers.size:
        lower, upper = process.interval(delta, delta)
        estimates.mean[linear.numbers] = process.mean
        estimates.lower[linear.numbers], estimates.upper[linear.numbers] = lower, upper
    return estimates


def estimate_in_model(program: AbstractProgram, embedding: Float[np.ndarray, "H d"]) -> Estimates:
    """Return the values in the learned model, where no episode was run with the policy: an estimate without bounds."""
    return Estimates.unbounded(at_embedding(program, embedding), 0)
