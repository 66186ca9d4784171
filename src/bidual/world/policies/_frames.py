"""Policies over states as tables to look at: frames of pandas, and the first rows for notebooks."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from bidual._base.frames import build_frame
from bidual._base.html import format_html_table

if TYPE_CHECKING:
    from pandas import DataFrame

_MOST_STEPS, _MOST_STATES = 10, 12  # in a notebook


def build_policy_frame(table: Float[np.ndarray, "H S A"]) -> "DataFrame":
    """Build a frame with a row for every action that is taken with some probability, as in a csv."""
    steps, states, actions = np.nonzero(table)
    return build_frame(
        {"step": steps, "state": states, "action": actions, "probability": table[steps, states, actions]}
    )


def format_policy(title: str, table: Float[np.ndarray, "H S A"]) -> str:
    """Return the likeliest action at the first steps in the first states, with its probability where it is below 1."""
    H, S, _ = table.shape
    header = ["step", *(f"state {s}" for s in range(min(S, _MOST_STATES)))]
    rows = [[str(h), *map(_describe_choice, table[h, :_MOST_STATES])] for h in range(min(H, _MOST_STEPS))]
    which = "the likeliest action" if H <= _MOST_STEPS and S <= _MOST_STATES else "the likeliest action, at first"
    return format_html_table(f"{title}: {which}", rows, header)


def _describe_choice(probabilities: Float[np.ndarray, "A"]) -> str:
    action = int(np.argmax(probabilities))
    return str(action) if probabilities[action] > 1 - 1e-9 else f"{action} ({probabilities[action]:.2f})"
