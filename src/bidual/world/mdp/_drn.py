"""Models in DRN, the format of Storm for explicit models: read, with errors that name the line, and written."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from bidual._base import archive
from bidual._base.errors import ModelError
from bidual._base.names import Names
from bidual._base.types import Successors
from bidual.world.mdp._model_files import FileLine, FileModel, ModelTables, read_lines

_STATE = re.compile(r"state\s+(\d+)\s*(\[[^\]]*\])?\s*(.*)")
_ACTION = re.compile(r"action\s+(\S+)\s*(\[[^\]]*\])?$")


def read_drn(path: str | os.PathLike[str]) -> FileModel:
    """Read a Markov decision process, or a chain, from a DRN file."""
    lines = (line for line in read_lines(path) if not line.text.startswith("//"))
    names, size = _read_header(Path(path), lines)
    tables, state, pays, within = ModelTables(size), -1, [], False
    for line in lines:
        if line.text.startswith("state"):
            state, pays = _read_state(line, state, tables, names)
            within = False
        elif line.text.startswith("action"):
            _read_action(line, state, tables, names, pays)
            within = True
        else:
            target, colon, chance = (part.strip() for part in line.text.partition(":"))
            if not (within and colon):
                line.refuse("'state N', 'action NAME' or, below an action, 'STATE : PROBABILITY'")
            arrived = line.read_whole(target, "the number of a state", size)
            tables.entries.append((len(tables.choices) - 1, arrived, line.read_number(chance, "a probability")))
    if state != size - 1:
        raise ModelError(f"{path}: @nr_states is {size}, but the last state is number {state}")
    return FileModel(Path(path), tables)


def _read_header(path: Path, lines: Iterator[FileLine]) -> tuple[list[str], int]:
    """Return the names of the reward models and the number of states."""
    names, size, section = [], 0, ""
    for line in lines:
        if line.text.startswith("@type"):
            kind = line.text.partition(":")[2].strip()
            if kind.upper() not in ("MDP", "DTMC"):
                line.refuse("'@type: MDP' or '@type: DTMC': other models are not read")
        elif line.text == "@model":
            if size < 1:
                raise ModelError(f"{path}: there is no number of states, '@nr_states', before '@model'")
            return names, size
        elif line.text.startswith("@"):
            section = line.text
        elif section == "@reward_models":
            names += line.text.split()
        elif section == "@nr_states":
            size = line.read_whole(line.text, "the number of states")
        elif section == "@parameters":
            line.refuse("no parameters: give them values before the model is exported")
    raise ModelError(f"{path}: there is no line '@model': is it a DRN file?")


def _read_state(line: FileLine, before: int, tables: ModelTables, names: list[str]) -> tuple[int, list[float]]:
    """Read the number of a state, its labels, and what it pays."""
    found = _STATE.fullmatch(line.text)
    if found is None or found[3].startswith(("!", "{")):
        line.refuse("'state N [REWARDS] LABELS', without a rate or an observation")
    state = line.read_whole(found[1], "the number of a state", tables.num_states)
    if state != before + 1:
        line.refuse(f"state {before + 1}: states come in the order of their numbers")
    for label in re.findall(r'"[^"]*"|\S+', found[3]):
        tables.mark(label.strip('"'), state)
    return state, _read_rewards(line, found[2], names)


def _read_action(line: FileLine, state: int, tables: ModelTables, names: list[str], pays: list[float]) -> None:
    """Read the name of an action, and what it pays beside its state."""
    found = _ACTION.fullmatch(line.text)
    if found is None or state < 0:
        line.refuse("'action NAME [REWARDS]', below a state")
    own = _read_rewards(line, found[2], names)
    tables.choices.append((state, found[1]))
    for name, one, other in zip(names, pays, own, strict=True):
        tables.pay(name, len(tables.choices) - 1, one + other)


def _read_rewards(line: FileLine, text: str | None, names: list[str]) -> list[float]:
    values = [] if text is None or not text.strip("[] ") else text.strip("[]").split(",")
    if values and len(values) != len(names):
        line.refuse(f"{len(names)} rewards, one for each of {', '.join(names) or 'no reward models'}")
    return [line.read_number(value.strip(), "a reward") for value in values] or [0.0] * len(names)


def write_drn(
    path: str | os.PathLike[str],
    lists: Successors,
    initial: Float[np.ndarray, "S"],
    names: Names,
    signals: Mapping[str, Float[np.ndarray, "S A"]],
    labels: Mapping[str, Bool[np.ndarray, "S"]],
) -> None:
    """Write a model with one law for all steps, all numbers with all their digits."""
    wrong = [name for name in (*signals, *labels) if re.search(r"[\s\[\]\"]", name) or not name]
    if wrong or lists.probabilities.shape[0] > 1 or np.count_nonzero(initial) != 1:
        what = f"the name {wrong[0]!r}, which has spaces, quotes or brackets" if wrong else ""
        law = "a law that changes with the step" if lists.probabilities.shape[0] > 1 else "several first states"
        raise ModelError(f"a DRN file has no place for {what or law}: change that and write it again")
    archive.put_bytes(path, "".join(_format_model(lists, initial, names, signals, labels)).encode())


def _format_model(
    lists: Successors,
    initial: Float[np.ndarray, "S"],
    names: Names,
    signals: Mapping[str, Float[np.ndarray, "S A"]],
    labels: Mapping[str, Bool[np.ndarray, "S"]],
) -> Iterator[str]:
    yield "@type: MDP\n@parameters\n\n@reward_models\n" + " ".join(signals) + "\n"
    yield f"@nr_states\n{len(initial)}\n@nr_choices\n{int(lists.allowed.sum())}\n@model\n"
    for state, row in enumerate(lists.allowed):
        marks = (["init"] if initial[state] > 0 else []) + [name for name, mask in labels.items() if mask[state]]
        yield " ".join([f"state {state}", *([str([0.0] * len(signals))] if signals else []), *marks]) + "\n"
        for action in np.flatnonzero(row).tolist():
            called = str(action) if names.actions is None else re.sub(r"[\s\[\]]", "_", names.action(action))
            pays = str([float(signal[state, action]) for signal in signals.values()]) if signals else ""
            yield f"\taction {called} {pays}".rstrip() + "\n"
            chances = lists.probabilities[0, state, action]
            for arrived, chance in zip(lists.states[0, state, action].tolist(), chances.tolist(), strict=True):
                if chance > 0:
                    yield f"\t\t{arrived} : {chance!r}\n"
