"""The law of the first state as one more row: declared, or in a ball around what was seen."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bidual.models._radius import ball_radius


class StartRow(NamedTuple):
    """States that episodes can start in, their frequencies, and the radius of the ball around these."""

    states: Int[np.ndarray, "K"]
    frequencies: Float[np.ndarray, "K"]
    radius: float  # per sample; 0 where the law is known, inf where nothing was seen


def start_row(
    starts: Float[np.ndarray, "S"], initial: Float[np.ndarray, "S"] | None, log_share: float, *, pathwise: bool = False
) -> StartRow:
    """From how often each state was the first; with `pathwise` chance itself may be chosen."""
    if initial is not None:
        states = np.flatnonzero(initial)
        law = initial[states]
        return StartRow(states, np.zeros_like(law), np.inf) if pathwise else StartRow(states, law, 0.0)
    n = starts.sum()
    if n == 0:
        return StartRow(np.arange(starts.size), np.zeros(starts.size), np.inf)
    radius = ball_radius(starts[None], np.array([starts.size]), log_share)[0]
    return StartRow(np.arange(starts.size), starts / n, float(radius / n))
