"""Upper bounds for convex functions of a few numbers: the worst corner of the confidence box.

f is not linear, so the average of f over episodes says nothing about f at their mean. But each of the numbers that f
is a function of has an interval, the intervals hold together by a union bound, and a convex function on a box is
largest at one of its corners. No lower bound is claimed: only the policy's worst case is needed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float

from bidual._base.types import Episode
from bidual.certificate import MOST_NUMBERS, Spans, worst_corner
from bidual.learning.outputs._functionals import ranges
from bidual.learning.outputs._samples import Payments
from bidual.models import AbstractKnowledge
from bidual.problem.convex import AbstractProgram, ConvexProgram


@final
@dataclass(frozen=True, eq=False)
class Corners:
    """The numbers y that f and g are functions of, as functionals of an episode, with their ranges."""

    program: ConvexProgram
    payments: Payments
    low: Float[np.ndarray, "n"]
    high: Float[np.ndarray, "n"]

    def upper(self, episodes: Sequence[Episode], delta: float) -> Float[np.ndarray, "rows"]:
        """Bound F and g from above, all at once with probability 1 - delta."""
        return worst_corner(self.program, self.spans, self.payments(episodes), delta)

    @property
    def spans(self) -> Spans:
        """The numbers with their ranges."""
        return Spans(np.arange(self.low.size), self.low, self.high)


def corners(program: AbstractProgram, knowledge: AbstractKnowledge) -> Corners | None:
    """Construct the corners; None for linear problems, and for those with too many numbers or unbounded ones."""
    few = program.over_few_numbers(MOST_NUMBERS)
    if few is None:
        return None
    rows = np.array([few.image.adjoint(unit) for unit in np.eye(few.image.size)])
    low, high = ranges(rows, knowledge)
    if not np.isfinite([low, high]).all():
        return None
    offset = few.image.offset
    return Corners(few, Payments(knowledge.pieces, rows, offset), low + offset, high + offset)
