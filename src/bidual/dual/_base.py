"""The interface of dual players: from the embeddings seen so far to the next linear cost."""

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar, final

import numpy as np
from jaxtyping import Float

from bidual._errors import ProblemError
from bidual.convex import AffineProgram, ConvexProgram, VariationalProgram
from bidual.planners import Plan

Program = TypeVar("Program", AffineProgram, ConvexProgram, VariationalProgram)
Memory = TypeVar("Memory")


class Bound(NamedTuple):
    """A lower bound and the multipliers that prove it: of the rows of an affine program, or of a cone form."""

    value: float
    gamma: Float[np.ndarray, "m"]
    point: Float[np.ndarray, "n"] | None = None  # where gradients are taken, if the bound is made of them
    slope: Float[np.ndarray, "n"] | None = None  # the cost of the image, if it is made of conjugates


@final
@dataclass(frozen=True, eq=False, slots=True)
class Duals(Generic[Memory]):
    """What a dual player carries from plan to plan; `memory` is its own business."""

    theta: Float[np.ndarray, "H d"]  # the cost that the next plan is to minimise
    soft: bool  # whether the soft policy for it is wanted, not the cheapest
    weights: Float[np.ndarray, "k"]  # the best mixture of the k plans seen
    feasible: bool  # whether that mixture keeps the constraints
    f: float  # objective of that mixture
    g: Float[np.ndarray, "m"]  # constraints of that mixture
    auxiliary: Float[np.ndarray, "a"]  # the user's other variables at that mixture
    optimum: Bound  # on f*
    conflict: Bound  # on the least possible violation
    stalled: bool  # the last plan taught nothing: more plans will not help
    memory: Memory
    kept: frozenset[int] | None = None  # the plans that may still be used, None: all of them
    gamma: Float[np.ndarray, "r"] | None = None  # the multipliers that theta is made of, where it is made of any


class Reply(NamedTuple):
    """A plan made before. It is the cheapest for its theta in the same model, whatever the problem is by now."""

    theta: Float[np.ndarray, "H d"]
    gamma: Float[np.ndarray, "r"] | None
    plan: Plan


def check_smoothing(smoothing: float) -> None:
    """Refuse a share of the best multipliers that is none."""
    if not 0 <= smoothing < 1:
        raise ProblemError(f"smoothing must be in [0, 1); got {smoothing!r}")


class AbstractDual(abc.ABC, Generic[Program, Memory]):
    """The dual player: which linear cost theta should the planner answer next?"""

    @abc.abstractmethod
    def init(self, program: Program) -> Duals[Memory]:
        """The state before the first plan."""

    def restart(self, program: Program, known: Sequence[Reply]) -> Duals[Memory]:
        """The state before the first new plan, where plans of the same model are known from another problem.

        The weights then run over the known plans first. A player without use for them starts afresh, with none.
        """
        del known
        return self.init(program)

    @abc.abstractmethod
    def step(self, program: Program, duals: Duals[Memory], plan: Plan) -> Duals[Memory]:
        """Learn from the plan for the current theta."""
