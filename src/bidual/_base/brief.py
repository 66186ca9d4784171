"""Short descriptions of objects with arrays in them: for ``__repr__``, so that it fits on a screen."""

from collections.abc import Collection
from dataclasses import fields, is_dataclass
from typing import Any, cast

MOST = 400  # characters of any description
_MOST_OF_FIELD = 60
_MOST_ENTRIES = 4  # of a collection or an array that is written out


def describe_briefly(self: object) -> str:
    """Describe a dataclass, whose ``__repr__`` this is: arrays and long collections by their size, parts by class."""
    kind = type(self).__name__
    names = (field.name for field in fields(cast(Any, self)) if field.repr)
    text = ", ".join(f"{name}={_describe_field(getattr(self, name))}" for name in names)
    return f"{kind}({shorten(text, MOST - len(kind) - 2)})"


def shorten(text: str, most: int = MOST) -> str:
    """Return a text of at most `most` characters: a longer one ends in dots."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _describe_field(value: Any) -> str:  # noqa: ANN401 - whatever a field holds
    """Write the value of a field on a line: large arrays and records by their sizes."""
    if is_dataclass(value):
        return f"{getattr(value, '__name__', type(value).__name__)}(...)"
    if hasattr(value, "dtype") and getattr(value, "size", 0) > _MOST_ENTRIES:
        return f"array {tuple(value.shape)}"
    if isinstance(value, Collection) and not isinstance(value, str) and len(value) > _MOST_ENTRIES:
        return f"{type(value).__name__} of {len(value)}"
    if isinstance(value, tuple) and any(is_dataclass(one) for one in value):
        return f"({', '.join(map(_describe_field, value))})"
    return shorten(repr(value).replace("\n", " "), _MOST_OF_FIELD)
