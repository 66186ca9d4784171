"""What is run for a plan of a class of laws: one action at random, and what is learned from it."""

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual.learning.setup import set_up
from bidual.loop.vpdpo import start_state, vpdpo
from bidual.models import LowRank
from bidual.models.classes._collection import insert_random_action
from tests.classes import world

WORLD = world(3, horizon=4)
H, S, A = 4, 5, 2


def _setting(model, mdp=WORLD.mdp, arrival=False):
    r = np.random.default_rng(0).random((S, A, S) if arrival else (S, A))
    x = mdp.embedding(r=r)
    return set_up(bd.Problem(cp.Minimize(cp.sum(x.r)), {}), mdp, model, None, delta=0.1, seed=5)


def _class(collection, **settings):
    return LowRank(WORLD.phis, WORLD.mus, shared=False, collection=collection, **settings)


def _turns(setting, count, batch=1):
    start = start_state(setting.program, setting.explorer, setting.knowledge)
    turns = vpdpo(setting.program, setting.env, setting.explorer, start, seed=5, batch=batch)
    return [next(turns) for _ in range(count)]


def test_an_unknown_collection_is_refused():
    with pytest.raises(bd.ModelError, match="collection must be one of one-rollout, paper; got 'all'"):
        _class("all")


@pytest.mark.parametrize("collection", ["one-rollout", "paper"])
def test_one_step_is_at_random_and_the_others_as_planned(collection):
    """1500 rollouts: a share of 1/2 or 1/3 is off by 0.06 with probability below 1e-5 (Hoeffding)."""
    plan, everything = bd.policies.DeterministicPolicy(np.zeros((H, S), dtype=np.int32), A), np.ones((S, A), dtype=bool)
    runs = [insert_random_action(plan, everything, collection, H - 1, number) for number in range(1, 1501)]
    changed = np.array([run.policy.actions != 0 for run in runs])  # by chance half of the drawn actions
    assert not changed[:, H - 1].any()
    assert changed.any(axis=2).sum(axis=1).max() == 1
    steps = changed.any(axis=2).mean(axis=0)[: H - 1]
    np.testing.assert_allclose(steps, (1 - 2.0**-S) / (H - 1), atol=0.06)
    np.testing.assert_allclose(changed.mean(axis=(0, 2))[: H - 1], 0.5 / (H - 1), atol=0.06)
    assert {run.only for run in runs} == ({0, 1, 2} if collection == "paper" else {None})
    again = insert_random_action(plan, everything, collection, H - 1, 7)
    np.testing.assert_array_equal(again.policy.actions, runs[6].policy.actions)


def test_only_allowed_actions_are_drawn():
    allowed = np.array([[True, False], [False, True], [True, True]])
    plan = bd.policies.DeterministicPolicy(np.array([[0, 1, 0]] * 2), 2)
    runs = [insert_random_action(plan, allowed, "one-rollout", 1, number).policy.actions[0] for number in range(1, 40)]
    assert {tuple(one.tolist()) for one in runs} == {(0, 1, 0), (0, 1, 1)}


def test_the_paper_rolls_out_once_for_every_step_and_keeps_one_tuple_of_each():
    setting = _setting(_class("paper"))
    turns = _turns(setting, 6)
    assert [turn.state.episodes for turn in turns] == [3, 6, 9, 12, 15, 18]
    counts = turns[-1].state.knowledge.counts
    assert counts.episodes == counts.starts.sum() == 18
    np.testing.assert_array_equal(counts.pairs.sum(axis=(1, 2)), [6, 6, 6, 0])
    np.testing.assert_array_equal(counts.transitions.sum(axis=-1), counts.pairs)
    for turn in turns:
        assert [one.only for one in turn.episodes] == [0, 1, 2]
    seen = {(h, int(one.states[h]), int(one.actions[h])) for turn in turns for h, one in enumerate(turn.episodes)}
    assert seen == set(zip(*np.nonzero(counts.pairs), strict=True))


def test_all_steps_of_a_single_rollout_are_kept():
    (turn,) = _turns(_setting(_class("one-rollout")), 1, batch=5)
    assert turn.state.episodes == 5
    np.testing.assert_array_equal(turn.state.knowledge.counts.pairs.sum(axis=(1, 2)), 5)


def test_where_arrivals_pay_the_last_step_is_tried_too():
    assert _setting(_class("paper"), arrival=True).knowledge.rollouts == H
    assert _setting(_class("paper")).knowledge.rollouts == H - 1


def test_one_step_and_one_action_need_no_chance():
    short = world(1, horizon=1)
    model = LowRank(short.phis, short.mus, shared=False, collection="paper")
    setting = _setting(model, short.mdp)
    assert [turn.state.episodes for turn in _turns(setting, 2)] == [1, 2]
    assert all(one.only is None for turn in _turns(setting, 2) for one in turn.episodes)


@pytest.mark.parametrize("collection", ["one-rollout", "paper"])
def test_mixtures_are_of_what_was_run_and_results_can_be_checked(tmp_path, collection):
    """The value of the mixture of what was run is known here: its interval holds it, which that of the plans need not.

    Whatever collection: with probability 95 percent, and this seed.
    """
    x = WORLD.mdp.embedding(r=np.random.default_rng(0).random((S, A)))
    problem = bd.Problem(cp.Minimize(cp.sum(x.r)), {})
    found = bd.learn(problem, WORLD.mdp, _class(collection), episodes=60, evaluation=40, seed=2)
    assert found.episodes == 60
    psi, mixture = x.features.stage(WORLD.mdp.successors), found.outputs[1]
    paid = [bd.policies.embedding(WORLD.mdp, psi, one).sum() for one in mixture.policy.members]
    assert mixture.objective.lower <= mixture.policy.weights @ paid <= mixture.objective.upper
    plans = [bd.policies.embedding(WORLD.mdp, psi, one).sum() for one in found.executed]
    assert np.mean(plans) < mixture.policy.weights @ paid  # chance costs something
    found.save(tmp_path / "a.bidual")
    assert bd.check(tmp_path / "a.bidual").claims["gap"] == found.gap
