"""Policies over states as tables to look at: frames of pandas, and the first rows for notebooks."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from bidual._base.frames import build_frame
from bidual._base.html import format_html_table
from bidual._base.names import UNNAMED, Names

if TYPE_CHECKING:
    from pandas import DataFrame

_MOST_STEPS, _MOST_STATES = 10, 12  # in a notebook


def build_policy_frame(table: Float[np.ndarray, "H S A"], names: Names = UNNAMED, place: str = "state") -> "DataFrame":
    """Build a frame with a row for every action that is taken with some probability, as in a csv."""
    return build_frame(list_choices(table, names, place))


def list_choices(
    table: Float[np.ndarray, "H S A"], names: Names = UNNAMED, place: str = "state"
) -> dict[str, np.ndarray]:
    """List step, state, action and probability of every action that is taken with some probability."""
    steps, states, actions = np.nonzero(table)
    chances = table[steps, states, actions]
    return {
        "step": steps,
        place: names.states_at(states),
        "action": names.actions_at(actions),
        "probability": chances,
    }


def format_policy(title: str, table: Float[np.ndarray, "H S A"], names: Names = UNNAMED) -> str:
    """Return the likeliest action at the first steps in the first states, with its probability where it is below 1."""
    H, S, _ = table.shape
    first = range(min(S, _MOST_STATES))
    header = ["step", *(f"state {s}" if names.states is None else names.state(s) for s in first)]
    rows = [[str(h), *(_describe_choice(table[h, s], names) for s in first)] for h in range(min(H, _MOST_STEPS))]
    which = "the likeliest action" if H <= _MOST_STEPS and S <= _MOST_STATES else "the likeliest action, at first"
    return format_html_table(f"{title}: {which}", rows, header)


def _describe_choice(probabilities: Float[np.ndarray, "A"], names: Names) -> str:
    action = int(np.argmax(probabilities))
    name = names.action(action)
    return name if probabilities[action] > 1 - 1e-9 else f"{name} ({probabilities[action]:.2f})"
