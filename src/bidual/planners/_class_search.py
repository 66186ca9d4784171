"""Optimistic planning over a class of laws: the cheapest policy under the cheapest candidate of every step.

V_h(s) = min_a  theta_h . psi_h(s, a) + phi_m(s, a) . (mu_m V_{h+1}),      m one candidate for all of step h

One candidate must serve all states of a step, which makes the minimum over candidates hard. Three answers are combined:
letting every state and action have a candidate of its own (the rectangular relaxation) gives a bound from below;
changing one step at a time (coordinate descent) gives a combination, and so a bound from above; and both meet by
fixing candidates from the last step backwards, most promising first (branch and bound), or where there are few
combinations by trying all of them. Values are monotone: of two ways to fix the same steps the one whose value is at
least as large in every state is left out (`Frontier`), which leaves few where candidates share most of their rows.
"""

import heapq
import itertools
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int

from bidual._base.deadline import NEVER, Deadline
from bidual.models import Layout, Plausible
from bidual.planners._base import AbstractPlanner, Plan
from bidual.planners._class_steps import ClassSteps
from bidual.planners._frontier import Frontier

_SWEEPS = 50  # of coordinate descent, which ends far earlier
_LARGE = 2 * 10**7  # entries that one batch of values may have


class ClassPlan(NamedTuple):
    """The result of a search: lower <= min <= upper, the combination of cost `upper`, and whether the two are equal."""

    lower: float
    upper: float
    proven: bool
    combination: Int[np.ndarray, "H"]  # places among the members
    nodes: int


@final
@dataclass(frozen=True)
class ClassSearch(AbstractPlanner[Plausible]):
    """The planner over a class. The policy comes from the upper end of its interval, bounds only from the lower end.

    Args:
        nodes: number of partial combinations that branch and bound may extend.
        combinations: largest number of combinations that are enumerated.
        deadline: the moment at which branch and bound ends too; results then depend on the machine.
    """

    nodes: int = 0
    combinations: int = 10_000
    deadline: Deadline = NEVER

    def __call__(self, model: Plausible, psi: Layout, theta: Float[np.ndarray, "H d"]) -> Plan:
        """Search for the cheapest combination, and return the best policy under it."""
        steps = ClassSteps(model, psi, theta)
        found = self._search(steps)
        actions, embedding = steps.follow(found.combination)
        return Plan(actions, embedding, float(np.vdot(theta, embedding)), lower=found.lower)

    def search(self, model: Plausible, psi: Layout, theta: Float[np.ndarray, "H d"]) -> ClassPlan:
        """Compute the interval alone."""
        return self._search(ClassSteps(model, psi, theta))

    def _search(self, steps: ClassSteps) -> ClassPlan:
        """Enumerate combinations where they are few; else bound them from both sides and branch."""
        if steps.combinations <= min(self.combinations, _LARGE / steps.size):
            return enumerate_combinations(steps)
        lower = steps.rectangular_bound()
        combination, upper = min(
            (descend_coordinates(steps, first) for first in _choose_starts(steps)), key=lambda pair: pair[1]
        )
        room = steps.room(lower, upper)
        if upper - lower <= room or not self.nodes or self.deadline.passed:
            return ClassPlan(min(lower, upper), upper, upper - lower <= room, combination, 0)
        return search_branches(steps, combination, upper, self.nodes, self.deadline)


def enumerate_combinations(steps: ClassSteps) -> ClassPlan:
    """Evaluate all combinations at once, from the last step backwards."""
    V = np.zeros((1, steps.S))
    for h in reversed(range(steps.horizon)):
        V = steps.all(h, V).min(axis=-1).reshape(-1, steps.S)
    values = steps.start(V)
    best = int(values.argmin())
    sizes = [len(one.numbers) for one in steps.members]
    combination = np.array(np.unravel_index(best, sizes))
    return ClassPlan(float(values[best]), float(values[best]), True, combination, 0)


def _choose_starts(steps: ClassSteps) -> list[Int[np.ndarray, "H"]]:
    """Return starts of coordinate descent: the most likely candidates, and those cheapest for the relaxed policy."""
    values = [np.zeros(steps.S)]
    for h in reversed(range(steps.horizon)):
        values.append(steps.all(h, values[-1][None])[:, 0].min(axis=0).min(axis=-1))
    values.reverse()
    mu, greedy = steps.first_law(values[0]), np.zeros(steps.horizon, dtype=np.int64)
    for h in range(steps.horizon):
        Q = steps.all(h, values[h + 1][None])[:, 0]
        greedy[h] = int((Q.min(axis=-1) @ mu).argmin())
        one, a = steps.members[h], Q[greedy[h]].argmin(axis=-1)
        mu = (mu @ one.phi[greedy[h], np.arange(steps.S), a]) @ one.mu[greedy[h]]
    return [np.zeros_like(greedy), greedy]


def descend_coordinates(steps: ClassSteps, combination: Int[np.ndarray, "H"]) -> tuple[Int[np.ndarray, "H"], float]:
    """Improve a combination by coordinate descent: at one step after the other the best member, the others fixed."""
    combination, value = combination.copy(), np.inf
    for _ in range(_SWEEPS):
        before, V = value, np.zeros((1, steps.S))
        for h in reversed(range(steps.horizon)):
            each = steps.all(h, V)[:, 0].min(axis=-1)
            values = steps.back(h, combination, each)
            best = int(values.argmin())
            if values[best] < values[combination[h]] - steps.room(values[best]):
                combination[h] = best
            value, V = float(values[combination[h]]), each[combination[h]][None]
        if before - value <= steps.room(value):
            break
    return combination, value


_Node = tuple[float, int, int, np.ndarray, tuple[int, ...]]  # bound, number, step, values there, members from there on


def search_branches(
    steps: ClassSteps, combination: Int[np.ndarray, "H"], upper: float, nodes: int, deadline: Deadline
) -> ClassPlan:
    """Run branch and bound: members fixed from the last step backwards, the rest relaxed, the least bound first."""
    root = np.zeros(steps.S)
    number = itertools.count()
    open_: list[_Node] = [(steps.rectangular_bound(), next(number), steps.horizon, root, ())]
    frontiers = [Frontier(steps.S) for _ in range(steps.horizon)]
    extended = 0
    while open_ and upper - open_[0][0] > steps.room(upper):
        if extended >= nodes or deadline.passed:
            return ClassPlan(min(open_[0][0], upper), upper, False, combination, extended)
        bound, _, h, V, fixed = heapq.heappop(open_)
        extended += 1
        each = steps.all(h - 1, V[None])[:, 0].min(axis=-1)
        chosen = frontiers[h - 1].add(each, steps.room(float(np.abs(each).max()))) if h > 1 else np.arange(len(each))
        if not chosen.size:
            continue
        bounds = np.maximum(steps.relaxed_values(h - 1, each[chosen]), bound)
        if h == 1:
            best = int(bounds.argmin())
            if bounds[best] < upper:
                upper, combination = float(bounds[best]), np.array([best, *fixed])
            continue
        for value, m in zip(bounds, chosen, strict=True):
            if value < upper - steps.room(upper):
                heapq.heappush(open_, (float(value), next(number), h - 1, each[m], (int(m), *fixed)))
    return ClassPlan(upper, upper, True, combination, extended)
