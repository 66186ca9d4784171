"""What a run is: the facts that whoever resumes it must agree with, and where and with what it was made."""

import hashlib
import json
import logging
import os
import platform
import time
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from bidual import _archive
from bidual._errors import RunError
from bidual._prepare import Setting
from bidual._version import __version__
from bidual.control import signal_words
from bidual.envs import AbstractEnvironment, Simulator
from bidual.models import (
    AbstractCounted,
    AbstractKnowledge,
    ClassKnowledge,
    ControlKnowledge,
    LatentKnowledge,
    LinearKnowledge,
)
from bidual.saved import stored_program

FILE = "run.json"
FORMAT = 1
_LOG = logging.getLogger("bidual")
_PACKAGES = ("numpy", "scipy", "jax", "jaxlib", "cvxpy", "clarabel", "gymnasium")


def facts_of(setting: Setting, batch: int, task: str | None) -> dict[str, Any]:
    """What the course of a run depends on, by name: settings as they are, arrays by their checksums."""
    pieces = setting.knowledge.pieces
    words, arrays = stored_program(setting.problem.program())
    observed = [[position, one.low, one.high, one.noisy, one.at_end] for position, one in pieces.observed]
    return {
        "task": task,
        "seed": setting.seed,
        "delta": setting.split.delta,
        "batch": batch,
        "explorer": repr(setting.explorer),
        "model that is simulated": _law(setting.env),
        "steps, states and actions": list(setting.env.shape),
        "problem": _digest(words, setting.problem.maximises, *arrays.values()),
        "features": _digest(observed, pieces.stage, *(values for _, values in pieces.arrivals)),
        **_declared(setting.knowledge),
    }


def _declared(knowledge: AbstractKnowledge) -> dict[str, Any]:
    """What was said of the transitions."""
    if isinstance(knowledge, ControlKnowledge):
        return _controls(knowledge)
    if not isinstance(knowledge, AbstractCounted):
        return {}
    counts, initial = knowledge.counts, knowledge.initial
    return {
        "declared successors": _digest([], counts.support.states, counts.support.allowed, counts.support.absorbing),
        "start law": "learned" if initial is None else _digest([], initial),
        "set": knowledge.set,
        "stationary": len(counts.pairs) == 1,
        "class": _class(knowledge),
    }


def _controls(knowledge: ControlKnowledge) -> dict[str, Any]:
    """What was said of how vectors move; functions by what is known of them, for they have no name."""
    model = knowledge.declared
    return {
        "map of the model": model.model_features.words,
        "ridge": float(model.ridge),
        "noise": np.asarray(model.noise, dtype=np.float64).tolist() if model.noise is not None else None,
        "bound": None if model.bound is None else float(model.bound),
        "box": _digest([], *knowledge.declared_box),
        "signals": signal_words(knowledge.features),
        "limits of the controls": [end.tolist() for end in knowledge.limits],
        "numbered actions": knowledge.discrete,
    }


def _class(knowledge: AbstractKnowledge) -> str | None:
    """Which candidates or which features of laws there are, where there are any."""
    if isinstance(knowledge, ClassKnowledge):
        arrays = (part for one in knowledge.factors for part in (one.phis, one.mus))
        return _digest([knowledge.c, knowledge.collection], *arrays)
    if isinstance(knowledge, LinearKnowledge):
        return _digest([knowledge.stationary, knowledge.bound, knowledge.ridge], knowledge.phi)
    return repr(knowledge.declared) if isinstance(knowledge, LatentKnowledge) else None


def _law(env: AbstractEnvironment) -> str | None:
    """Which law an environment draws from, where it can be told."""
    if not isinstance(env, Simulator):
        return None
    lists = env.mdp.successors
    return _digest([], lists.states, lists.probabilities, lists.allowed, env.mdp.initial)


def new_manifest(facts: dict[str, Any], task: str | None, options: dict[str, Any]) -> dict[str, Any]:
    """The manifest of a run that begins now; `options` is what it was started with, for whoever starts it again."""
    return {
        "format": FORMAT,
        "kind": "run",
        "task": task,
        "options": options,
        "facts": facts,
        "created": time.time(),
        "versions": versions(),
        "machine": {
            "system": platform.platform(),
            "processor": platform.machine(),
            "cores": os.cpu_count(),
            "name": platform.node(),
        },
    }


def versions() -> dict[str, str]:
    """Of bidual, Python, and what the last bits of a result depend on."""
    return {"bidual": __version__, "python": platform.python_version()} | {name: _version(name) for name in _PACKAGES}


@cache
def _version(package: str) -> str:
    """Looking it up takes longer than most of what is stored of a run."""
    return version(package)


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """To a file that people can read."""
    words = json.dumps(manifest | {"sha256": _digest(manifest)}, indent=1).encode()
    for left in folder.glob(f".{FILE}.*"):  # by a crash
        left.unlink(missing_ok=True)
    _archive.put(folder / FILE, lambda file: file.write(words))


def read_manifest(folder: Path) -> dict[str, Any]:
    """From the folder of a run."""
    path = folder / FILE
    if not path.is_file():
        raise RunError(f"{folder} is not the folder of a run: there is no {FILE} in it ('bidual runs' lists runs)")
    try:
        manifest = json.loads(path.read_bytes())
        written, found, actual = manifest.pop("sha256"), manifest["format"], _digest(manifest)
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


def check_facts(folder: Path, manifest: dict[str, Any], facts: dict[str, Any]) -> None:
    """Whoever goes on must go on with the same run."""
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
    """The last bits belong to the versions of what computes them."""
    now = versions()
    for name, then in manifest["versions"].items():
        if now.get(name) != then:
            words = "the run in %s was made with %s %s, this is %s: the last bits may differ"
            _LOG.warning(words, folder, name, then, now.get(name))


def _digest(words: object, *parts: np.ndarray | bool) -> str:
    """A checksum of JSON values and arrays."""
    total = hashlib.sha256(json.dumps(words, sort_keys=True).encode())
    for part in parts:
        array = np.ascontiguousarray(part)
        total.update(f"{array.dtype.str}{array.shape}".encode())
        total.update(array.tobytes())
    return total.hexdigest()[:32]
