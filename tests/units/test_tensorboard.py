"""Numbers for TensorBoard: its files hold what the database holds, also after a run was resumed."""

import errno
import itertools
import os
import struct
import sys
import time

import numpy as np
import pytest

import bidual as bd
from bidual.learning.metrics import PROGRESS_METRICS
from bidual.models import Tabular
from bidual.tasks.riverswim import riverswim

RIVER = riverswim(budget=2.5, states=3, horizon=5)


def _learn(path, episodes, **settings):
    folder = bd.runs.Folder(path, resume=True, tensorboard=True, **settings)
    return bd.learn(RIVER.problem, RIVER.mdp, Tabular(RIVER.mdp), episodes=episodes, evaluation=10, run=folder)


def _events(folder):
    """What the files hold, in the order in which they were written; each record is length, sum, event, sum."""
    from tensorboardX.proto.event_pb2 import Event

    for path in sorted(folder.glob("events*")):
        data, place = path.read_bytes(), 0
        while place < len(data):
            (size,) = struct.unpack_from("<Q", data, place)
            event = Event()
            event.ParseFromString(data[place + 12 : place + 12 + size])
            yield event
            place += size + 16


def _shown(folder):
    """The numbers that TensorBoard would show: a session that starts purges what is from its step on."""
    found = {}
    for event in _events(folder):
        if event.HasField("session_log"):
            found = {key: value for key, value in found.items() if key[1] < event.step}
        for value in event.summary.value:
            found[value.tag, event.step] = value.simple_value
    return found


def test_the_files_hold_what_the_database_holds(tmp_path, monkeypatch):
    """And the look at the end of the shorter run, which TensorBoard has no way to forget alone.

    Both processes start within one second: their files are named by it, and the first must not be overwritten.
    """
    now = time.time()
    monkeypatch.setattr("bidual.learning.runs._tensorboard.time.time", lambda: now)
    _learn(tmp_path / "runs" / "a", 30)
    _learn(tmp_path / "runs" / "a", 50)
    table = bd.runs.read(tmp_path / "runs" / "a")
    stored = {
        (name, int(episode)): np.float32(value)
        for name, values in table.items()
        if name not in ("run", "episode")
        for episode, value in zip(table["episode"], values, strict=True)
        if not np.isnan(value)
    }
    shown = _shown(tmp_path / "runs" / "a" / "tensorboard")
    assert len(stored) > 150
    assert {name for name, _ in set(shown) - set(stored)} == set(PROGRESS_METRICS)
    assert {key: shown[key] for key in stored} == stored


def test_the_extra_is_named_where_it_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(bd.RunError, match=r"pip install 'bidual\[tensorboard\]'"):
        _learn(tmp_path / "runs" / "a", 30)


@pytest.mark.parametrize("written", [0, 1, 40])
def test_a_disk_that_fails_ends_the_run_with_an_error(tmp_path, monkeypatch, written):
    """Whoever wrote next waited for a thread that had died of it, for ever."""
    from tensorboardX.record_writer import RecordWriter

    real, folder, records = RecordWriter.write, tmp_path / "runs" / "a", itertools.count()

    def write(self, data):
        if next(records) >= written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(self, data)

    monkeypatch.setattr(RecordWriter, "write", write)
    with pytest.raises(bd.RunError, match="No space left") as caught:
        _learn(folder, 30, every=5)
    monkeypatch.undo()
    assert caught.value.exit_code == 5
    assert (
        _learn(folder, 30).value
        == bd.learn(RIVER.problem, RIVER.mdp, Tabular(RIVER.mdp), episodes=30, evaluation=10).value
    )
    shown = _shown(folder / "tensorboard")
    assert {episode for name, episode in shown if name == "plans"} == set(range(1, 31))
