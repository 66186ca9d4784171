"""The folder of a run: its files, its manifest, and its beginning, which comes before anything slow.

A run begins with a manifest that has no facts yet: what it depends on is known once its problem and environment are set
up. Nothing here imports the players, so that the folder is there, and can be asked about, while they are imported.
"""

import json
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bidual._base import archive
from bidual._base.checksum import compute_checksum
from bidual._base.errors import FAILURES, RunError
from bidual._base.limits import read_json
from bidual._base.version import __version__

MANIFEST, SOLUTION, EVALUATION, LOCK = "run.json", "solution.bidual", "evaluation.bidual", "lock"
CHECKPOINTS, POLICIES, TENSORBOARD = "checkpoints", "policies", "tensorboard"
FORMAT = 1
_LONGEST = 1 << 20  # bytes; a manifest has some kilobytes
_PACKAGES = ("numpy", "scipy", "jax", "jaxlib", "cvxpy", "clarabel", "gymnasium")


@contextmanager
def begin_run(folder: Path, *, resume: bool, task: str | None, options: dict[str, Any]) -> Iterator[None]:
    """Write folder and manifest of a new run before what is in the context; remove them again where that fails.

    They stay after an interrupt: the run can be resumed, or started again in the same place.
    """
    created = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        prepare_folder(folder, resume=resume)
        begun = not (folder / MANIFEST).exists() or not read_manifest(folder)["facts"]
        if begun:
            write_manifest(folder, create_manifest({}, task, options))
    except OSError as error:
        raise RunError(f"the run in {folder} cannot be stored: {error}. Nothing is lost") from error
    try:
        yield
    except FAILURES:
        if begun:
            _withdraw(folder, created)
        raise


def prepare_folder(folder: Path, *, resume: bool) -> None:
    """Create the folder of a new run; one with other files, or with a run that is not to be resumed, is left alone."""
    for path in (folder / name for name in (LOCK, CHECKPOINTS, POLICIES, TENSORBOARD)):
        if path.is_symlink():  # files of whatever folder it leads to would be taken for the run's own, and removed
            raise RunError(f"{path} is a symbolic link, as no run has: if it is yours, put there what it leads to")
    if (folder / MANIFEST).exists():
        check_resume(folder, read_manifest(folder), resume=resume)
        return
    folder.mkdir(parents=True, exist_ok=True)
    strangers = sorted(path.name for path in folder.iterdir() if path.name != LOCK and not path.name.startswith("."))
    if strangers:
        raise RunError(f"{folder} holds other files ({', '.join(strangers[:3])}): use an empty folder, or a new one")


def tidy_folder(folder: Path) -> None:
    """Remove files that were never finished, because of a crash."""
    for name in (MANIFEST, SOLUTION, EVALUATION):
        for left in folder.glob(f".{name}.*"):
            left.unlink(missing_ok=True)


def check_resume(folder: Path, manifest: dict[str, Any], *, resume: bool) -> None:
    """Raise `RunError` for a run that is not to be resumed; one that has only begun has nothing to lose."""
    if manifest["facts"] and not resume:
        raise RunError(f"{folder} already holds a run: resume it (--resume, resume=True) or use another folder")


def create_manifest(facts: dict[str, Any], task: str | None, options: dict[str, Any]) -> dict[str, Any]:
    """Create the manifest of a new run; `options` are those it was started with, for whoever starts it again."""
    return {
        "format": FORMAT,
        "kind": "run",
        "task": task,
        "options": options,
        "facts": facts,
        "created": time.time(),
        "versions": list_versions(),
        "machine": {
            "system": platform.platform(),
            "processor": platform.machine(),
            "cores": os.cpu_count(),
            "name": platform.node(),
        },
    }


def list_versions() -> dict[str, str]:
    """Return the versions of bidual, Python, and the packages that the last bits of a result depend on."""
    return {"bidual": __version__, "python": platform.python_version()} | {
        name: _get_version(name) for name in _PACKAGES
    }


@cache
def _get_version(package: str) -> str:
    """Return the version of a package, cached: the lookup takes longer than most of the rest of storing a run."""
    return version(package)


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write the manifest to a file that people can read."""
    header = json.dumps(manifest | {"sha256": compute_checksum(manifest)}, indent=1).encode()
    if len(header) >= _LONGEST:
        raise RunError(f"the options of the run in {folder} take {len(header)} bytes: give fewer than {_LONGEST}")
    archive.put(folder / MANIFEST, lambda file: file.write(header))


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest from the folder of a run."""
    path = folder / MANIFEST
    try:
        if not path.is_file():
            raise RunError(
                f"{folder} is not the folder of a run: there is no {MANIFEST} in it ('bidual runs' lists runs)"
            )
        with path.open("rb") as file:
            manifest = read_json(file.read(_LONGEST))
        written, found, actual = manifest.pop("sha256"), manifest["format"], compute_checksum(manifest)
    except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError) as error:
        raise RunError(f"{path} cannot be read ({error}): restore it, or start again in another folder") from error
    if found != FORMAT:
        newer = isinstance(found, int) and found > FORMAT
        remedy = "upgrade bidual" if newer else "use the version of bidual that wrote it"
        raise RunError(f"{path} has format {found!r}, this bidual reads format {FORMAT}: {remedy}")
    if actual != written:
        raise RunError(f"{path} was changed: it does not match its checksum. Restore it, or start again elsewhere")
    if manifest.get("kind") != "run" or not all(isinstance(manifest.get(key), dict) for key in ("facts", "versions")):
        raise RunError(f"{path} is not that of a run: restore it, or start again in another folder")
    return manifest


def count_stored(folder: Path) -> int | None:
    """Return how many episodes of a run are stored; None where it is not stored at all."""
    return find_latest_episode(folder) if (folder / MANIFEST).is_file() else None


def find_latest_episode(folder: Path) -> int:
    """Return the number of episodes of the newest checkpoint of a run, by its name; 0 where there is none."""
    names = (path.stem for path in (folder / CHECKPOINTS).glob("*.bidual"))
    return max((int(name) for name in names if name.isdecimal()), default=0)


def _withdraw(folder: Path, created: list[Path]) -> None:
    """Remove what `begin_run` wrote, and the folders that it made, where nothing else has come to be there."""
    try:
        if not read_manifest(folder)["facts"]:
            (folder / MANIFEST).unlink()
            for path in created:
                path.rmdir()
    except (OSError, RunError):  # the disk fails, or somebody else writes there: what is left does no harm
        return
