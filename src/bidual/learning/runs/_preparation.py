"""The folder of a run before it is written to: what may be in it, and what a crash has left there."""

from pathlib import Path

from bidual._base.errors import RunError
from bidual.learning.runs._checkpoints import FOLDER as CHECKPOINTS
from bidual.learning.runs._evaluation import FILE as EVALUATION
from bidual.learning.runs._lock import FILE as LOCK
from bidual.learning.runs._manifest import FILE
from bidual.learning.runs._policies import FOLDER as POLICIES
from bidual.learning.runs._rescue import SOLUTION
from bidual.learning.runs._tensorboard import FOLDER as TENSORBOARD


def check_resume(folder: Path, *, resume: bool) -> None:
    """Raise `RunError` for a folder with a run in it that is not to resume."""
    if not resume:
        raise RunError(f"{folder} already holds a run: resume it (--resume, resume=True) or use another folder")


def prepare_folder(folder: Path, *, resume: bool) -> None:
    """Create the folder of a new run; one with other files in it is left alone."""
    _check_links(folder)
    if (folder / FILE).exists():
        check_resume(folder, resume=resume)
        return
    folder.mkdir(parents=True, exist_ok=True)
    strangers = sorted(path.name for path in folder.iterdir() if path.name != "lock" and not path.name.startswith("."))
    if strangers:
        raise RunError(f"{folder} holds other files ({', '.join(strangers[:3])}): use an empty folder, or a new one")


def _check_links(folder: Path) -> None:
    """Refuse a run with links in it: files of whatever folder they lead to would be taken for its own, and removed."""
    for path in (folder / name for name in (LOCK, CHECKPOINTS, POLICIES, TENSORBOARD)):
        if path.is_symlink():
            raise RunError(f"{path} is a symbolic link, as no run has: if it is yours, put there what it leads to")


def tidy_folder(folder: Path) -> None:
    """Remove files that were never finished, because of a crash."""
    for name in (FILE, SOLUTION, EVALUATION):
        for left in folder.glob(f".{name}.*"):
            left.unlink(missing_ok=True)
