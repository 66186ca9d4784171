"""The optimistic planner of a model. Among latents, whatever is unknown is assumed to be the best that is possible.

    V_h(z) = min_a (1 - w) (theta_h . psi + sum_z' p(z') V_{h+1}(z')) + w U_h,      w = w_h(z, a) the mass that is free
    U_h    = c_h + min(U_{h+1}, e_h)

c_h is the least cost of signals at a step, U_h the cost to go of UNSEEN, and e_h the least cost of signals that occur
once, at the step that ends the episode. The target of freed mass is chosen beforehand; the result is one law, and
planning in it is exact.
"""

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float, Int

from bidual._base.deadline import NEVER, Deadline
from bidual._base.types import place_on_device
from bidual.models import Known, Latents, Layout, Plausible, Rectangular
from bidual.planners._backward_induction import BackwardInduction
from bidual.planners._base import AbstractPlanner, Plan
from bidual.planners._class_search import ClassSearch
from bidual.planners._extended_value_iteration import ExtendedValueIteration


@final
@dataclass(frozen=True)
class UnseenOptimism(AbstractPlanner[Latents]):
    """The planner over latents. Its bound is exact over the laws that `Latents` allows, which proves nothing."""

    def __call__(self, model: Latents, psi: Layout, theta: Float[np.ndarray, "H d"]) -> Plan:
        """Send the free mass to its cheapest target, and plan exactly in the law that results."""
        if model.to == "seen":
            signals, to = model.signals, _find_cheapest(model, theta)
        else:
            ends = _find_ends(model, theta)
            best_signals = np.where(theta >= 0, model.low, model.high) * (~model.at_end | ends[:, None])
            signals = model.signals + model.freed[:, None] * best_signals[:, :, None, None]
            to = np.where(ends, model.end, model.unseen)
        law = model.law.copy()
        H, S, A, _ = law.shape
        law[np.arange(H)[:, None, None], np.arange(S)[:, None], np.arange(A), to[:, None, None]] += model.freed
        layout = replace(psi, signals=place_on_device(signals.swapaxes(2, 3)))
        return BackwardInduction()(_build_known(model, law), layout, theta)


def _find_ends(model: Latents, theta: Float[np.ndarray, "H d"]) -> Bool[np.ndarray, "H"]:
    """Return the steps at which UNSEEN should end the episode: only signals at the end of episodes can favour that."""
    least = theta * np.where(theta >= 0, model.low, model.high)
    each, once = least[:, ~model.at_end].sum(axis=1), least[:, model.at_end].sum(axis=1)
    ends, ahead = np.zeros(len(theta), dtype=bool), 0.0
    for h in reversed(range(len(theta))):
        ends[h] = once[h] < ahead
        ahead = each[h] + min(once[h], ahead)
    return ends


def _find_cheapest(model: Latents, theta: Float[np.ndarray, "H d"]) -> Int[np.ndarray, "H"]:
    """Return for every step the cheapest of the latents that were observed to follow it."""
    H, S = model.law.shape[:2]
    pays = np.einsum("hd,hdsa->hsa", theta, model.signals)
    to, V = np.full(H, model.end), np.zeros(S)
    for h in reversed(range(H)):
        met = model.met[h + 1]
        if met.any():
            to[h] = int(np.where(met, V, np.inf).argmin())
        Q = pays[h] + model.law[h] @ V + model.freed[h] * V[to[h]]
        V = np.where(model.allowed, Q, np.inf).min(axis=1)
    return to


def _build_known(model: Latents, law: Float[np.ndarray, "H S A S"]) -> Known:
    """Build a known model over latents from the law of every step."""
    S, A = law.shape[1:3]
    states = np.broadcast_to(np.arange(S, dtype=np.int32)[None, :, None, None], (1, S, A, S))
    return Known(
        place_on_device(states),
        place_on_device(law.transpose(0, 3, 2, 1)),
        place_on_device(model.allowed.T),
        place_on_device(model.start),
        kept=np.arange(S),
        fallback=np.argmax(model.allowed, axis=1),
    )


def choose_optimistic_planner(
    model: Rectangular | Plausible | Latents, nodes: int = 0, deadline: Deadline = NEVER
) -> AbstractPlanner[Any]:
    """Return the optimistic planner for a model; `nodes` and `deadline` limit the search where the minimum is hard."""
    if isinstance(model, Latents):
        return UnseenOptimism()
    return ClassSearch(nodes, deadline=deadline) if isinstance(model, Plausible) else ExtendedValueIteration()
