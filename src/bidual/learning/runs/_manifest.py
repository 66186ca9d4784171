"""The manifest of a run: settings that a resumed run must agree with, and where and with which versions it began."""

import json
import logging
import os
import platform
import time
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bidual._base import archive
from bidual._base.checksum import compute_checksum
from bidual._base.errors import RunError
from bidual._base.limits import read_json
from bidual._base.version import __version__
from bidual.learning.identity import identify_settings
from bidual.learning.setup import LearnSetup

FILE = "run.json"
FORMAT = 1
_LONGEST = 1 << 20  # bytes; a manifest has some kilobytes
_LOG = logging.getLogger("bidual.runs")
_PACKAGES = ("numpy", "scipy", "jax", "jaxlib", "cvxpy", "clarabel", "gymnasium")


def run_settings(setup: LearnSetup, batch: int, task: str | None) -> dict[str, Any]:
    """Return the settings that a run depends on, by name: its identity, and how it explores."""
    return {
        "task": task,
        "seed": setup.seed,
        "delta": setup.split.delta,
        "batch": batch,
        "explorer": repr(setup.explorer),
        **identify_settings(setup),
    }


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
    archive.put(folder / FILE, lambda file: file.write(header))


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest from the folder of a run."""
    path = folder / FILE
    try:
        if not path.is_file():
            raise RunError(f"{folder} is not the folder of a run: there is no {FILE} in it ('bidual runs' lists runs)")
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


def read_draws(folder: Path, manifest: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Return seed, delta and batch of a run, which are not checked here."""
    try:
        return tuple(manifest["facts"][name] for name in ("seed", "delta", "batch"))  # pyright: ignore[reportReturnType]
    except KeyError as error:
        raise RunError(f"{folder / FILE} does not name the {error} of its run: restore it, or start again") from error


def check_facts(folder: Path, manifest: dict[str, Any], facts: dict[str, Any]) -> None:
    """Check that a resumed run has the stored settings; raise `RunError` otherwise."""
    stored = manifest["facts"]
    for name in {**stored, **facts}:
        then, now = stored.get(name), facts.get(name)
        if then != now:
            values = f": {then} then, {now} now" if len(f"{then}{now}") < 40 else ""  # checksums say nothing to people
            raise RunError(
                f"{folder} holds a run with another {name}{values}. Resume it with what it was started with "
                "('bidual learn --run ... --resume' needs no options), or start a new run in another folder"
            )


def warn_of_versions(folder: Path, manifest: dict[str, Any]) -> None:
    """Warn where versions differ: the last bits of a result depend on them."""
    now = list_versions()
    for name, then in manifest["versions"].items():
        if now.get(name) != then:
            header = "the run in %s was made with %s %s, this is %s: the last bits may differ"
            _LOG.warning(header, folder, name, then, now.get(name))
