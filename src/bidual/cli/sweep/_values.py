"""Values of a sweep's file: their types, and the errors for malformed ones."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_args, get_type_hints

from bidual._base.errors import TaskError
from bidual._base.spelling import list_possible
from bidual.cli._explorer_options import DUALS, EXPLORERS
from bidual.cli._options import Options
from bidual.cli.learn import SETS

T = TypeVar("T")

_CHOICES = {"support": ("declared", "unknown"), "explorer": EXPLORERS, "dual": DUALS, "confidence": SETS}
_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text in quotes"}


def check_option(path: Path, where: str, value: object, lists: str | None) -> bool | int | float | str:
    """Check an option of `bidual learn`, named at the end of `where`; `lists` is the place for several values."""
    key = where.split()[-1]
    if isinstance(value, list) and lists is not None:
        raise TaskError(f"{path}: {where} = {value!r:.80} has several values: they belong under {lists}")
    if key in _CHOICES and value not in _CHOICES[key]:
        raise TaskError(f"{path}: {where} cannot be {value!r:.80}{list_possible(value, _CHOICES[key])}")
    kind = _find_kind(key)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not kind:
        raise TaskError(f"{path}: {where} must be {_KINDS[kind]}; got {value!r:.80}")
    assert isinstance(value, bool | int | float | str)
    return value


def check_setting(path: Path, where: str, value: object) -> int | float | str:
    """Check the value of a parameter of a task."""
    if isinstance(value, bool) or not isinstance(value, int | float | str) or value == "":
        raise TaskError(f"{path}: {where} must be a number, or a list of them; got {value!r:.80}")
    return value


def list_of(path: Path, where: str, value: object, remedy: str) -> list[Any]:
    """Check that a value is a list that is not empty."""
    if not isinstance(value, list):
        raise TaskError(f"{path}: {where} must be a list; got {value!r:.80}{': ' * bool(remedy)}{remedy}")
    if not value:
        raise TaskError(f"{path}: {where} is an empty list: give it a value, or leave it out")
    return value


def check_distinct(path: Path, where: str, values: Sequence[T]) -> tuple[T, ...]:
    """Return the values, none of which may be there twice, because the same jobs would be."""
    for place, value in enumerate(values):
        if value in values[:place]:
            raise TaskError(f"{path}: {where} has {value!r} twice, which would be the same cells twice: remove one")
    return tuple(values)


def check_known(path: Path, where: str, given: Iterable[str], known: Sequence[str], instead: Mapping[str, str]) -> None:
    """Raise on unknown keys: they are misspelt."""
    for key in given:
        if key in instead:
            raise TaskError(f"{path}: {where}{key!r} is not set here: write {instead[key]}")
        if key not in known:
            raise TaskError(f"{path}: {where}there is no {key!r}{list_possible(key, known)}")


def _find_kind(key: str) -> type:
    """Return the type of an option; optional ones have the type of their value."""
    hint = get_type_hints(Options)[key]
    kinds = [kind for kind in get_args(hint) if kind is not NoneType] or [hint]
    return kinds[0]
