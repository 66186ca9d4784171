"""Models in PRISM's explicit files: transitions, labels, rewards of states and of transitions."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from bidual._base.errors import ModelError
from bidual.world.mdp._model_files import FileLine, FileModel, ModelTables, read_lines

Paths = str | os.PathLike[str] | Mapping[str, str | os.PathLike[str]] | None


def read_prism(tra: str | os.PathLike[str], lab: str | os.PathLike[str] | None, srew: Paths, trew: Paths) -> FileModel:
    """Read a Markov decision process, or a chain, from the files that PRISM exports."""
    tables, numbers, entries = _read_transitions(tra)
    if lab is not None:
        _read_labels(lab, tables)
    for name, path in _name_files(srew).items():
        _read_state_rewards(name, path, tables)
    for name, path in _name_files(trew).items():
        _read_transition_rewards(name, path, tables, numbers, entries)
    return FileModel(Path(tra), tables)


def _read_transitions(
    path: str | os.PathLike[str],
) -> tuple[ModelTables, dict[tuple[int, int], int], dict[tuple[int, int], float]]:
    """Return the tables, the numbers of choices by state and rank, and probabilities by choice and next state."""
    lines = read_lines(path)
    header = next(lines, None)
    counts = [] if header is None else header.text.split()
    if header is None or len(counts) not in (2, 3):
        raise ModelError(f"{path}: the first line has the numbers of states, (choices,) and transitions")
    size, *_, many = (header.read_whole(count, "a number") for count in counts)
    tables, numbers, entries, chain = ModelTables(size), {}, {}, len(counts) == 2
    for line in lines:
        columns = line.text.split()
        if len(columns) not in ((3,) if chain else (4, 5)):
            line.refuse("'STATE NEXT PROBABILITY'" if chain else "'STATE CHOICE NEXT PROBABILITY [ACTION]'")
        _add_transition(line, columns, tables, numbers, entries, chain=chain)
    if len(tables.entries) != many:
        raise ModelError(f"{path}: the first line says {many} transitions, but there are {len(tables.entries)}")
    return tables, numbers, entries


def _add_transition(
    line: FileLine,
    columns: Sequence[str],
    tables: ModelTables,
    numbers: dict[tuple[int, int], int],
    entries: dict[tuple[int, int], float],
    *,
    chain: bool,
) -> None:
    state = line.read_whole(columns[0], "the number of a state", tables.num_states)
    rank = 0 if chain else line.read_whole(columns[1], "the number of a choice")
    arrived, chance = columns[1:3] if chain else columns[2:4]
    target = line.read_whole(arrived, "the number of a state", tables.num_states)
    name = columns[4] if len(columns) == 5 else str(rank)
    if (state, rank) not in numbers:
        numbers[state, rank] = len(tables.choices)
        tables.choices.append((state, name))
    choice = numbers[state, rank]
    probability = line.read_number(chance, "a probability")
    entries[choice, target] = entries.get((choice, target), 0.0) + probability
    tables.entries.append((choice, target, probability))


def _read_labels(path: str | os.PathLike[str], tables: ModelTables) -> None:
    names: dict[str, str] = {}
    for line in read_lines(path):
        if not names:
            names = dict(re.findall(r'(\d+)="([^"]*)"', line.text))
            if not names:
                line.refuse('the names of the labels, 0="init" 1="done"')
            for name in names.values():
                tables.labels[name] = np.zeros(tables.num_states, dtype=bool)
            continue
        state, colon, numbers = line.text.partition(":")
        if not colon or not all(number in names for number in numbers.split()):
            line.refuse(f"'STATE: LABELS' with labels of {', '.join(names.values())}")
        for number in numbers.split():
            tables.mark(names[number], line.read_whole(state.strip(), "the number of a state", tables.num_states))


def _name_files(paths: Paths) -> dict[str, str | os.PathLike[str]]:
    """Return the files of rewards by name: as given, or as the file says, else "reward"."""
    if paths is None:
        return {}
    if isinstance(paths, Mapping):
        return dict(paths)
    for line in read_lines(paths):
        found = re.match(r'#\s*Reward structure\s*"([^"]+)"', line.text)
        return {found[1] if found else "reward": paths}
    return {"reward": paths}


def _read_state_rewards(name: str, path: str | os.PathLike[str], tables: ModelTables) -> None:
    pays = np.zeros(tables.num_states)
    for line in _list_rewards(path):
        columns = line.text.split()
        if len(columns) != 2:
            line.refuse("'STATE REWARD'")
        pays[line.read_whole(columns[0], "the number of a state", tables.num_states)] += line.read_number(
            columns[1], "a reward"
        )
    for choice, (state, _) in enumerate(tables.choices):
        tables.pay(name, choice, float(pays[state]))


def _read_transition_rewards(
    name: str,
    path: str | os.PathLike[str],
    tables: ModelTables,
    numbers: dict[tuple[int, int], int],
    entries: dict[tuple[int, int], float],
) -> None:
    """Add rewards of transitions as their expectations."""
    for line in _list_rewards(path):
        columns = line.text.split()
        if len(columns) not in (3, 4):
            line.refuse("'STATE CHOICE NEXT REWARD', or 'STATE NEXT REWARD' in a chain")
        state = line.read_whole(columns[0], "the number of a state", tables.num_states)
        rank = line.read_whole(columns[1], "the number of a choice") if len(columns) == 4 else 0
        target = line.read_whole(columns[-2], "the number of a state", tables.num_states)
        choice = numbers.get((state, rank))
        if choice is None or (choice, target) not in entries:
            line.refuse("a transition that the model has")
        tables.pay(name, choice, entries[choice, target] * line.read_number(columns[-1], "a reward"))


def _list_rewards(path: str | os.PathLike[str]) -> list[FileLine]:
    """Return the lines below the first, which has numbers of states and rewards, without comments."""
    lines = [line for line in read_lines(path) if not line.text.startswith("#")]
    if not lines:
        raise ModelError(f"{path}: the first line has the numbers of states and of rewards")
    return lines[1:]
