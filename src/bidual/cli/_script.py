"""A user's Python file: run it, and report the line that is to blame if that fails."""

import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bidual._base.errors import BidualError, TaskError
from bidual._base.spelling import list_possible

if TYPE_CHECKING:
    from bidual.problem.modelling import Problem


def run_script(path: Path) -> dict[str, Any]:
    """Run the file as Python would, with its own folder importable."""
    import runpy

    if not path.is_file():
        raise TaskError(f"there is no file {path}; 'bidual new {path}' writes an example there")
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        return runpy.run_path(str(path))
    except BidualError as error:
        raise type(error)(f"{_locate_error(path, error)}: {error}") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a user's file may raise anything, SystemExit included
        kind = type(error).__name__
        raise TaskError(f"{_locate_error(path, error)}: the file raised {kind}: {error}") from error
    finally:
        sys.path.pop(0)


def set_parameter(path: Path, problem: "Problem", name: str, text: str) -> None:
    """Set a ``cp.Parameter`` of the file's problem to another value."""
    parameters = problem.parameters
    if name not in parameters:
        raise TaskError(
            f"{path} has no parameter {name!r}{list_possible(name, parameters)}. "
            f"Write cp.Parameter(name={name!r}, value=...) in the file to make it settable"
        )
    try:
        parameters[name].value = float(text)
    except ValueError as error:
        raise TaskError(f"--set {name}={text}: {error}") from None


def _locate_error(path: Path, error: BaseException) -> str:
    """Return the last line of the user's own file that led to the error."""
    if isinstance(error, SyntaxError):
        return f"{path}, line {error.lineno}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    return f"{path}, line {frames[-1].lineno}" if frames else str(path)
