"""How a solution reads, as text, HTML and JSON."""

import json

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from tests.helpers import random_instance

KEYS = [
    "task",
    "status",
    "sense",
    "value",
    "lower",
    "upper",
    "gap",
    "constraints",
    "episodes",
    "plans",
    "seconds",
    "seed",
    "delta",
    "version",
]


def _solve(name, settings=None, **budget):
    task = bd.tasks.find(name).with_settings(settings or {})
    return task, bd.solve(task.problem, task.mdp, **budget)


def test_json_has_the_keys_of_the_contract():
    _, solution = _solve("rover")
    text = json.dumps(solution.to_dict(), allow_nan=False)
    assert list(json.loads(text)) == KEYS
    assert list(solution.to_dict()["constraints"][0]) == [
        "name",
        "sense",
        "value",
        "limit",
        "violation",
        "violation_upper",
        "price",
    ]


def test_words_for_an_optimal_solution():
    _, solution = _solve("rover")
    text = str(solution)
    assert text.startswith("optimal: the policy keeps every constraint")
    assert "no feasible policy can be above 1.53628" in text
    assert "pits: 0.3 <= 0.3, holds" in text
    assert "price 0.19" in text


def test_words_for_an_infeasible_one_name_the_conflict():
    _, solution = _solve("rover-two", {"budget": "0.3", "quadrant": "-1"})
    assert solution.status == "infeasible"
    assert list(solution.conflict.least) == ["quadrant"]
    assert "constraint 'quadrant' cannot hold: every policy violates it by at least 1\n" in str(solution)
    assert solution.lower is None
    assert solution.gap is None


def test_constraints_that_only_clash_together_are_named_together():
    mdp = bd.TabularMDP(np.full((2, 2, 2), 0.5), 0, 4)
    x = mdp.embedding(left=np.array([[1.0, 0.0]] * 2), other=np.ones(2))
    limits = {"few": cp.sum(x.left) <= 1, "many": cp.sum(x.left) >= 3, "idle": cp.sum(x.other) <= 9}
    solution = bd.solve(bd.Problem(cp.Minimize(cp.sum(x.left)), limits), mdp)
    # Violations are measured in units of the limits, 1 and 3: they share the missing 2 in that proportion.
    assert solution.conflict.least == pytest.approx({"few": 0.5, "many": 1.5}, abs=1e-9)
    assert "constraints 'few' and 'many' cannot hold together: " in str(solution)
    assert "every policy violates 'few' by at least 0.5 or 'many' by at least 1.5" in str(solution)


def test_budgets_end_undecided_or_feasible_with_the_best_policy():
    _, first = _solve("rover", max_plans=1)
    assert first.status == "undecided"
    assert first.plans == 1
    assert "not shown to be feasible" in str(first)
    assert first.constraints[0].price is None
    # The policy is not feasible, so it bounds nothing; the dual side stands.
    assert first.lower is None
    assert first.gap is None
    assert first.upper >= 1.536288
    _, later = _solve("rover", max_plans=4)
    assert later.status == "feasible"
    assert later.gap > 1e-6
    assert later.lower <= 1.536289 <= later.upper
    _, timed = _solve("rover", time_limit=1e-9)
    assert timed.plans == 1


def test_a_relative_gap_is_relative():
    _, solution = _solve("media", relative=True, gap=1e-2)
    assert solution.status == "optimal"
    assert solution.gap <= 1e-2 * 6.8


def test_an_impossible_gap_ends_by_itself():
    _, solution = _solve("rover", gap=1e-300)
    assert solution.status == "feasible"
    assert solution.gap <= 1e-10


def test_history_closes_in():
    _, solution = _solve("rover")
    assert [state.plans for state in solution.history] == list(range(1, solution.plans + 1))
    uppers = [state.upper for state in solution.history]
    assert uppers == sorted(uppers, reverse=True)
    assert solution.history[0].gap is None
    assert solution.history[-1].gap <= 1e-6


def test_html_is_escaped():
    instance = random_instance(0, (3, 2, 2, 2))
    x = instance.embedding()
    problem = bd.Problem(cp.Minimize(cp.sum(x.s0)), {"<b>bold</b>": cp.sum(x.s1) <= 50})
    html = bd.solve(problem, instance.mdp)._repr_html_()
    assert html.startswith("<table>")
    assert "<b>bold" not in html
    assert "&lt;b&gt;bold" in html


def test_a_vector_constraint_is_reported_by_its_worst_entry():
    instance = random_instance(1, (4, 3, 3, 5))
    x = instance.embedding()
    solution = bd.solve(bd.Problem(cp.Minimize(cp.sum(x.s0)), {"each": x.s1 <= 0.75}), instance.mdp)
    (each,) = solution.constraints
    assert each.values.shape == each.limits.shape == each.prices.shape == (5,)
    assert each.value == pytest.approx(each.values.max(), abs=1e-11)
    assert each.price == pytest.approx(each.prices.sum())
    assert "worst of 5 entries" in str(solution)
    np.testing.assert_allclose(each.values, solution.embedding[:, 1], atol=1e-12)


def test_a_constraint_can_be_looked_up():
    _, solution = _solve("rover")
    assert solution.constraint("pits").limit == 0.3
    with pytest.raises(KeyError, match="there are"):
        solution.constraint("nothing")


def test_total_embeddings_come_back_as_totals():
    instance = random_instance(1, (4, 3, 3, 5))
    x = instance.embedding(total=True)
    solution = bd.solve(bd.Problem(cp.Minimize(x.s0), [x.s1 <= 2]), instance.mdp)
    assert solution.embedding.shape == (4,)
    assert solution.value == pytest.approx(solution.embedding[0], abs=1e-12)
