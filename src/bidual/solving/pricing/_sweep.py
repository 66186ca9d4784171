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

from bidual.dual import Bracketing, PlanPool, Reply
from bidual.solving.options import SolveOptions
from bidual.solving.pricing._family import AbstractFamily, LinearFamily
from bidual.solving.search import CompiledProblem, Instance, Search, search, select_worth_keeping
from bidual.solving.solution import Progress


@final
@dataclass(frozen=True, eq=False)
class Searcher:
    """A runner of searches, one problem after the other."""

    world: Instance
    options: SolveOptions
    progress: Callable[[int, Progress], None] | None

    def search_in_order(self, problems: Iterable[CompiledProblem], known: Sequence[Reply]) -> list[Search]:
        """Search problems in the given order, each from the plans of the one before."""
        found: list[Search] = []
        for done, compiled in enumerate(problems):
            found.append(self._search(done, compiled, known, self.options))
            known = select_worth_keeping(found[-1])
        return found

    def search_limits(
        self, family: AbstractFamily, levels: Float[np.ndarray, "n"], known: Sequence[Reply]
    ) -> list[Search]:
        """Search at every one of these limits, and return the searches in their order."""
        if not isinstance(family, LinearFamily):
            return self.search_in_order((family.at(level) for level in levels), known)
        options = replace(self.options, dual=self.options.dual or Bracketing())
        pool = PlanPool(family.program, known)
        found: dict[int, Search] = {}
        for i in order_by_halving(len(levels)):
            found[i] = self._search(len(found), family.at(levels[i]), pool, options)
            pool = pool.prepend([reply for reply in found[i].replies[len(pool) :] if reply is not None])
        return [found[i] for i in range(len(levels))]

    def _search(self, done: int, compiled: CompiledProblem, known: Sequence[Reply], options: SolveOptions) -> Search:
        report = None if self.progress is None else partial(self.progress, done)
        return search(compiled, self.world, replace(options, progress=report), known, time.perf_counter())


def order_by_halving(n: int) -> list[int]:
    """Order 0 to n - 1 such that each is about half-way between two earlier ones; the ends first."""
    order, gaps = [n - 1, 0][: min(n, 2)], [(0, n - 1)]
    while gaps:
        middles = [(low, (low + high) // 2, high) for low, high in gaps if high - low > 1]
        order += [middle for _, middle, _ in middles]
        gaps = [gap for low, middle, high in middles for gap in ((low, middle), (middle, high))]
    return order
