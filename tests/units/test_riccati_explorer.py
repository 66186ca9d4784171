"""The explorer of linear laws: what it runs when, its dither, and what it learns beside sampled plans."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import bidual as bd
from bidual._base.keys import Draw, Purpose
from bidual.learning.setup import set_up
from bidual.loop.explorers import Controls, Riccati
from bidual.loop.vpdpo import start_state, vpdpo
from bidual.planners.control import RiccatiOptimist, find_dither, icem
from bidual.problem.features import quadratic
from bidual.world.policies import AffineFeedback
from tests.laws.test_linear_laws import _laws as laws_of

OPTIMUM, EFFORT = 5.570863, 6.634285


def prepared(name="lqr", explorer=None, seed=0, **settings):
    task = bd.tasks.find(name).build(**settings)
    explorer = task.explorer if explorer is None else explorer
    return set_up(task.problem, task.env, task.model, explorer, delta=0.05, seed=seed)


def explored(setup, episodes, seed=0):
    start = start_state(setup.program, setup.explorer, setup.knowledge)
    turns = zip(range(episodes), vpdpo(setup.program, setup.env, setup.explorer, start, seed=seed), strict=False)
    return [turn for _, turn in turns]


def test_turns_of_the_estimate_run_its_optimal_law():
    setup = prepared(explorer=Riccati(every=3, first=2))
    turns = explored(setup, 6)
    for before, turn in pairwise(turns):
        known, policy = before.state.knowledge, turn.choice.policy
        assert isinstance(policy.controller, AffineFeedback)
        centre = replace(known.laws, W=known.posterior.mean, radius=0.0, evidence=None)
        plan = RiccatiOptimist()(centre, None, setup.program.linear.objective)
        same = np.allclose(plan.actions.controller.gains, policy.controller.gains, rtol=1e-6)
        assert same == (known.episodes > 2 and known.episodes % 3 != 0)


def test_the_first_episode_is_random_and_others_are_affine():
    turns = explored(prepared(), 3)
    kinds = [isinstance(turn.choice.policy.controller, AffineFeedback) for turn in turns]
    assert kinds == [False, True, True]


def test_where_nothing_is_known_of_the_controls_they_are_random():
    """With B unknown the optimistic law is 0, the mean of pushing either way; where it is known there is no dither."""
    laws = replace(laws_of(1), signals=(quadratic(np.diag([0.0, 0.0, 0.1, 1.0, 1.0])),))
    theta, W = np.ones((6, 1)), np.zeros((2, 3))
    blind = replace(laws, W=W, precision=np.diag([50.0, 50.0, 0.05]), radius=0.3, first=np.array([1.0, 0.0]))
    assert find_dither(blind, theta)[0] > 0.1
    known = replace(laws, precision=1e5 * np.eye(3), radius=0.01)
    np.testing.assert_array_equal(find_dither(known, theta), [0.0])
    np.testing.assert_array_equal(find_dither(replace(known, radius=0.0), theta), [0.0])


def test_other_problems_are_explored_by_sampling():
    """Without a bound on |W| nothing is exact: then it is the sampling explorer, to the bit."""
    sampled = Controls(sampler=icem(8, 1), rollouts=2)
    task = bd.tasks.find("lqr").build(horizon=5)
    model = replace(task.model, bound=None)
    policies = []
    for explorer in (sampled, Riccati(otherwise=sampled)):
        setup = set_up(task.problem, task.env, model, explorer, delta=0.05, seed=0)
        memory = setup.explorer.init(setup.program, setup.knowledge)
        known = explored(setup, 1)[0].state.knowledge
        choice, _ = setup.explorer(setup.program, memory, known, Draw(0, Purpose.PLAN, 2))
        policies.append(choice.policy.fingerprint)
    assert policies[0] == policies[1]


@pytest.mark.parametrize("settings", [{"every": 0}, {"first": -1}, {"max_plans": 0}])
def test_settings_that_cannot_be_are_refused(settings):
    with pytest.raises(bd.ProblemError, match="whole number of at least"):
        Riccati(**settings)


def lower_bounds(name, seed, *ends):
    setup, found = prepared(name, seed=seed), []
    for turn in explored(setup, max(ends), seed):
        if turn.number in ends:
            found.append(setup.final(setup.program, turn.state.knowledge).lower)
    return found


def test_twenty_episodes_prove_most_of_the_optimum():
    """Sampled plans proved 2.8 to 3.3 with the net."""
    (found,) = lower_bounds("lqr", 0, 20)
    assert 3.8 <= found <= OPTIMUM


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_bounds_rise_with_the_episodes(seed):
    plain, limited = (lower_bounds(name, seed, 20, 60, 200) for name in ("lqr", "lqr-effort"))
    assert np.all(np.array([3.8, 4.3, 4.8]) <= plain)
    assert np.all(np.array([3.7, 4.4, 5.2]) <= limited)
    assert max(plain) <= OPTIMUM
    assert max(limited) <= EFFORT
