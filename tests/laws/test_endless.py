"""Problems over an unbounded time, judged by the occupancy program: its optimum lies within the certified bounds."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bidual as bd
from tests.endless import (
    DISCOUNTS,
    absorbed_instance,
    average_instance,
    discounted_instance,
    occupancy_optimum,
    occupancy_program,
)
from tests.helpers import scale_examples

SHAPES = ((1, 1, 1), (3, 2, 2), (6, 3, 3), (20, 3, 4))


def _tolerance(instance, discount):
    """What HiGHS may be off by: rows to 1e-10, each of which moves a sum by at most 1.5 / (1 - discount)^2."""
    return 1e-9 + 4e-10 * instance.mdp.num_states / (1 - discount) ** 2


@settings(max_examples=scale_examples(60))
@given(
    seed=st.integers(0, 10**6),
    shape=st.sampled_from(SHAPES),
    discount=st.sampled_from(DISCOUNTS),
    masked=st.booleans(),
    share=st.floats(-0.2, 1.1),
    maximise=st.booleans(),
)
def test_linear_problems_have_the_optimum_of_the_occupancy_program(seed, shape, discount, masked, share, maximise):
    instance = discounted_instance(seed, shape, discount, masked)
    mdp, x = instance.mdp, instance.embedding()
    least = bd.solve(bd.Problem(cp.Minimize(x.s1)), mdp).value
    most = bd.solve(bd.Problem(cp.Maximize(x.s1)), mdp).value
    limit = least + share * (most - least) - (1e-3 if share < 0 else 0.0)
    goal = cp.Maximize(x.s0) if maximise else cp.Minimize(x.s0)
    problem = bd.Problem(goal, {"limit": x.s1 <= limit, "other": x.s2 >= -3 / (1 - discount) - 1})
    solution = bd.solve(problem, mdp)
    status, optimum = occupancy_optimum(problem, mdp)
    if status == "infeasible" or share < 0:
        assert solution.status in ("infeasible", "undecided")
        return
    assert solution.status == "optimal"
    optimum = -optimum if maximise else optimum
    room = _tolerance(instance, discount) + 1e-9 * abs(optimum)
    # A limit holds to a billionth of what the constraint can pay, which is worth its price.
    room += 1e-8 / (1 - discount) * max(1.0, abs(solution.constraints[0].price))
    assert solution.lower - room <= optimum <= solution.upper + room
    assert solution.gap <= 1e-6 * max(abs(solution.lower), abs(solution.upper), 1e-4 * 1.5 / (1 - discount)) * 1.01


OTHERS = {
    "absorbed": absorbed_instance,
    "improper": lambda seed, shape: absorbed_instance(seed, shape, improper=True),
    "average": average_instance,
}


@settings(max_examples=scale_examples(60))
@given(
    seed=st.integers(0, 10**6),
    shape=st.sampled_from(((2, 2, 2), (6, 3, 3), (20, 3, 4))),
    kind=st.sampled_from(tuple(OTHERS)),
    share=st.floats(0.0, 1.1),
)
def test_absorption_and_averages_have_the_optimum_of_the_occupancy_program(seed, shape, kind, share):
    instance = OTHERS[kind](seed, shape)
    mdp, x = instance.mdp, instance.embedding()
    least = bd.solve(bd.Problem(cp.Minimize(x.s1)), mdp)
    free = bd.solve(bd.Problem(cp.Minimize(x.s0)), mdp)
    limit = least.value + share * (free.totals["s1"] - least.value)
    problem = bd.Problem(cp.Minimize(x.s0), {"limit": x.s1 <= limit})
    solution = bd.solve(problem, mdp)
    status, optimum = occupancy_optimum(problem, mdp)
    assert (solution.status, status) == ("optimal", "optimal")
    room = 1e-7 * (1 + abs(optimum)) * max(1.0, abs(solution.constraints[0].price))
    assert solution.lower - room <= optimum <= solution.upper + room
    assert np.isfinite(mdp.mass[1]) == (kind != "improper")


@settings(max_examples=scale_examples(12))
@given(
    seed=st.integers(0, 10**6),
    discount=st.sampled_from((0.5, 0.95, 0.999)),
    objective=st.sampled_from(("entropy", "distance", "worst")),
)
def test_convex_problems_have_the_optimum_of_clarabel(seed, discount, objective):
    instance = discounted_instance(seed, (6, 3, 3), discount)
    mdp = instance.mdp
    x = mdp.embedding(visits=True, s0=instance.signals[0], s1=instance.signals[1])
    mu, flows, (s0, s1) = occupancy_program(mdp, instance.signals[:2])
    visits = cp.sum(cp.reshape(mu, (6, 3), order="C"), axis=1)

    def goal(states, first, second):
        share = (1 - discount) * states
        return {
            "entropy": cp.Maximize(cp.sum(cp.entr(share))),
            "distance": cp.Minimize(cp.sum_squares(share - 1 / 6)),
            "worst": cp.Minimize((1 - discount) * cp.maximum(first, second)),
        }[objective]

    solution = bd.solve(bd.Problem(goal(x.visits, x.s0, x.s1)), mdp, gap=1e-6)
    truth = cp.Problem(goal(visits, s0, s1), flows)
    optimum = truth.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_feas=1e-10, tol_gap_rel=1e-10)
    assert solution.status == "optimal"
    assert solution.lower - 1e-6 <= optimum <= solution.upper + 1e-6


@pytest.mark.parametrize("discount", [0.9, 0.99])
def test_a_long_horizon_agrees_within_its_tail(discount):
    """Step t counts discount^t times; after H steps at most 1.5 discount^H / (1 - discount) is left of a signal."""
    instance = discounted_instance(7, (6, 3, 3), discount)
    endless, lists = instance.mdp, instance.mdp.successors
    H = int(np.ceil(np.log(1e-3) / np.log(discount)))
    finite = bd.TabularMDP((lists.states[0], lists.probabilities[0]), endless.initial, H)
    factors = (discount ** np.arange(H))[:, None, None]
    x, y = instance.embedding(), finite.embedding(total=True, r=factors * instance.signals[0])
    whole = bd.solve(bd.Problem(cp.Maximize(x.s0)), endless)
    part = bd.solve(bd.Problem(cp.Maximize(y.r)), finite)
    tail = 1.5 * discount**H / (1 - discount)
    assert whole.lower - tail <= part.upper
    assert part.lower <= whole.upper + tail
