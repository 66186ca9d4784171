"""A state of the loop as JSON values and arrays, and back to the last bit.

Objects are stored by the names of their classes, of which only those listed here are ever made again: nothing of a file
is executed. What a state shares with the state before the first episode (the problem, its features, the settings) is
not stored but referred to by its place there: whoever resumes a run makes that state from the same problem first.
"""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from bidual._errors import ArchiveError
from bidual.dual import Bound, Duals
from bidual.dual._averages import Averages
from bidual.dual._follow_the_leader import Leader, Place
from bidual.dual._gradient_ascent import Ascent, Variables
from bidual.dual.projections import Pair
from bidual.explorers import Mixed, Planned
from bidual.explorers._bonus import Bonus
from bidual.explorers._lazy import Lazy
from bidual.explorers._linearised import Average
from bidual.explorers._steps import Steps
from bidual.models import Counts, Knowledge
from bidual.models._support import Support
from bidual.policies import DeterministicPolicy
from bidual.vpdpo import LoopState

_CLASSES: tuple[type, ...] = (
    *(LoopState, Knowledge, Counts, Support, DeterministicPolicy),
    *(Lazy, Planned, Mixed, Average, Bonus, Steps),
    *(Duals, Bound, Averages, Ascent, Variables, Pair, Leader, Place),
)
_NAMES = {kind.__name__: kind for kind in _CLASSES}


def packed(state: LoopState, first: LoopState) -> tuple[Any, dict[str, np.ndarray]]:
    """A state as JSON values and arrays; `first` is the state before the first episode of the same run."""
    return _Packer(first).pack(state)


def unpacked(words: Any, arrays: dict[str, np.ndarray], first: LoopState) -> LoopState:  # noqa: ANN401 - JSON
    """The state that was packed, with a `first` that was made in the same way."""
    try:
        state = _Unpacker(first, arrays).node(words)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise ArchiveError(
            f"a stored state cannot be made again ({error!r:.200}): it is damaged, or of other code"
        ) from error
    if not isinstance(state, LoopState):
        raise ArchiveError(f"a stored state is a {type(state).__name__}, not a state of the loop: it is damaged")
    return state


class _Packer:
    """Objects already met, by identity: what is shared is stored once, and shared again afterwards."""

    def __init__(self, first: LoopState) -> None:
        self.first = list(_objects(first))  # kept, so that no other object gets the identity of one of them
        self.places = {id(thing): number for number, thing in reversed(list(enumerate(self.first)))}
        self.met: dict[int, int] = {}
        self.kept: list[Any] = []
        self.arrays: dict[str, np.ndarray] = {}

    def pack(self, state: LoopState) -> tuple[Any, dict[str, np.ndarray]]:
        return self.node(state), self.arrays

    def node(self, thing: Any) -> Any:  # noqa: ANN401
        if _plain(thing):
            return {"float": thing.hex()} if isinstance(thing, float) else thing
        if id(thing) in self.places:
            return {"first": self.places[id(thing)]}
        if id(thing) in self.met:
            return {"same": self.met[id(thing)]}
        self.met[id(thing)] = len(self.kept)
        self.kept.append(thing)
        if isinstance(thing, np.ndarray | np.generic):
            name = str(len(self.arrays))
            self.arrays[name] = np.asarray(thing)
            return {"array": name, "scalar": isinstance(thing, np.generic)}
        kind = type(thing)
        if kind is not tuple and kind not in _CLASSES:
            raise ArchiveError(f"a {kind.__module__}.{kind.__name__} has no place in a stored state")
        return {"make": "tuple" if kind is tuple else kind.__name__, "of": [self.node(part) for part in _parts(thing)]}


class _Unpacker:
    """The same walk in the same order, so that numbers mean the same objects."""

    def __init__(self, first: LoopState, arrays: dict[str, np.ndarray]) -> None:
        self.first, self.arrays, self.met = list(_objects(first)), arrays, []

    def node(self, words: Any) -> Any:  # noqa: ANN401
        if not isinstance(words, dict):
            return words
        if "float" in words:
            return float.fromhex(words["float"])
        if "first" in words:
            return self.first[words["first"]]
        if "same" in words:
            return self.met[words["same"]]
        number = len(self.met)
        self.met.append(None)
        self.met[number] = self._made(words)
        return self.met[number]

    def _made(self, words: dict[str, Any]) -> Any:  # noqa: ANN401
        if "array" in words:
            array = self.arrays[words["array"]]
            return array[()] if words["scalar"] else array
        parts = [self.node(part) for part in words["of"]]
        if words["make"] == "tuple":
            return tuple(parts)
        kind = _NAMES[words["make"]]
        if issubclass(kind, tuple):
            return kind(*parts)
        made = object.__new__(kind)
        for field, part in zip(fields(kind), parts, strict=True):
            object.__setattr__(made, field.name, part)
        return made


def _plain(thing: Any) -> bool:  # noqa: ANN401
    return thing is None or (isinstance(thing, bool | int | float | str) and not isinstance(thing, np.generic))


def _parts(thing: Any) -> list[Any]:  # noqa: ANN401
    if is_dataclass(thing):
        return [getattr(thing, field.name) for field in fields(thing)]
    return list(thing) if isinstance(thing, tuple) else []


def _objects(thing: Any) -> Iterator[Any]:  # noqa: ANN401
    """Everything inside an object, itself included, in an order that belongs to its structure alone."""
    if _plain(thing):
        return
    yield thing
    for part in _parts(thing):
        yield from _objects(part)
