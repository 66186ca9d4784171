"""Exact planning in a known model by NumPy and SciPy: `BackwardInduction` without compilation.

Compiling takes a quarter of a second for every new shape, which is a hundred plans of a small model. The equations are
those of `_backward_induction`; only the engine differs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int

from bidual._base.types import select_step
from bidual.models import Known, Layout, Stationary
from bidual.planners._backward_induction import BackwardInduction
from bidual.planners._base import AbstractSoftPlanner, Plan
from bidual.planners._policy_iteration import PolicyIteration


@final
@dataclass(frozen=True)
class SparseInduction(AbstractSoftPlanner[Known]):
    """The exact planner for a small known model, or for a single solve. Ties go to the lowest action."""

    def __call__(self, model: Known, psi: Layout, theta: Float[np.ndarray, "H d"]) -> Plan:
        """Plan exactly, by one backward and one forward pass."""
        actions = _choose(model, psi, theta)
        visits = _visit_chosen(model, actions)
        pairs = _place(actions, visits, psi.signals.shape[2]) if psi.psi.occupancy else None
        embedding = psi.embedding(_expect_chosen(psi, actions, visits), visits if psi.psi.visits else None, pairs)
        value = float(np.vdot(theta, embedding))
        return Plan(actions, embedding, value, lower=value)

    def soft(self, model: Known, psi: Layout, theta: Float[np.ndarray, "H d"]) -> Plan:
        """Compute the soft policy by one soft backward pass, and its visits by one forward pass through all actions."""
        occupancy, value = _run_soft_pass(model, psi, theta)
        features = np.asarray(psi.signals)
        signals = [np.einsum("dar,ar->d", select_step(features, h), now) for h, now in enumerate(occupancy)]
        visits = occupancy.sum(axis=1) if psi.psi.visits else None
        embedding = psi.embedding(np.stack(signals), visits, occupancy if psi.psi.occupancy else None)
        return Plan(None, embedding, value, lower=-np.inf, soft_cost=theta)

    def occupancy(self, model: Known, psi: Layout, plan: Plan) -> Float[np.ndarray, "H A R"]:
        """Compute occupancies from the actions of a plan, or from its soft policy, which is computed again."""
        if plan.soft_cost is not None:
            return _run_soft_pass(model, psi, plan.soft_cost)[0]
        assert plan.actions is not None  # a plan has actions or a soft cost
        actions = np.asarray(plan.actions)
        return _place(actions, _visit_chosen(model, actions), psi.signals.shape[2])


def choose_exact_planner(model: Known | Stationary) -> AbstractSoftPlanner[Any]:
    """Return the planner for the way a model is laid out: without compilation if it is in main memory."""
    if isinstance(model, Stationary):
        return PolicyIteration()
    return SparseInduction() if model.in_main_memory else BackwardInduction()


def _choose(model: Known, psi: Layout, theta: Float[np.ndarray, "H d"]) -> Int[np.ndarray, "H R"]:
    """Choose the cheapest actions, backward in time."""
    _, _, A, R = psi.signals.shape
    actions = np.empty((len(theta), R), dtype=np.int8 if A <= 127 else np.int32)
    V = np.zeros(R)
    for h, cost in _list_costs_backward(model, psi, theta):
        Q = (model.kernels[h % len(model.kernels)] @ V).reshape(A, R)
        Q += cost
        V = Q.min(axis=0)
        _find_first(Q, V, actions[h])
    return actions


def _list_costs_backward(
    model: Known, psi: Layout, theta: Float[np.ndarray, "H d"]
) -> Iterator[tuple[int, Float[np.ndarray, "A R"]]]:
    """Yield theta_h . psi_h(a, s) with the step h, the last one first; infinite where an action is not allowed."""
    signals, visits, pairs = psi.cost(theta)
    features = np.asarray(psi.signals)
    pay, forbidden = np.zeros(0), None if model.allowed is None else ~np.asarray(model.allowed)
    for h in reversed(range(len(theta))):
        if pay.size == 0 or len(features) > 1 or not np.array_equal(signals[h], signals[h + 1]):
            # Not a matrix product: BLAS starts threads for it, which take longer than the sum.
            pay = np.einsum("d,dar->ar", signals[h], select_step(features, h))
            if forbidden is not None:
                pay[forbidden] = np.inf
        cost = pay if visits is None else pay + visits[h]
        yield h, cost if pairs is None else cost + pairs[h]


def _find_first(Q: Float[np.ndarray, "A R"], least: Float[np.ndarray, "R"], actions: Int[np.ndarray, "R"]) -> None:
    """Write the first action of least cost. NumPy's `argmin` along this axis takes eight times as long."""
    missed = Q[0] != least
    actions[:] = missed
    for row in Q[1:-1]:
        missed &= row != least
        actions += missed


def _visit_chosen(model: Known, actions: Int[np.ndarray, "H R"]) -> Float[np.ndarray, "H R"]:
    """Compute the visits of a deterministic policy, forward in time."""
    H, R = actions.shape
    if model.tail is not None:
        return _visit_through_kernels(model, actions)
    lists, chances = np.asarray(model.states), np.asarray(model.probabilities)
    K, A = lists.shape[1:3]
    lists, chances = lists.reshape(-1, K, A * R), chances.reshape(-1, K, A * R)
    chosen = actions.astype(np.intp) * R + np.arange(R)
    visits = np.empty((H, R))
    visits[0] = model.initial
    for h in range(H - 1):
        flow = select_step(chances, h).take(chosen[h], axis=1)
        flow *= visits[h]
        visits[h + 1] = np.bincount(select_step(lists, h).take(chosen[h], axis=1).ravel(), flow.ravel(), minlength=R)
    return visits


def _visit_through_kernels(model: Known, actions: Int[np.ndarray, "H R"]) -> Float[np.ndarray, "H R"]:
    """Compute the same where lists are cut at a width."""
    H, R = actions.shape
    kernels: Any = model.kernels
    chosen = actions.astype(np.intp) * R + np.arange(R)
    visits = np.empty((H, R))
    visits[0] = model.initial
    for h in range(H - 1):
        flow = np.zeros(kernels[0].shape[0])
        flow[chosen[h]] = visits[h]
        visits[h + 1] = flow @ kernels[h % len(kernels)]
    return visits


def _expect_chosen(
    psi: Layout, actions: Int[np.ndarray, "H R"], visits: Float[np.ndarray, "H R"]
) -> Float[np.ndarray, "H n"]:
    """Compute the expected signals of a deterministic policy with these visits."""
    features, here = np.asarray(psi.signals), np.arange(actions.shape[1])
    expected = [
        select_step(features, h)[:, action, here] @ reached
        for h, (action, reached) in enumerate(zip(actions, visits, strict=True))
    ]
    return np.stack(expected)


def _place(
    actions: Int[np.ndarray, "H R"], visits: Float[np.ndarray, "H R"], num_actions: int
) -> Float[np.ndarray, "H A R"]:
    """Place the visits of every state at its action."""
    return np.where(actions[:, None] == np.arange(num_actions)[:, None], visits[:, None], 0.0)


def _run_soft_pass(
    model: Known, psi: Layout, theta: Float[np.ndarray, "H d"]
) -> tuple[Float[np.ndarray, "H A R"], float]:
    """Compute the occupancies of the soft policy of a cost, and V_0."""
    _, _, A, R = psi.signals.shape
    choices = np.log(A) if model.allowed is None else np.log(np.sum(model.allowed, axis=0))
    kernels: Any = model.kernels
    table = np.empty((len(theta), A, R))
    V = np.zeros(R)
    for h, cost in _list_costs_backward(model, psi, theta):
        Q = cost + (kernels[h % len(kernels)] @ V).reshape(A, R)
        least = Q.min(axis=0)
        table[h] = np.exp(least - Q)
        mass = table[h].sum(axis=0)
        table[h] /= mass
        V = least - np.log(mass) + choices
    visits = initial = np.asarray(model.initial)
    for h in range(len(theta)):
        table[h] *= visits
        visits = table[h].ravel() @ kernels[h % len(kernels)]
    return table, float(initial @ V)
