"""Stored runs: what comes back is what was stored; damage, full disks and other processes end in words, not in losses.

All of it on one small run of forty episodes with a checkpoint after every five, which is made once and copied.
"""

import builtins
import codecs
import errno
import fcntl
import hashlib
import importlib
import inspect
import itertools
import json
import os
import pickle
import re
import resource
import shutil
import sqlite3
import subprocess
import sys
import threading
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import cvxpy as cp
import numpy as np
import pytest
from safetensors.numpy import load, save

import bidual as bd
from bidual._base import archive
from bidual._base.archive import digest
from bidual._base.checksum import compute_checksum
from bidual.learning import learner
from bidual.learning.folder import read_manifest
from bidual.learning.metrics import Metric
from bidual.learning.runs import Store, _lock, _writer, pack_state
from bidual.learning.runs._checkpoints import Checkpoints
from bidual.learning.runs._manifest import check_facts
from bidual.learning.runs._policies import Journal, PolicyPart
from bidual.learning.setup import set_up
from bidual.learning.state import advance, count_pending, start_learn_state
from bidual.models import Tabular
from bidual.tasks.riverswim import riverswim
from bidual.world.envs import Simulator
from tests.killed import outcome

ROOT = Path(__file__).parents[2]
RIVER = riverswim(budget=2.5, states=3, horizon=5)
EPISODES, EVERY = 40, 5
NEWEST, BEFORE = f"{EPISODES:09d}.bidual", f"{EPISODES - EVERY:09d}.bidual"
PROCESSES = 8


def rest(values, quick):
    """All of these as parameters; those that are not quick are for long runs."""
    return [value if value in quick else pytest.param(value, marks=pytest.mark.slow) for value in values]


def learn(folder, *, resume=True, task=RIVER, model=None, **changes):
    """Forty episodes, or what is left of them."""
    arguments = {"episodes": EPISODES, "evaluation": 30, "seed": 3, **changes}
    run = bd.runs.Folder(folder, resume=resume, every=EVERY)
    return bd.learn(task.problem, task.mdp, model or Tabular(RIVER.mdp), run=run, **arguments)


def numbers(folder):
    """What was measured, to the last bit and but for the clock."""
    return {name: v.tobytes() for name, v in bd.runs.read(folder).items() if name not in ("run", "seconds")}


def contents(folder):
    """Every file but locks, which hold the number of the last process."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def hidden(folder):
    """Files that were never finished."""
    return [path for path in folder.rglob(".*") if path.is_file()]


class Stored(NamedTuple):
    """A run, and what it came to."""

    parent: Path
    outcome: dict
    numbers: dict

    def check(self, folder, solution):
        assert outcome(solution) == self.outcome
        assert numbers(folder) == self.numbers
        assert hidden(folder) == []


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """A run in one piece."""
    parent = tmp_path_factory.mktemp("straight")
    solution = learn(parent / "river", resume=False)
    return Stored(parent, outcome(solution), numbers(parent / "river"))


@pytest.fixture
def run(straight, tmp_path):
    """A copy of it, with its database."""
    shutil.copytree(straight.parent, tmp_path / "runs")
    return tmp_path / "runs" / "river"


# Going on.


@pytest.mark.parametrize("lengths", [(24,), (7, 16, 33)])
def test_a_run_that_is_extended_ends_as_one_that_was_that_long_from_the_start(straight, tmp_path, lengths):
    """Also from before the first look, from a look, and from between two checkpoints."""
    folder = tmp_path / "runs" / "river"
    for episodes in lengths:
        learn(folder, episodes=episodes)
    straight.check(folder, learn(folder))


def test_a_finished_run_gives_its_result_again(straight, run):
    straight.check(run, learn(run))
    assert [one.status for one in bd.runs.listed(run.parent)] == ["finished"]


def test_fewer_episodes_than_are_stored_are_refused(run):
    with pytest.raises(bd.RunError, match="already has 40 episodes, 39 were asked for"):
        learn(run, episodes=EPISODES - 1)


def test_a_refused_length_leaves_everything_as_it_was(straight, run):
    with pytest.raises(bd.RunError):
        learn(run, episodes=EPISODES - 1)
    assert [one.status for one in bd.runs.listed(run.parent)] == ["finished"]
    assert numbers(run) == straight.numbers


def test_a_run_is_not_started_twice(run):
    before = contents(run.parent)
    with pytest.raises(bd.RunError, match="already holds a run: resume it"):
        learn(run, resume=False)
    assert contents(run.parent) == before


@pytest.mark.parametrize("call", rest(range(1, 33), (1, 4, 7, 13)))
def test_an_interrupt_while_a_run_is_being_stored_loses_nothing(straight, tmp_path, monkeypatch, caplog, call):
    """Ctrl-C in the middle of a file: the checkpoint that is written on the way out must be a good one."""
    folder = tmp_path / "runs" / "river"
    _fail(monkeypatch, os, "fsync", call, KeyboardInterrupt(), count=1)
    with pytest.raises(KeyboardInterrupt):
        learn(folder)
    monkeypatch.undo()
    straight.check(folder, learn(folder))
    assert not caplog.records


def test_an_interrupt_while_numbers_are_being_stored_loses_none(straight, tmp_path, monkeypatch):
    folder = tmp_path / "runs" / "river"
    _fail(monkeypatch, Store, "update", 3, KeyboardInterrupt(), count=1)
    with pytest.raises(KeyboardInterrupt):
        learn(folder)
    monkeypatch.undo()
    assert bd.runs.listed(folder.parent)[0].status == "stopped"
    straight.check(folder, learn(folder))


def test_numbers_are_stored_before_many_wait(tmp_path, monkeypatch):
    """Of 10^6 quick episodes those between two checkpoints took 900 MB."""
    folder, stored = tmp_path / "runs" / "river", []
    real = Store.update

    def update(self, name, status, episodes, metrics=(), result=None):
        stored.append((episodes, len(list(metrics))))
        real(self, name, status, episodes, metrics, result)

    monkeypatch.setattr(Store, "update", update)
    monkeypatch.setattr(_writer, "_MOST_WAITING", 8)
    monkeypatch.setattr(learner, "_BLOCK", 2)
    bd.learn(RIVER.problem, RIVER.mdp, Tabular(RIVER.mdp), episodes=15, evaluation=30, seed=3, run=folder)
    assert len(stored) == 5
    assert all(count <= 8 + 2 * 3 for _, count in stored)
    assert {episodes for episodes, _ in stored} == {0, 15}  # what a run is said to have is what a checkpoint has
    episodes, right = (bd.runs.read(folder)[name] for name in ("episode", "right"))
    assert episodes.tolist() == list(range(1, 16))
    assert np.isfinite(right).all()


@pytest.fixture(scope="module")
def blocks(tmp_path_factory):
    """A run whose episodes are counted in blocks of four, in one piece."""
    parent = tmp_path_factory.mktemp("blocks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learner, "_BLOCK", 4)
        solution = learn(parent / "river", resume=False)
    return Stored(parent, outcome(solution), numbers(parent / "river"))


@contextmanager
def _interrupted(episode, line):
    """Ctrl-C at the n-th line that takes down an episode, from one on."""
    codes = {getattr(learner.Learner, name).__wrapped__.__code__ for name in ("take", "_count_batch")}
    codes |= {inspect.unwrap(function).__code__ for function in (advance, count_pending)}
    lines, started = itertools.count(1), []

    def inside(frame, event, _):
        if frame.f_code.co_name == "take" and frame.f_locals["self"].state.episodes >= episode:
            started.append(True)
        late = event == "line" and started
        if late and next(lines) == line:
            raise KeyboardInterrupt
        return inside

    sys.settrace(lambda frame, event, _: inside if frame.f_code in codes else None)
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        sys.settrace(None)


@pytest.mark.parametrize("line", rest(range(1, 30), (2, 6, 9, 13, 17, 21)))
@pytest.mark.parametrize("episode", rest((1, 18, 33), (18,)))
def test_an_interrupt_between_two_lines_loses_no_episode(blocks, tmp_path, monkeypatch, episode, line):
    """Ctrl-C while an episode is taken down, long after the last look and after a checkpoint."""
    folder = tmp_path / "runs" / "river"
    monkeypatch.setattr(learner, "_BLOCK", 4)
    with _interrupted(episode, line):
        learn(folder)
    (stopped,) = bd.runs.listed(folder.parent)
    newest = max(int(path.stem) for path in folder.glob("checkpoints/*.bidual"))
    assert stopped.status == "stopped"
    assert stopped.episodes == newest >= episode
    blocks.check(folder, learn(folder))


# Damage.


def _flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


DAMAGE = {
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:-100]),
    "empty": lambda path: path.write_bytes(b""),
    "all zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "a flipped bit": _flip,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_is_put_aside_and_the_one_before_it_used(straight, run, caplog, damage):
    newest = run / "checkpoints" / NEWEST
    DAMAGE[damage](newest)
    damaged = newest.read_bytes()
    straight.check(run, learn(run))
    told = [record.getMessage() for record in caplog.records if record.name == "bidual.runs"]
    assert re.search(rf"checkpoint .*{NEWEST} cannot be used", told[0])
    assert "going on from the one before it, at episode 35" in told[1]
    assert newest.with_suffix(".damaged").read_bytes() == damaged


@pytest.mark.parametrize("damage", [*DAMAGE, "removed"])
def test_a_checkpoint_without_its_policies_is_not_used(straight, run, caplog, damage):
    path = run / "policies" / f"{EPISODES - EVERY:09d}-{EPISODES:09d}.bidual"
    (DAMAGE | {"removed": Path.unlink})[damage](path)
    straight.check(run, learn(run))
    assert "going on from the one before it" in caplog.text


@pytest.mark.parametrize("damage", DAMAGE)
def test_two_damaged_checkpoints_end_the_run(run, damage):
    for name in (NEWEST, BEFORE):
        DAMAGE[damage](run / "checkpoints" / name)
    before = contents(run.parent)
    with pytest.raises(bd.RunError, match=rf"no checkpoint of {run} can be read"):
        learn(run)
    assert contents(run.parent) == before


@pytest.mark.parametrize("damage", [*DAMAGE, "removed"])
def test_damaged_policies_of_early_episodes_end_the_run(run, damage):
    """Both checkpoints need them: there is nothing to go on from."""
    (DAMAGE | {"removed": Path.unlink})[damage](run / "policies" / f"{0:09d}-{EVERY:09d}.bidual")
    before = contents(run.parent)
    with pytest.raises(bd.RunError, match=rf"no checkpoint of {run} can be read"):
        learn(run)
    assert contents(run.parent) == before


# Files that somebody made up: nothing in them is executed, and nothing is believed that does not fit.


@pytest.fixture(scope="module")
def first(straight):
    """The course before the first episode, and what such a run is known by."""
    setting = set_up(RIVER.problem, RIVER.mdp, Tabular(RIVER.mdp), None, delta=0.05, seed=3)
    return start_learn_state(setting), read_manifest(straight.parent / "river")["facts"]


@contextmanager
def nothing_runs():
    """Whoever executes something is found out."""
    codecs.lookup("cp437")  # the names in damaged zip files are in it; Python loads it at first use

    def forbid(original):
        def forbidden(*args, **options):
            caller = sys._getframe(1).f_globals.get("__name__", "")
            if caller.startswith(("jaxtyping", "beartype")):  # checks of shapes are compiled at the first call
                return original(*args, **options)
            raise AssertionError(f"something was executed: {args!r:.200}")

        return forbidden

    with pytest.MonkeyPatch.context() as patch:
        for home, names in (
            (builtins, ("exec", "eval", "compile")),
            (os, ("system", "fork", "posix_spawn")),
            (subprocess, ("Popen",)),
            (pickle, ("loads", "load")),
            (importlib, ("import_module",)),
        ):
            for name in names:
                patch.setattr(home, name, forbid(getattr(home, name)))
        yield


def _one_checkpoint(run):
    """Leave the newest only, so that nothing can be made up for."""
    (run / "checkpoints" / BEFORE).unlink()


def _resumed(run, first):
    """All that is read when a run goes on, as comparable values."""
    learn_state, facts = first
    with nothing_runs():
        manifest = read_manifest(run)
        check_facts(run, manifest, facts)
        read = Checkpoints(run, learn_state).latest()
    words, arrays = pack_state(read, learn_state)
    return manifest, words, {key: (a.dtype, a.shape, a.tobytes()) for key, a in arrays.items()}


def _mutated(data, rng):
    """A few flipped bits, other bytes, or a range that is missing, twice there, or all that follows it."""
    kind = rng.integers(5)
    start, length = int(rng.integers(len(data))), int(rng.integers(1, 64))
    if kind == 0:
        changed = bytearray(data)
        for place in rng.integers(8 * len(data), size=rng.integers(1, 4)):
            changed[place // 8] ^= 1 << place % 8
        return bytes(changed)
    if kind == 1:
        return data[:start] + rng.bytes(length) + data[start + length :]
    if kind == 2:
        return data[:start]
    if kind == 3:
        return data[: start + length] + data[start:]
    return data[:start] + data[start + length :]


def _mutate(path, rng):
    """Mutate a file or, half of the times for a zip file, what is in it: the checksums of zip files then fit."""
    data = path.read_bytes()
    if path.suffix != ".bidual" or rng.random() < 0.5:
        path.write_bytes(_mutated(data, rng))
        return
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = list(parts)[rng.integers(2)]
    parts[name] = _mutated(parts[name], rng)
    with zipfile.ZipFile(path, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)


def test_no_mutation_is_taken_for_what_was_stored(run, first):
    """A thousand: an error of bidual, or exactly what was stored (some bytes of a zip file mean nothing)."""
    _one_checkpoint(run)
    stored, rng = _resumed(run, first), np.random.default_rng(0)
    files = [run / "run.json", run / "checkpoints" / NEWEST, *sorted((run / "policies").iterdir())]
    refused = 0
    for number in range(1000):
        path = files[number % 3 if number % 3 < 2 else 2 + number // 3 % (len(files) - 2)]
        data = path.read_bytes()
        _mutate(path, rng)
        try:
            assert _resumed(run, first) == stored
        except bd.BidualError:
            refused += 1
        path.write_bytes(data)
    assert _resumed(run, first) == stored
    assert refused > 900  # the test of the test: a mutation is rarely harmless


def _forge(path, change, limit=None):
    """Change a file as a forger would: with a checksum that fits again. Returns that."""
    with zipfile.ZipFile(path) as archive:
        manifest, arrays = json.loads(archive.read("manifest.json")), load(archive.read("arrays.safetensors"))
    del manifest["sha256"]
    change(manifest, arrays)
    blob = arrays.get("blob") or save(arrays)
    manifest["sha256"] = digest(manifest, blob)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        archive.writestr("arrays.safetensors", blob)
    return manifest["sha256"]


def _refused(run, first, words=None):
    outside = {path: path.read_bytes() for path in run.parent.iterdir() if path.is_file()}
    with pytest.raises(bd.BidualError, match=words):
        _resumed(run, first)
    assert {path: path.read_bytes() for path in run.parent.iterdir() if path.is_file()} == outside


def _field(place):
    """Put something else in a place of the course, whose fields are in the order of `LearnState`."""

    def change(value):
        return lambda manifest, _: manifest["course"]["of"].__setitem__(place, value)

    return change


LOOP, EXECUTED, RESTARTS, SUMS, PENDING, POLICIES, LOOKS, SHOWN, PLANS, ROUNDS, SPENT, SECONDS = map(_field, range(12))
FORGED = {
    "a class of Python": lambda m, _: m["course"].update(make="Popen"),
    "a class with a path": lambda m, _: m["course"].update(make="subprocess.Popen"),
    "a class that is no text": lambda m, _: m["course"].update(make=["Course"]),
    "no class": lambda m, _: m["course"].pop("make"),
    "a class of another place": LOOP({"make": "Bound", "of": [{"float": "0x1p0"}, None, None, None]}),
    "too few fields": lambda m, _: m["course"].update(of=m["course"]["of"][:-4]),  # three less are an older version's
    "fields of a number": lambda m, _: m["course"].update(of=7),
    "nothing for a state": LOOP(None),
    "a number for a state": LOOP(7),
    "a list for a state": LOOP([]),
    "a text for a tuple": LOOKS("abc"),
    "a list for a tuple": LOOKS([]),
    "a number in a tuple": LOOKS({"make": "tuple", "of": [7]}),
    "a text for a number": PLANS("7"),
    "a truth for a number": PLANS(True),
    "a number that is no text": SECONDS({"float": 7}),
    "a number that is no number": SECONDS({"float": "one"}),
    "a number beyond all numbers": SECONDS({"float": "0x1p99999"}),
    "a place beyond all places": LOOP({"first": 10**30}),
    "a place before the first": LOOP({"first": -1}),
    "a place that is no number": LOOP({"first": None}),
    "a wrong place": LOOP({"first": 0}),
    "a state that holds itself": LOOP({"same": 0}),
    "a bound that holds the state": SHOWN({"same": 0}),
    "a thing that was not met": LOOP({"same": 10**30}),
    "a thing before the first": LOOP({"same": -1}),
    "a tuple that holds itself": LOOKS({"make": "tuple", "of": [{"same": 1}]}),
    "an array that is not there": LOOP({"array": "1000", "scalar": False}),
    "an array without a name": LOOP({"array": {}, "scalar": False}),
    "an array for a state": LOOP({"array": "0", "scalar": False}),
    "no course": lambda m, _: m.pop("course"),
    "a course that is a list": lambda m, _: m.update({"course": [m["course"]]}),
    "no policies": lambda m, _: m.pop("policies"),
    "policies that are a number": lambda m, _: m.update(policies=7),
    "policies that are numbers": lambda m, _: m.update(policies=[7]),
    "policies without a checksum": lambda m, _: m.update(policies=[[name] for name, _ in m["policies"]]),
    "fewer policies": lambda m, _: m["policies"].pop(),
    "policies twice": lambda m, _: m["policies"].append(m["policies"][-1]),
    "policies in another order": lambda m, _: m["policies"].reverse(),
    "policies of a long name": lambda m, _: m["policies"][0].__setitem__(0, "x" * 10_000),
    "policies of an odd name": lambda m, _: m["policies"][0].__setitem__(0, "\0\ud800"),
    "a number for the kind": lambda m, _: m.update(kind=7),
    "an odd format": lambda m, _: m.update(format=[2]),
    "no arrays": lambda _, arrays: arrays.clear(),
    "whole numbers": lambda _, arrays: arrays.update({k: a.astype(np.int64) for k, a in arrays.items()}),
    "complex numbers": lambda _, arrays: arrays.update({k: a.astype(np.complex64) for k, a in arrays.items()}),
    "other shapes": lambda _, arrays: arrays.update({k: a[None] for k, a in arrays.items()}),
    "other lengths": lambda _, arrays: arrays.update({k: np.repeat(a, 2, axis=-1) for k, a in arrays.items()}),
    "shapes beyond all memory": lambda _, arrays: arrays.update(blob=_tensors("F64", [0, 2**62], 0)),
    "numbers that NumPy does not know": lambda _, arrays: arrays.update(blob=_tensors("BF16", [1], 2)),
    "arrays that are no arrays": lambda _, arrays: arrays.update(blob=b"\xff" * 100),
}


def _tensors(dtype, shape, size):
    header = json.dumps({"0": {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(size)


@pytest.mark.parametrize("change", FORGED)
def test_a_forged_checkpoint_is_refused(run, first, change):
    _one_checkpoint(run)
    _forge(run / "checkpoints" / NEWEST, FORGED[change])
    _refused(run, first)


@pytest.mark.parametrize("depth", [100, 200, 300, 400, 450, 480, 500, 1000, 100_000])
def test_words_are_never_too_deep(run, first, depth):
    """Reading, checking and making again each have a depth of their own at which they fail."""
    _one_checkpoint(run)
    path = run / "checkpoints" / NEWEST
    with zipfile.ZipFile(path) as archive:
        manifest, blob = json.loads(archive.read("manifest.json")), archive.read("arrays.safetensors")
    del manifest["sha256"]
    manifest["course"]["of"][6] = "here"
    deep = '{"make": "tuple", "of": [' * depth + "7" + "]}" * depth
    words = json.dumps(manifest, sort_keys=True).replace('"here"', deep)
    manifest["sha256"] = hashlib.sha256(words.encode() + blob).hexdigest()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest).replace('"here"', deep))
        archive.writestr("arrays.safetensors", blob)
    _refused(run, first)


@pytest.mark.parametrize("name", ["../outside.bidual", "{}/outside.bidual", "..", ".", "", "../policies/x.bidual"])
def test_a_checkpoint_cannot_name_files_elsewhere(run, first, name):
    """Not even files that are as they should be."""
    _one_checkpoint(run)
    part = run / "policies" / f"{0:09d}-{EVERY:09d}.bidual"
    for copy in (run / "outside.bidual", run / "policies" / "x.bidual"):
        shutil.copy(part, copy)
    name = name.format(run)
    _forge(run / "checkpoints" / NEWEST, lambda m, _: m["policies"][0].__setitem__(0, name))
    _refused(run, first)
    assert (run / "outside.bidual").exists()


def _part(key, change):
    return lambda _, arrays: arrays.update({key: change(arrays[key])})


FORGED_POLICIES = {
    "actions that are not whole": _part("actions", lambda a: a.astype(np.float64)),
    "actions for more states": _part("actions", lambda a: np.repeat(a, 2, axis=2)),
    "actions for fewer steps": _part("actions", lambda a: a[:, 1:]),
    "actions without steps": _part("actions", lambda a: a[:, 0]),
    "actions that do not exist": _part("actions", lambda a: a + 2),
    "actions before the first": _part("actions", lambda a: a - 1),
    "no actions": lambda _, arrays: arrays.pop("actions"),
    "an order that is not whole": _part("order", lambda a: a.astype(np.float64)),
    "an order with axes": _part("order", lambda a: a[:, None]),
    "an order that goes too far": _part("order", lambda a: a + 1000),
    "an order that goes backwards": _part("order", lambda a: a - 1000),
    "an order from the end": _part("order", lambda a: a - 1),
    "an order that is too short": _part("order", lambda a: a[1:]),
    "no order": lambda _, arrays: arrays.pop("order"),
    "no first episode": lambda m, _: m.pop("first"),
    "another first episode": lambda m, _: m.update(first=1),
    "actions without a number": lambda m, _: m.update(num_actions=None),
    "another number of actions": lambda m, _: m.update(num_actions=3),
    "a huge number of actions": lambda m, _: m.update(num_actions=10**400),
    "an endless number of actions": lambda m, _: m.update(num_actions=float("inf")),
}


@pytest.mark.parametrize("change", FORGED_POLICIES)
def test_forged_policies_are_refused(run, first, change):
    _one_checkpoint(run)
    sha256 = _forge(run / "policies" / f"{0:09d}-{EVERY:09d}.bidual", FORGED_POLICIES[change])
    _forge(run / "checkpoints" / NEWEST, lambda m, _: m["policies"][0].__setitem__(1, sha256))
    _refused(run, first)


def test_policies_of_another_run_are_refused(run, first):
    """They are as they should be, but not those that the checkpoint was written with."""
    _one_checkpoint(run)
    _forge(run / "policies" / f"{0:09d}-{EVERY:09d}.bidual", _part("order", np.zeros_like))
    _refused(run, first)


def _rewrite(run, change):
    """Change run.json as a forger would."""
    manifest = json.loads((run / "run.json").read_text())
    del manifest["sha256"]
    change(manifest)
    (run / "run.json").write_text(json.dumps(manifest | {"sha256": compute_checksum(manifest)}))


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.pop("facts"),
        lambda m: m.update(facts=None),
        lambda m: m.update(facts=list(m["facts"])),
        lambda m: m.update(facts={}),
        lambda m: m["facts"].update(more=1),
        lambda m: m["facts"].update(seed=[3]),
        lambda m: m["facts"].update(seed=10**400),
        lambda m: m.update(format="1"),
        lambda m: m.update(format=None),
        lambda m: m.update(format=[1]),
        lambda m: m.update(format=10**400),
        lambda m: m.pop("format"),
        lambda m: m.update(kind="task"),
    ],
)
def test_a_forged_manifest_is_refused(run, first, change):
    _rewrite(run, change)
    _refused(run, first)


@pytest.mark.parametrize("text", ["", "7", "null", "[]", '"run"', "{}", "{" * 50, "[" * 10**5, '{"a":' * 10**5, "\0"])
def test_a_manifest_that_is_none_is_refused(run, first, text):
    (run / "run.json").write_text(text)
    _refused(run, first, "cannot be read")


# Several processes.


class Writer:
    """A process of `tests.run_writers`."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.run_writers"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ready(self):
        """Wait until it is; returns its number."""
        assert self.answer() == str(self._process.pid)
        return self._process.pid

    def tell(self, *words):
        """Ask it to do something, without waiting."""
        self._process.stdin.write(f"{json.dumps([str(word) if isinstance(word, Path) else word for word in words])}\n")
        self._process.stdin.flush()

    def answer(self):
        """Wait for the next word from it, or for its last ones."""
        return self._process.stdout.readline().strip() or self._process.communicate()[1]

    def kill(self):
        """End it as a loss of power would."""
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="module")
def writers():
    """Eight of them."""
    processes = [Writer() for _ in range(PROCESSES)]
    try:
        for process in processes:
            process.ready()
        yield processes
    finally:
        for process in processes:
            process.kill()


@pytest.fixture
def writer():
    process = Writer()
    try:
        yield process
    finally:
        process.kill()


def _all_done(writers):
    assert [writer.answer() for writer in writers] == ["done"] * PROCESSES


def test_eight_processes_make_one_database(writers, tmp_path):
    """Forty at the same moment, because each is an occasion to collide."""
    folders = [tmp_path / str(number) for number in range(40)]
    for folder in folders:
        folder.mkdir()
    for writer in writers:
        writer.tell("touch", *folders)
    _all_done(writers)
    for folder in folders:
        assert bd.runs.listed(folder) == []


@pytest.mark.parametrize("count", rest((250, 1000), (250,)))
def test_eight_processes_write_to_runs_of_their_own(writers, tmp_path, count):
    for number, writer in enumerate(writers):
        writer.tell("write", tmp_path, f"run {number}", f"series {number % 2}", 1, count + 1, 1)
    _all_done(writers)
    table = bd.runs.read(tmp_path)
    episodes = np.arange(1, count + 1)
    for number in range(PROCESSES):
        own = table["run"] == f"run {number}"
        np.testing.assert_array_equal(table["episode"][own], episodes)
        np.testing.assert_array_equal(table[f"series {number % 2}"][own], episodes / 8)
    assert [one.episodes for one in bd.runs.listed(tmp_path)] == [count] * PROCESSES


@pytest.mark.parametrize("count", rest((250, 1000), (250,)))
def test_eight_processes_write_to_one_series(writers, tmp_path, count):
    stop = PROCESSES * count + 1
    for number, writer in enumerate(writers):
        writer.tell("write", tmp_path, "run", "series", 1 + number, stop, PROCESSES)
    _all_done(writers)
    table = bd.runs.read(tmp_path)
    np.testing.assert_array_equal(table["episode"], np.arange(1, stop))
    np.testing.assert_array_equal(table["series"], np.arange(1, stop) / 8)


def test_a_run_belongs_to_one_process_until_that_ends(straight, run, writer):
    number = writer.ready()
    writer.tell("begin", run)
    assert writer.answer() == "done"
    before = contents(run)
    assert [one.status for one in bd.runs.listed(run.parent)] == ["running"]
    with pytest.raises(bd.RunError, match=rf"another process \(number {number}\) is writing to {run}"):
        learn(run)
    assert contents(run) == before
    writer.kill()
    assert [one.status for one in bd.runs.listed(run.parent)] == ["stopped"]
    straight.check(run, learn(run))
    assert [one.status for one in bd.runs.listed(run.parent)] == ["finished"]


def test_whoever_looks_at_a_run_is_not_in_its_way(run):
    """A look takes the lock for a moment: a run that starts then waits, and others that look see no run."""
    look = os.open(run / "lock", os.O_RDWR)
    fcntl.flock(look, fcntl.LOCK_SH)
    assert not _lock.is_held(run)
    threading.Timer(0.05, os.close, [look]).start()
    lock = _lock.RunLock(run)
    assert _lock.is_held(run)
    lock.release()
    assert not _lock.is_held(run)


def test_a_lock_that_cannot_be_written_is_not_kept(run, monkeypatch):
    _fail(monkeypatch, os, "pwrite", 1, FULL)
    with pytest.raises(bd.RunError, match="No space left"):
        learn(run)
    assert not _lock.is_held(run)


def test_what_a_crash_left_is_tidied_away(straight, run):
    """Files that were never finished, and policies that no checkpoint names."""
    part = run / "policies" / f"{EPISODES:09d}-{EPISODES + EVERY:09d}.bidual"
    left = [
        run / ".run.json.0",
        run / ".solution.bidual.0",
        run / "checkpoints" / f".{NEWEST}.0",
        run / "policies" / ".part.0",
        part,
    ]
    for path in left:
        path.write_text("half of it")
    straight.check(run, learn(run))
    assert not any(path.exists() for path in left)


# A full disk.


def _fail(monkeypatch, home, name, call, error, count=10**9):
    """From its n-th call on, so many calls of a function fail."""
    real, calls = getattr(home, name), itertools.count(1)

    def failing(*args, **kwargs):
        if call <= next(calls) < call + count:
            raise error
        return real(*args, **kwargs)

    monkeypatch.setattr(home, name, failing)


def _check_words(caught, folder, before=0):
    """The error says how much is safe, and it is true; a file that is there may not be on the disk yet."""
    assert caught.value.exit_code == 5
    told = re.search(r"stored up to episode (\d+), and can be resumed", str(caught.value))
    newest = max((int(path.stem) for path in folder.glob("checkpoints/*.bidual")), default=0)
    if told or newest > before + EVERY:
        assert int(told[1]) in (newest, newest - EVERY)
        assert (folder / "checkpoints" / f"{int(told[1]):09d}.bidual").exists()


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    ("name", "call"),
    [
        *(("fsync", call) for call in (1, 6)),
        *(("replace", call) for call in (3, 16)),
        *(pytest.param("fsync", call, marks=pytest.mark.slow) for call in range(2, 33) if call != 6),
        *(pytest.param("replace", call, marks=pytest.mark.slow) for call in range(1, 18) if call not in (3, 16)),
    ],
)
def test_a_full_disk_ends_a_run_that_can_go_on(straight, tmp_path, monkeypatch, name, call):
    folder = tmp_path / "runs" / "river"
    _fail(monkeypatch, os, name, call, FULL)
    try:
        with pytest.raises(bd.RunError, match="No space left on device") as caught:
            learn(folder)
    finally:
        monkeypatch.undo()
    _check_words(caught, folder)
    assert hidden(folder) == []
    straight.check(folder, learn(folder))


@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_a_disk_that_is_full_from_the_start_changes_nothing(straight, run, monkeypatch, name):
    before = contents(run)
    _fail(monkeypatch, os, name, 1, FULL)
    with pytest.raises(bd.RunError, match="No space left on device"):
        learn(run, episodes=EPISODES + 1)
    monkeypatch.undo()
    assert contents(run) == before
    straight.check(run, learn(run))


@pytest.mark.parametrize("pages", rest(range(6, 14), (8, 13)))
def test_a_full_database_ends_a_run_that_can_go_on(straight, tmp_path, monkeypatch, pages):
    """Pages are of 512 bytes here, and there may be no more of them."""
    folder, connect = tmp_path / "runs" / "river", sqlite3.connect

    def small(*args, **kwargs):
        base = connect(*args, **kwargs)
        base.execute("PRAGMA page_size = 512")
        base.execute(f"PRAGMA max_page_count = {pages}")
        return base

    monkeypatch.setattr(sqlite3, "connect", small)
    with pytest.raises(bd.RunError, match="disk is full: free some space") as caught:
        learn(folder)
    monkeypatch.undo()
    _check_words(caught, folder)
    straight.check(folder, learn(folder))


@pytest.mark.parametrize("limit", rest(range(5_000, 85_000, 5_000), (5_000, 80_000)))
def test_a_limit_on_the_size_of_files_ends_a_run_that_can_go_on(straight, tmp_path, limit):
    folder = tmp_path / "runs" / "river"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        with pytest.raises(bd.RunError, match=r"free some space|File too large") as caught:
            learn(folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    _check_words(caught, folder)
    straight.check(folder, learn(folder))


@pytest.fixture
def disk(tmp_path):
    """A disk of one megabyte, where the system lets us have one."""
    path = tmp_path / "disk"
    path.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(path)], capture_output=True)
    if done.returncode:
        pytest.skip("only root can mount a small disk")
    yield path
    done = subprocess.run(["umount", str(path)], capture_output=True, text=True)
    if done.returncode:
        subprocess.run(["umount", "-l", str(path)], check=True)
        raise AssertionError(f"a file was left open: {done.stderr}")


@pytest.mark.skipif(shutil.which("mount") is None, reason="there is no mount here")
@pytest.mark.parametrize("left", rest(range(0, 136, 8), (40, 96)))
def test_a_small_disk_ends_a_run_that_can_go_on(straight, disk, left):
    """So many kilobytes are left after the first ten episodes."""
    folder = disk / "river"
    learn(folder, episodes=10)
    usage = os.statvfs(disk)
    (disk / "ballast").write_bytes(bytes(usage.f_bavail * usage.f_bsize - left * 1024))
    with pytest.raises(bd.RunError, match=r"free some space|No space left|disk is full") as caught:
        learn(folder)
    _check_words(caught, folder, before=10)
    (disk / "ballast").unlink()
    straight.check(folder, learn(folder))


def test_folders_that_are_made_survive_a_loss_of_power(tmp_path, monkeypatch):
    """A folder is on the disk once the one that holds it is: every folder that was made is followed by such a sync."""
    synced, real = set(), os.fsync

    def watched(descriptor):
        synced.add(os.fstat(descriptor).st_ino)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    path = tmp_path / "a" / "b" / "c.bidual"
    archive.put(path, lambda file: file.write(b"x"))
    assert {folder.stat().st_ino for folder in (tmp_path, tmp_path / "a", tmp_path / "a" / "b")} <= synced


# Folders that are not ours.


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "file").write_text("mine")
    for folder in (tmp_path / "file", tmp_path / "file" / "river"):
        with pytest.raises(bd.RunError, match="cannot be stored") as caught:
            learn(folder)
        assert caught.value.exit_code == 5
    assert contents(tmp_path) == {"file": b"mine"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(bd.RunError, match="cannot be stored"):
        learn(tmp_path / "river")


@pytest.mark.parametrize("names", [["notes.txt"], ["checkpoints/000000005.bidual"], ["lock", "a", "b", "c", "d"]])
@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_with_other_files_is_left_alone(tmp_path, names, resume):
    folder = tmp_path / "river"
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("mine")
    with pytest.raises(bd.RunError, match="holds other files"):
        learn(folder, resume=resume)
    found = {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {f"river/{name}": b"mine" for name in names}


@pytest.mark.parametrize("name", ["lock", "checkpoints", "policies", "tensorboard"])
def test_a_run_that_leads_elsewhere_changes_nothing_there(run, name):
    """Whoever hands over a run may have put links into it: tidying up and locking would reach what they lead to."""
    elsewhere = run.parents[1] / "mine"
    elsewhere.mkdir()
    (elsewhere / ".profile").write_text("mine")
    if (run / name).exists():
        shutil.move(run / name, run.parent / "moved")
    (run / name).symlink_to(elsewhere / ".profile" if name == "lock" else elsewhere)
    with pytest.raises(bd.RunError, match="symbolic link"):
        learn(run)
    assert contents(elsewhere) == {".profile": b"mine"}


def test_a_new_run_takes_no_lock_elsewhere(tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "river").mkdir()
    (tmp_path / "river" / "lock").symlink_to(tmp_path / "mine")
    with pytest.raises(bd.RunError, match="symbolic link"):
        learn(tmp_path / "river")
    assert (tmp_path / "mine").read_text() == "mine"


def _foreign(path):
    with sqlite3.connect(path) as base:
        base.execute("CREATE TABLE runs (name TEXT)")
    base.close()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_foreign, "a database of another program"),
        (lambda path: path.write_text("my notes"), "not a database"),
        (lambda path: path.write_bytes(bytes(5000)), "not a database"),
        (lambda path: path.mkdir(), "unable to open"),
    ],
)
def test_a_database_that_is_not_ours_is_left_alone(tmp_path, make, words):
    make(tmp_path / "bidual.sqlite")
    before = contents(tmp_path)
    with pytest.raises(bd.RunError, match=words) as caught:
        learn(tmp_path / "river")
    assert "another" in str(caught.value)
    assert contents(tmp_path) == before
    if (tmp_path / "bidual.sqlite").is_file():
        for look in (bd.runs.listed, bd.runs.read):
            with pytest.raises(bd.RunError, match=words):
                look(tmp_path)
    assert contents(tmp_path) == before


# Other versions.

REMEDIES = {-1: "use the version of bidual that wrote it", 1: "upgrade bidual"}


@pytest.mark.parametrize("step", REMEDIES)
def test_a_manifest_of_another_version_is_not_read(run, step):
    _rewrite(run, lambda manifest: manifest.update(format=manifest["format"] + step))
    before = contents(run.parent)
    with pytest.raises(bd.RunError, match=REMEDIES[step]):
        learn(run)
    with pytest.raises(bd.RunError, match=REMEDIES[step]):
        bd.runs.read(run)
    assert contents(run.parent) == before


@pytest.mark.parametrize("step", REMEDIES)
def test_a_database_of_another_version_is_not_read(run, step):
    with sqlite3.connect(run.parent / "bidual.sqlite") as base:
        base.execute(f"PRAGMA user_version = {base.execute('PRAGMA user_version').fetchone()[0] + 2 * step}")
    base.close()
    before = contents(run.parent)
    for use in (learn, bd.runs.read, lambda folder: bd.runs.listed(folder.parent)):
        with pytest.raises(bd.RunError, match=REMEDIES[step]):
            use(run)
    assert contents(run.parent) == before


@pytest.mark.parametrize("step", REMEDIES)
@pytest.mark.parametrize("which", [f"checkpoints/{NEWEST}", f"policies/{0:09d}-{EVERY:09d}.bidual"])
def test_a_checkpoint_of_another_version_is_not_taken_for_damaged(run, step, which):
    """Neither put aside nor replaced by the one before it: the version that wrote it can go on from it."""
    _forge(run / which, lambda manifest, _: manifest.update(format=manifest["format"] + step))
    before = contents(run.parent)
    with pytest.raises(bd.RunError, match=REMEDIES[step]):
        learn(run)
    assert contents(run.parent) == before


# Other settings.

RICHER = riverswim(budget=2.25, states=3, horizon=5)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("seed: 3 then, 4 now", {"seed": 4}),
        ("delta: 0.05 then, 0.1 now", {"delta": 0.1}),
        ("batch: 1 then, 2 now", {"batch": 2}),
        ("explorer", {"explorer": bd.explorers.Thompson()}),
        ("problem", {"task": RICHER}),
        ("set: ball then, box now", {"model": Tabular(RIVER.mdp, set="box")}),
        ("declared successors", {"model": Tabular()}),
        ("stationary: True then, False now", {"model": Tabular(RIVER.mdp, stationary=False)}),
    ],
)
def test_another_setting_is_named_and_changes_nothing(run, name, change):
    before = contents(run.parent)
    with pytest.raises(bd.RunError, match=f"{run} holds a run with another {name}"):
        learn(run, **change)
    assert contents(run.parent) == before


# Looking at runs.


def _columns(table):
    """What pandas and polars take: arrays with one axis and one length."""
    assert {column.ndim for column in table.values()} == {1}
    assert len({column.size for column in table.values()}) == 1
    assert table["run"].dtype.kind == "U"
    assert table["episode"].dtype == np.int64
    assert all(column.dtype == np.float64 for name, column in table.items() if name not in ("run", "episode"))
    return list(table)


def test_the_numbers_of_a_run_are_columns(run):
    table = bd.runs.read(run)
    assert _columns(table)[:2] == ["run", "episode"]
    assert set(table) >= {"objective", "right", "plans", "bound", "reached", "violation_at_most", "gap", "seconds"}
    np.testing.assert_array_equal(table["episode"], np.arange(1, EPISODES + 1))
    assert set(table["run"]) == {"river"}
    for name in ("objective", "right", "plans"):
        assert np.isfinite(table[name]).all()
    np.testing.assert_array_equal(table["episode"][np.isfinite(table["bound"])], [16, 32, 40])


NAMES = ("objective", "plans", "bound", "reached", "violation_at_most", "gap", "seconds", "run", "episode")
NAMES += ("planned objective",)


def test_constraints_may_have_the_names_of_columns(run):
    """They are told apart, in one table with a run that has others."""
    x = RIVER.mdp.embedding(left=np.array([[1.0, 0.0]] * 3), right=np.array([[0.0, 1.0]] * 3))
    limits = {name: cp.sum(x.right) <= 3.0 + place for place, name in enumerate(NAMES)}
    problem = bd.Problem(cp.Maximize(cp.sum(x.right)), limits)
    bd.learn(problem, RIVER.mdp, Tabular(RIVER.mdp), episodes=18, evaluation=30, run=run.parent / "named")
    table = bd.runs.read(run.parent)
    columns = _columns(table)
    for name in NAMES:
        assert f"{name} (constraint)" in columns
    river, named = table["run"] == "river", table["run"] == "named"
    assert (river.sum(), named.sum(), table["run"].size) == (EPISODES, 18, EPISODES + 18)
    np.testing.assert_array_equal(table["episode"][named], np.arange(1, 19))
    for name in NAMES:
        np.testing.assert_array_equal(table[f"{name} (constraint)"][named], table["objective"][named])
        assert np.isnan(table[f"{name} (constraint)"][river]).all()
    assert np.isnan(table["right"][named]).all()
    alone = bd.runs.read(run.parent / "named")
    assert "right" not in _columns(alone)
    np.testing.assert_array_equal(alone["objective"], table["objective"][named])


def test_a_run_that_failed_is_listed_as_such_and_can_go_on(straight, tmp_path, monkeypatch):
    folder = tmp_path / "runs" / "river"
    _fail(monkeypatch, Simulator, "collect", 13, bd.EnvError("the power is out"))
    with pytest.raises(bd.EnvError, match=r"the power is out\n.*is stored up to episode 12"):
        learn(folder)
    monkeypatch.undo()
    one = bd.runs.listed(folder.parent)[0]
    assert (one.name, one.folder) == ("river", folder)
    assert (one.status, one.episodes, one.result) == ("failed", 12, None)
    straight.check(folder, learn(folder))
    one = bd.runs.listed(folder.parent)[0]
    assert (one.status, one.episodes, one.result["episodes"]) == ("finished", EPISODES, EPISODES)
    assert 0 < one.created <= one.updated


def test_a_run_that_goes_on_is_told_as_far_as_it_is_stored(run):
    """Neither the result it came to before, nor episodes of a checkpoint that was lost."""
    with Store(run.parent) as store:
        assert store.entries()[0].result["episodes"] == EPISODES
        store.register("river", {})
        store.forget("river", EPISODES - EVERY)
        assert store.entries()[0][3:] == ("running", EPISODES - EVERY, {}, None)
    table = bd.runs.read(run.parent)
    assert table["episode"].max() == EPISODES - EVERY
    np.testing.assert_array_equal(table["episode"][np.isfinite(table["bound"])], [16, 32])


@pytest.mark.parametrize("look", [bd.runs.read, bd.runs.listed])
def test_where_there_are_no_runs_it_is_said(tmp_path, look):
    (tmp_path / "file").write_text("mine")
    for place in (tmp_path, tmp_path / "nowhere", tmp_path / "file"):
        with pytest.raises(bd.RunError, match=f"there are no runs in {place}"):
            look(place)
    assert contents(tmp_path) == {"file": b"mine"}


def test_a_run_that_the_database_does_not_know_is_an_error(run):
    """A folder that was copied or renamed: an empty table would look like a run without numbers."""
    run.rename(run.parent / "other")
    with pytest.raises(bd.RunError, match="knows no run 'other'"):
        bd.runs.read(run.parent / "other")


def test_numbers_that_are_none_leave_a_gap(tmp_path):
    with Store(tmp_path) as store:
        store.register("run", {})
        store.update("run", "running", 2, [Metric("x", 1, float("nan")), Metric("x", 2, float("inf"))])
    assert bd.runs.read(tmp_path)["x"].tolist()[-1] == float("inf")


def test_more_policies_than_episodes_are_refused(tmp_path):
    """Tables of a byte each would take a gigabyte as objects: every one that is stored was run."""
    name = "000000000-000000002.bidual"
    arrays = {"order": np.zeros(2, dtype=np.int64), "actions": np.zeros((3, 1, 1), dtype=np.int8)}
    manifest = {"first": 0, "num_actions": 2}
    sha256 = archive.write(tmp_path / "policies" / name, "policies", manifest, arrays)
    with pytest.raises(bd.ArchiveError, match="it has more policies than its 2 episodes"):
        Journal(tmp_path, [PolicyPart(name, sha256)])
