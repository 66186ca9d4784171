"""Searches along a family: each starts from the plans of those before it.

Convex problems are searched in the order of their limits. Linear ones share one pool of plans, and are searched by
halving: the next limit is then always between two that are done, whose plans bracket its multipliers (see
`dual._bracketing`).
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import final

import numpy as np
from jaxtyping import Float

from bidual._effort import Effort
from bidual._families import AbstractFamily, Rows
from bidual._search import Search, Stated, World, search, worth_keeping
from bidual.dual import Bracketing, Pool, Reply
from bidual.solution import Progress


@final
@dataclass(frozen=True, eq=False)
class Searcher:
    """Searches one problem after the other."""

    world: World
    effort: Effort
    progress: Callable[[int, Progress], None] | None

    def in_turn(self, problems: Iterable[Stated], known: Sequence[Reply]) -> list[Search]:
        """In the order given, each from what the one before it has left."""
        found: list[Search] = []
        for done, stated in enumerate(problems):
            found.append(self._search(done, stated, known, self.effort))
            known = worth_keeping(found[-1])
        return found

    def along(self, family: AbstractFamily, levels: Float[np.ndarray, "n"], known: Sequence[Reply]) -> list[Search]:
        """At every one of these limits, in their order."""
        if not isinstance(family, Rows):
            return self.in_turn((family.at(level) for level in levels), known)
        effort = replace(self.effort, dual=self.effort.dual or Bracketing())
        pool = Pool(family.program, known)
        found: dict[int, Search] = {}
        for i in halving(len(levels)):
            found[i] = self._search(len(found), family.at(levels[i]), pool, effort)
            pool = pool.joined([reply for reply in found[i].replies[len(pool) :] if reply is not None])
        return [found[i] for i in range(len(levels))]

    def _search(self, done: int, stated: Stated, known: Sequence[Reply], effort: Effort) -> Search:
        report = None if self.progress is None else partial(self.progress, done)
        return search(stated, self.world, replace(effort, progress=report), known, time.perf_counter())


def halving(n: int) -> list[int]:
    """0 to n - 1, such that each comes about half-way between two that came before; the ends first."""
    order, gaps = [n - 1, 0][: min(n, 2)], [(0, n - 1)]
    while gaps:
        middles = [(low, (low + high) // 2, high) for low, high in gaps if high - low > 1]
        order += [middle for _, middle, _ in middles]
        gaps = [gap for low, middle, high in middles for gap in ((low, middle), (middle, high))]
    return order
