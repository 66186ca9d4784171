"""Combination locks to learn with a finite class of low-rank laws: open one, or spread out behind it."""

import numpy as np

from bidual.problem.modelling import Problem
from bidual.tasks._lock_class import BAIT, A, B, C, lock
from bidual.tasks._task import Entry, Task, open_limit


def lock_discrete(horizon: int = 5, actions: int = 5, seed: int = 1) -> Task:
    """Maximise the probability of opening the lock; baits have the reward 0.1.

    A policy that acts at random opens it with probability actions^-horizon. A learner knows the start law, and at
    every step that the law is one of (actions + 1)^2 * 16: any of four ways to divide the observations into latents,
    before the step and after it, and any right actions in two of them, or none.
    """
    import cvxpy as cp

    one = lock(horizon, actions, seed)
    x = one.mdp.embedding(reward=one.goal + 0.1 * one.bait)
    return Task(Problem(cp.Maximize(cp.sum(x.reward))), one.mdp, model=one.model)


def lock_spread(budget: float = 0.8, horizon: int = 5, actions: int = 5, seed: int = 1) -> Task:
    """Spend equally much time in all three latents, in l2, and open the lock with probability `budget` at least.

    The features tell the latent of every observation, as a label of it; the class of laws makes no use of that.
    """
    import cvxpy as cp

    one = lock(horizon, actions, seed)
    latents = np.where(one.latents == BAIT, C, one.latents)  # a bait leads to C, and belongs to it
    x = one.mdp.embedding(a=latents == A, b=latents == B, c=latents == C, goal=one.goal)
    shares = cp.hstack([cp.sum(x.a), cp.sum(x.b), cp.sum(x.c)]) / horizon
    limit = open_limit("budget", budget)
    problem = Problem(cp.Minimize(cp.norm(shares - 1 / 3)), {"goal": cp.sum(x.goal) >= limit})
    return Task(problem, one.mdp, model=one.model)


_SOURCE = "the combination lock of the literature on block MDPs, with discrete observations"

DISCRETE = Entry(
    name="lock-discrete",
    summary="open a combination lock: learned with a class of 576 low-rank laws per step",
    source=_SOURCE,
    objective="max reward",
    limits=(),
    optimum=1.0,
    build=lock_discrete,
    family="class",
)
SPREAD = Entry(
    name="lock-discrete-spread",
    summary="be equally long in all latents of a lock, but open it with probability `budget`; convex, with that class",
    source=f"{_SOURCE}; objective and constraint are ours",
    objective="min l2 distance to uniform",
    limits=("goal >= budget",),
    optimum=0.212289,
    build=lock_spread,
    family="class",
)

ENTRIES = (
    DISCRETE,
    SPREAD,
)
