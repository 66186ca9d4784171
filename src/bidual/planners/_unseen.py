"""Planning among latents, what is not known of them hoped to be the best that is possible.

    V_h(z) = min_a (1 - w) (theta_h . psi + sum_z' p(z') V_{h+1}(z')) + w U_h,      w = w_h(z, a) the mass that is free
    U_h    = c_h + min(U_{h+1}, e_h)

c_h is the least that signals can cost at a step, U_h what UNSEEN costs from there on, and e_h the least that signals
cost which are paid once, by the step that ends the episode. Where freed mass goes is decided beforehand; what is left
is one law, and planning in it is exact.
"""

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int

from bidual._types import placed
from bidual.models import Known, Latents, Layout
from bidual.planners._backward_induction import BackwardInduction
from bidual.planners._base import AbstractPlanner, Plan


@final
@dataclass(frozen=True)
class UnseenOptimism(AbstractPlanner[Latents]):
    """The planner over latents. Its bound is exact for what `Latents` holds possible, which proves nothing."""

    def __call__(self, model: Latents, psi: Layout, theta: Float[np.ndarray, "H d"]) -> Plan:
        """Send what is free where it is cheapest, and plan."""
        if model.to == "seen":
            signals, to = model.signals, _cheapest(model, theta)
        else:
            ends = _ends(model, theta)
            hoped = np.where(theta >= 0, model.low, model.high) * (~model.at_end | ends[:, None])
            signals = model.signals + model.freed[:, None] * hoped[:, :, None, None]
            to = np.where(ends, model.end, model.unseen)
        law = model.law.copy()
        H, S, A, _ = law.shape
        law[np.arange(H)[:, None, None], np.arange(S)[:, None], np.arange(A), to[:, None, None]] += model.freed
        layout = replace(psi, signals=placed(signals.swapaxes(2, 3)))
        return BackwardInduction()(_known(model, law), layout, theta)


def _ends(model: Latents, theta: Float[np.ndarray, "H d"]) -> Bool[np.ndarray, "H"]:
    """At which steps it is best for UNSEEN to end the episode: only signals that are paid at the end can make it so."""
    least = theta * np.where(theta >= 0, model.low, model.high)
    each, once = least[:, ~model.at_end].sum(axis=1), least[:, model.at_end].sum(axis=1)
    ends, ahead = np.zeros(len(theta), dtype=bool), 0.0
    for h in reversed(range(len(theta))):
        ends[h] = once[h] < ahead
        ahead = each[h] + min(once[h], ahead)
    return ends


def _cheapest(model: Latents, theta: Float[np.ndarray, "H d"]) -> Int[np.ndarray, "H"]:
    """At every step the cheapest of the latents that were seen to follow it."""
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


def _known(model: Latents, law: Float[np.ndarray, "H S A S"]) -> Known:
    S, A = law.shape[1:3]
    states = np.broadcast_to(np.arange(S, dtype=np.int32)[None, :, None, None], (1, S, A, S))
    return Known(
        placed(states),
        placed(law.transpose(0, 3, 2, 1)),
        placed(model.allowed.T),
        placed(model.start),
        kept=np.arange(S),
        fallback=np.argmax(model.allowed, axis=1),
    )
