"""Hostile files where a run, a policy or a sweep is read, and the memory that it takes to refuse them."""

import json
import os
import resource
import shutil
import sys
from pathlib import Path

import numpy as np

import bidual as bd
from bidual.cli.sweep._spec import read_spec
from tests.forgeries import read_parts, write_parts
from tests.hostile import ARCHIVES, GOLDEN, SIZE, choose, measure
from tests.killed import RIVER

MODEL = bd.models.Tabular(RIVER.mdp)


def _conclude(run):
    return bd.finish(RIVER.problem, RIVER.mdp, run, MODEL, evaluation=2, store=False)


def _resume(run):
    """Go on for as many episodes as there are, so that nothing is learned."""
    settings = {"episodes": 16, "evaluation": 2, "seed": 3, "run": bd.runs.Folder(run, resume=True)}
    return bd.learn(RIVER.problem, RIVER.mdp, MODEL, **settings)


def _change(path, manifest=(), arrays=()):
    """Put other values into a file, and others for all arrays where some are given; the checksum is right."""
    then, kept = read_parts(path)
    write_parts(path, then | dict(manifest), dict(arrays) or kept)


def _newest(run, folder):
    return sorted((run / folder).glob("*.bidual"))[-1]


def _put_parts(run, manifest=(), arrays=()):
    """Change the last part of the policies, and its checksum in the newest checkpoint."""
    path, checkpoint = _newest(run, "policies"), _newest(run, "checkpoints")
    _change(path, manifest, arrays)
    named = read_parts(checkpoint)[0]["policies"]
    _change(checkpoint, {"policies": [*named[:-1], [named[-1][0], read_parts(path)[0]["sha256"]]]})


def _leaves(count):
    return {"make": "tuple", "of": [{"make": "tuple", "of": []}] * count}


BYTES = np.zeros(SIZE, dtype=np.int8)
NUMBERS = np.zeros(SIZE // 8, dtype=np.int64)
CHECKPOINTS = {
    **{
        f"checkpoint, {name}": lambda run, write=write: write(_newest(run, "checkpoints"))
        for name, write in ARCHIVES.items()
    },
    "checkpoint, a wide tree": lambda run: _change(_newest(run, "checkpoints"), {"course": _leaves(SIZE // 34)}),
    "checkpoint, as wide a tree as may be": lambda run: _change(
        _newest(run, "checkpoints"), {"course": _leaves(140_000)}
    ),
    "checkpoint, many parts": lambda run: _change(
        _newest(run, "checkpoints"), {"policies": [["000000000-000000001.bidual", ""]] * (SIZE // 40)}
    ),
    "policies, many episodes": lambda run: _put_parts(run, arrays={"order": NUMBERS}),
    "policies, many of them": lambda run: _put_parts(
        run, arrays={"order": NUMBERS[: SIZE // 16], "actions": BYTES[: SIZE // 16].reshape(-1, 1, 1)}
    ),
    "policies, many rows of nothing": lambda run: _put_parts(
        run, arrays={"order": NUMBERS[:2], "actions": np.zeros((2, 1 << 40, 0), dtype=np.int8)}
    ),
    "policies, many actions": lambda run: _put_parts(run, {"num_actions": 1 << 40}),
}
FILES = {
    "a long horizon": ("convex", {"horizon": 10**9}, {}),
    "a long horizon of controls": ("controls", {"horizon": 10**9}, {}),
    "many latents": ("latent", {}, {"sizes": NUMBERS}),
    "many rows of nothing": ("corrective", {}, {"policy": np.zeros((1 << 40, 1, 0))}),
    "many weights": ("controls-policy", {}, {"weights": np.zeros(SIZE // 8)}),
}
SPECS = {
    "lists": 'tasks = ["riverswim"]\nx = [' + "[]," * (SIZE // 3) + "]",
    "keys": 'tasks = ["riverswim"]\n' + "".join(f"k{i} = 1\n" for i in range(SIZE // 12)),
    "depth": "x = " + "[" * SIZE,
    "a long text": 'tasks = ["' + "x" * SIZE + '"]',
    "many seeds": 'tasks = ["riverswim"]\nseeds = 1000000000',
    "many cells": 'tasks = ["riverswim"]\nseeds = 1000\n[set]\n'
    + "\n".join(f"a{i} = {list(range(1000))}" for i in range(4)),
}
FEW = {"checkpoint, as wide a tree as may be", "policies, many episodes", "a long horizon", "many seeds"}


def measure_all(folder, which):
    """Print, by name, the error and the megabytes of every hostile file, or of a few."""
    run = shutil.copytree(GOLDEN / "runs" / "corrective", folder / "runs" / "river")
    _conclude(run)  # compiles everything
    for name in ("corrective", "latent", "controls", "controls-policy"):
        bd.load(GOLDEN / f"{name}.bidual")
    for name in ("controls", "convex"):
        bd.check(GOLDEN / f"{name}.bidual")
    resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))
    found = {}
    for name, change in choose(CHECKPOINTS, FEW, which):
        shutil.rmtree(run)
        shutil.copytree(GOLDEN / "runs" / "corrective", run)
        newest = _newest(run, "checkpoints")
        for other in (run / "checkpoints").glob("*.bidual"):
            if other != newest:
                other.unlink()
        change(run)
        found[f"finish {name}"] = measure(lambda: _conclude(run))
        if name in FEW:
            found[f"resume {name}"] = measure(lambda: _resume(run))
    for name, (kind, manifest, arrays) in choose(FILES, FEW, which):
        path = folder / "hostile.bidual"
        shutil.copy(GOLDEN / f"{kind}.bidual", path)
        _change(path, manifest, read_parts(path)[1] | arrays)
        assert path.stat().st_size < 1.1 * SIZE, name
        found[f"check {name}"] = measure(lambda path=path: bd.check(path))
        found[f"load {name}"] = measure(lambda path=path: bd.load(path))
    for name, text in choose(SPECS, FEW, which):
        (folder / "sweep.toml").write_text(text)
        found[f"sweep {name}"] = measure(lambda: read_spec(folder / "sweep.toml"))
    print(json.dumps(found))


if __name__ == "__main__":
    os.environ["JAX_PLATFORMS"] = "cpu"
    measure_all(Path(sys.argv[1]), sys.argv[2])
