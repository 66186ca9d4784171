"""Names of states and actions, for tables, figures and errors; without them numbers stand there."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from jaxtyping import Int

from bidual._base.brief import describe_briefly
from bidual._base.errors import ModelError
from bidual._base.spelling import suggest


@final
@dataclass(frozen=True)
class Names:
    """The names of all states and of all actions, in the order of their numbers; None where they have none."""

    __repr__ = describe_briefly

    states: tuple[str, ...] | None = None
    actions: tuple[str, ...] | None = None

    def state(self, number: int) -> str:
        """Return the name of a state, or its number."""
        return str(number) if self.states is None else self.states[number]

    def action(self, number: int) -> str:
        """Return the name of an action, or its number."""
        return str(number) if self.actions is None else self.actions[number]

    def states_at(self, numbers: Int[np.ndarray, "n"]) -> np.ndarray:
        """Return the names of states as an array, or their numbers."""
        return _take(self.states, numbers)

    def actions_at(self, numbers: Int[np.ndarray, "n"]) -> np.ndarray:
        """Return the names of actions as an array, or their numbers."""
        return _take(self.actions, numbers)

    def find_state(self, name: str) -> int:
        """Return the number of the state called `name`; raise `KeyError` with a sentence where there is none."""
        return _find("state", name, self._state_numbers)

    def find_action(self, name: str) -> int:
        """Return the number of the action called `name`; raise `KeyError` with a sentence where there is none."""
        return _find("action", name, self._action_numbers)

    def row(self, state: int, action: int) -> str:
        """Describe a pair of state and action for an error: their numbers, and their names where they have some."""
        return f"{self.describe_state(state)}, {_describe('action', action, self.actions)}"

    def describe_state(self, number: int) -> str:
        """Describe a state for an error: its number, and its name where it has one."""
        return _describe("state", number, self.states)

    def check(self, num_states: int, num_actions: int) -> None:
        """Raise `ModelError` where there are more or fewer names than states or actions."""
        for what, names, count in (("states", self.states, num_states), ("actions", self.actions, num_actions)):
            if names is not None and len(names) != count:
                raise ModelError(
                    f"{what} has {len(names)} names, but the model has {count} {what}: give one name for each, in the "
                    "order of their numbers"
                )

    def to_json(self) -> dict[str, list[str]]:
        """Return the names as JSON values, without what has none."""
        both = {"states": self.states, "actions": self.actions}
        return {what: list(names) for what, names in both.items() if names is not None}

    @cached_property
    def _state_numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.states or ())}

    @cached_property
    def _action_numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.actions or ())}


UNNAMED = Names()


def read_names(states: object, actions: object) -> Names:
    """Check names given by a user, or read from a file: different texts; raise `ModelError` for anything else."""
    return UNNAMED if states is None and actions is None else Names(_read("states", states), _read("actions", actions))


def are_names(value: object) -> bool:
    """Return whether a value is a list of texts, by its first entry."""
    if isinstance(value, np.ndarray):
        return value.ndim == 1 and value.size > 0 and isinstance(value[0], str)
    return isinstance(value, list | tuple) and len(value) > 0 and isinstance(value[0], str)


def find(number: Callable[[str], int], name: str, error: type[Exception]) -> int:
    """Look a name up; raise `error` instead of `KeyError`."""
    try:
        return number(name)
    except KeyError as missing:
        raise error(missing.args[0]) from None


def _read(what: str, given: object) -> tuple[str, ...] | None:
    if given is None:
        return None
    one = what[:-1]
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ModelError(f"{what} must be a list of names, one for each {one}; got {given!r:.80}")
    numbers: dict[str, int] = {}
    entries: list[Any] = list(given)
    for i, name in enumerate(entries):
        if not (isinstance(name, str) and name and name.isprintable()):
            raise ModelError(f"{what}[{i}] is {name!r:.80}: the name of a {one} must be printable text, such as 'a1'")
        if numbers.setdefault(name, i) != i:
            raise ModelError(f"{what}[{numbers[name]}] and {what}[{i}] are both called {name!r}: names must differ")
    return tuple(str(name) for name in entries)


def _take(names: tuple[str, ...] | None, numbers: Int[np.ndarray, "n"]) -> np.ndarray:
    return numbers if names is None else np.array(names, dtype=object)[numbers]


def _find(what: str, name: str, numbers: dict[str, int]) -> int:
    if name in numbers:
        return numbers[name]
    if not numbers:
        raise KeyError(f"{what}s have no names here, so {name!r} is none of them: give its number")
    raise KeyError(f"no {what} is called {name!r}{suggest(name, numbers) or _list_few(numbers)}")


def _list_few(numbers: dict[str, int]) -> str:
    few = list(numbers)[:8]
    return f"; there are {', '.join(few)}{', ...' if len(numbers) > len(few) else ''}"


def _describe(what: str, number: int, names: tuple[str, ...] | None) -> str:
    named = names is not None and 0 <= number < len(names)
    return f"{what} {number} {names[number]!r}" if named and names is not None else f"{what} {number}"
