"""The evaluation of a policy in a slow environment: what was run before an end is not run again."""

import errno
import os
import shutil
from dataclasses import replace

import numpy as np
import pytest

import bidual as bd
from bidual._base import archive
from bidual._base.keys import Purpose
from bidual._base.types import Episode
from bidual.learning.runs._evaluation import _stack, _unstack
from bidual.models import Tabular
from bidual.tasks.riverswim import riverswim
from bidual.world.envs import AbstractEnvironment, Simulator
from tests.killed import outcome

RIVER = riverswim(budget=2.5, states=3, horizon=5)
EPISODES, EVALUATION, EVERY = 20, 30, 7


class Slow(AbstractEnvironment):
    """A simulator that runs one episode at a time, lists those of an evaluation, and ends before some of them.

    Before number `at` of an evaluation it acts.
    """

    def __init__(self, ends=(), error=KeyboardInterrupt, at=None, act=lambda: None):
        self.simulator, self.evaluated = Simulator(RIVER.mdp), []
        self.ends, self.error, self.at, self.act = ends, error, at, act

    @property
    def shape(self):
        return self.simulator.shape

    @property
    def initial(self):
        return self.simulator.initial

    @property
    def allowed(self):
        return self.simulator.allowed

    def collect(self, policy, draw):
        if draw.purpose is Purpose.EVALUATE:
            if draw.number == self.at:
                self.act()
            if draw.number in self.ends:
                raise self.error
            self.evaluated.append(draw.number)
        return self.simulator.collect(policy, draw)


def _learn(folder, env, every=EVERY, **changes):
    run = bd.runs.Folder(folder, resume=True, every=every)
    settings = {"episodes": EPISODES, "evaluation": EVALUATION, "seed": 3, "run": run} | changes
    return bd.learn(RIVER.problem, env, Tabular(RIVER.mdp), **settings)


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    folder = tmp_path_factory.mktemp("straight") / "river"
    found = outcome(_learn(folder, Slow()))
    assert not (folder / "evaluation.bidual").exists()
    return found


@pytest.mark.parametrize(
    ("error", "kind"),
    [(KeyboardInterrupt, KeyboardInterrupt), (bd.EnvError("the sensor is gone"), bd.EnvError)],
    ids=["interrupt", "fault"],
)
def test_an_evaluation_goes_on_where_it_ended(straight, tmp_path, error, kind):
    folder = tmp_path / "runs" / "river"
    with pytest.raises(kind):
        _learn(folder, Slow(ends=(11,), error=error))
    again = Slow()
    assert outcome(_learn(folder, again)) == straight
    assert again.evaluated == list(range(11, EVALUATION))
    assert not (folder / "evaluation.bidual").exists()


def test_a_process_that_is_killed_loses_what_followed_the_last_write(straight, tmp_path, monkeypatch):
    """Nothing is written at the end, as after kill -9: the last write is that of episode 14, for one in 7 is asked."""
    folder = tmp_path / "runs" / "river"
    real = archive.write

    def write(path, kind, manifest, arrays):
        if kind == "evaluation" and len(arrays["states"]) % EVERY:
            raise KeyboardInterrupt
        return real(path, kind, manifest, arrays)

    monkeypatch.setattr(archive, "write", write)
    with pytest.raises(KeyboardInterrupt):
        _learn(folder, Slow(ends=(18,)))
    monkeypatch.undo()
    again = Slow()
    assert outcome(_learn(folder, again)) == straight
    assert again.evaluated == list(range(14, EVALUATION))


FORGED = {
    "other arrays": lambda arrays: {"states": arrays["states"][1:]},
    "shorter episodes": lambda arrays: {"actions": arrays["actions"][:, 1:]},
    "a number for lengths": lambda _: {"length": np.array(3)},
    "lengths in pairs": lambda arrays: {"length": np.zeros((len(arrays["length"]), 2), dtype=np.int64)},
    "states that are none": lambda arrays: {"states": arrays["states"] + 3},
    "negative actions": lambda arrays: {"actions": arrays["actions"] - 2},
    "signals of fewer steps": lambda arrays: {"observed": arrays["observed"][:, 1:]},
    "flat signals": lambda arrays: {"observed": np.zeros(arrays["actions"].shape)},
    "longer than they can be": lambda arrays: {"length": arrays["length"] * 0 + 6},
}


@pytest.mark.parametrize("damage", ["a flipped bit", "another policy", *FORGED])
def test_episodes_that_cannot_be_used_are_run_again(straight, tmp_path, caplog, damage):
    folder = tmp_path / "runs" / "river"
    with pytest.raises(KeyboardInterrupt):
        _learn(folder, Slow(ends=(11,)))
    path = folder / "evaluation.bidual"
    manifest, arrays = archive.read(path, "evaluation")
    label = {name: manifest[name] for name in ("policy", "seed", "first")}
    if damage == "a flipped bit":
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 4
        path.write_bytes(data)
    elif damage in FORGED:
        archive.write(path, "evaluation", label, arrays | FORGED[damage](arrays))
    else:
        archive.write(path, "evaluation", label | {"policy": "0" * 64}, arrays)
    again = Slow()
    assert outcome(_learn(folder, again)) == straight
    assert again.evaluated == list(range(EVALUATION))
    assert ("run again" in caplog.text) == (damage != "another policy")


def _rename(folder):
    folder.rename(folder.with_name("lake"))


def _replace(folder):
    _rename(folder)
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")


@pytest.mark.parametrize("ends", [(), (18,)], ids=["to the end", "interrupted"])
@pytest.mark.parametrize("act", [shutil.rmtree, _rename, _replace], ids=["deleted", "renamed", "replaced"])
def test_nothing_is_written_where_a_folder_was(straight, tmp_path, act, ends):
    """A folder that vanishes in an evaluation is not made again; what stands in its place is none of ours."""
    folder = tmp_path / "runs" / "river"
    with pytest.raises(bd.RunError, match="deleted, renamed or replaced") as caught:
        _learn(folder, Slow(ends, at=10, act=lambda: act(folder)))
    assert caught.value.state.episodes == EPISODES
    assert [path.name for path in folder.glob("*")] == (["notes.txt"] if act is _replace else [])
    assert outcome(_learn(folder.with_name("river.rescued"), Slow())) == straight


ENDS = {"no end": None, "interrupt": KeyboardInterrupt, "fault": bd.EnvError("the sensor is gone")}


@pytest.mark.parametrize("end", ENDS)
def test_a_full_disk_takes_nothing_from_an_evaluation(straight, tmp_path, monkeypatch, caplog, end):
    """What ends an evaluation stays what it was, and an error of writing has what was learned."""
    folder = tmp_path / "runs" / "river"

    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    env = Slow(() if end == "no end" else (12,), ENDS[end], 10, lambda: monkeypatch.setattr(os, "fsync", fail))
    with pytest.raises({"no end": bd.RunError, "interrupt": KeyboardInterrupt, "fault": bd.EnvError}[end]) as caught:
        _learn(folder, env)
    monkeypatch.undo()
    if end != "interrupt":
        assert caught.value.state.episodes == EPISODES
    assert ("cannot be stored" in caplog.text) == (end != "no end")
    again = Slow()
    assert outcome(_learn(folder, again)) == straight
    assert again.evaluated == list(range(7, EVALUATION))


def test_what_a_crash_left_of_it_is_removed(straight, tmp_path):
    folder = tmp_path / "runs" / "river"
    with pytest.raises(KeyboardInterrupt):
        _learn(folder, Slow(ends=(11,)))
    (folder / ".evaluation.bidual.0123").write_text("half")
    assert outcome(_learn(folder, Slow())) == straight
    assert list(folder.glob(".*")) == []


def test_no_more_episodes_are_read_than_are_needed(tmp_path):
    """Ten megabytes may hold a million short episodes, which would take a gigabyte as objects."""
    states, actions = np.zeros((9, 4), dtype=np.int8), np.zeros((9, 3), dtype=np.int8)
    arrays = {"length": np.full(9, -1), "broken": np.zeros(9, dtype=bool), "observed": np.zeros((9, 3, 0))}
    assert len(_unstack(arrays | {"states": states, "actions": actions}, 2)) == 2


def test_a_longer_evaluation_uses_the_episodes_of_a_shorter_one(tmp_path):
    folder = tmp_path / "runs" / "river"
    with pytest.raises(KeyboardInterrupt):
        _learn(folder, Slow(ends=(11,)))
    again = Slow()
    assert _learn(folder, again, evaluation=40).evaluation_episodes == 40
    assert again.evaluated == list(range(11, 40))


def test_episodes_of_controls_come_back_as_they_were():
    rng = np.random.default_rng(0)
    plain = Episode(np.zeros(4, dtype=np.int64), np.zeros(3, dtype=np.int64), rng.normal(size=(3, 2)))
    moved = replace(plain, observations=rng.normal(size=(4, 2)), controls=rng.normal(size=(3, 1)), length=2)
    for episodes in ([plain, plain], [moved, replace(moved, length=3, broken=True)]):
        for one, other in zip(episodes, _unstack(_stack(episodes), 2), strict=True):
            assert (one.length, one.broken, one.only) == (other.length, other.broken, other.only)
            for name in ("states", "actions", "observed", "observations", "controls"):
                np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
