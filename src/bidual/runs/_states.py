"""Where a run stands, as JSON values and arrays, and back to the last bit.

Objects are stored by the names of their classes, of which only those listed here are ever made again: nothing of a file
is executed. What a course shares with the one before the first episode (the problem, its features, the settings) is
not stored but referred to by its place there: whoever resumes a run makes that one from the same problem first.
"""

from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from jaxtyping import jaxtyped

from bidual._course import Course
from bidual._errors import ArchiveError
from bidual._types import Episode
from bidual.bounds import Executed, Restarts
from bidual.bounds._range import Range
from bidual.certificate import Record
from bidual.dual import Bound, Duals
from bidual.dual._averages import Averages
from bidual.dual._follow_the_leader import Leader, Place
from bidual.dual._gradient_ascent import Ascent, Variables
from bidual.dual.projections import Pair
from bidual.explorers import Mixed, Planned
from bidual.explorers._bonus import Bonus
from bidual.explorers._controls import Controlled
from bidual.explorers._lazy import Lazy
from bidual.explorers._linearised import Average
from bidual.explorers._steps import Steps
from bidual.explorers._turns import Owed
from bidual.learned import Look
from bidual.models import (
    Candidates,
    ClassKnowledge,
    ControlKnowledge,
    Counts,
    Knowledge,
    Latent,
    LatentKnowledge,
    LinearKnowledge,
    Moments,
)
from bidual.models._archive import Archive
from bidual.models._decoded_counts import Tally
from bidual.models._families import Categorical, Gaussian
from bidual.models._reading import Reader
from bidual.models._support import Support
from bidual.outputs import Shown, Sums
from bidual.policies import (
    CategoricalEmission,
    DecodedPolicy,
    Decoder,
    DeterministicPolicy,
    GaussianEmission,
)
from bidual.vpdpo import LoopState

_CLASSES: tuple[type, ...] = (
    *(Course, Executed, Restarts, Range, Sums, Episode, Look, Candidates, Shown, Record),
    *(LoopState, Knowledge, ClassKnowledge, LinearKnowledge, Counts, Support, DeterministicPolicy),
    *(LatentKnowledge, Latent, Reader, Archive, Tally, Gaussian, Categorical),
    *(DecodedPolicy, Decoder, GaussianEmission, CategoricalEmission),
    *(ControlKnowledge, Moments, Controlled, Owed),
    *(Lazy, Planned, Mixed, Average, Bonus, Steps),
    *(Duals, Bound, Averages, Ascent, Variables, Pair, Leader, Place),
)
_NAMES = {kind.__name__: kind for kind in _CLASSES}
_NUMBERS = {bool: (bool, np.bool_), int: (int, np.integer), float: (int, float, np.integer, np.floating)}
_UNFINISHED = object()


def packed(course: Course, first: Course) -> tuple[Any, dict[str, np.ndarray]]:
    """A course as JSON values and arrays; `first` is the one before the first episode of the same run."""
    return _Packer(first).pack(course)


def unpacked(words: Any, arrays: dict[str, np.ndarray], first: Course) -> Course:  # noqa: ANN401 - JSON
    """The course that was packed, with a `first` that was made in the same way."""
    try:
        course = _Unpacker(first, arrays).node(words)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise ArchiveError(
            f"a stored state cannot be made again ({error!r:.200}): it is damaged, or of other code"
        ) from error
    if not isinstance(course, Course):
        raise ArchiveError(f"a stored state is a {type(course).__name__}, not that of a run: it is damaged")
    return course


class _Packer:
    """Objects already met, by identity: what is shared is stored once, and shared again afterwards."""

    def __init__(self, first: Course) -> None:
        self.first = list(_objects(first))  # kept, so that no other object gets the identity of one of them
        self.places = {id(thing): number for number, thing in reversed(list(enumerate(self.first)))}
        self.met: dict[int, int] = {}
        self.kept: list[Any] = []
        self.arrays: dict[str, np.ndarray] = {}

    def pack(self, course: Course) -> tuple[Any, dict[str, np.ndarray]]:
        return self.node(course), self.arrays

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

    def __init__(self, first: Course, arrays: dict[str, np.ndarray]) -> None:
        self.first, self.arrays, self.met = list(_objects(first)), arrays, []

    def node(self, words: Any) -> Any:  # noqa: ANN401
        if _plain(words):
            return words
        if not isinstance(words, dict):
            raise TypeError(f"{words!r:.80} stands for nothing")
        if "float" in words:
            return float.fromhex(words["float"])
        if "first" in words:
            return _at(self.first, words["first"])
        if "same" in words:
            return _at(self.met, words["same"])
        number = len(self.met)
        self.met.append(_UNFINISHED)
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
        parts += _missing(kind, len(parts))
        _check(kind, parts)
        if kind is Archive:
            return Archive.of(*parts)
        if issubclass(kind, tuple):
            return kind(*parts)
        made = object.__new__(kind)
        for name, part in zip(_hints(kind), parts, strict=True):
            object.__setattr__(made, name, part)
        return made


def _at(things: list[Any], place: object) -> Any:  # noqa: ANN401
    if not isinstance(place, int) or place < 0 or things[place] is _UNFINISHED:
        raise IndexError(f"nothing stands at {place!r:.80}")
    return things[place]


@cache
def _hints(kind: type) -> dict[str, Any]:
    """What the fields of a class should be, in their order."""
    if kind is Archive:
        return {"rows": np.ndarray}
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else kind._fields
    hints = get_type_hints(kind)
    return {name: hints[name] for name in names}


def _missing(kind: type, count: int) -> list[Any]:
    """Fields that were added since a file was written: they come last, and have defaults."""
    if is_dataclass(kind):
        defaults = [field.default for field in fields(kind)[count:]]
    else:
        given = getattr(kind, "_field_defaults", {})
        defaults = [given.get(name, MISSING) for name in _hints(kind)][count:]
    return [] if MISSING in defaults else defaults


def _check(kind: type, parts: list[Any]) -> None:
    """Nothing is made of parts that do not fit: what would fail later, or not at all, fails here."""
    with jaxtyped("context"):  # names of axes mean the same in all fields
        for (name, hint), part in zip(_hints(kind).items(), parts, strict=True):
            if not _fits(part, hint):
                raise TypeError(f"{kind.__name__}.{name} is not what it should be")


def _fits(thing: Any, hint: Any) -> bool:  # noqa: ANN401
    origin, inner = get_origin(hint) or hint, get_args(hint)
    if hint is Any or isinstance(hint, TypeVar):
        return True
    if origin in (Union, UnionType):
        return any(_fits(thing, one) for one in inner)
    if origin is tuple:
        return isinstance(thing, tuple) and all(_fits(one, inner[0]) for one in thing)
    if hint in (int, float) and isinstance(thing, bool):
        return False
    return isinstance(thing, _NUMBERS.get(hint, origin))


def _plain(thing: Any) -> bool:  # noqa: ANN401
    return thing is None or (isinstance(thing, bool | int | float | str) and not isinstance(thing, np.generic))


def _parts(thing: Any) -> list[Any]:  # noqa: ANN401
    if isinstance(thing, Archive):
        return [thing.rows]
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
