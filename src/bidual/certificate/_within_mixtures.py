"""Bounds on a uniform or weighted mixture of plans over every law of a class, without a single episode of it.

Rollouts of a class have one action at random, so that episodes show what such rollouts pay, not what the plans do. The
number of the plan is one more part of the state here: one law serves all plans of a combination, as it does in truth.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bidual.certificate._ball import Least, bound_ball_minimum
from bidual.certificate._class import DenseLaws, bound_signals, expect_arrivals, select_laws
from bidual.certificate._estimates import MOST_NUMBERS, EstimateRows, bound_over_box, list_image_rows
from bidual.certificate._within import Ends, bound_image_error, bound_near_image
from bidual.certificate.rounding import EPS
from bidual.models import Plausible, compute_arrival_rewards
from bidual.problem.convex import AbstractProgram, ConvexProgram
from bidual.problem.features import Pieces, Psi

_MOST = 1000  # combinations that are followed
_LARGE = 10**7  # numbers in one array
_WORK = 2e9  # multiplications for the embeddings under all combinations


class PlanTables(NamedTuple):
    """The actions of some plans, and their weights."""

    actions: Int[np.ndarray, "p H S"]
    weights: Float[np.ndarray, "p"]


def bound_mixture(
    program: AbstractProgram, rows: EstimateRows, plans: PlanTables, model: Plausible, pieces: Pieces
) -> Ends:
    """Bound f (number 0) and g (from 1 on) of a mixture over the class; infinite where nothing is proved."""
    lower = np.full(1 + program.equality.size, -np.inf)
    upper = -lower
    if program.curved is not None and not program.curved.num_auxiliary:
        lower, upper = _bound_curved(program.curved, plans, model, pieces)
    low, high = _enclose_linear(rows, plans, model, pieces)
    lower[rows.numbers] = np.maximum(lower[rows.numbers], low)
    upper[rows.numbers] = np.minimum(upper[rows.numbers], high)
    return lower, upper


def compute_mixture_embedding(
    plans: PlanTables,
    laws: tuple[Float[np.ndarray, "S A S"], ...],
    psi: Psi,
    initial: Float[np.ndarray, "S"],
    num_actions: int,
) -> Float[np.ndarray, "H d"]:
    """Compute the embedding of a mixture under one law for every step but the last."""
    (p, H, S), everywhere = plans.actions.shape, np.arange(plans.actions.shape[2])
    mu = np.broadcast_to(initial, (p, S))
    embedding = np.empty((H, psi.dimension))
    for h in range(H):
        a, occupancy = plans.actions[:, h], np.zeros((S, num_actions))
        np.add.at(occupancy, (np.broadcast_to(everywhere, a.shape), a), plans.weights[:, None] * mu)
        embedding[h] = psi.expect(occupancy, h)
        if h < len(laws):
            mu = _move(mu, a, laws[h])
    return embedding


def _move(
    mu: Float[np.ndarray, "p S"], actions: Int[np.ndarray, "p S"], law: Float[np.ndarray, "S A S"]
) -> Float[np.ndarray, "p S"]:
    """Compute the law of the next state under every plan, a few plans at a time."""
    S, few = law.shape[0], max(1, _LARGE // law.shape[0] ** 2)
    parts = [
        np.einsum("ps,pst->pt", mu[i : i + few], law[np.arange(S), actions[i : i + few]])
        for i in range(0, len(mu), few)
    ]
    return np.concatenate(parts)


def bound_mixture_minimum(
    model: Plausible,
    pieces: Pieces,
    theta: Float[np.ndarray, "H d"],
    magnitude: Float[np.ndarray, "H d"],
    terms: int,
    plans: PlanTables,
) -> Least:
    """Bound the least theta . Psi of a mixture over the laws from below, as `bound_least_over_class` does of a policy.

    Plans are taken a few at a time where they are many: the least of a sum is at least the sum of the least.
    """
    S, most = plans.actions.shape[2], int(model.inside.sum(axis=1).max())
    few = max(1, _LARGE // (most * S * S))
    value = error = 0.0
    for i in range(0, len(plans.weights), few):
        part = PlanTables(plans.actions[i : i + few], plans.weights[i : i + few])
        found = _follow_combinations(model, pieces, theta, part)
        value, error = value + found.value, error + found.error
    A = model.counts.support.allowed.shape[1]
    sums = (len(theta) * (6 * A + S + 8) + pieces.psi.dimension + terms + 4 + len(plans.weights)) * EPS
    return Least(value, error + sums * float(np.sum(magnitude * pieces.peaks())))


def _follow_combinations(model: Plausible, pieces: Pieces, theta: Float[np.ndarray, "H d"], plans: PlanTables) -> Least:
    """Follow the combinations of candidates backwards for all plans, and relax them where they are too many."""
    rewards, last = compute_arrival_rewards(pieces, model.counts, model.delta), len(theta) - 1
    (p, _, S), share = plans.actions.shape, float(plans.weights.sum())
    states = np.arange(S)
    V, error = np.zeros((1, p, S)), 0.0
    for h in reversed(range(len(theta))):
        laws, a = select_laws(model, h, only=h == last and not rewards.positions), plans.actions[:, h]
        room = max(1, min(_MOST, _LARGE // (p * S * len(laws.dense))))
        V = V if len(V) * len(laws.dense) <= room else V.min(axis=0, keepdims=True)
        costs = pieces.psi.pay(theta[h], h) + expect_arrivals(model, rewards, theta[h], laws, h)
        Q = np.einsum("kpst,bpt->kbps", laws.dense[:, states, a], V, optimize=True) + costs[:, states, a][:, None]
        error += laws.defect * float(np.abs(V).max() + bound_signals(rewards, theta[h], h))
        V = Q.reshape(-1, p, S)
        V = V if len(V) <= room else V.min(axis=0, keepdims=True)
    start, frequencies, radius = model.start_row
    mixed = np.tensordot(V, plans.weights, axes=(1, 0))[:, start]
    values, lost = bound_ball_minimum(np.broadcast_to(frequencies, mixed.shape), np.full(len(mixed), radius), mixed)
    return Least(float(values.min()), share * error + float(lost.max()))


def _enclose_linear(rows: EstimateRows, plans: PlanTables, model: Plausible, pieces: Pieces) -> Ends:
    low, high = np.zeros(rows.numbers.size), np.zeros(rows.numbers.size)
    for i, (row, magnitude, constant) in enumerate(zip(rows.rows, rows.magnitudes, rows.constants, strict=True)):
        least, most = (bound_mixture_minimum(model, pieces, one, magnitude, rows.terms, plans) for one in (row, -row))
        room = 8 * EPS * abs(constant)
        low[i], high[i] = constant + least.value - least.error - room, constant - most.value + most.error + room
    return low, high


def _bound_curved(program: ConvexProgram, plans: PlanTables, model: Plausible, pieces: Pieces) -> Ends:
    """Bound curved functions over the class: law by law where these are few, else through their image."""
    p, H, S = plans.actions.shape
    count = math.prod(int(inside.sum()) for inside in model.inside[:-1])  # there are no costs after the last action
    few = count <= _MOST and count * p * H * S * S <= _WORK and not program.num_auxiliary
    if few and model.initial is not None and not pieces.arrivals and not pieces.observed:
        return _bound_over_combinations(program, plans, model, pieces, model.initial)
    lower = np.full(1 + program.equality.size, -np.inf)
    if program.image.size > MOST_NUMBERS:
        return lower, -lower
    low, high = _enclose_linear(list_image_rows(program), plans, model, pieces)
    return bound_over_box(program, list(zip(low, high, strict=True)))


def _bound_over_combinations(
    program: ConvexProgram, plans: PlanTables, model: Plausible, pieces: Pieces, initial: Float[np.ndarray, "S"]
) -> Ends:
    """Bound f and g over all combinations of candidates, with the errors of their sums."""
    steps: list[DenseLaws] = [select_laws(model, h, only=False) for h in range(plans.actions.shape[1] - 1)]
    A = model.counts.support.allowed.shape[1]
    shape = (*plans.actions.shape[1:], A)
    error = bound_image_error(program, shape, steps, pieces, len(plans.weights))
    found = []
    for laws in itertools.product(*(one.dense for one in steps)):
        y = program.image(compute_mixture_embedding(plans, laws, pieces.psi, initial, A))
        found.append(bound_near_image(program, y, error))
    low, high = np.array(found).swapaxes(0, 1)
    return np.where(np.isnan(low), -np.inf, low).min(axis=0), np.where(np.isnan(high), np.inf, high).max(axis=0)
