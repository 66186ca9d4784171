"""Prefetching: episodes simulated before they are requested.

A learner runs the same few policies for many episodes, one after the other, and for a short episode calling compiled
code takes longer than running it. An episode depends on its policy and its draw alone, so those of the next draws can
be simulated in the same call; those never requested are dropped. The results are the same, to the last bit.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Int

from bidual._base.keys import Draw
from bidual.world.policies import AbstractPolicy

BLOCK = 64  # episodes in one call
PATIENCE = 4  # number of single runs of a policy before its episodes are simulated in blocks
MOST = 32  # policies in the cache

Packed = Int[np.ndarray, "packed"]
Simulate = Callable[[AbstractPolicy, list[Draw]], Int[np.ndarray, "n packed"]]


class _Run(NamedTuple):
    """A policy, the number of its calls, and its simulated episodes, from a draw on."""

    policy: AbstractPolicy
    asked: int
    first: Draw
    rows: Int[np.ndarray, "n packed"]

    def find(self, draw: Draw) -> Packed | None:
        place = draw.number - self.first.number
        same = draw.seed == self.first.seed and draw.purpose == self.first.purpose
        return self.rows[place] if same and 0 <= place < len(self.rows) else None


@final
@dataclass(frozen=True, eq=False)
class Prefetch:
    """A cache of episodes simulated in advance; no result depends on it."""

    _runs: dict[int, _Run] = field(default_factory=dict)

    def take(self, policy: AbstractPolicy, draw: Draw, simulate: Simulate) -> Packed:
        """Return the episode of a policy and a draw, simulating it and the next ones if necessary."""
        run = self._runs.get(id(policy))  # a policy in the cache is alive, so its id is unique
        if run is None:
            run = _Run(policy, 0, draw, np.zeros((0, 0), dtype=np.int32))
        found = run.find(draw)
        if found is not None:
            return found
        count = BLOCK if run.asked >= PATIENCE else 1
        rows = simulate(policy, [draw._replace(number=draw.number + i) for i in range(count)])
        if len(self._runs) >= MOST and id(policy) not in self._runs:
            self._runs.pop(next(iter(self._runs)))
        self._runs[id(policy)] = _Run(policy, run.asked + 1, draw, rows)
        return rows[0]
