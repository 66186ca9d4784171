"""Moments by which work must end: given from the call that has a limit of time to the planner that spends it."""

import math
import time
from dataclasses import dataclass
from typing import final


def read_clock() -> float:
    """Return the seconds of a clock that never goes back."""
    return time.perf_counter()


@final
@dataclass(frozen=True)
class Deadline:
    """A moment of that clock; never by default."""

    until: float = math.inf

    @classmethod
    def after(cls, seconds: float | None) -> "Deadline":
        """Return the moment in so many seconds; never for None."""
        return cls() if seconds is None else cls(read_clock() + seconds)

    @property
    def exists(self) -> bool:
        """Whether there is any limit."""
        return self.until < math.inf

    @property
    def left(self) -> float:
        """The seconds that are left, at least 0."""
        return max(0.0, self.until - read_clock()) if self.exists else math.inf

    @property
    def passed(self) -> bool:
        """Whether it is over."""
        return self.exists and read_clock() >= self.until

    def within(self, seconds: float) -> "Deadline":
        """Return this moment, or that in so many seconds if it is earlier."""
        return min(self, Deadline.after(seconds), key=lambda one: one.until)

    def after_share(self, share: float) -> "Deadline":
        """Return the moment when this share of the time that is left is over."""
        return Deadline(read_clock() + share * self.left) if self.exists else self


NEVER = Deadline()
