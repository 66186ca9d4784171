"""The intervals of r functionals of an episode, and the map to [-1/2, 1/2]: width 1, as the theorems require."""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float

from bidual._base.errors import ProblemError

EPS = float(np.finfo(np.float64).eps)

# A sum of signals may leave its interval by rounding. So the interval that goes to [-1/2, 1/2] is wider by this much of
# the larger end, and every number inside it obeys the theorems exactly: nothing is clipped on the way in.
MARGIN = 1e-9
LARGEST = 1e300  # so that widths do not overflow


@final
@dataclass(frozen=True, eq=False)
class Range:
    """Functional i lies in [low[i], high[i]]; [low - margin, high + margin] is mapped to [-1/2, 1/2]."""

    low: Float[np.ndarray, "r"]
    high: Float[np.ndarray, "r"]
    middle: Float[np.ndarray, "r"]
    half: Float[np.ndarray, "r"]  # of the wider interval, never 0
    scale: Float[np.ndarray, "r"]  # 1 / (2 half)

    @classmethod
    def of(cls, low: Float[np.ndarray, "r"], high: Float[np.ndarray, "r"]) -> "Range":
        """Return the intervals of the functionals; ends may coincide where a functional is a constant."""
        _check_ends(low, high)
        margin = np.maximum(MARGIN * np.maximum(np.abs(low), np.abs(high)), 1e-290)
        half = (high / 2 - low / 2) + margin
        return cls(np.array(low), np.array(high), low / 2 + high / 2, half, 0.5 / half)

    def to_unit(self, x: Float[np.ndarray, "*k r"]) -> Float[np.ndarray, "*k r"]:
        """Map numbers to parts of their intervals, each checked: it runs once per episode, hence so few operations."""
        if x.shape[-1:] != self.low.shape:
            raise ProblemError(f"expected numbers of {len(self.low)} functionals; got the shape {x.shape}")
        offset = x - self.middle
        if not (np.abs(offset) <= self.half).all():  # NaN is not <= anything
            self._refuse(x)
        return offset * self.scale

    def from_unit(self, z: Float[np.ndarray, "r"]) -> Float[np.ndarray, "r"]:
        """Map parts of the intervals to numbers, clipped to [low, high]."""
        return np.clip(self.middle + 2 * self.half * z, self.low, self.high)

    def outward(
        self, lower: Float[np.ndarray, "r"], upper: Float[np.ndarray, "r"]
    ) -> tuple[Float[np.ndarray, "r"], Float[np.ndarray, "r"]]:
        """Map both ends to numbers, moved outward by the rounding of `scaled` and `restored` (eight operations)."""
        rounding = 8 * EPS * (1 + (np.abs(self.middle) + self.half) * self.scale)
        return self.from_unit(lower - rounding), self.from_unit(upper + rounding)

    def _refuse(self, x: Float[np.ndarray, "*k r"]) -> None:
        where = np.argwhere(~(np.abs(x - self.middle) <= self.half))[0]
        i, row = where[-1], f" in row {where[0]}" if x.ndim == 2 else ""
        raise ProblemError(
            f"functional {i}{row} must lie in [{self.low[i]}, {self.high[i]}]; got {x[tuple(where)]}: a bound needs "
            "intervals that no episode can leave"
        )


def _check_ends(low: Float[np.ndarray, "r"], high: Float[np.ndarray, "r"]) -> None:
    for i in np.flatnonzero(~((np.abs(low) < LARGEST) & (np.abs(high) < LARGEST) & (low <= high))):
        raise ProblemError(
            f"functional {i} must have finite ends low <= high; got [{low[i]}, {high[i]}]: no bound on an expectation "
            "holds without an enforced interval"
        )
