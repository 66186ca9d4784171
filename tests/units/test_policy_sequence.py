"""The policies of all episodes: a sequence that costs a byte or two per episode, and states that grow no faster."""

import copy
import gc
import itertools
import subprocess
import sys
import types
import weakref

import numpy as np
import pytest

from bidual.learning.learner import Learner
from bidual.learning.setup import set_up
from bidual.learning.state import start_learn_state
from bidual.loop.vpdpo import vpdpo
from bidual.models import Tabular
from bidual.tasks.riverswim import riverswim
from bidual.world.policies import DeterministicPolicy, DistinctPolicies, PolicySequence, find_distinct

RIVER = riverswim(budget=2.5, states=3, horizon=5)


def _policy(number):
    """Return the policy whose actions spell a number in binary."""
    return DeterministicPolicy(np.array([[number >> bit & 1 for bit in range(16)]]), 2)


def _is_shared(thing):
    return isinstance(thing, type | types.ModuleType | types.FunctionType | types.BuiltinFunctionType)


def _held_bytes(thing):
    """Return the bytes of everything that is reachable from an object, code left out."""
    met, waiting, total = {}, [thing], 0
    while waiting:
        one = waiting.pop()
        if id(one) in met or _is_shared(one):
            continue
        met[id(one)] = one
        if isinstance(one, np.ndarray) and one.base is not None:
            waiting.append(one.base)
            continue
        total += sys.getsizeof(one)
        waiting += gc.get_referents(one)
    return total


def test_the_state_of_a_run_grows_by_less_than_a_pointer_per_episode():
    setup = set_up(RIVER.problem, RIVER.mdp, Tabular(RIVER.mdp), None, delta=0.1, seed=3)
    learner = Learner(setup, start_learn_state(setup), None)
    turns = vpdpo(setup.program, setup.env, setup.explorer, learner.state.loop, seed=3)
    sizes = []
    for count in (1024, 16 * 1024):
        for turn in itertools.islice(turns, count - learner.state.episodes):
            learner.take(turn)
        held = [getattr(learner.state, name) for name in ("policies", "executed", "restarts", "pending", "history")]
        sizes.append(_held_bytes((*held, learner.state.loop.memory, learner.state.loop.knowledge.counts)))
    assert len(learner.state.policies) == 16 * 1024
    assert sizes[1] - sizes[0] < 4 * 15 * 1024


def _numbers(policies):
    return [int(policy.actions.ravel() @ (1 << np.arange(16))) for policy in policies]


def test_a_sequence_is_one_of_policies():
    wanted = [3, 3, 1, 3, 2, 2, 1]
    policies = PolicySequence(_policy(number) for number in wanted)
    assert len(policies) == 7
    assert _numbers(policies) == wanted
    assert _numbers(policies[2:6]) == wanted[2:6]
    assert _numbers([policies[0], policies[-1]]) == [3, 1]
    assert policies[0] is policies[1] is policies[3]  # equal ones are one
    with pytest.raises(IndexError):
        policies[7]
    assert PolicySequence.of(policies) is policies
    assert _numbers(PolicySequence.of((_policy(5),))) == [5]
    assert repr(policies) == "PolicySequence(7 episodes, 3 distinct policies)"


def test_a_longer_sequence_leaves_the_shorter_one_as_it_was():
    """Also where two sequences go on from the same beginning in different ways."""
    beginning = PolicySequence([_policy(1)]).followed_by(_policy(2), 3)
    one = beginning.followed_by(_policy(3), 2)
    other = beginning.followed_by(_policy(4), 1).followed_by(_policy(3), 1)
    assert _numbers(beginning) == [1, 2, 2, 2]
    assert _numbers(one) == [1, 2, 2, 2, 3, 3]
    assert _numbers(other) == [1, 2, 2, 2, 4, 3]
    assert len(find_distinct(beginning)[0]) == 2


def test_more_policies_than_a_byte_can_number():
    wanted = [*range(300), *range(300)]
    policies = PolicySequence()
    early = []
    for number in wanted:
        policies = policies.followed_by(_policy(number), 1)
        early += [policies] if len(policies) == 250 else []
    assert _numbers(policies) == wanted
    assert _numbers(early[0]) == wanted[:250]


def test_policies_that_were_looked_up_are_not_kept():
    """Of equal policies the first is kept, and a few of the latest."""
    found, held = DistinctPolicies(), []
    for _ in range(1000):
        policy = _policy(7)
        held.append(weakref.ref(policy))
        assert found.number(policy) == 0
        del policy
    gc.collect()
    assert sum(one() is not None for one in held) < 40


def test_another_policy_at_the_address_of_an_earlier_one_is_not_taken_for_it():
    """A copy has the numbers of addresses, but not what stood there."""
    found = copy.deepcopy(PolicySequence([_policy(1), _policy(2)]))
    recent = found._tail.found._recent
    other = _policy(9)
    recent[id(other)] = next(iter(recent.values()))
    assert _numbers(found.followed_by(other, 1)) == [1, 2, 9]


SOAK = """
import sys
import psutil
import bidual as bd

process, marks, sizes = psutil.Process(), [100_000, 1_000_000], []

def look(progress):
    if marks and progress.episodes >= marks[0] or progress.episodes == 1_000_000:
        marks[:1] = []
        sizes.append(process.memory_info().rss)

task = bd.tasks.find("riverswim").build()
model = bd.models.Tabular(support=task.mdp)
run = sys.argv[1] if len(sys.argv) > 1 else None
solution = bd.learn(task.problem, task.mdp, model, episodes=1_000_000, evaluation=1000, progress=look, run=run)
assert len(solution.executed) == 1_000_000
print(sizes[0], max(*sizes, process.memory_info().rss))
"""


@pytest.mark.slow  # a minute of CPU, or two where the run is stored
@pytest.mark.parametrize("stored", [False, True])
def test_a_million_episodes_take_the_memory_of_a_hundred_thousand(stored, tmp_path):
    command = [sys.executable, "-c", SOAK, *([str(tmp_path / "runs" / "river")] if stored else [])]
    early, late = map(int, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    assert late <= 1.1 * early
