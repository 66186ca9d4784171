"""The evaluation of a policy in a slow environment: what was run before an end is not run again."""

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
    """A simulator that runs one episode at a time, lists those of an evaluation, and ends before some of them."""

    def __init__(self, ends=(), error=KeyboardInterrupt):
        self.simulator, self.evaluated = Simulator(RIVER.mdp), []
        self.ends, self.error = ends, error

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


@pytest.mark.parametrize("damage", ["a flipped bit", "other arrays", "shorter episodes", "another policy"])
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
    elif damage == "other arrays":
        archive.write(path, "evaluation", label, arrays | {"states": arrays["states"][1:]})
    elif damage == "shorter episodes":
        archive.write(path, "evaluation", label, arrays | {"actions": arrays["actions"][:, 1:]})
    else:
        archive.write(path, "evaluation", label | {"policy": "0" * 64}, arrays)
    again = Slow()
    assert outcome(_learn(folder, again)) == straight
    assert again.evaluated == list(range(EVALUATION))
    assert ("run again" in caplog.text) == (damage != "another policy")


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
        for one, other in zip(episodes, _unstack(_stack(episodes), 3), strict=True):
            assert (one.length, one.broken, one.only) == (other.length, other.broken, other.only)
            for name in ("states", "actions", "observed", "observations", "controls"):
                np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
