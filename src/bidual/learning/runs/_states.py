"""The state of a run as JSON values and arrays, restored to the last bit.

Objects are stored by the names of their classes, of which only those listed here are ever restored: nothing of a file
is executed. Objects shared with the state before the first episode (the problem, its features, the settings) are not
stored but referred to by their place there: to resume a run, that state is constructed from the same problem first.
"""

from collections.abc import Iterator, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from jaxtyping import jaxtyped

from bidual import dual, models
from bidual._base.errors import ArchiveError
from bidual._base.types import Episode
from bidual.certificate import Record, bounds
from bidual.learning import outputs
from bidual.learning.learned import LearnProgress
from bidual.learning.state import LearnState
from bidual.loop import explorers
from bidual.loop.vpdpo import LoopState
from bidual.models import GrowingRows
from bidual.world import policies

# Names in files never change, whatever the classes are called today.
_CLASSES: dict[str, type] = {
    **{"Course": LearnState, "Look": LearnProgress, "Episode": Episode, "Record": Record, "LoopState": LoopState},
    **(bounds.STORED | models.STORED | policies.STORED | dual.STORED | explorers.STORED | outputs.STORED),
}
_NAMES = {kind: name for name, kind in _CLASSES.items()} | {tuple: "tuple", policies.PolicySequence: "tuple"}
_NUMBERS = {bool: (bool, np.bool_), int: (int, np.integer), float: (int, float, np.integer, np.floating)}
_UNFINISHED = object()


def pack_state(learn_state: LearnState, first: LearnState) -> tuple[Any, dict[str, np.ndarray]]:
    """Return a state as JSON values and arrays; `first` is the one before the first episode of the same run."""
    return _Packer(first).pack(learn_state)


def unpack_state(tree: Any, arrays: dict[str, np.ndarray], first: LearnState) -> LearnState:  # noqa: ANN401 - JSON
    """Restore a packed state, with a `first` that was constructed in the same way."""
    try:
        learn_state = _Unpacker(first, arrays).node(tree)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise ArchiveError(
            f"cannot restore the stored state ({error!r:.200}): the file is damaged or was written by another version"
        ) from error
    if not isinstance(learn_state, LearnState):
        raise ArchiveError(f"a stored state is a {type(learn_state).__name__}, not that of a run: it is damaged")
    return learn_state


class _Packer:
    """Objects already met, by identity: what is shared is stored once, and shared again afterwards."""

    def __init__(self, first: LearnState) -> None:
        self.first = list(_iterate_objects(first))  # kept, so that no other object gets the identity of one of them
        self.places = {id(thing): number for number, thing in reversed(list(enumerate(self.first)))}
        self.met: dict[int, int] = {}
        self.kept: list[Any] = []
        self.arrays: dict[str, np.ndarray] = {}

    def pack(self, learn_state: LearnState) -> tuple[Any, dict[str, np.ndarray]]:
        return self.node(learn_state), self.arrays

    def node(self, thing: Any) -> Any:  # noqa: ANN401
        """Encode an object as JSON values, whose arrays are kept aside; each object once."""
        if _is_plain(thing):
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
        if kind not in _NAMES:
            raise ArchiveError(f"a {kind.__module__}.{kind.__name__} has no place in a stored state")
        return {"make": _NAMES[kind], "of": [self.node(part) for part in _split(thing)]}


class _Unpacker:
    """The reverse of `_Packer`: the same walk in the same order, so that numbers mean the same objects."""

    def __init__(self, first: LearnState, arrays: dict[str, np.ndarray]) -> None:
        self.first, self.arrays, self.met = list(_iterate_objects(first)), arrays, []

    def node(self, tree: Any) -> Any:  # noqa: ANN401
        """Restore the object of a JSON value; the same value twice is the same object."""
        if _is_plain(tree):
            return tree
        if not isinstance(tree, dict):
            raise TypeError(f"{tree!r:.80} stands for nothing")
        if "float" in tree:
            return float.fromhex(tree["float"])
        if "first" in tree:
            return _get_at(self.first, tree["first"])
        if "same" in tree:
            return _get_at(self.met, tree["same"])
        number = len(self.met)
        self.met.append(_UNFINISHED)
        self.met[number] = self._build(tree)
        return self.met[number]

    def _build(self, tree: dict[str, Any]) -> Any:  # noqa: ANN401
        """Build an array, a tuple or an instance of a listed class from its checked parts."""
        if "array" in tree:
            array = self.arrays[tree["array"]]
            return array[()] if tree["scalar"] else array
        parts = [self.node(part) for part in tree["of"]]
        if tree["make"] == "tuple":
            return tuple(parts)
        kind = _CLASSES[tree["make"]]
        parts += _list_defaults(kind, len(parts))
        _check(kind, parts)
        if kind is GrowingRows:
            return GrowingRows.of(*parts)
        if issubclass(kind, tuple):
            return kind(*parts)
        instance = object.__new__(kind)
        for name, part in zip(_list_hints(kind), parts, strict=True):
            object.__setattr__(instance, name, part)
        return instance


def _get_at(things: list[Any], place: object) -> Any:  # noqa: ANN401
    if not isinstance(place, int) or place < 0 or things[place] is _UNFINISHED:
        raise IndexError(f"nothing stands at {place!r:.80}")
    return things[place]


@cache
def _list_hints(kind: type) -> dict[str, Any]:
    """Return the types of the fields of a class, in their order."""
    if kind is GrowingRows:
        return {"rows": np.ndarray}
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else kind._fields
    hints = get_type_hints(kind)
    return {name: hints[name] for name in names}


def _list_defaults(kind: type, count: int) -> list[Any]:
    """Return the defaults of fields that were added since a file was written: they come last."""
    if is_dataclass(kind):
        defaults = [field.default for field in fields(kind)[count:]]
    else:
        given = getattr(kind, "_field_defaults", {})
        defaults = [given.get(name, MISSING) for name in _list_hints(kind)][count:]
    return [] if MISSING in defaults else defaults


def _check(kind: type, parts: list[Any]) -> None:
    """Check the types of all parts: errors that would appear later, or not at all, are raised here."""
    with jaxtyped("context"):  # names of axes mean the same in all fields
        for (name, hint), part in zip(_list_hints(kind).items(), parts, strict=True):
            if not _fits(part, hint):
                raise TypeError(f"{kind.__name__}.{name} is not what it should be")


def _fits(thing: Any, hint: Any) -> bool:  # noqa: ANN401
    """Return whether a restored part is of the type that the class declares."""
    origin, inner = get_origin(hint) or hint, get_args(hint)
    if hint is Any or isinstance(hint, TypeVar):
        return True
    if origin in (Union, UnionType):
        return any(_fits(thing, one) for one in inner)
    if origin in (tuple, Sequence):
        return isinstance(thing, tuple | policies.PolicySequence) and all(_fits(one, inner[0]) for one in thing)
    if hint in (int, float) and isinstance(thing, bool):
        return False
    return isinstance(thing, _NUMBERS.get(hint, origin))


def _is_plain(thing: Any) -> bool:  # noqa: ANN401
    return thing is None or (isinstance(thing, bool | int | float | str) and not isinstance(thing, np.generic))


def _split(thing: Any) -> list[Any]:  # noqa: ANN401
    if isinstance(thing, GrowingRows):
        return [thing.rows]
    if is_dataclass(thing):
        return [getattr(thing, field.name) for field in fields(thing)]
    return list(thing) if isinstance(thing, tuple | policies.PolicySequence) else []


def _iterate_objects(thing: Any) -> Iterator[Any]:  # noqa: ANN401
    """Iterate over all objects inside one, itself included, in an order that depends on its structure alone."""
    if _is_plain(thing):
        return
    yield thing
    for part in _split(thing):
        yield from _iterate_objects(part)
