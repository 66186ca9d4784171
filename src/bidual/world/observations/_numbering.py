"""Numberings: from an observation, or what a function of the user makes of it, to the number of a state.

Numbers are known beforehand (`NumberRange`, `FiniteSpace`), or given in the order of meeting (`Met`). How many there
can be is then declared before the first episode. Bounds hold for any states numbered so, because their sets of laws
treat all states alike, as long as there are not more (docs/certificates.md).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

from bidual._base.brief import describe_briefly
from bidual._base.errors import FAILURES, PolicyError
from bidual._base.names import UNNAMED, Names
from bidual.world.observations._canonical import LONGEST, format_value
from bidual.world.observations._numbers import FiniteSpace, Met, NumberRange
from bidual.world.observations._spaces import SpacePart

MOST = 10**7  # states that a file may declare: tables of more are none of ours


class NotNumbered(Exception):
    """An observation without a number: what it came from, and why it has none."""

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(source, reason)
        self.source, self.reason = source, reason

    def describe(self, where: str = "") -> str:
        """Return the message, with the place where it was met."""
        return f"{self.source}{where}{self.reason}"


@final
@dataclass(frozen=True, eq=False)
class Numbering:
    """A numbering of observations, or of what a function of the user gives for them.

    The function is not stored in files: `functional` says that there is one.
    """

    __repr__ = describe_briefly

    numbers: NumberRange | FiniteSpace | Met
    function: Callable[[Any], Any] | None = None
    functional: bool = False
    entries: int | None = None  # of an observation, where that is an array

    @property
    def size(self) -> int:
        """The number of states."""
        return self.numbers.size

    @property
    def grows(self) -> bool:
        """Whether numbers are given as observations are met."""
        return isinstance(self.numbers, Met)

    @property
    def keys(self) -> tuple[str, ...]:
        """The texts of what was met so far; none where numbers are known beforehand."""
        return self.numbers.keys if isinstance(self.numbers, Met) else ()

    def with_keys(self, keys: tuple[str, ...]) -> "Numbering":
        """Return the numbering after these were met."""
        if keys == self.keys or not isinstance(self.numbers, Met):
            return self
        return replace(self, numbers=Met(self.numbers.limit, keys))

    @property
    def is_identity(self) -> bool:
        """Whether observations are the numbers themselves."""
        return self.numbers == NumberRange(self.size) and not self.functional

    def evaluate(self, observation: Any) -> Any:  # noqa: ANN401 - whatever an environment shows
        """Return what is numbered: the value of the function, or the observation itself."""
        if self.function is None:
            return observation
        try:
            return self.function(observation)
        except FAILURES as error:
            raise NotNumbered(
                f"states({observation!r:.80}) failed",
                f": {type(error).__name__}: {error}. It must give a state for every observation",
            ) from error

    def number(self, observation: Any, value: Any) -> int | str:  # noqa: ANN401
        """Return the number of an observation with a value, or the text of one that was not met."""
        try:
            if not isinstance(self.numbers, Met):
                return self.numbers.number(value)
            key = format_value(value)
        except ValueError as error:
            text = f"{value!r}" if isinstance(value, int) else f"{value!r:.80}"
            source = f"states({observation!r:.80}) gave {text}" if self.functional else f"the observation {text}"
            raise NotNumbered(source, self._complete(str(error))) from None
        found = self.numbers.find(key)
        return key if found is None else found

    def read(self, step: int, observation: Any) -> int:  # noqa: ANN401
        """Return the state of an observation, for a policy; all that were not met are one state."""
        del step
        if self.functional and self.function is None:
            raise PolicyError(
                "the states of this policy are what a function gives for observations, and functions are not stored in "
                "files: give it with the file, bd.load(path, states=function)"
            )
        try:
            found = self.number(observation, self.evaluate(observation))
        except NotNumbered as error:
            raise PolicyError(error.describe()) from error
        if isinstance(found, int):
            return found
        assert isinstance(self.numbers, Met)
        if len(self.numbers.keys) < self.numbers.limit:
            return len(self.numbers.keys)
        raise PolicyError(
            f"the observation {observation!r:.80} was not met while the policy was learned, and there is no state for "
            f"such: it has met all {self.size} that were declared (states_limit)"
        )

    def with_function(self, function: Callable[[Any], Any]) -> "Numbering":
        """Return the numbering of a file with its function."""
        return replace(self, function=function)

    def matches(self, other: "Numbering") -> bool:
        """Return whether both are of the same kind, so that one may go on from the other."""
        mine, theirs = (one.describe() for one in (self, other))
        return mine == theirs

    def describe(self) -> dict[str, Any]:
        """Return the kind of numbering as JSON values, without what was met."""
        header = self.to_json()
        return {name: value for name, value in header.items() if name != "keys"}

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return self.numbers.to_json() | {"function": self.functional, "entries": self.entries}

    @cached_property
    def names(self) -> Names:
        """The states as texts, and one more for the end of an episode; none where they are numbers themselves."""
        if isinstance(self.numbers, NumberRange) and (self.functional or not self.numbers.first):
            return UNNAMED
        return Names((*self.numbers.texts, "ended"))

    def assumptions(self) -> tuple[str, ...]:
        """Return what is taken for granted of the observations, in words."""
        found = []
        if isinstance(self.numbers, Met):
            what = "values of the function states" if self.functional else "observations"
            found.append(
                f"at most {self.numbers.limit} different {what} can occur, numbered as they were met: "
                f"{len(self.numbers.keys)} so far"
            )
        if self.functional:
            found.append(
                "the function states keeps what matters: observations that it gives one value behave alike from then on"
            )
        return tuple(found)

    def _complete(self, reason: str) -> str:
        if isinstance(self.numbers, Met):
            return f" cannot be numbered: {reason}. " + (
                "Give a number, a text, or a tuple of such" if self.functional else "Give states=, a function of it"
            )
        return reason + (", or num_states" if self.functional and reason.endswith("correct it") else "")


def read_numbering(header: object) -> Numbering:
    """Read a numbering of a file; raise `ValueError` where it is malformed."""
    try:
        return _read(header)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"its numbering of observations is none ({error!r:.80})") from error


def _read(header: Any) -> Numbering:  # noqa: ANN401 - JSON
    functional, entries = header["function"], header["entries"]
    if not isinstance(functional, bool):
        raise TypeError(functional)
    numbers = _READERS[header["kind"]](header)
    return Numbering(numbers, None, functional, None if entries is None else _read_count(entries))


def _read_range(header: Any) -> NumberRange:  # noqa: ANN401
    return NumberRange(_read_count(header["size"]), _read_whole(header["first"]))


def _read_product(header: Any) -> FiniteSpace:  # noqa: ANN401
    product = FiniteSpace(tuple(_read_leaf(leaf) for leaf in header["leaves"]))
    _read_count(product.size)
    return product


def _read_met(header: Any) -> Met:  # noqa: ANN401
    met = Met(_read_count(header["limit"]), tuple(header["keys"]))
    if not all(isinstance(key, str) and len(key) <= LONGEST for key in met.keys):
        raise TypeError("texts")
    if len(met.keys) > met.limit or len(set(met.keys)) < len(met.keys):
        raise ValueError("its observations are more than were declared, or twice there")
    return met


_READERS: dict[str, Callable[[Any], NumberRange | FiniteSpace | Met]] = {
    "range": _read_range,
    "space": _read_product,
    "met": _read_met,
}


def _read_leaf(written: Any) -> SpacePart:  # noqa: ANN401 - JSON
    path, shape, low, sizes = written
    if not all(isinstance(key, str | int) for key in path):
        raise TypeError(path)
    leaf = SpacePart(
        tuple(path), tuple(map(_read_whole, shape)), tuple(map(_read_whole, low)), tuple(map(_read_count, sizes))
    )
    if not math.prod(leaf.shape) == len(leaf.low) == len(leaf.sizes):
        raise ValueError("a part of its observations has another shape than its ranges")
    return leaf


def _read_whole(written: object) -> int:
    if type(written) is not int:
        raise TypeError(written)
    return written


def _read_count(written: object) -> int:
    count = _read_whole(written)
    if not 1 <= count <= MOST:
        raise ValueError(f"there are not {count} states")
    return count
