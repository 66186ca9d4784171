"""Stored runs as commands open them: what they were learned in, and the policy of one that was stopped."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from bidual._base.errors import TaskError
from bidual.cli._options import Options, check_executes_nothing, load_declared, read_stored_options
from bidual.cli._output import report

if TYPE_CHECKING:
    import argparse

    from bidual.learning.learned import Learned


def add_file_to(parser: "argparse.ArgumentParser") -> None:
    """Declare the argument that names the file of a run that was stopped."""
    parser.add_argument(
        "target", nargs="?", metavar="FILE.py", help="the file that a run was learned in, where it has not finished"
    )


def read_trusted_options(folder: Path, named: str | None, command: str) -> Options:
    """Read the options of a run; a file that it was learned in must be named by hand, as `command` does it."""
    options = read_stored_options(folder)
    if named is None:
        check_executes_nothing(options, f"{command} {options.target}")
    elif named != options.target:
        raise TaskError(f"the run in {folder} was learned in {options.target}, not in {named}: name that or nothing")
    return options


def conclude_run(folder: Path, options: Options, *, evaluation: int | None, store: bool) -> "Learned":
    """Conclude a run that was stopped, from its last checkpoint; it is changed only where the result is stored."""
    from bidual.learning.callbacks import stop_when
    from bidual.learning.learn import finish

    target = load_declared(options)
    return finish(
        target.problem,
        target.env,
        folder,
        target.model,
        explorer=target.explorer,
        evaluation=evaluation,
        stop_when=None if options.stop_gap is None else stop_when(options.stop_gap),
        store=store,
    )


@contextmanager
def open_saved(path: Path, named: str | None, command: str, *, evaluate: bool) -> Iterator[Path]:
    """Yield the saved file or folder itself or, for a run that was stopped, a temporary file of what it comes to.

    Where only the policy is wanted nothing is evaluated, which spares episodes in an environment that may have failed.
    """
    if not (path.is_dir() and _is_stopped(path)):
        yield path
        return
    options = read_trusted_options(path, named, f"{command} {path}")
    solution = conclude_run(path, options, evaluation=options.evaluation if evaluate else 0, store=False)
    report(f"the run has not finished: its policy is that of episode {solution.episodes}, and is not stored in {path}")
    with TemporaryDirectory(prefix="bidual-") as folder:
        solution.save(Path(folder) / "solution.bidual", signals={})
        yield Path(folder) / "solution.bidual"


def _is_stopped(folder: Path) -> bool:
    from bidual.learning.runs import is_stopped  # which imports the players: a check of a file needs none

    return is_stopped(folder)
