"""A random low-rank model among its perturbations: the class whose members are hard to tell apart."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from bidual.models import LowRank
from bidual.problem.modelling import Problem
from bidual.tasks._task import Entry, Task, open_limit
from bidual.world.mdp import TabularMDP

_STATES, _ACTIONS, _RANK = 30, 4, 4
_EACH = 8  # candidates for phi, and for mu, of every step
_FAR = 0.3  # the share of a candidate that is not that of all
_SIGNALS = 3
_TARGET = 0.7  # for the mean of every signal: about 0.5 by chance, and 0.7 for all three is out of reach


def perturbation(budget: float = 0.35, horizon: int = 5, seed: int = 1) -> Task:
    """Bring the means of three signals near 0.7, in l2, with a mean cost of at most `budget`.

    At every step phi and mu are each one of eight perturbations of a common base, so that there are 64 laws.
    Signals and cost are numbers in [0, 1] for every state and action, drawn by the seed like everything else.
    """
    import cvxpy as cp

    rng = np.random.default_rng(seed)
    phis = [_perturb(rng, (_STATES, _ACTIONS, _RANK)) for _ in range(horizon)]
    mus = [_perturb(rng, (_RANK, _STATES)) for _ in range(horizon)]
    true = (rng.random((horizon, 2)) * _EACH).astype(np.int64)
    law = np.stack([phi[i] @ mu[j] for phi, mu, (i, j) in zip(phis, mus, true, strict=True)])
    mdp = TabularMDP(law / law.sum(axis=-1, keepdims=True), _draw_laws(rng, (_STATES,)), horizon)

    signals = rng.random((_SIGNALS, _STATES, _ACTIONS))
    x = mdp.embedding(first=signals[0], second=signals[1], third=signals[2], cost=rng.random((_STATES, _ACTIONS)))
    means = cp.hstack([cp.sum(x.first), cp.sum(x.second), cp.sum(x.third)]) / horizon
    limit = open_limit("budget", budget)
    problem = Problem(cp.Minimize(cp.norm(means - _TARGET)), {"cost": cp.sum(x.cost) / horizon <= limit})
    return Task(problem, mdp, model=LowRank(phis, mus, shared=False))


def _perturb(rng: np.random.Generator, shape: Sequence[int]) -> Float[np.ndarray, "8 ..."]:
    """Draw laws along the last axis, near a common base."""
    return (1 - _FAR) * _draw_laws(rng, shape) + _FAR * _draw_laws(rng, (_EACH, *shape))


def _draw_laws(rng: np.random.Generator, shape: Sequence[int]) -> Float[np.ndarray, "..."]:
    """Draw laws with some likely and many unlikely outcomes, from uniform numbers: generators keep these for ever."""
    weights = np.log1p(-rng.random(shape)) ** 2
    return weights / weights.sum(axis=-1, keepdims=True)


ENTRY = Entry(
    name="perturbation",
    summary="means of three signals near a target in a random model: 64 low-rank laws per step that are hard to tell "
    "apart; convex",
    source="made here, as a class whose members are hard to tell apart",
    objective="min l2 distance to target",
    limits=("cost <= budget",),
    optimum=0.051182,
    build=perturbation,
    family="class",
)

ENTRIES = (ENTRY,)
