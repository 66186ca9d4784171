"""Hostile files where a run, a policy or a sweep is read, and the memory that it takes to refuse them.

A program for another process: ``python -m tests.hostile_runs FOLDER ROW`` (or few, for some rows in one process).
"""

import json
import os
import resource
import shutil
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np

import bidual as bd
from bidual.cli.sweep._spec import read_spec
from bidual.world.policies import write_table
from tests.forgeries import read_parts, write_parts
from tests.hostile import ARCHIVES, GOLDEN, SIZE, measure
from tests.killed import RIVER
from tests.units.test_stored_evaluation import Slow

MODEL = bd.models.Tabular(RIVER.mdp)
STATES, ACTIONS = 3, 2  # of the golden run


def _conclude(run):
    return bd.finish(RIVER.problem, RIVER.mdp, run, MODEL, evaluation=2, store=False)


def _resume(run, env=RIVER.mdp):
    """Go on for as many episodes as there are, so that nothing is learned where there is a run."""
    settings = {"episodes": 16, "evaluation": 2, "seed": 3, "run": bd.runs.Folder(run, resume=True)}
    return bd.learn(RIVER.problem, env, MODEL, **settings)


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
EVALUATIONS = {
    **{f"evaluation, {name}": write for name, write in ARCHIVES.items()},
    "evaluation, many short episodes": lambda path: _repeat_episode(path, SIZE // 96),
    "evaluation, many rows of nothing": lambda path: _change(
        path, arrays=read_parts(path)[1] | {"observed": np.zeros((1, 1 << 40, 0))}
    ),
    "evaluation, many signals": lambda path: _change(
        path, arrays=read_parts(path)[1] | {"observed": np.zeros((1, 5, SIZE // 40))}
    ),
}


def _repeat_episode(path, times):
    """Put many episodes in the place of the one of a file."""
    _change(path, arrays={name: np.repeat(array, times, axis=0) for name, array in read_parts(path)[1].items()})


FILES = {
    "a long horizon": ("convex", {"horizon": 10**9}, {}),
    "a long horizon of controls": ("controls", {"horizon": 10**9}, {}),
    "many latents": ("latent", {}, {"sizes": NUMBERS}),
    "many rows of nothing": ("corrective", {}, {"policy": np.zeros((1 << 40, 1, 0))}),
    "many weights": ("controls-policy", {}, {"weights": np.zeros(SIZE // 8)}),
}
EXPORTS = {  # policies that may be loaded, and are larger as tables: of what, the format, the other values and arrays
    "many members of one law": lambda: ("controls-policy", "npz", *_share_law(10_000, SIZE // 32)),
    "a long name": lambda: ("corrective", "npz", _name_states(SIZE // 128), {"policy": _choose_first(1, SIZE // 128)}),
    "a long name in rows": lambda: ("corrective", "csv", _name_states(STATES), {"policy": _choose_first(SIZE // 96)}),
    "many probabilities": lambda: ("corrective", "csv", {"horizon": SIZE // 48}, {"policy": _choose_first(SIZE // 48)}),
    "many probabilities as lists": lambda: (
        "corrective",
        "json",
        {"horizon": SIZE // 48},
        {"policy": _choose_first(SIZE // 48)},
    ),
}
SPECS = {
    "lists": lambda: 'tasks = ["riverswim"]\nx = [' + "[]," * (SIZE // 3) + "]",
    "keys": lambda: 'tasks = ["riverswim"]\n' + "".join(f"k{i} = 1\n" for i in range(SIZE // 12)),
    "depth": lambda: "x = " + "[" * SIZE,
    "a long text": lambda: 'tasks = ["' + "x" * SIZE + '"]',
    "many seeds": lambda: 'tasks = ["riverswim"]\nseeds = 1000000000',
    "many cells": lambda: (
        'tasks = ["riverswim"]\nseeds = 1000\n[set]\n' + "\n".join(f"a{i} = {list(range(1000))}" for i in range(4))
    ),
}
FEW = {
    *("checkpoint, as wide a tree as may be", "policies, many episodes"),
    *("a long horizon", "many seeds"),
}
ROWS = [*CHECKPOINTS, *EVALUATIONS, *FILES, *EXPORTS, *SPECS]
PATIENCE = 300  # CPU seconds of a process, which the system ends then


def _name_states(count):
    """Names for states, of which the first is long."""
    return {"names": {"states": ["x" * (SIZE // 16), *(f"{number:x}" for number in range(1, count))]}}


def _choose_first(horizon, states=STATES):
    """The probabilities of a policy that takes the first action everywhere."""
    return np.tile(np.eye(1, ACTIONS), (horizon, states, 1))


def _share_law(members, size):
    """A mixture of many members with one law, which is in the file once."""
    law = {"controls": 0, "states": 1, "gains": 2}
    member = {"controller": {"name": "affine"}, "arrays": law, "limits": [3, 4], "discrete": False}
    arrays = {"0": np.zeros((size, 1)), "1": np.zeros((size, 1)), "2": np.zeros((size, 1, 1))}
    limits = {"3": -np.ones(1), "4": np.ones(1), "weights": np.full(members, 1 / members)}
    return {"members": [member] * members}, arrays | limits


def measure_runs(folder, names):
    """Measure what takes the place of a file of a run, where it is concluded or goes on."""
    run = shutil.copytree(GOLDEN / "runs" / "corrective", folder / "runs" / "river")
    _conclude(run)  # compiles everything
    found = {}
    for name, change in _choose(CHECKPOINTS, names):
        _renew(run)
        change(run)
        found[f"finish {name}"] = measure(lambda: _conclude(run))
        if name in FEW:
            found[f"resume {name}"] = measure(lambda: _resume(run))
    for name, change in _choose(EVALUATIONS, names):
        slow = folder / "runs" / name
        with suppress(KeyboardInterrupt):
            _resume(slow, Slow(ends=(1,)))  # learns, and leaves one episode of the evaluation
        change(slow / "evaluation.bidual")
        found[f"resume {name}"] = measure(lambda slow=slow: _resume(slow, Slow()))
    return found


def _renew(run):
    """Put the run back as it was, with its newest checkpoint alone."""
    shutil.rmtree(run)
    shutil.copytree(GOLDEN / "runs" / "corrective", run)
    for other in set((run / "checkpoints").glob("*.bidual")) - {_newest(run, "checkpoints")}:
        other.unlink()


def measure_files(folder, names):
    """Measure what is checked, loaded and exported."""
    found, path = {}, folder / "hostile.bidual"
    for name, (kind, manifest, arrays) in _choose(FILES, names):
        _forge(path, kind, manifest, arrays)
        found[f"check {name}"] = measure(lambda: bd.check(path))
        found[f"load {name}"] = measure(lambda: bd.load(path))
        found[f"export {name}"] = measure(lambda: _export(path, "json"))
    for name, make in _choose(EXPORTS, names):
        kind, form, manifest, arrays = make()
        _forge(path, kind, manifest, arrays)
        found[f"export {name}"] = measure(lambda form=form: _export(path, form))
    return found


def _forge(path, kind, manifest, arrays):
    bd.load(GOLDEN / f"{kind}.bidual")  # imports what is needed
    shutil.copy(GOLDEN / f"{kind}.bidual", path)
    _change(path, manifest, read_parts(path)[1] | arrays)
    assert path.stat().st_size < 1.1 * SIZE, path.stat().st_size


def _export(path, form):
    write_table(bd.load(path), path.with_suffix(f".{form}"), form)


def measure_specs(folder, names):
    """Measure specifications of sweeps."""
    found = {}
    for name, make in _choose(SPECS, names):
        (folder / "sweep.toml").write_text(make())
        found[f"sweep {name}"] = measure(lambda: read_spec(folder / "sweep.toml"))
    return found


def _choose(files, names):
    return [(name, files[name]) for name in files if name in names]


def main(folder, names):
    """Print, by name, the error and the megabytes of hostile files."""
    resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))
    resource.setrlimit(resource.RLIMIT_CPU, (PATIENCE, PATIENCE))
    found = measure_runs(folder, names) if names & {*CHECKPOINTS, *EVALUATIONS} else {}
    print(json.dumps(found | measure_files(folder, names) | measure_specs(folder, names)))


if __name__ == "__main__":
    os.environ["JAX_PLATFORMS"] = "cpu"
    main(Path(sys.argv[1]), FEW if sys.argv[2] == "few" else {sys.argv[2]})
