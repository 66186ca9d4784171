"""Policy iteration over an unbounded time: evaluate a policy, improve it where that is certain, and again.

    V = c_pi + M_pi V,   Q(s, a) = c(s, a) + sum_k M_k(s, a) V(s'_k),   better where Q(s, a) < V(s)

Every policy is evaluated by one sparse system, from the values of the one before; a handful of improvements ends the
search however close the discount is to 1, where value iteration takes 1 / (1 - discount) steps for every digit.

The soft policy trades the cost against its divergence from the uniform policy, V(s) = -log mean_a exp(-Q(s, a)).
Iterating over policies is Newton's method for that equation: evaluate with the divergence as a cost, and soften again.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from bidual._base.resolvent import EPS, Resolvent
from bidual.models import Layout, Stationary
from bidual.planners._base import AbstractSoftPlanner, Plan

_MOST = 1000  # improvements; a dozen are usual
_SOFT_ENOUGH = 1e-14  # relative change of soft values between two iterations, which squares


@final
@dataclass(frozen=True, eq=False)
class PolicyIteration(AbstractSoftPlanner[Stationary]):
    """The exact planner over an unbounded time. It keeps an action unless another is better by more than rounding."""

    start: Int[np.ndarray, "R"] | None = None  # of the search, the last plan's actions

    def __call__(self, model: Stationary, psi: Layout, theta: Float[np.ndarray, "1 d"]) -> Plan:
        """Plan exactly; the bound is that of the values at which no action improves any more."""
        cost = _place_cost(model, psi, theta)
        actions, V, chain = _improve(model, cost, self.start)
        visits = chain(model.initial, transposed=True)
        psi_plan = psi.psi.expect(_spread_actions(model, psi, visits, actions), 0)[None]
        return Plan(actions[None], psi_plan, float(np.vdot(theta, psi_plan)), lower=float(model.initial @ V))

    def after(self, plan: Plan) -> "PolicyIteration":
        """Return the planner that starts from the actions of a plan."""
        return self if plan.actions is None else PolicyIteration(np.asarray(plan.actions)[0])

    def soft(self, model: Stationary, psi: Layout, theta: Float[np.ndarray, "1 d"]) -> Plan:
        """Compute the soft policy by Newton's method, and its occupancies."""
        policy, V = _soften(model, _place_cost(model, psi, theta))
        occupancy = _solve_occupancy(model, policy)
        embedding = psi.psi.expect(_spread(model, psi, occupancy), 0)[None]
        return Plan(None, embedding, float(model.initial @ V), lower=-np.inf, soft_cost=theta)

    def occupancy(self, model: Stationary, psi: Layout, plan: Plan) -> Float[np.ndarray, "1 A R"]:
        """Compute occupancies from the actions of a plan, or from its soft policy, which is computed again."""
        if plan.soft_cost is not None:
            policy, _ = _soften(model, _place_cost(model, psi, plan.soft_cost))
        else:
            policy = np.asarray(np.asarray(plan.actions)[0][:, None] == np.arange(model.allowed.shape[1]), np.float64)
        return _solve_occupancy(model, policy).T[None]


def _place_cost(model: Stationary, psi: Layout, theta: Float[np.ndarray, "1 d"]) -> Float[np.ndarray, "R A"]:
    """Return theta . psi(s, a), infinite for actions that are not allowed."""
    return np.where(model.allowed, psi.psi.pay(theta[0], 0)[model.kept], np.inf)


def _improve(
    model: Stationary, cost: Float[np.ndarray, "R A"], actions: Int[np.ndarray, "R"] | None
) -> tuple[Int[np.ndarray, "R"], Float[np.ndarray, "R"], Resolvent]:
    """Return the best actions, their values, and the chain that they make."""
    R, A = cost.shape
    label, ways = np.int8 if A <= 127 else np.int32, int(np.diff(model.kernel.indptr).max(initial=1))
    chosen = np.argmin(cost, axis=1) if actions is None else actions.astype(np.int64)
    first, V = np.arange(R) * A, np.zeros(R)
    for _ in range(_MOST):
        chain = Resolvent(model.kernel[first + chosen])
        V = chain(cost.ravel()[first + chosen], V)
        Q = cost + (model.kernel @ V).reshape(R, A)
        taken = Q.ravel()[first + chosen]
        rounding = 4 * (ways + 4) * EPS * (np.abs(taken) + np.abs(V).max())
        better = Q.min(axis=1) < taken - rounding
        if not better.any():
            return chosen.astype(label), V, chain
        chosen = np.where(better, np.argmin(Q, axis=1), chosen)
    raise RuntimeError(f"policy iteration did not end within {_MOST} improvements: this is a mistake of bidual")


def _soften(
    model: Stationary, cost: Float[np.ndarray, "R A"]
) -> tuple[Float[np.ndarray, "R A"], Float[np.ndarray, "R"]]:
    """Return the soft policy and its values."""
    choices = np.log(model.allowed.sum(axis=1))
    V, policy = np.zeros(len(cost)), model.allowed / model.allowed.sum(axis=1, keepdims=True)
    for _ in range(_MOST):
        Q = cost + (model.kernel @ V).reshape(cost.shape)
        least = Q.min(axis=1, keepdims=True)
        weight = np.exp(least - Q)
        mass = weight.sum(axis=1, keepdims=True)
        policy = weight / mass
        with np.errstate(invalid="ignore"):  # actions that are not allowed cost infinity, and are never taken
            pay = np.where(policy > 0, policy * (cost + (least - Q) - np.log(mass) + choices[:, None]), 0.0)
        after = Resolvent(_follow(model, policy))(pay.sum(axis=1), V)
        moved = np.abs(after - V).max()
        V = after
        if moved <= _SOFT_ENOUGH * max(1.0, float(np.abs(V).max())):
            break
    return policy, V


def _follow(model: Stationary, policy: Float[np.ndarray, "R A"]) -> sp.csr_array:
    """Return the kernel of the chain that a policy makes."""
    R, A = policy.shape
    mix = sp.csr_array((policy.ravel(), np.arange(R * A), np.arange(R + 1) * A), shape=(R, R * A))
    return sp.csr_array(mix @ model.kernel)


def _solve_occupancy(model: Stationary, policy: Float[np.ndarray, "R A"]) -> Float[np.ndarray, "R A"]:
    """Return the expected number of times that every action is taken in every state, as far as it counts."""
    visits = Resolvent(_follow(model, policy))(model.initial, transposed=True)
    return np.maximum(visits, 0.0)[:, None] * policy


def _spread(model: Stationary, psi: Layout, occupancy: Float[np.ndarray, "R A"]) -> Float[np.ndarray, "S A"]:
    full = np.zeros(psi.psi.signals.shape[2:])
    full[model.kept] = occupancy
    return full


def _spread_actions(
    model: Stationary, psi: Layout, visits: Float[np.ndarray, "R"], actions: Int[np.ndarray, "R"]
) -> Float[np.ndarray, "S A"]:
    full = np.zeros(psi.psi.signals.shape[2:])
    full[model.kept, actions] = np.maximum(visits, 0.0)
    return full
