"""Several episodes for every policy that is chosen: in one process or on several, with the same result."""

from concurrent.futures import ThreadPoolExecutor

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual.loop.explorers import Optimistic, Thompson
from bidual.models import Tabular
from bidual.tasks.riverswim import riverswim
from bidual.world.envs import gymnasium_environment, parallel
from tests import remote_envs
from tests.units.test_learn import same

RIVER = riverswim(budget=2.5, states=3, horizon=5)


def river(**settings):
    return bd.learn(RIVER.problem, RIVER.mdp, Tabular(RIVER.mdp), **{"episodes": 40, "evaluation": 20} | settings)


def test_a_policy_is_run_for_a_whole_batch():
    learned = river(batch=8, explorer=Optimistic())
    assert learned.episodes == len(learned.executed) == learned.knowledge.counts.episodes - 20 == 40
    for first in range(0, 40, 8):
        assert len({id(policy) for policy in learned.executed[first : first + 8]}) == 1
    assert len({policy.actions.tobytes() for policy in learned.executed}) > 1


def test_whole_batches_are_run():
    assert river(batch=7, episodes=20).episodes == 21


def test_a_batch_of_one_is_no_batch():
    assert same(river(batch=1), river())


def test_explorers_take_turns_by_batches(monkeypatch):
    """By episodes, an even batch would always begin with the same one."""
    asked = []
    for kind in (Optimistic, Thompson):

        def remembered(self, program, memory, knowledge, draw, own=kind.__call__):
            asked.append((type(self), draw.number))
            return own(self, program, memory, knowledge, draw)

        monkeypatch.setattr(kind, "__call__", remembered)
    river(batch=4, episodes=16)
    assert asked == [(Optimistic, 1), (Thompson, 2), (Optimistic, 3), (Thompson, 4)]


def test_looks_come_after_powers_of_two():
    """With 12 at a time: 24 is the first batch that ends after 16, 36 the first after 32."""
    assert [look.episodes for look in river(batch=12, episodes=60).history] == [24, 36, 60]


@pytest.mark.parametrize("batch", [0, -1, True])
def test_a_batch_is_a_whole_number(batch):
    with pytest.raises(bd.ProblemError, match="batch must be a whole number, at least 1"):
        river(batch=batch)


def test_workers_change_nothing():
    x = bd.features.signals(
        noise=bd.features.observed(remote_envs.noise, -9.0, 9.0, noisy=True),
        right=bd.features.observed(remote_envs.right),
    ).embedding(5)
    problem = bd.Problem(cp.Maximize(cp.sum(x.noise)), {"right": cp.sum(x.right) <= 2})
    settings = {"episodes": 24, "batch": 6, "evaluation": 10, "seed": 2}
    alone = bd.learn(problem, gymnasium_environment(remote_envs.Walk, 5), **settings)
    with ThreadPoolExecutor(3) as threads:
        spread = bd.learn(problem, parallel(remote_envs.Walk, 5, threads, workers=3), **settings)
    assert same(alone, spread)
    np.testing.assert_array_equal(alone.knowledge.counts.sums, spread.knowledge.counts.sums)
