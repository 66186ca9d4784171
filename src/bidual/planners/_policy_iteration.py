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

from bidual._base.errors import ProblemError
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
        actions, value, chain = _improve(model, cost, self.start)
        visits = _count_visits(model, chain)
        psi_plan = psi.psi.expect(_spread_actions(model, psi, visits, actions), 0)[None]
        return Plan(actions[None], psi_plan, float(np.vdot(theta, psi_plan)), lower=value)

    def after(self, plan: Plan) -> "PolicyIteration":
        """Return the planner that starts from the actions of a plan."""
        return self if plan.actions is None else PolicyIteration(np.asarray(plan.actions)[0])

    def soft(self, model: Stationary, psi: Layout, theta: Float[np.ndarray, "1 d"]) -> Plan:
        """Compute the soft policy by Newton's method, and its occupancies."""
        policy, value = _soften(model, _place_cost(model, psi, theta))
        occupancy = _solve_occupancy(model, policy)
        embedding = psi.psi.expect(_spread(model, psi, occupancy), 0)[None]
        return Plan(None, embedding, value, lower=-np.inf, soft_cost=theta)

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
) -> tuple[Int[np.ndarray, "R"], float, Resolvent]:
    """Return the best actions, their value, and the chain that they make."""
    R, A = cost.shape
    label, ways = np.int8 if A <= 127 else np.int32, int(np.diff(model.kernel.indptr).max(initial=1))
    actions = model.proper if actions is None else actions
    chosen = np.argmin(cost, axis=1) if actions is None else actions.astype(np.int64)
    first, V = np.arange(R) * A, np.zeros(R)
    for _ in range(_MOST):
        chain = Resolvent(sp.csr_array(model.kernel[first + chosen]))
        V, gain = _evaluate(model, chain, cost.ravel()[first + chosen], V)
        Q = cost - gain + (model.kernel @ V).reshape(R, A)
        taken = Q.ravel()[first + chosen]
        rounding = 4 * (ways + 4) * EPS * (np.abs(taken) + np.abs(V).max() + abs(gain))
        better = Q.min(axis=1) < taken - rounding
        if not better.any():
            return chosen.astype(label), _average_start(model, V, gain), chain
        chosen = np.where(better, np.argmin(Q, axis=1), chosen)
        if model.proper is not None:
            _check_ends(model, chosen)
    raise RuntimeError(f"policy iteration did not end within {_MOST} improvements: this is a mistake of bidual")


def _evaluate(
    model: Stationary, chain: Resolvent, pay: Float[np.ndarray, "R"], guess: Float[np.ndarray, "R"]
) -> tuple[Float[np.ndarray, "R"], float]:
    """Return the values of a policy, relative to its average where that is asked for, and this average, else 0."""
    if model.anchor is None:
        return chain(pay, guess), 0.0
    V, lengths = chain(pay), chain(np.ones(pay.size))
    gain = float(V[model.anchor] / lengths[model.anchor])
    return V - gain * lengths, gain


def _average_start(model: Stationary, V: Float[np.ndarray, "R"], gain: float) -> float:
    return float(model.initial @ V) if model.anchor is None else gain


def _check_ends(model: Stationary, chosen: Int[np.ndarray, "R"]) -> None:
    """Raise `ProblemError` where a better policy never ends: its total falls without end."""
    R, A = model.allowed.shape
    chain = sp.csr_array(model.kernel[np.arange(R) * A + chosen])
    # Rows that leave something out end with some probability; so do states from which such a row is reached.
    ending = np.asarray(chain.sum(axis=1)).ravel() < 1 - 1e-12
    into, frontier = sp.csr_array(chain.T), np.flatnonzero(ending)
    while frontier.size:
        before = np.unique(into[frontier].indices)
        frontier = before[~ending[before]]
        ending[frontier] = True
    stuck = model.kept[~ending]
    if stuck.size:
        places = ", ".join(str(s) for s in stuck[:5]) + (", ..." if stuck.size > 5 else "")
        raise ProblemError(
            f"the objective has no end: a policy that stays among the states {places} for ever improves it with every "
            "step (with the multipliers that the search has come to). Check the signs of the signals there, limit the "
            "time that a policy may take, or give a discount or a horizon"
        )


def _soften(model: Stationary, cost: Float[np.ndarray, "R A"]) -> tuple[Float[np.ndarray, "R A"], float]:
    """Return the soft policy and its value."""
    choices = np.log(model.allowed.sum(axis=1))
    V, gain, policy = np.zeros(len(cost)), 0.0, model.allowed / model.allowed.sum(axis=1, keepdims=True)
    for _ in range(_MOST):
        Q = cost - gain + (model.kernel @ V).reshape(cost.shape)
        least = Q.min(axis=1, keepdims=True)
        weight = np.exp(least - Q)
        mass = weight.sum(axis=1, keepdims=True)
        policy = weight / mass
        with np.errstate(invalid="ignore"):  # actions that are not allowed cost infinity, and are never taken
            pay = np.where(policy > 0, policy * (cost + (least - Q) - np.log(mass) + choices[:, None]), 0.0)
        after, gain = _evaluate(model, Resolvent(_follow(model, policy)), pay.sum(axis=1), V)
        moved = np.abs(after - V).max()
        V = after
        if moved <= _SOFT_ENOUGH * max(1.0, float(np.abs(V).max())):
            break
    return policy, _average_start(model, V, gain)


def _follow(model: Stationary, policy: Float[np.ndarray, "R A"]) -> sp.csr_array:
    """Return the kernel of the chain that a policy makes."""
    R, A = policy.shape
    mix = sp.csr_array((policy.ravel(), np.arange(R * A), np.arange(R + 1) * A), shape=(R, R * A))
    return sp.csr_array(mix @ model.kernel)


def _solve_occupancy(model: Stationary, policy: Float[np.ndarray, "R A"]) -> Float[np.ndarray, "R A"]:
    """Return the expected number of times that every action is taken in every state, as far as it counts."""
    return _count_visits(model, Resolvent(_follow(model, policy)))[:, None] * policy


def _count_visits(model: Stationary, chain: Resolvent) -> Float[np.ndarray, "R"]:
    """Return the expected number of visits to every state, as far as they count."""
    visits = np.maximum(chain(model.initial, transposed=True), 0.0)
    return visits if model.anchor is None else visits / visits.sum()


def _spread(model: Stationary, psi: Layout, occupancy: Float[np.ndarray, "R A"]) -> Float[np.ndarray, "S A"]:
    full = np.zeros(psi.psi.signals.shape[2:])
    full[model.kept] = occupancy
    return full


def _spread_actions(
    model: Stationary, psi: Layout, visits: Float[np.ndarray, "R"], actions: Int[np.ndarray, "R"]
) -> Float[np.ndarray, "S A"]:
    full = np.zeros(psi.psi.signals.shape[2:])
    full[model.kept, actions] = visits
    return full
