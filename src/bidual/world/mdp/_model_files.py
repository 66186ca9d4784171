"""Models in the files of model checkers: what they have in common, and errors that name the line."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import NoReturn, final

import numpy as np
from jaxtyping import Bool, Float, Int

from bidual._base.errors import ModelError

_LONGEST = 80  # characters of a line in an error


@final
@dataclass(frozen=True)
class FileLine:
    """A line of a file, with its place."""

    path: Path
    number: int
    text: str

    def refuse(self, expected: str) -> NoReturn:
        """Raise `ModelError`: the line, what was read, what was expected."""
        raise ModelError(f"{self.path}, line {self.number}: read {self.text[:_LONGEST]!r}, expected {expected}")

    def read_whole(self, text: str, what: str, end: int | None = None) -> int:
        """Read a whole number, from 0 to below `end`."""
        if not (text.isascii() and text.isdigit()) or (end is not None and int(text) >= end):
            self.refuse(f"{what}, a whole number{'' if end is None else f' from 0 to {end - 1}'}, not {text!r}")
        return int(text)

    def read_number(self, text: str, what: str) -> float:
        """Read a finite number; fractions are numbers too."""
        try:
            value = float(Fraction(text)) if "/" in text else float(text)
        except (ValueError, ZeroDivisionError, OverflowError):
            value = np.nan
        if not np.isfinite(value):
            self.refuse(f"{what}, a finite number, not {text!r}")
        return value


@final
@dataclass(eq=False)
class ModelTables:
    """The contents of a model file, filled line by line; choices are numbered within their states."""

    num_states: int
    choices: list[tuple[int, str]] = field(default_factory=list)  # state and name of every choice
    entries: list[tuple[int, int, float]] = field(default_factory=list)  # choice, next state, probability
    labels: dict[str, Bool[np.ndarray, "S"]] = field(default_factory=dict)
    rewards: dict[str, dict[int, float]] = field(default_factory=dict)  # by choice

    def mark(self, label: str, state: int) -> None:
        """Give a state a label."""
        self.labels.setdefault(label, np.zeros(self.num_states, dtype=bool))[state] = True

    def pay(self, name: str, choice: int, amount: float) -> None:
        """Add to what a choice pays."""
        pays = self.rewards.setdefault(name, {})
        pays[choice] = pays.get(choice, 0.0) + amount


@final
class FileModel:
    """Arrays of a model file: lists, mask, names of actions, start, signals and labels."""

    lists: tuple[Int[np.ndarray, "S A K"], Float[np.ndarray, "S A K"]]
    allowed: Bool[np.ndarray, "S A"]
    actions: list[str] | None
    initial: Float[np.ndarray, "S"] | None
    signals: dict[str, Float[np.ndarray, "S A"]]
    labels: dict[str, Bool[np.ndarray, "S"]]

    def __init__(self, path: Path, tables: ModelTables) -> None:
        S = tables.num_states
        columns, self.actions, A = _place_choices(tables)
        owners = np.array([state for state, _ in tables.choices])
        self.allowed = np.zeros((S, A), dtype=bool)
        self.allowed[owners, columns] = True
        if not self.allowed.any(axis=1).all():
            missing = int(np.argmin(self.allowed.any(axis=1)))
            raise ModelError(f"{path}: state {missing} has no choice; give it one that stays, with probability 1")
        counts = np.bincount([choice for choice, _, _ in tables.entries], minlength=len(owners))
        K = max(1, int(counts.max(initial=1)))
        states, chances = np.zeros((S, A, K), dtype=np.int64), np.zeros((S, A, K))
        filled = np.zeros(len(owners), dtype=int)
        for choice, arrived, chance in tables.entries:
            place = owners[choice], columns[choice], filled[choice]
            states[place], chances[place] = arrived, chance
            filled[choice] += 1
        self.lists = states, chances
        self.labels = {name: mask for name, mask in tables.labels.items() if name != "init"}
        starts = tables.labels.get("init")
        self.initial = None if starts is None or starts.sum() != 1 else starts.astype(float)
        self.signals = {}
        for name, pays in tables.rewards.items():
            array = np.zeros((S, A))
            for choice, amount in pays.items():
                array[owners[choice], columns[choice]] += amount
            self.signals[name] = array


def _place_choices(tables: ModelTables) -> tuple[Int[np.ndarray, "n"], list[str] | None, int]:
    """Return the column of every choice: by its name where names are few and differ within states, or by rank."""
    ranks, seen = np.zeros(len(tables.choices), dtype=int), {}
    for i, (state, _) in enumerate(tables.choices):
        ranks[i] = seen[state] = seen.get(state, -1) + 1
    widest = int(ranks.max(initial=0)) + 1
    names = list(dict.fromkeys(name for _, name in tables.choices))
    if len(set(tables.choices)) == len(tables.choices) and len(names) <= 2 * widest and all(names):
        number = {name: i for i, name in enumerate(names)}
        named = not all(name.isdigit() for name in names)
        return np.array([number[name] for _, name in tables.choices]), names if named else None, len(names)
    return ranks, None, widest


def read_lines(path: str | os.PathLike[str]) -> Iterator[FileLine]:
    """Yield the lines of a text file with their numbers, without blank ones."""
    target = Path(path)
    try:
        with target.open(encoding="utf-8") as file:
            for number, text in enumerate(file, start=1):
                if text.strip():
                    yield FileLine(target, number, text.strip())
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{target} cannot be read as a model: {error}") from error


def find_until(until: object, labels: Mapping[str, Bool[np.ndarray, "S"]]) -> object:
    """Return the mask of a label that is named as the end of episodes; anything else as it is."""
    if not isinstance(until, str) or until == "absorbed":
        return until
    if until not in labels:
        raise ModelError(f"the model has no label {until!r}; its labels are {', '.join(labels) or 'none'}")
    return labels[until]
