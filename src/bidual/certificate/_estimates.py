"""Estimates of one policy from episodes: means, and bounds that hold together.

A linear functional has a betting interval; a convex function of a few numbers is bounded at the worst corner of their
intervals: a convex function on a box is largest at one of them.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int

from bidual._base.errors import CertificateError, EnvError
from bidual.certificate import bounds
from bidual.certificate._types import Resolution
from bidual.certificate.bounds import Alone, Split
from bidual.certificate.bounds._range import MARGIN
from bidual.certificate.rounding import EPS
from bidual.problem.convex import AbstractProgram, ConvexProgram

MOST_NUMBERS = 8  # the dimension of corners: 256 of them, each an evaluation by CVXPY
_EVALUATED = 1e-9  # the relative error of CVXPY's values, far above the actual one


@final
@dataclass(frozen=True, eq=False)
class Round:
    """Fresh episodes of one policy, whose number was fixed before the first of them, or may be any (`uniform`)."""

    number: int  # of the round: 1, 2, ...
    values: Float[np.ndarray, "n r"]  # the linear functionals of every episode
    image: Float[np.ndarray, "n k"] | None  # the image of every episode, where corners are bounded
    embedding: Float[np.ndarray, "H d"] | None  # the mean over the episodes, where a functional is curved
    policy: str | None = None  # the digest of the policy that ran them; None where it was not stored
    uniform: bool = False  # whether the bounds hold for every number of episodes at once

    def extend(self, other: "Round") -> "Round":
        """Return a round with further episodes of the same policy after its own."""
        both = len(self.values), len(other.values)

        def mean(one: np.ndarray | None, more: np.ndarray | None) -> np.ndarray | None:
            return None if one is None or more is None else np.average([one, more], axis=0, weights=both)

        image = None if self.image is None or other.image is None else np.concatenate([self.image, other.image])
        values = np.concatenate([self.values, other.values])
        return replace(self, values=values, image=image, embedding=mean(self.embedding, other.embedding))


class Spans(NamedTuple):
    """Functionals by number (f is 0, g from 1 on), each between ends that no episode can leave."""

    numbers: Int[np.ndarray, "r"]
    low: Float[np.ndarray, "r"]
    high: Float[np.ndarray, "r"]


class EstimateRows(NamedTuple):
    """Linear functionals rows . Psi + constants, by number."""

    numbers: Int[np.ndarray, "r"]
    rows: Float[np.ndarray, "r H d"]
    constants: Float[np.ndarray, "r"]
    magnitudes: Float[np.ndarray, "r H d"]  # sums of the absolute values that the rows were summed from
    terms: int  # and the largest number of those


@final
@dataclass(frozen=True, eq=False)
class Estimates:
    """f (number 0) and g (from 1 on): means over episodes, and bounds; infinite where nothing is claimed."""

    mean: Float[np.ndarray, "rows"]
    lower: Float[np.ndarray, "rows"]
    upper: Float[np.ndarray, "rows"]
    episodes: int
    rounds: tuple[Round, ...] = ()  # the rounds behind the bounds

    @classmethod
    def unbounded(cls, mean: Float[np.ndarray, "rows"], count: int, rounds: tuple[Round, ...] = ()) -> "Estimates":
        """Return the means of `count` episodes without any bounds."""
        return cls(mean, np.full(mean.shape, -np.inf), np.full(mean.shape, np.inf), count, rounds)

    def combine(self, other: "Estimates") -> "Estimates":
        """Combine two estimates: the mean over all episodes, and the better of the bounds."""
        if self.episodes == 0:
            return other
        total = self.episodes + other.episodes
        return Estimates(
            mean=(self.episodes * self.mean + other.episodes * other.mean) / total,
            lower=np.maximum(self.lower, other.lower),
            upper=np.minimum(self.upper, other.upper),
            episodes=total,
            rounds=(*self.rounds, *other.rounds),
        )

    def narrow(
        self, mean: Float[np.ndarray, "rows"], lower: Float[np.ndarray, "rows"], upper: Float[np.ndarray, "rows"]
    ) -> "Estimates":
        """Intersect with further valid bounds, and replace the mean by another guess, clipped to all bounds."""
        for i in np.flatnonzero((lower > self.upper) | (upper < self.lower))[:1]:
            what = f"constraint row {i}" if i else "the objective"
            raise EnvError(
                f"the class is misspecified: fresh episodes of the policy show that {what} (as something to be small) "
                f"is between {self.lower[i]:.6g} and {self.upper[i]:.6g}, but the candidates that are left only allow "
                f"{lower[i]:.6g} to {upper[i]:.6g}: add candidates, or learn without a class (Tabular)"
            )
        lower, upper = np.maximum(self.lower, lower), np.minimum(self.upper, upper)
        return replace(self, mean=np.clip(mean, lower, upper), lower=lower, upper=upper)

    def over(self, equality: Bool[np.ndarray, "m"]) -> Float[np.ndarray, "m"]:
        """Bound the violation of every row from above."""
        low, high = self.lower[1:], self.upper[1:]
        return np.where(equality, np.maximum(np.abs(low), np.abs(high)), np.maximum(high, 0.0))


def evaluate_at(program: AbstractProgram, embedding: Float[np.ndarray, "H d"]) -> Float[np.ndarray, "rows"]:
    """Evaluate f and g at an embedding."""
    return np.append(*program.at(embedding))


def estimate_round(
    program: AbstractProgram, linear: Spans, corners: Spans | None, split: Split | Alone, seen: Round
) -> Estimates:
    """Estimate a policy from one round: curved functionals at the mean embedding, linear ones with intervals."""
    empty = np.zeros(1 + program.equality.size)
    mean = empty if seen.embedding is None else evaluate_at(program, seen.embedding)
    found = Estimates.unbounded(mean, len(seen.values), (seen,))
    claims = linear.numbers.size + (corners is not None)
    delta_lower, delta_upper = split.evaluation(seen.number, max(1, claims))
    if corners is not None and seen.image is not None and program.curved is not None:
        found.lower[:], found.upper[:] = bound_at_worst_corner(
            program.curved, corners, seen.image, delta_lower + delta_upper, uniform=seen.uniform
        )
    for samples, place, low, high in zip(seen.values.T, *linear, strict=True):
        found.mean[place] = samples.mean()
        found.lower[place] = bounds.lower(samples, float(low), float(high), delta_lower, uniform=seen.uniform)
        found.upper[place] = bounds.upper(samples, float(low), float(high), delta_upper, uniform=seen.uniform)
    return found


Ends = tuple[Float[np.ndarray, "rows"], Float[np.ndarray, "rows"]]


def bound_at_worst_corner(
    program: ConvexProgram, spans: Spans, image: Float[np.ndarray, "n k"], delta: float, *, uniform: bool = False
) -> Ends:
    """Bound f and g jointly with probability 1 - delta, as `bound_over_box` does."""
    share = delta / spans.low.size
    ends = [
        bounds.interval(samples, float(low), float(high), share, uniform=uniform)
        for samples, low, high in zip(image.T, spans.low, spans.high, strict=True)
    ]
    return bound_over_box(program, ends)


def bound_over_box(program: ConvexProgram, ends: Sequence[tuple[float, float]]) -> Ends:
    """Bound f and g from above over a box of images; with auxiliary variables, equalities from below too.

    Auxiliary variables are the best ones at every corner: their mixtures are as good inside. What they keep to a
    billionth of its unit counts as kept, as in known models, for these variables are the user's to choose.
    """
    corners = [np.array(y) for y in itertools.product(*ends)]
    values = np.array([np.append(*program.functions.values(y, program.complete(y))) for y in corners])
    worst, least = values.max(axis=0), np.full(values.shape[1], -np.inf)
    upper = np.where(np.isnan(worst), np.inf, worst + _EVALUATED * np.maximum(1.0, np.abs(worst)))
    if program.num_auxiliary:
        g, equal, allowed = values[:, 1:], program.equality, program.tolerances
        kept = (g.max(axis=0) <= allowed) & (~equal | (g.min(axis=0) >= -allowed))
        upper[1:] = np.where(kept, np.minimum(upper[1:], 0.0), upper[1:])
        least[1:] = np.where(equal, np.where(kept, 0.0, g.min(axis=0) - _EVALUATED), -np.inf)
    return least, upper


def compute_resolution(
    program: AbstractProgram, linear: Spans, mean: Float[np.ndarray, "rows"], gamma: Float[np.ndarray, "r"]
) -> Resolution:
    """Return by how much the same samples may give other numbers elsewhere.

    A bound by betting is halved to its place, and may end a step away: that is 2^-33 of the interval. A bound over a
    set of laws is a sum over the functionals, good to 1e-12 of what they can be. Curved functions are good to nine
    digits of their value.
    """
    room = _EVALUATED * np.abs(np.nan_to_num(mean))
    largest = np.abs(np.nan_to_num(mean))
    room[linear.numbers] = 4 * 2.0**-33 * (linear.high - linear.low)
    largest[linear.numbers] = np.maximum(np.abs(linear.low), np.abs(linear.high))
    room[linear.numbers] += 16 * EPS * largest[linear.numbers]
    total = largest[0] + (float(np.abs(gamma) @ largest[1:]) if gamma.size == largest.size - 1 else 0.0)
    return Resolution(1e-12 * total, float(room[0]), room[1:])


def check_samples(what: str, number: int, samples: Float[np.ndarray, "n"], low: float, high: float) -> None:
    """Check that no episode paid what none can pay, up to the rounding that intervals allow for."""
    margin = MARGIN * max(abs(low), abs(high))
    outside = samples[~((samples >= low - margin) & (samples <= high + margin))]
    if outside.size:
        raise CertificateError(
            f"{what} {number} is {float(outside[0])!r} in an episode, but no episode leaves [{low!r}, {high!r}]: the "
            "samples are none of this problem, and prove nothing"
        )


def list_image_rows(program: ConvexProgram) -> EstimateRows:
    """Return the image as linear functionals of the embedding."""
    image, units = program.image, np.eye(program.image.size)
    rows = np.array([image.adjoint(unit) for unit in units])
    return EstimateRows(np.arange(image.size), rows, image.offset, np.abs(rows), 1)
