"""Signals that controllers plan with, in files: names, bounds and sizes and, of those that are no functions, recipes.

Text and what `bd.features.rbf` and `quadratic` make are stored, and nothing of them is executed. Functions of the user
are not: the reader of a file passes them again.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bidual._base.errors import ArchiveError, PolicyError
from bidual._base.types import float64
from bidual.models import describe_signals
from bidual.problem.features import Computed, Recipe, Signal, read_signal, signal

_NEAR = 1e-5  # of the largest value: functions may have constants in single precision
_TABLE = "signal_"  # and the number of a signal: arrays of its recipe


def store_recipes(features: Computed) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the recipes of signals as a part of a header and arrays; nothing where all are functions of the user."""
    recipes = [one.recipe for one in features.signals]
    if not any(recipes):
        return {}, {}
    tables = {
        f"{_TABLE}{i}_{name}": table for i, one in enumerate(recipes) if one for name, table in one.arrays.items()
    }
    return {"recipes": [None if one is None else one.header for one in recipes]}, tables


@float64
def write_as_texts(
    features: Computed, texts: Mapping[str, str], transitions: tuple[np.ndarray, np.ndarray, np.ndarray]
) -> Computed:
    """Return the signals with those that are named as texts; raise where a text has other values on the transitions."""
    signals = [
        _write_as_text(name, one, texts[name], transitions) if name in texts else one
        for name, one in zip(features.names, features.signals, strict=True)
    ]
    return Computed(features.names, tuple(signals))


def _write_as_text(name: str, one: Signal, text: str, transitions: tuple[np.ndarray, np.ndarray, np.ndarray]) -> Signal:
    written = signal(text, one.low, one.high, size=one.size)
    values, read = (np.asarray(jax.vmap(each.value)(*map(jnp.asarray, transitions))) for each in (one, written))
    room = _NEAR * (1 + np.nanmax(np.abs(values)))
    differ = ~np.all(np.isclose(values, read, rtol=0, atol=room, equal_nan=True), axis=1)
    if differ.any():
        first = int(np.argmax(differ))
        obs, control, next_obs = (part[first].round(3).tolist() for part in transitions)
        raise PolicyError(
            f"the text for {name!r} is another signal: at obs={obs}, control={control}, next_obs={next_obs} the "
            f"function is {np.squeeze(values[first]).tolist()} and the text {np.squeeze(read[first]).tolist()}"
        )
    return written


def read_recipes(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> list[Recipe | None]:
    """Read the recipes of all signals of a header; None for functions of the user, which older files have alone."""
    headers = header.get("recipes", [None] * len(header["signals"]))
    if len(headers) != len(header["signals"]):
        raise ValueError(f"it has {len(headers)} recipes of {len(header['signals'])} signals")
    tables: list[dict[str, np.ndarray]] = [{} for _ in headers]
    for name in arrays:
        if name.startswith(_TABLE):
            number, _, own = name.removeprefix(_TABLE).partition("_")
            table = arrays[name]
            if table.dtype != np.float64 or not np.isfinite(table).all():
                raise ValueError(f"{name} holds what is no number")
            tables[int(number)][own] = table
    return [None if one is None else Recipe(one, own) for one, own in zip(headers, tables, strict=True)]


def read_signals(header: list[list[Any]], recipes: list[Recipe | None], given: Computed | None) -> Computed:
    """Return the signals: those given, which must match the stored names, bounds and sizes, and else those of recipes.

    Given need be those without a recipe.
    """
    missing = [name for (name, *_), recipe in zip(header, recipes, strict=True) if recipe is None]
    if given is None and missing:
        names = ", ".join(f"{name}=..." for name in missing)
        raise ArchiveError(
            f"its controller plans again as it goes, with signals that are functions ({', '.join(missing)}), and "
            "functions are not stored in files: give the same ones again, "
            f"bd.load(path, features=bd.features.computed({names})). Signals written as text are stored, "
            "bd.features.signal('cos(next_obs[0])', -1, 1). Other programs can run a policy of "
            "bd.control.Feedback(), which holds nothing but arrays"
        )
    chosen = [one for one in header if given is None or one[0] in given.names]
    if given is not None and (describe_signals(given) != chosen or not {*missing} <= {*given.names}):
        then, now = (", ".join(_describe_signal(one) for one in each) for each in (header, describe_signals(given)))
        raise ArchiveError(
            f"its controller plans with other signals than those given: {then} then, {now} now. "
            "Names, order, bounds and sizes must be the same"
        )
    if given is not None and len(chosen) == len(header):
        return given
    return _build_signals(_Recipes(header, recipes), given)


class _Recipes:
    """Stored signals as a key of a cache: a run has thousands of policies over the same ones."""

    def __init__(self, header: list[list[Any]], recipes: list[Recipe | None]) -> None:
        self.header, self.recipes = header, recipes
        tables = [(name, one.tobytes()) for recipe in recipes if recipe for name, one in recipe.arrays.items()]
        self._key = json.dumps([header, [recipe and recipe.header for recipe in recipes]]), tuple(tables)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Recipes) and self._key == other._key


@lru_cache(maxsize=16)
def _build_signals(stored: _Recipes, given: Computed | None) -> Computed:
    own = {} if given is None else dict(zip(given.names, given.signals, strict=True))
    read = [
        own[name] if recipe is None or name in own else read_signal(recipe, *ends)
        for (name, *ends), recipe in zip(stored.header, stored.recipes, strict=True)
    ]
    return Computed(tuple(name for name, *_ in stored.header), tuple(read))


def _describe_signal(header: list[Any]) -> str:
    name, low, high, size = header
    ends = f"{'no end' if low is None else low} to {'no end' if high is None else high}"
    return f"{name} ({ends}{'' if size is None else f', {size} numbers'})"
