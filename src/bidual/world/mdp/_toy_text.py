"""Gymnasium's toy-text environments as tables: every possible transition, with its probability.

An ended episode stays ended: transitions with ``terminated`` lead to one added state, the last, with signals 0.
In the tables of Taxi and CliffWalking themselves the terminal states have further transitions.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from bidual._base.errors import FAILURES, ModelError
from bidual.problem.features import Arrival
from bidual.world.mdp._sparse import ROW_TOLERANCE
from bidual.world.mdp._successors import check_initial

if TYPE_CHECKING:
    from gymnasium import Env

_MANY = 10**6  # most entries of a signal on arrival, over states, actions and states

# Wrappers that record or stop an episode, without a change of its transitions and rewards.
_HARMLESS = (
    "HumanRendering",
    "OrderEnforcing",
    "PassiveEnvChecker",
    "RecordEpisodeStatistics",
    "RecordVideo",
    "TimeLimit",
)


class Transition(NamedTuple):
    """The argument of a signal over an environment's table, with the environment's numbers of states."""

    state: int
    action: int
    next_state: int
    reward: float
    terminated: bool


@final
@dataclass(frozen=True)
class Table:
    """The transitions of an environment with S states, ordered by state and action, with their probabilities."""

    num_states: int
    num_actions: int
    transitions: tuple[Transition, ...]
    chances: tuple[float, ...]

    def lists(self) -> tuple[Int[np.ndarray, "S A K"], Float[np.ndarray, "S A K"]]:
        """Return successor lists with the added state."""
        end = self.num_states
        places = [range(len(list(row))) for _, row in groupby(self.transitions, key=lambda t: (t.state, t.action))]
        states = np.full((end + 1, self.num_actions, max(map(len, places))), end)
        probabilities = np.zeros(states.shape)
        probabilities[end, :, 0] = 1.0
        order = [place for row in places for place in row]
        for t, chance, place in zip(self.transitions, self.chances, order, strict=True):
            states[t.state, t.action, place] = end if t.terminated else t.next_state
            probabilities[t.state, t.action, place] = chance
        return states, probabilities

    def signal(self, name: str, signal: Callable[[Transition], float]) -> Float[np.ndarray, "S A"] | Arrival:
        """Evaluate a signal given as a function, as an array; 0 in the added state.

        It is over states and actions where these determine it, and on arrival otherwise: an expectation would reveal
        the law to a learner. Only an expectation is possible where two transitions between the same states have
        different values, and in large models.
        """
        places = [(t.state, t.action, self.num_states if t.terminated else t.next_state) for t in self.transitions]
        values, rows = [_evaluate_signal(name, signal, t) for t in self.transitions], [place[:2] for place in places]
        by_row, by_place = (_average_by_key(keys, values, self.chances) for keys in (rows, places))
        shape = (self.num_states + 1, self.num_actions)
        if all(by_row[row] == value for row, value in zip(rows, values, strict=True)) or shape[0] * prod(shape) > _MANY:
            return _fill_array(shape, by_row)
        return Arrival(_fill_array((*shape, shape[0]), by_place))


def _evaluate_signal(name: str, signal: Callable[[Transition], float], t: Transition) -> float:
    value = signal(t)
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ModelError(f"signal {name!r} gives {value!r} for {t}: it must give a number") from None


def _average_by_key(
    keys: Sequence[tuple[int, ...]], values: Sequence[float], chances: Sequence[float]
) -> dict[tuple[int, ...], float]:
    """Average the values that share a key; exactly the value where all are the same."""
    found: dict[tuple[int, ...], list[tuple[float, float]]] = {}
    for key, value, chance in zip(keys, values, chances, strict=True):
        found.setdefault(key, []).append((value, chance))
    return {key: _average(pairs) for key, pairs in found.items()}


def _average(pairs: list[tuple[float, float]]) -> float:
    first, total = pairs[0][0], sum(chance for _, chance in pairs)
    if total == 0 or all(value == first for value, _ in pairs):
        return first
    return sum(value * chance for value, chance in pairs) / total


def _fill_array(shape: tuple[int, ...], entries: dict[tuple[int, ...], float]) -> Float[np.ndarray, "..."]:
    array = np.zeros(shape)
    for place, value in entries.items():
        array[place] = value
    return array


def open_environment(env: "Env[Any, Any] | str", options: dict[str, object]) -> "Env[Any, Any]":
    """Return the environment without its wrappers, constructing it first if it is given by name."""
    try:
        import gymnasium
    except ImportError as error:
        raise ModelError(f"from_gymnasium needs the package gymnasium: pip install gymnasium ({error})") from error
    if isinstance(env, str):
        env = _make(gymnasium.make, env, options)
    elif options:
        raise ModelError(
            f"{', '.join(options)}: options of gymnasium.make are read only with the name of an environment"
        )
    if not isinstance(env, gymnasium.Env):
        raise ModelError(
            f"from_gymnasium needs a gymnasium.Env, or the name of one; got a {type(env).__name__}. "
            "Arrays go to bd.TabularMDP itself"
        )
    while isinstance(env, gymnasium.Wrapper):
        kind = type(env).__name__
        if kind not in _HARMLESS:
            raise ModelError(
                f"the wrapper {kind} may change what the environment does, and its table P would not show it: "
                "give env.unwrapped, and write the change as a signal"
            )
        env = env.env
    return env


def read_table(env: "Env[Any, Any]") -> Table:
    """Read the table ``P[state][action] = [(probability, next state, reward, terminated), ...]`` of an environment."""
    kind = type(env).__name__
    P = getattr(env, "P", None)
    if P is None:
        raise ModelError(
            f"{kind} has no table P of transitions, so it is not a model but only a simulator: "
            "toy-text environments have one (FrozenLake, CliffWalking, Taxi); others need arrays, bd.TabularMDP(...)"
        )
    if getattr(env, "fickle_passenger", False):
        raise ModelError(f"{kind} with a fickle passenger does what its table P does not show: fickle_passenger=False")
    states = [_read_numbered(f"actions of P[{s}]", row) for s, row in enumerate(_read_numbered("states of P", P))]
    if not states or not states[0]:
        raise ModelError(f"the table P is empty: {kind} needs at least one state and one action")
    for s, row in enumerate(states):
        if len(row) != len(states[0]):
            raise ModelError(
                f"P[{s}] has {_format_count(row)}, but P[0] has {len(states[0])}: "
                "give bd.TabularMDP arrays with a mask of actions=..."
            )
    pairs = [
        pair
        for s, row in enumerate(states)
        for a, entries in enumerate(row)
        for pair in _read_row(s, a, entries, len(states))
    ]
    chances, transitions = zip(*pairs, strict=True)
    return Table(len(states), len(states[0]), transitions, chances)


def start_law(env: "Env[Any, Any]", initial: int | ArrayLike | None, size: int) -> Float[np.ndarray, "S"]:
    """Return the environment's own start law, or another one over its states; never in the added state."""
    if initial is None:
        initial = getattr(env, "initial_state_distrib", None)
    if initial is None:
        raise ModelError(
            f"{type(env).__name__} has no initial_state_distrib: say where episodes start, "
            "for example from_gymnasium(..., initial=0)"
        )
    return np.append(check_initial(initial, size), 0.0)


def _make(make: "Callable[..., Env[Any, Any]]", name: str, options: dict[str, object]) -> "Env[Any, Any]":
    try:
        return make(name, **options)
    except FAILURES as error:  # an environment's constructor may raise anything
        given = " with " + ", ".join(f"{key}={value!r}" for key, value in options.items()) if options else ""
        raise ModelError(f"gymnasium cannot make {name!r}{given}: {type(error).__name__}: {error}") from error


def _read_numbered(what: str, table: Any) -> list[Any]:  # noqa: ANN401
    """Return the entries 0, 1, 2, ... of a dict or list."""
    try:
        return [table[i] for i in range(len(table))]
    except (KeyError, TypeError):
        got = ", ".join(map(str, table)) if isinstance(table, dict) else f"a {type(table).__name__}"
        raise ModelError(f"the {what} must be numbered 0, 1, 2, ... without gaps; got {got:.80}") from None


def _read_row(state: int, action: int, entries: Any, size: int) -> list[tuple[float, Transition]]:  # noqa: ANN401
    """Read the possible transitions from one state under one action."""
    where = f"P[{state}][{action}]"
    try:
        row = [
            (float(chance), Transition(state, action, operator.index(next_state), float(reward), bool(terminated)))
            for chance, next_state, reward, terminated in entries
        ]
    except (TypeError, ValueError):
        raise ModelError(
            f"{where} must be a list of (probability, next state, reward, terminated); got {entries!s:.80}"
        ) from None
    for chance, transition in row:
        if not 0 <= chance < np.inf:
            raise ModelError(f"{where} holds the probability {chance:g}, which is not one")
        if not 0 <= transition.next_state < size:
            raise ModelError(f"{where} leads to state {transition.next_state}, but states are numbered 0 to {size - 1}")
    total = sum(chance for chance, _ in row)
    if abs(total - 1) > ROW_TOLERANCE:
        raise ModelError(f"the probabilities of {where} sum to {total:.12g}, not 1: correct the environment's table")
    return [(chance, transition) for chance, transition in row if chance > 0]


def _format_count(row: list[object]) -> str:
    return f"{len(row)} action" + "s" * (len(row) != 1)
