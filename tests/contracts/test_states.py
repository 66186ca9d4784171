"""States of the loop as files: every explorer goes on from what was read as if nothing had happened."""

import copy
import itertools
import json
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual import _archive, control
from bidual._course import first_course
from bidual._prepare import prepare_learning
from bidual._running import Running
from bidual.explorers import Mixed
from bidual.explorers._lazy import Lazy
from bidual.features import computed, linear, signal
from bidual.learned import Look
from bidual.models import Candidates, LinearMDP, LowRank, Tabular
from bidual.runs import packed, unpacked
from bidual.tasks.riverswim import riverswim
from bidual.vpdpo import vpdpo
from tests.classes import around
from tests.contracts.test_explorers import EXPLORERS
from tests.control_envs import Slider

RIVER = riverswim(budget=2.5, states=3, horizon=5)
MODELS = {"declared": Tabular(RIVER.mdp), "open": Tabular(), "per step": Tabular(RIVER.mdp, stationary=False)}
MODELS |= {"class": LowRank(*around(RIVER.mdp, 6)), "paper's class": LowRank(*around(RIVER.mdp, 6), set="paper")}
MODELS |= {"linear": LinearMDP(np.eye(6).reshape(3, 2, 6))}
LOCK = bd.tasks.find("lock").build(horizon=3)
MODELS |= {"latent": LOCK.model}
CASES = [(name, "declared") for name in EXPLORERS] + [
    (name, model)
    for name in ("alternating", "primal-dual")
    for model in ("open", "per step", "class", "paper's class", "linear", "latent")
]
BEFORE, AFTER = 12, 12


class Run:
    """A setting with its first course."""

    def __init__(self, explorer, model="declared"):
        problem, env = (LOCK.problem, LOCK.env) if model == "latent" else (RIVER.problem, RIVER.mdp)
        self.setting = prepare_learning(problem, env, MODELS[model], explorer, delta=0.1, seed=3)
        self.first = first_course(self.setting)

    def after(self, course, count):
        """The turns of so many more episodes, and the course after them."""
        running, setting = Running(self.setting, course, None), self.setting
        turns = vpdpo(setting.program, setting.env, setting.explorer, course.loop, seed=3)
        taken = []
        for turn in itertools.islice(turns, count):
            running.take(turn)
            taken.append(turn)
        return taken, running.course()


def _stored(course, run, again, path):
    words, arrays = packed(course, run.first)
    _archive.write(path, "state", {"state": words}, arrays)
    manifest, read = _archive.read(path, "state")
    return unpacked(manifest["state"], read, again.first)


@pytest.mark.parametrize(("name", "model"), CASES)
def test_a_run_goes_on_from_a_file_as_if_it_had_never_stopped(name, model, tmp_path):
    run, again = Run(EXPLORERS[name], model), Run(copy.deepcopy(EXPLORERS[name]), model)
    _, stopped = run.after(run.first, BEFORE)
    rest, end = run.after(stopped, AFTER)
    resumed, other_end = again.after(_stored(stopped, run, again, tmp_path / "state"), AFTER)
    for one, other in zip(rest, resumed, strict=True):
        np.testing.assert_array_equal(one.choice.policy.actions, other.choice.policy.actions)
        np.testing.assert_array_equal(one.episodes[0].states, other.episodes[0].states)
        assert one.choice.plans == other.choice.plans
    _, arrays = packed(end, run.first)
    _, others = packed(other_end, again.first)
    assert list(arrays) == list(others)
    for key, array in arrays.items():
        assert array.dtype == others[key].dtype
        assert array.tobytes() == others[key].tobytes()


PULLED = computed(distance=signal(lambda x, u, y: x[0] ** 2, 0.0, 4.0), effort=signal(lambda x, u, y: u @ u, 0.0, 4.0))
SOUGHT = control.icem(16, 2)
CONTROLS = {
    "receding": bd.explorers.Controls(control.Thompson(), SOUGHT, control.Mpc(every=4), rollouts=4),
    "convex": bd.explorers.Controls(control.Hallucinated(rank=2), SOUGHT, control.OpenLoop(), rollouts=4),
}


class Controlled(Run):
    """The same over a double integrator."""

    def __init__(self, name):
        x = PULLED.embedding(6, total=True)
        objective = cp.square(x.distance - 1) if name == "convex" else x.distance
        problem = bd.Problem(cp.Minimize(objective), {"effort": x.effort <= 2.0})
        model, explorer = bd.models.KNR(linear(), noise=0.02), copy.deepcopy(CONTROLS[name])
        self.setting = prepare_learning(problem, Slider(), model, explorer, delta=0.1, seed=3)
        self.first = first_course(self.setting)


@pytest.mark.parametrize("name", CONTROLS)
def test_controls_go_on_from_a_file_as_if_nothing_had_happened(name, tmp_path):
    run, again = Controlled(name), Controlled(name)
    _, stopped = run.after(run.first, 4)
    rest, end = run.after(stopped, 3)
    resumed, other_end = again.after(_stored(replace(stopped, policies=()), run, again, tmp_path / "state"), 3)
    for one, other in zip(rest, resumed, strict=True):
        assert one.choice.policy.fingerprint == other.choice.policy.fingerprint
        assert one.choice.plans == other.choice.plans
        np.testing.assert_array_equal(one.episodes[0].observations, other.episodes[0].observations)
        np.testing.assert_array_equal(one.episodes[0].controls, other.episodes[0].controls)
    owed, other_owed = (each.loop.memory.owed for each in (end, other_end))
    assert (owed is None) == (CONTROLS[name].dual is not None)
    if owed is not None:
        np.testing.assert_array_equal(owed.debt, other_owed.debt)
        assert owed.spread.any()  # there was a mixture
    _, arrays = packed(replace(end, policies=()), run.first)
    _, others = packed(replace(other_end, policies=()), again.first)
    assert [array.tobytes() for array in arrays.values()] == [array.tobytes() for array in others.values()]


def test_what_does_not_change_is_not_stored():
    """The problem, its features and the settings are referred to: after 12 episodes some kilobytes are left."""
    run = Run(EXPLORERS["alternating"])
    words, arrays = packed(run.after(run.first, BEFORE)[1], run.first)
    assert sum(array.nbytes for array in arrays.values()) + len(json.dumps(words)) < 30_000
    assert packed(run.first, run.first) == ({"first": 0}, {})


def _remembering(run, memory):
    """The first course, with something else in the explorer's memory."""
    return replace(run.first, loop=replace(run.first.loop, memory=memory))


def test_what_is_shared_stays_shared():
    run = Run(EXPLORERS["optimistic"])
    policy = run.after(run.first, 1)[0][0].choice.policy
    twice = _remembering(run, (policy, policy, 0.1, np.float64(0.1), None))
    words, arrays = packed(twice, run.first)
    one, other, number, scalar, nothing = unpacked(json.loads(json.dumps(words)), arrays, run.first).loop.memory
    assert one is other
    assert (number, type(number)) == (0.1, float)
    assert (scalar, type(scalar)) == (0.1, np.float64)
    assert nothing is None


def test_a_stranger_is_not_stored():
    run = Run(EXPLORERS["optimistic"])
    with pytest.raises(bd.ArchiveError, match=r"a builtins\.dict has no place in a stored state"):
        packed(_remembering(run, {"a": 1}), run.first)


@pytest.mark.parametrize(
    ("words", "match"),
    [
        ({"make": "Path", "of": []}, "KeyError"),
        ({"make": "system", "of": ["true"]}, "KeyError"),
        ({"make": "LoopState", "of": [1]}, "ValueError"),
        ({"first": 10**6}, "IndexError"),
        ({"same": 5}, "IndexError"),
        ({"array": "7", "scalar": False}, "KeyError"),
        ({"float": "one"}, "ValueError"),
        ({}, "KeyError"),
        (7, "is a int, not that of a run"),
        ({"make": "tuple", "of": []}, "is a tuple, not that of a run"),
    ],
)
def test_a_damaged_state_is_refused(words, match):
    with pytest.raises(bd.ArchiveError, match=match):
        unpacked(words, {}, Run(EXPLORERS["greedy"]).first)


def test_looks_are_stored_with_the_candidates_that_were_left():
    run = Run(EXPLORERS["optimistic"], "class")
    looks = (Look(16, 1.0, None, None, 3, 0.5, Candidates((1, 2), (6, 6))), Look(32, None, None, None, 4, 0.75))
    words, arrays = packed(replace(run.first, looks=looks), run.first)
    assert unpacked(json.loads(json.dumps(words)), arrays, run.first).looks == looks


def test_looks_of_files_that_are_older_than_candidates_are_read():
    run = Run(EXPLORERS["optimistic"], "class")
    look = Look(16, 1.0, None, None, 3, 0.5)
    words, arrays = packed(replace(run.first, looks=(look,)), run.first)
    (stored,) = [one for one in _nodes(words) if one.get("make") == "Look"]
    assert stored["of"].pop() is None  # as it was written then
    assert unpacked(words, arrays, run.first).looks == (look,)
    stored["of"].pop()  # but what has no default must be there
    with pytest.raises(bd.ArchiveError, match="ValueError"):
        unpacked(words, arrays, run.first)


def test_mixtures_of_files_that_are_older_than_what_they_expect_are_read():
    """A named tuple that has grown, which is stored without what its policies expect."""
    run = Run(EXPLORERS["optimistic"])
    memory = Lazy(Mixed((), np.ones(1), 3), None, None)
    course = replace(run.first, loop=replace(run.first.loop, memory=memory))
    words, arrays = packed(course, run.first)
    (stored,) = [one for one in _nodes(words) if one.get("make") == "Mixed"]
    stored["of"].pop()  # as it was written then
    mixed = unpacked(words, arrays, run.first).loop.memory.mixed
    assert (mixed.policies, mixed.plans, mixed.expected) == ((), 3, ())
    stored["of"].pop()  # but what has no default must be there
    with pytest.raises(bd.ArchiveError, match="ValueError"):
        unpacked(words, arrays, run.first)


def _nodes(words):
    """All that is made in a stored state."""
    if isinstance(words, dict):
        yield words
        for part in words.get("of", ()):
            yield from _nodes(part)
