"""Upper bounds for convex functions of a few numbers: the worst corner of what episodes leave possible.

f is not linear, so the average of f over episodes says nothing about f at their mean. But each of the numbers that f
is a function of has an interval, the intervals hold together by a union bound, and a convex function on a box is
largest at one of its corners. From below nothing is claimed: what is needed is how bad the policy can be.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float

from bidual._types import Episode
from bidual.certificate import MOST_NUMBERS, Spans, worst_corner
from bidual.convex import AffineProgram, ConvexProgram
from bidual.models import AbstractKnowledge
from bidual.outputs._functionals import ranges
from bidual.outputs._samples import Payments


@final
@dataclass(frozen=True, eq=False)
class Corners:
    """The numbers y that f and g are functions of, as functionals of an episode, with their ranges."""

    program: ConvexProgram
    payments: Payments
    low: Float[np.ndarray, "n"]
    high: Float[np.ndarray, "n"]

    def upper(self, episodes: Sequence[Episode], delta: float) -> Float[np.ndarray, "rows"]:
        """F and g are at most this, all at once with probability 1 - delta."""
        return worst_corner(self.program, self.spans, self.payments(episodes), delta)

    @property
    def spans(self) -> Spans:
        """The numbers with their ranges."""
        return Spans(np.arange(self.low.size), self.low, self.high)


def corners(program: AffineProgram | ConvexProgram, knowledge: AbstractKnowledge) -> Corners | None:
    """None for linear problems, which need no corners, and for those with too many or without ends."""
    if isinstance(program, AffineProgram) or program.num_auxiliary or not 0 < program.image.size <= MOST_NUMBERS:
        return None
    rows = np.array([program.image.adjoint(unit) for unit in np.eye(program.image.size)])
    low, high = ranges(rows, knowledge)
    if not np.isfinite([low, high]).all():
        return None
    offset = program.image.offset
    return Corners(program, Payments(knowledge.pieces, rows, offset), low + offset, high + offset)
