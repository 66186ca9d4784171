"""Random models and problems, and exact answers from outside: the occupancy linear program solved by HiGHS."""

import os
from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

import bidual as bd
from bidual._base.types import select_step

# (S, A, K, H): few, because each compiles a planner of its own.
SHAPES = ((1, 1, 1, 1), (3, 2, 2, 2), (4, 3, 3, 5), (6, 2, 3, 4))
NUM_SIGNALS = 4


@dataclass(frozen=True)
class Instance:
    mdp: bd.TabularMDP
    signals: np.ndarray  # (NUM_SIGNALS, S, A)

    def embedding(self, total=False):
        return self.mdp.embedding(total=total, **{f"s{i}": signal for i, signal in enumerate(self.signals)})


def scale_examples(count):
    """Return how many random examples are tried: all in `make test-all`, a third of them in the gate."""
    return count if os.environ.get("BIDUAL_TESTS") == "all" else count // 3


def keep_few(values, count):
    """Return parameters of which the gate takes the first few, and the others are slow."""
    values = list(values)
    return values[:count] + [pytest.param(value, marks=pytest.mark.slow) for value in values[count:]]


def random_instance(seed, shape, per_step=False, masked=False):
    """A random model with full-support start law; deterministic rows and ties are frequent on purpose."""
    S, A, K, H = shape
    rng = np.random.default_rng(seed)
    steps = H if per_step else 1
    states = rng.integers(0, S, (steps, S, A, K))
    probabilities = rng.dirichlet(np.ones(K), (steps, S, A))
    sharp = rng.random((steps, S, A, 1)) < 0.3
    probabilities = np.where(sharp, np.eye(K)[0], probabilities)
    initial = rng.dirichlet(np.ones(S))
    actions = None
    if masked:
        actions = rng.random((S, A)) < 0.6
        actions[:, 0] = True
    signals = rng.integers(-3, 4, (NUM_SIGNALS, S, A)) / 2.0
    lists = (states, probabilities) if per_step else (states[0], probabilities[0])
    return Instance(bd.TabularMDP(lists, initial, H, actions=actions), signals)


def flow_constraints(mdp):
    """A mu = b for the occupancy measures mu[h, s, a], flattened."""
    H, S, A = mdp.horizon, mdp.num_states, mdp.num_actions
    lists = mdp.successors
    K = lists.states.shape[3]
    blocks = [[None] * H for _ in range(H)]
    for h in range(H):
        blocks[h][h] = sp.kron(sp.eye(S), np.ones((1, A)))
        if h:
            law = (select_step(lists.probabilities, h - 1).ravel(), select_step(lists.states, h - 1).ravel())
            kernel = sp.csr_matrix((*law, np.arange(S * A + 1) * K), shape=(S * A, S))
            blocks[h][h - 1] = -kernel.T
    right = np.zeros(H * S)
    right[:S] = mdp.initial
    return sp.csr_matrix(sp.bmat(blocks)), right


def occupancy_optimum(problem, mdp, method="highs"):
    """(status, minimum) of the occupancy linear program, in the minimising sense; built from the compiled rows."""
    H, S, A = mdp.horizon, mdp.num_states, mdp.num_actions
    program = problem.program()
    psi = problem.embedding.features.stage(mdp.successors)

    def over_occupancy(row):
        return np.stack([psi.pay(row[h], h) for h in range(H)]).ravel()

    rows = np.array([over_occupancy(row) for row in program.rows]).reshape(len(program.rows), H * S * A)
    flow, start = flow_constraints(mdp)
    equal = program.equality
    bounds = [(0, None) if ok else (0, 0) for ok in np.tile(mdp.actions.ravel(), H)]
    answer = linprog(
        over_occupancy(program.objective),
        A_ub=rows[~equal] if (~equal).any() else None,
        b_ub=program.limits[~equal] if (~equal).any() else None,
        A_eq=sp.vstack([flow, rows[equal]]).tocsr(),
        b_eq=np.append(start, program.limits[equal]),
        bounds=bounds,
        method=method,
    )
    if answer.status == 2:
        return "infeasible", None
    assert answer.status == 0, answer.message
    return "optimal", answer.fun + program.offset


def occupancy_program(mdp, signals):
    """The same truth by another road: CVXPY over occupancies. Returns (mu, constraints, totals of the signals)."""
    H, S, A = mdp.horizon, mdp.num_states, mdp.num_actions
    mu = cp.Variable(H * S * A, nonneg=True)
    flow, start = flow_constraints(mdp)
    allowed = np.tile(mdp.actions.ravel(), H)
    totals = [cp.sum(cp.multiply(np.tile(signal.ravel(), H), mu)) for signal in signals]
    return mu, [flow @ mu == start, mu[~allowed] == 0] if (~allowed).any() else [flow @ mu == start], totals


def simulate(policy, mdp, signal, episodes, seed):
    """Returns of `signal` (S, A) summed over each simulated episode."""
    rng = np.random.default_rng(seed)
    lists = mdp.successors
    returns = np.zeros(episodes)
    for episode in range(episodes):
        actor = policy.reset(rng)
        state = int(rng.choice(mdp.num_states, p=mdp.initial))
        for h in range(mdp.horizon):
            action = actor.act(state)
            returns[episode] += signal[state, action]
            chances = np.cumsum(select_step(lists.probabilities, h)[state, action])
            k = np.searchsorted(chances, rng.random() * chances[-1], side="right")
            state = int(select_step(lists.states, h)[state, action, k])
    return returns
