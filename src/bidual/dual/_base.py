"""The interface of dual players: from the embeddings of the plans so far to the next linear cost."""

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar, final

import numpy as np
from jaxtyping import Float

from bidual._base.brief import describe_briefly
from bidual._base.errors import ProblemError
from bidual.planners import Plan
from bidual.problem.convex import AffineProgram, ConvexProgram, VariationalProgram

Program = TypeVar("Program", AffineProgram, ConvexProgram, VariationalProgram)
Memory = TypeVar("Memory")


class Bound(NamedTuple):
    """A lower bound and the multipliers that prove it: of the rows of an affine program, or of a cone form."""

    value: float
    gamma: Float[np.ndarray, "m"]
    point: Float[np.ndarray, "n"] | None = None  # the point of the gradients, for a bound by gradients
    slope: Float[np.ndarray, "n"] | None = None  # the cost of the image, for a bound by conjugates


@final
@dataclass(frozen=True, eq=False, slots=True)
class Duals(Generic[Memory]):
    """The state of a dual player between plans; `memory` is private to the player."""

    __repr__ = describe_briefly

    theta: Float[np.ndarray, "H d"]  # the cost that the next plan is to minimise
    soft: bool  # whether the next plan is the soft policy, not the cheapest
    weights: Float[np.ndarray, "k"]  # the best mixture of the k plans so far
    feasible: bool  # whether that mixture keeps the constraints
    f: float  # objective of that mixture
    g: Float[np.ndarray, "m"]  # constraints of that mixture
    auxiliary: Float[np.ndarray, "a"]  # the user's other variables at that mixture
    optimum: Bound  # on f*
    conflict: Bound  # on the least possible violation
    stalled: bool  # the last plan changed nothing: more plans will not help
    memory: Memory
    kept: frozenset[int] | None = None  # the plans that may still be used, None: all of them
    gamma: Float[np.ndarray, "r"] | None = None  # the multipliers that give theta, if any do


class Reply(NamedTuple):
    """An earlier plan with its cost: the cheapest for its theta in the same model, under whatever problem."""

    theta: Float[np.ndarray, "H d"]
    gamma: Float[np.ndarray, "r"] | None
    plan: Plan


def read_image(program: AffineProgram, plan: Plan) -> tuple[float, Float[np.ndarray, "m"]]:
    """Return f and g of a plan, from its embedding or from the totals that it has instead."""
    if plan.image is None:
        return program.values(plan.embedding)
    return float(plan.image[0]) + program.offset, plan.image[1:] - program.limits


def check_smoothing(smoothing: float) -> None:
    """Check that the share of the best multipliers is in [0, 1)."""
    if not 0 <= smoothing < 1:
        raise ProblemError(f"smoothing must be in [0, 1); got {smoothing!r}")


class AbstractDual(abc.ABC, Generic[Program, Memory]):
    """The dual player: the choice of the next linear cost theta for the planner."""

    @abc.abstractmethod
    def init(self, program: Program) -> Duals[Memory]:
        """Return the state before the first plan."""

    def restart(self, program: Program, known: Sequence[Reply]) -> Duals[Memory]:
        """Return the state before the first new plan, where plans of the same model are known from another problem.

        The weights then run over the known plans first. A player that cannot use them starts afresh, with none.
        """
        del known
        return self.init(program)

    @abc.abstractmethod
    def step(self, program: Program, duals: Duals[Memory], plan: Plan) -> Duals[Memory]:
        """Update the state with the plan for the current theta."""
