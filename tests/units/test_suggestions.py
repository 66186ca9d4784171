"""What is suggested where a result is undecided or loose: done as suggested, it is as predicted.

Seeds are fixed; predictions are of orders of magnitude, so what follows them is tried with room.
"""

import re
from dataclasses import replace

import cvxpy as cp
import gymnasium as gym
import numpy as np
import pytest

import bidual as bd
from bidual.models import suggest_declarations
from tests.learning import beginning, random_episodes

WALK, HURRY = 0, 1
DAMAGE = np.array([[0, 0.05]] * 4 + [[0, 0]])
DELIVERED = np.array([0, 0, 0, 0, 1.0])


def _courier():
    P = np.zeros((5, 2, 5))
    for s in range(4):
        P[s, WALK, [s, s + 1]] = 0.4, 0.6
        P[s, HURRY, [s, s + 1]] = 0.1, 0.9
    P[4, :, 4] = 1.0
    return bd.TabularMDP(P, initial=0, horizon=8)


MDP = _courier()


def _problem(limit=0.1):
    x = MDP.embedding(delivered=DELIVERED, damage=DAMAGE)
    return bd.Problem(cp.Maximize(cp.sum(x.delivered)), {"damage": cp.sum(x.damage) <= limit})


def _learn(seed):
    return bd.learn(_problem(), MDP, bd.models.Tabular(support=MDP), episodes=400, evaluation=100, seed=seed)


@pytest.fixture(scope="module")
def undecided():
    return _learn(0)


def _number(pattern, text):
    found = re.search(pattern, text)
    assert found, text
    return float(found[1].replace(",", ""))


def test_as_many_episodes_as_suggested_show_that_a_constraint_holds(undecided):
    assert undecided.status == "undecided"
    text = undecided.suggestions[0]
    assert text in str(undecided)
    assert "'damage' holds" in text
    count = int(_number(r"\.certify\((\d+)\)", text))
    assert undecided.certify(max(count // 8, 1)).constraint("damage").violation_upper > 0
    assert undecided.certify(2 * count).constraint("damage").violation_upper <= 0


def test_the_interval_is_halved_by_as_many_episodes_as_suggested():
    learned = _learn(1)
    text, width = learned.suggestions[1], learned.value - learned.lower
    assert f"the {width:.2g} by which" in text
    after = learned.certify(2 * int(_number(r"\.certify\((\d+)\)", text)))
    assert after.value - after.lower < 0.6 * width


def test_a_mean_beyond_the_limit_is_answered_with_a_stricter_one():
    model = bd.models.Tabular(support=MDP)
    learned = bd.learn(_problem(limit=0.05), MDP, model, episodes=32, evaluation=100, seed=8)
    text = learned.suggestions[0]
    assert "'damage' is about 0.05, not within its limit" in text
    assert _number(r"with the limit ([\d.]+)", text) == pytest.approx(0.045)  # a tenth of the way to 0


def test_successors_that_were_seen_are_suggested_with_the_bound_they_give():
    unknown = bd.learn(_problem(), MDP, bd.models.Tabular(), episodes=32, evaluation=50, seed=0)
    text = next(text for text in unknown.suggestions if "seen to follow" in text)
    assert "at most 2 of 5" in text
    then, now = _number(r"above about ([\d.]+) then", text), _number(r"now ([\d.]+)", text)
    assert now == pytest.approx(unknown.upper, rel=1e-3)
    declared = bd.learn(_problem(), MDP, bd.models.Tabular(support=MDP), episodes=32, evaluation=50, seed=0)
    assert declared.upper <= then * 1.05 < now  # declared before, it also helps to explore
    assert "bd.models.Tabular(support=...)" in text


class _Prize(gym.Env):
    """Two cells; stepping right from the second one ends the episode, mostly with a prize."""

    observation_space, action_space = gym.spaces.Discrete(3), gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell = 0
        return 0, {}

    def step(self, action):
        self.cell = min(2, self.cell + int(action == 1 and self.np_random.random() < 0.7))
        return self.cell, float(self.cell == 2), self.cell == 2, False, {}


def test_a_prize_that_is_only_paid_at_the_end_is_suggested_as_such():
    x = bd.features.signals(prize=lambda t: t.reward).embedding(horizon=8)
    problem, env = bd.Problem(cp.Maximize(cp.sum(x.prize))), bd.envs.gymnasium_environment(_Prize(), horizon=8)
    learned = bd.learn(problem, env, episodes=32, evaluation=50, seed=0)
    text = learned.suggestions[0]
    assert "prize=bd.features.observed(f, 0, 1, at_end=True)" in text
    x = bd.features.signals(prize=bd.features.observed(lambda t: t.reward, 0.0, 1.0, at_end=True)).embedding(horizon=8)
    declared = bd.learn(bd.Problem(cp.Maximize(cp.sum(x.prize))), env, episodes=32, evaluation=50, seed=0)
    assert declared.upper <= 1.0 < learned.upper
    assert _number(r"above about ([\d.]+) then", text) == pytest.approx(declared.upper, rel=0.1)


def _count_random_episodes(signal):
    """Knowledge of the courier's model after 400 random episodes, with one signal r(s, a)."""
    features = bd.features.signals(pay=signal)
    knowledge = beginning(features, (8, 5, 2), bd.models.Tabular(support=MDP))
    return knowledge.update(*random_episodes(MDP, 400, seed=0))


def test_expectations_of_values_on_arrival_are_recognised():
    arrived = np.zeros((5, 2))
    arrived[3] = 0.6, 0.9  # the probability of arriving in the last cell
    (found,) = suggest_declarations(_count_random_episodes(arrived), ["pay"])
    ((position, values),) = found.knowledge.pieces.arrivals
    assert position == 0
    np.testing.assert_allclose(values[0, 3, 0], [0, 0, 0, 0, 1], atol=0.1)
    assert not values[0, 4].any()  # where an episode stays nothing arrives
    assert "pay=r of shape (S, A, S)" in found.declaration


def test_prices_of_actions_are_not_taken_for_values_on_arrival():
    assert list(suggest_declarations(_count_random_episodes(DAMAGE), ["pay"])) == []


def test_nothing_is_suggested_where_all_is_said(undecided):
    assert bd.solve(_problem(), MDP).status == "optimal"
    assert "next" not in str(bd.solve(_problem(), MDP))
    assert replace(undecided, status=bd.Status.INFEASIBLE).suggestions == ()


def test_the_text_of_a_result_keeps_to_eight_lines(undecided):
    assert len(str(undecided).splitlines()) == 8
    assert undecided.details()["suggestions"] == list(undecided.suggestions)


def test_a_search_that_was_cut_says_how_many_plans_would_close_its_gap():
    task = bd.tasks.find("rover").with_settings({})
    cut = bd.solve(task.problem, task.mdp, max_plans=4)
    assert cut.status == "feasible"
    total = int(_number(r"max_plans=(\d+)", str(cut)))
    assert bd.solve(task.problem, task.mdp, max_plans=2 * total).status == "optimal"
