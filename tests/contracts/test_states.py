"""States of the loop as files: every explorer goes on from what was read as if nothing had happened."""

import copy
import itertools
import json

import numpy as np
import pytest

import bidual as bd
from bidual import _archive
from bidual._prepare import prepare_learning
from bidual.models import Tabular
from bidual.runs import packed, unpacked
from bidual.tasks.riverswim import riverswim
from bidual.vpdpo import LoopState, first_state, vpdpo
from tests.contracts.test_explorers import EXPLORERS

RIVER = riverswim(budget=2.5, states=3, horizon=5)
MODELS = {"declared": Tabular(RIVER.mdp), "open": Tabular(), "per step": Tabular(RIVER.mdp, stationary=False)}
CASES = [(name, "declared") for name in EXPLORERS] + [
    (name, model) for name in ("alternating", "primal-dual") for model in ("open", "per step")
]
BEFORE, AFTER = 12, 12


class Run:
    """A setting with its first state."""

    def __init__(self, explorer, model="declared"):
        self.setting = prepare_learning(RIVER.problem, RIVER.mdp, MODELS[model], explorer, delta=0.1, seed=3)
        self.first = first_state(self.setting.program, explorer, self.setting.knowledge)

    def turns(self, state, count):
        loop = vpdpo(self.setting.program, self.setting.env, self.setting.explorer, state, seed=3)
        return list(itertools.islice(loop, count))


def _stored(state, run, again, path):
    words, arrays = packed(state, run.first)
    _archive.write(path, "state", {"state": words}, arrays)
    manifest, read = _archive.read(path, "state")
    return unpacked(manifest["state"], read, again.first)


@pytest.mark.parametrize(("name", "model"), CASES)
def test_a_run_goes_on_from_a_file_as_if_it_had_never_stopped(name, model, tmp_path):
    run, again = Run(EXPLORERS[name], model), Run(copy.deepcopy(EXPLORERS[name]), model)
    stopped = run.turns(run.first, BEFORE)[-1].state
    rest = run.turns(stopped, AFTER)
    resumed = again.turns(_stored(stopped, run, again, tmp_path / "state"), AFTER)
    for one, other in zip(rest, resumed, strict=True):
        np.testing.assert_array_equal(one.choice.policy.actions, other.choice.policy.actions)
        np.testing.assert_array_equal(one.episode.states, other.episode.states)
        assert one.choice.plans == other.choice.plans
    _, arrays = packed(rest[-1].state, run.first)
    _, others = packed(resumed[-1].state, again.first)
    assert list(arrays) == list(others)
    for key, array in arrays.items():
        assert array.dtype == others[key].dtype
        assert array.tobytes() == others[key].tobytes()


def test_what_does_not_change_is_not_stored():
    """The problem, its features and the settings are referred to: after 12 episodes some kilobytes are left."""
    run = Run(EXPLORERS["alternating"])
    words, arrays = packed(run.turns(run.first, BEFORE)[-1].state, run.first)
    assert sum(array.nbytes for array in arrays.values()) + len(json.dumps(words)) < 20_000
    assert packed(run.first, run.first) == ({"first": 0}, {})


def test_what_is_shared_stays_shared():
    """A mixture counts policies by identity: two of the same must not come back as two."""
    run = Run(EXPLORERS["optimistic"])
    last = run.turns(run.first, BEFORE)[-1]
    twice = LoopState(
        BEFORE, last.state.knowledge, (last.choice.policy, last.choice.policy, 0.1, np.float64(0.1), None)
    )
    words, arrays = packed(twice, run.first)
    one, other, number, scalar, nothing = unpacked(json.loads(json.dumps(words)), arrays, run.first).memory
    assert one is other
    assert (number, type(number)) == (0.1, float)
    assert (scalar, type(scalar)) == (0.1, np.float64)
    assert nothing is None


def test_a_stranger_is_not_stored():
    run = Run(EXPLORERS["optimistic"])
    with pytest.raises(bd.ArchiveError, match=r"a builtins\.dict has no place in a stored state"):
        packed(LoopState(1, run.first.knowledge, {"a": 1}), run.first)


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
        (7, "is a int, not a state"),
        ({"make": "tuple", "of": []}, "is a tuple, not a state"),
    ],
)
def test_a_damaged_state_is_refused(words, match):
    with pytest.raises(bd.ArchiveError, match=match):
        unpacked(words, {}, Run(EXPLORERS["greedy"]).first)
