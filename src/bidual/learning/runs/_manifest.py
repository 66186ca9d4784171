"""The facts in the manifest of a run: the settings that a resumed run must agree with."""

import logging
from pathlib import Path
from typing import Any

from bidual._base.errors import RunError
from bidual.learning.folder import MANIFEST, list_versions
from bidual.learning.identity import identify_settings
from bidual.learning.setup import LearnSetup

_LOG = logging.getLogger("bidual.runs")


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


def read_draws(folder: Path, manifest: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Return seed, delta and batch of a run, which are not checked here; raise where it has only begun."""
    if not manifest["facts"]:
        raise RunError(f"the run in {folder} has no episode to conclude from: resume it (--resume, resume=True)")
    try:
        return tuple(manifest["facts"][name] for name in ("seed", "delta", "batch"))  # pyright: ignore[reportReturnType]
    except KeyError as error:
        raise RunError(
            f"{folder / MANIFEST} does not name the {error} of its run: restore it, or start again"
        ) from error


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
