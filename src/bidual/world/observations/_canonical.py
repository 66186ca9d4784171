"""One text for every observation, equal where two observations are: JSON of whole numbers, texts, lists and objects.

Arrays, tuples and lists of the same entries are one observation, and so are 1, 1.0 and True, as they are for Python.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

LONGEST = 1 << 14  # characters: a file holds as many texts as there are states


def format_value(value: object) -> str:
    """Return the text of an observation; raise `ValueError` with a sentence where it has none."""
    text = json.dumps(_simplify(value), separators=(",", ":"), sort_keys=True, allow_nan=False)
    if len(text) > LONGEST:
        raise ValueError(f"it takes {len(text)} characters, and at most {LONGEST} are kept of a state")
    return text


def _simplify(value: Any) -> Any:  # noqa: ANN401 - whatever an environment shows
    """Return an observation as values of JSON."""
    if value is None or isinstance(value, str):
        return value if value is None else str(value)
    if isinstance(value, bool | np.bool_ | int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return _simplify_float(float(value))
    if isinstance(value, Mapping):
        return {_check_key(key): _simplify(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_simplify(entry) for entry in value]
    if hasattr(value, "__array__"):
        return _simplify_array(np.asarray(value))
    raise ValueError(
        f"a {type(value).__name__} is no number, text, tuple, array or dictionary, by which it could be known again"
    )


def _simplify_array(array: np.ndarray) -> Any:  # noqa: ANN401
    if array.dtype.kind in "biu":
        return array.astype(np.int64).tolist() if array.dtype.kind == "b" else array.tolist()
    if array.dtype.kind == "O" and not array.ndim:
        raise ValueError(f"a {type(array[()]).__name__} is no number")
    return _simplify(array.tolist())


def _simplify_float(number: float) -> int | float:
    if not math.isfinite(number):
        raise ValueError(f"{number} is no number by which it could be known again")
    return int(number) if number.is_integer() else number


def _check_key(key: object) -> str:
    if not isinstance(key, str):
        raise ValueError(f"the key {key!r:.40} of a dictionary is no text")
    return key
