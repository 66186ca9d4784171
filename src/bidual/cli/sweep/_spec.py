"""The specification of a sweep: a TOML file that names tasks, settings and seeds, and the jobs that it stands for.

episodes = 1000                     # an option of 'bidual learn', for all cells
tasks = ["riverswim", "mine.py"]    # files are looked for beside this one
seeds = 5                           # 0 to 4; or a list
[grid]                              # options again: every combination
dual = ["corrective", "paper"]
[set]                               # parameters of the tasks: one value, or every combination
budget = [12, 15]
[set.riverswim]                     # of one task alone
states = 6
"""

import hashlib
import itertools
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, final

from bidual._base.errors import TaskError
from bidual.cli._options import Options, find_default_episodes
from bidual.cli.sweep._jobs import Job
from bidual.cli.sweep._values import check_distinct, check_known, check_option, check_setting, list_of

_OWN = ("tasks", "seeds", "out", "grid", "set")
_INSTEAD = {"seed": "seeds", "target": "tasks", "task": "tasks", "settings": "[set]"}
_LARGEST = 1 << 17  # bytes of a specification
_MOST = 100_000  # cells
_LONGEST = 150  # characters of a name, for file systems that take 255 bytes


@final
@dataclass(frozen=True)
class Spec:
    """A sweep: its jobs, and the folder that theirs are in."""

    out: Path
    jobs: tuple[Job, ...]


class _Axis(NamedTuple):
    """A key with its values; it is part of the names where it was written as a list, even of one value."""

    key: str
    values: tuple[Any, ...]
    named: bool


class _Task(NamedTuple):
    target: str
    label: str
    axes: tuple[_Axis, ...]


def read_spec(path: Path, out: Path | None = None, every: int | None = None) -> Spec:
    """Read the sweep that a file describes; `out` takes precedence over the file's folder."""
    table = _parse(path)
    check_known(path, "", table, [*_OWN, *list_options()], _INSTEAD)
    single = {key: check_option(path, key, table[key], "[grid]") for key in list_options() if key in table}
    grid = _read_grid(path, table, single)
    seeds = _read_seeds(path, table.get("seeds", 1))
    folder = Path(out or _read_text(path, table, "out") or Path("runs") / path.stem).absolute()
    jobs, tasks = [], _read_tasks(path, table)
    cells = sum(len(seeds) * math.prod(len(axis.values) for axis in (*grid, *task.axes)) for task in tasks)
    if cells > _MOST:
        raise TaskError(f"{path} stands for {cells} cells, and a sweep has at most {_MOST}: make several of it")
    for task in tasks:
        for combination in _combine_axes((*grid, *task.axes)):
            for seed in seeds:
                jobs.append(_create_job(folder, task, single, combination, seed, every))
    _check_names(path, jobs)
    return Spec(folder, tuple(jobs))


def list_options() -> list[str]:
    """List the options of a run that a sweep may set: all but those that have a place of their own."""
    return [name for name in Options.__dataclass_fields__ if name not in _INSTEAD]


def _parse(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            text = file.read(_LARGEST + 1)
        if len(text) > _LARGEST:
            raise TaskError(
                f"{path} has more than {_LARGEST} bytes: a sweep is a few lines of TOML, as examples/sweep.toml"
            )
        return tomllib.loads(text.decode())
    except FileNotFoundError:
        raise TaskError(f"there is no file {path}: a sweep is a TOML file, for example examples/sweep.toml") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TaskError(f"{path} is not valid TOML: {error}") from None


def _read_grid(path: Path, table: Mapping[str, Any], single: Mapping[str, object]) -> tuple[_Axis, ...]:
    grid = _read_subtable(path, table, "grid")
    check_known(path, "[grid] ", grid, list_options(), _INSTEAD)
    axes = []
    for key, values in grid.items():
        if key in single:
            raise TaskError(f"{path}: {key} is given twice, for all cells and in [grid]: keep one of them")
        many = list_of(path, f"[grid] {key}", values, f"write {key} = ... above [grid] for a single value")
        read = [check_option(path, f"[grid] {key}", value, None) for value in many]
        axes.append(_Axis(key, check_distinct(path, f"[grid] {key}", read), named=True))
    return tuple(axes)


def _read_seeds(path: Path, given: object) -> tuple[int, ...]:
    if isinstance(given, list):
        seeds = list_of(path, "seeds", given, "")
    elif isinstance(given, int) and not isinstance(given, bool) and 1 <= given <= _MOST:
        seeds = list(range(given))
    else:
        many = f"how many, at least 1 and at most {_MOST}"
        raise TaskError(f"{path}: seeds must be {many}, or a list such as [3, 7]; got {given!r}")
    for seed in seeds:
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise TaskError(f"{path}: seeds are whole numbers from 0; got {seed!r}")
    return check_distinct(path, "seeds", seeds)


def _read_tasks(path: Path, table: Mapping[str, Any]) -> list[_Task]:
    if "tasks" not in table:
        raise TaskError(f'{path} names no tasks: write tasks = ["riverswim"], or the names of Python files')
    given = [table["tasks"]] if isinstance(table["tasks"], str) else table["tasks"]
    named = list_of(path, "tasks", given, "")
    for name in named:
        if not isinstance(name, str):
            raise TaskError(f"{path}: tasks are names of tasks or of Python files; got {name!r}")
    targets = check_distinct(path, "tasks", [_resolve_target(path, name) for name in named])
    labels = [Path(name).stem if name.endswith(".py") else name for name in named]
    if len({label.casefold() for label in labels}) < len(labels):
        labels = [name.removesuffix(".py") for name in named]
    settings = _read_subtable(path, table, "set")
    own = {key: value for key, value in settings.items() if isinstance(value, dict)}
    check_known(path, "[set.NAME] is for one of the tasks: ", own, named, {})
    shared = {key: value for key, value in settings.items() if key not in own}
    return [
        _Task(target, label, _read_settings(path, shared | own.get(name, {})))
        for name, target, label in zip(named, targets, labels, strict=True)
    ]


def _resolve_target(path: Path, name: str) -> str:
    """Return the target of a task: files are beside the sweep; workers may be in another folder."""
    return str((path.parent / name).resolve()) if name.endswith(".py") else name


def _read_settings(path: Path, given: Mapping[str, object]) -> tuple[_Axis, ...]:
    axes = []
    for key, value in given.items():
        where = f"[set] {key}"
        values = list_of(path, where, value, "") if isinstance(value, list) else [value]
        read = check_distinct(path, where, [check_setting(path, where, one) for one in values])
        axes.append(_Axis(f"{key}=", read, named=isinstance(value, list)))
    return tuple(axes)


def _combine_axes(axes: Sequence[_Axis]) -> list[list[tuple[_Axis, Any]]]:
    """Combine every value of an axis with every value of the others."""
    return [list(zip(axes, values, strict=True)) for values in itertools.product(*(axis.values for axis in axes))]


def _create_job(
    out: Path,
    task: _Task,
    single: Mapping[str, Any],
    combination: Sequence[tuple[_Axis, Any]],
    seed: int,
    every: int | None,
) -> Job:
    """Create a job: axes that end in an equals sign are parameters of the task, the others are options."""
    settings = tuple(f"{axis.key}{value}" for axis, value in combination if axis.key.endswith("="))
    chosen = {axis.key: value for axis, value in combination if not axis.key.endswith("=")}
    given = {"episodes": find_default_episodes(task.target), **single, **chosen}
    options = Options(target=task.target, settings=settings, seed=seed, **given)
    parts = [f"{axis.key.removesuffix('=')}={_format_value(value)}" for axis, value in combination if axis.named]
    group = _make_safe_name("_".join([task.label, *parts]))
    name = f"{group}_seed={seed}"
    return Job(name, group, out / name, options, every)


def _format_value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _make_safe_name(name: str) -> str:
    """Return a text as a file name that is valid everywhere, and not too long."""
    safe = re.sub(r"[^A-Za-z0-9._=+-]", "-", name).lstrip(".-")
    if len(safe) <= _LONGEST:
        return safe
    return f"{safe[:_LONGEST]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _check_names(path: Path, jobs: Sequence[Job]) -> None:
    """Check that names differ by more than case, because some file systems ignore it."""
    seen: dict[str, Job] = {}
    for job in jobs:
        other = seen.setdefault(job.name.casefold(), job)
        if other is not job:
            raise TaskError(
                f"{path}: two cells would have the same folder {job.folder}: {other.options.target} "
                f"{' '.join(other.options.settings)} and {job.options.target} {' '.join(job.options.settings)}. "
                "Give the files other names, or sweep them apart"
            )


def _read_subtable(path: Path, table: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = table.get(key, {})
    if not isinstance(found, dict):
        raise TaskError(f"{path}: {key} must be a table, begun by a line [{key}]; got {found!r:.80}")
    return found


def _read_text(path: Path, table: Mapping[str, Any], key: str) -> str | None:
    found = table.get(key)
    if found is not None and not (isinstance(found, str) and found):
        raise TaskError(f"{path}: {key} must be the name of a folder; got {found!r:.80}")
    return found
