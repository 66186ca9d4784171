"""Time-uniform bounds for the last half of the episodes, without the burn-in.

A bound on the average over episodes j+1..T needs a process that started at j. There is one for every j = 0, 1, 2, 4,
8, ..., and at time T the largest j <= T/2 answers: for between a half and three quarters of the episodes. The k-th
process has the share 6 / (pi k)^2 of delta, so all of them hold at once, at all times (a union bound over `Executed`,
whose assumptions these are). Two processes are alive at a time: the one that answers and the one that will next.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float

from bidual.certificate.bounds._executed import Executed
from bidual.certificate.bounds._split import check_delta, share


@final
@dataclass(frozen=True, eq=False)
class Restarts:
    """`count` episodes, of which those after `since` are averaged."""

    count: int
    since: int
    current: Executed
    following: Executed

    @classmethod
    def start(cls, low: Float[np.ndarray, "r"], high: Float[np.ndarray, "r"]) -> "Restarts":
        """Return the state before the first episode; functional i lies in [low[i], high[i]] in every episode."""
        process = Executed.start(low, high)
        return cls(0, 0, process, process)

    def add(self, x: Float[np.ndarray, "r"]) -> "Restarts":
        """Add one episode."""
        return self._advance(self.count + 1, self.current.add(x), self.following.add(x))

    def add_batch(self, x: Float[np.ndarray, "k r"]) -> "Restarts":
        """Add several episodes, in their order: the same as one by one."""
        result, rest = self, x
        while len(rest):
            # Up to the next power of two nothing restarts.
            room = (1 << result.count.bit_length()) - result.count
            part, rest = rest[:room], rest[room:]
            processes = result.current.add_batch(part), result.following.add_batch(part)
            result = result._advance(result.count + len(part), *processes)
        return result

    @property
    def mean(self) -> Float[np.ndarray, "r"]:
        """The average over the episodes after `since`; NaN before the first."""
        return self.current.mean

    def interval(self, delta_lower: float, delta_upper: float) -> tuple[Float[np.ndarray, "r"], Float[np.ndarray, "r"]]:
        """Return lower and upper bounds on the average of conditional means after `since`.

        Each side of each functional holds at all times at once with probability at least 1 - its delta.
        """
        check_delta("delta_lower", delta_lower)
        check_delta("delta_upper", delta_upper)
        part = share(self.since.bit_length() + 1)  # j = 0, 1, 2, 4, ... is the process number 1, 2, 3, 4, ...
        return self.current.interval(part * delta_lower, part * delta_upper)

    def _advance(self, count: int, current: Executed, following: Executed) -> "Restarts":
        """Start a process at a power of two, where the one that started at half of it takes over."""
        if count & (count - 1):
            return Restarts(count, self.since, current, following)
        return Restarts(count, count // 2, following, following.restart())
