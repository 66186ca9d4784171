"""Planning over linear models, and its bounds, against linear programs over the sets as they are written down.

A row is {P a law on its list: sum (P - c)+ <= r, sum (c - P)+ <= r}, sums over all states; c is any vector.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog

import bidual as bd
from bidual._base.types import float64
from bidual.certificate._ball import compute_near_minimum
from bidual.certificate._optimistic import bound_least_over_set
from bidual.models import Elliptical, LinearMDP
from bidual.models.counts._counts import start_counts
from bidual.models.counts._support import read_support
from bidual.planners import ExtendedValueIteration
from bidual.planners._rows import choose_cheapest
from tests.laws.test_optimistic import ball_reference
from tests.learning import after, beginning, random_episodes
from tests.linear import world


def row_reference(c, r, listed, W):
    """HiGHS over P and the two parts of its difference from c."""
    S = len(c)
    eye, zero, ones = np.eye(S), np.zeros((1, S)), np.ones((1, S))
    A_eq = np.vstack([np.hstack([eye, -eye, eye]), np.hstack([ones, zero, zero])])
    A_ub = np.vstack([np.hstack([zero, ones, zero]), np.hstack([zero, zero, ones])])
    limits = [(0, None if s in listed else 0) for s in range(S)] + [(0, None)] * (2 * S)
    answer = linprog(
        *([*W, *np.zeros(2 * S)], A_ub, [r, r], A_eq, [*c, 1.0], limits),
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert answer.status == 0, answer.message
    return answer.fun


def random_rows(seed, S=7, A=3, *, short=False):
    """Estimates that miss a law by as much as their radius says, some of them negative or above 1; and any W."""
    rng = np.random.default_rng(seed)
    lists = np.tile(np.arange(S), (S, A, 1))
    if short:
        lists = np.where(rng.random((S, A, S)) < 0.5, lists, -1)
        lists[..., 0] = rng.integers(0, S, (S, A))
    support = read_support(lists, np.zeros(0, dtype=np.int64), np.ones((S, A), dtype=bool))
    P = np.zeros((S, A, S))
    for s, a in np.ndindex(S, A):
        own = support.states[s, a, : support.sizes[s, a]]
        P[s, a, own] = rng.dirichlet(np.full(own.size, 0.3))
    c = P + rng.normal(size=P.shape) * rng.choice([0.01, 0.1, 0.4], (S, A, 1))
    off = np.maximum(np.maximum(P - c, 0).sum(axis=-1), np.maximum(c - P, 0).sum(axis=-1))
    r = off * rng.choice([1 + 1e-9, 1.05, 2.0], (S, A))
    counts = start_counts(support, np.zeros(0, dtype=bool))
    return Elliptical(counts, 0.1, np.eye(S)[0], c[None], r[None], 3.0), rng.normal(size=S) * 10


@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_rows_are_those_of_a_linear_program(seed, short):
    """Planner and checker to 1e-9 of the largest value; HiGHS keeps its constraints to 1e-10."""
    model, V = random_rows(seed, short=short)
    support = model.counts.support
    W = V[support.filled]
    planned = _cheapest(model, W)
    value, error = compute_near_minimum(model.centre[0], model.gain[0], W)
    assert np.asarray(planned.law).min() >= 0
    np.testing.assert_allclose(np.asarray(planned.law).sum(axis=0), 1.0, atol=1e-12)
    for s, a in np.ndindex(support.allowed.shape):
        listed = set(support.states[s, a, : support.sizes[s, a]].tolist())
        expected = row_reference(model.estimate[0, s, a], model.radius[0, s, a], listed, V)
        assert abs(float(planned.bound[a, s]) - expected) <= 1e-9 * np.abs(V).max()
        assert abs(value[s, a] - float(planned.bound[a, s])) <= 1e-12 * max(1.0, np.abs(V).max())
        assert 0 < error[s, a] <= 1e-12


@float64
def _cheapest(model, W):
    return choose_cheapest(
        jax.tree.map(lambda part: jnp.asarray(part[0]), model.rows.rows), jnp.asarray(W.transpose(2, 1, 0))
    )


def cases():
    yield "one mu", world(0), {}
    yield "a mu for every step", world(1, stationary=False), {"stationary": False}
    yield "features that move", world(2, moving=True), {}
    yield "moving, and a mu for every step", world(3, moving=True, stationary=False), {"stationary": False}


CASES = {name: (one, settings) for name, one, settings in cases()}


def known_after(one, settings, episodes, *, initial=True, features=None):
    H, S, A = one.mdp.horizon, one.mdp.num_states, one.mdp.num_actions
    features = features or bd.features.signals(r=np.random.default_rng(7).normal(size=(S, A)))
    start = one.mdp.initial if initial else None
    first = beginning(features, (H, S, A), LinearMDP(one.phi, **settings), initial=start)
    return after(first, random_episodes(one.mdp, episodes, 5))


@pytest.mark.parametrize("initial", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_plans_have_the_value_of_linear_programs_and_of_the_checker(name, initial):
    one, settings = CASES[name]
    knowledge = known_after(one, settings, 400, initial=initial)
    model, pieces = knowledge.confidence_set, knowledge.pieces
    H, (_, S, A) = one.mdp.horizon, model.counts.pairs.shape
    assert model.gain.min() < 0.9  # the sets say something
    for seed in range(3):
        theta = np.random.default_rng(seed).normal(size=(H, 1))
        made = ExtendedValueIteration()(model, knowledge.layout, theta)
        V = np.zeros(S)
        for h in reversed(range(H)):
            at = h if len(model.radius) > 1 else 0
            rows = [
                row_reference(model.estimate[at, s, a], model.radius[at, s, a], range(S), V)
                for s, a in np.ndindex(S, A)
            ]
            V = (pieces.psi.pay(theta[h], h) + np.reshape(rows, (S, A))).min(axis=1)
        _, frequencies, radius = model.start_row
        expected = float(one.mdp.initial @ V) if initial else ball_reference(frequencies, radius, V)
        assert abs(made.lower - expected) <= 1e-9
        assert abs(made.value - made.lower) <= 1e-9
        value, error = bound_least_over_set(model, pieces, theta, np.abs(theta), 1)
        assert made.lower - 1e-9 <= value - error <= made.lower + 1e-12


@pytest.mark.parametrize("broken", ["centre", "gain"])
def test_the_reference_notices_a_set_that_is_too_small(broken):
    """What the tests above are worth: with the plain estimate for a centre, or half the gain, values differ."""
    model, V = random_rows(0)
    centre, gain = model.centre[0], model.gain[0]
    if broken == "centre":
        centre = np.abs(centre) / np.abs(centre).sum(axis=-1, keepdims=True)
    else:
        gain = gain / 2
    value, _ = compute_near_minimum(centre, gain, V[model.counts.support.filled])
    right, _ = compute_near_minimum(model.centre[0], model.gain[0], V[model.counts.support.filled])
    assert np.abs(value - right).max() > 1e-2
