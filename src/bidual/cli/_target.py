"""From what the user typed (a task's name or a Python file) to a problem and its model."""

import contextlib
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from bidual._errors import BidualError, TaskError

if TYPE_CHECKING:
    from bidual.mdp import TabularMDP
    from bidual.problem import Problem
    from bidual.tasks import Grid


@final
@dataclass(frozen=True, eq=False)
class Target:
    """What a command works on."""

    name: str
    problem: "Problem"
    mdp: "TabularMDP"
    grid: "Grid | None"


def load_target(text: str, settings: list[str]) -> Target:
    """The task called `text`, or the problem that the file `text` defines, with ``name=value`` settings."""
    values = _parse_settings(settings)
    if text.endswith(".py"):
        return _from_file(Path(text), values)
    from bidual import tasks

    task = tasks.find(text).with_settings(values)
    return Target(text, task.problem, task.mdp, task.grid)


def _parse_settings(settings: list[str]) -> dict[str, str]:
    values = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not (name and equals and value):
            raise TaskError(f"--set {setting!r}: write it as NAME=VALUE, for example --set budget=0.2")
        values[name] = value
    return values


def _from_file(path: Path, values: dict[str, str]) -> Target:
    from bidual.mdp import TabularMDP
    from bidual.problem import Problem

    namespace = _run(path)
    problem, mdp = namespace.get("problem"), namespace.get("mdp")
    if problem is None or mdp is None:
        missing = " and ".join(name for name in ("problem", "mdp") if namespace.get(name) is None)
        raise TaskError(
            f"{path} must define 'problem' and 'mdp' at its top level; it does not define {missing} "
            "('bidual new my_problem.py' writes an example)"
        )
    if not isinstance(problem, Problem):
        raise TaskError(f"{path}: 'problem' must be a bidual.Problem; it is a {type(problem).__name__}")
    if not isinstance(mdp, TabularMDP):
        raise TaskError(f"{path}: 'mdp' must be a bidual.TabularMDP; it is a {type(mdp).__name__}")
    for name, text in values.items():
        _set_parameter(path, problem, name, text)
    return Target(path.name, problem, mdp, None)


def _run(path: Path) -> dict[str, Any]:
    """Run the user's file as Python would, with its own folder importable and its prints out of the way."""
    import runpy

    if not path.is_file():
        raise TaskError(f"there is no file {path}; 'bidual new {path}' writes an example there")
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return runpy.run_path(str(path))
    except BidualError as error:
        raise type(error)(f"{_where(path, error)}: {error}") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a user's file may raise anything, SystemExit included
        kind = type(error).__name__
        raise TaskError(f"{_where(path, error)}: the file raised {kind}: {error}") from error
    finally:
        sys.path.pop(0)


def _where(path: Path, error: BaseException) -> str:
    """The last line of the user's own file that led to the error."""
    if isinstance(error, SyntaxError):
        return f"{path}, line {error.lineno}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    return f"{path}, line {frames[-1].lineno}" if frames else str(path)


def _set_parameter(path: Path, problem: "Problem", name: str, text: str) -> None:
    parameters = problem.parameters
    if name not in parameters:
        known = ", ".join(parameters) or "none"
        raise TaskError(
            f"{path} has no parameter {name!r}; its cp.Parameters are: {known}. "
            f"Write cp.Parameter(name={name!r}, value=...) in the file to make it settable"
        )
    try:
        parameters[name].value = float(text)
    except ValueError as error:
        raise TaskError(f"--set {name}={text}: {error}") from None
