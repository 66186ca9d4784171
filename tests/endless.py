"""Random models over an unbounded time, and exact answers from outside: the occupancy program by HiGHS and Clarabel."""

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

import bidual as bd
from tests.helpers import NUM_SIGNALS, Instance

DISCOUNTS = (0.5, 0.9, 0.99, 0.999, 0.9999)


def discounted_instance(seed, shape, discount, masked=False):
    """A random model in which deterministic rows and ties are frequent on purpose."""
    S, A, K = shape
    rng = np.random.default_rng(seed)
    states, probabilities = rng.integers(0, S, (S, A, K)), rng.dirichlet(np.ones(K), (S, A))
    probabilities = np.where(rng.random((S, A, 1)) < 0.3, np.eye(K)[0], probabilities)
    allowed = None
    if masked:
        allowed = rng.random((S, A)) < 0.6
        allowed[:, 0] = True
    mdp = bd.TabularMDP((states, probabilities), rng.dirichlet(np.ones(S)), discount=discount, allowed=allowed)
    return Instance(mdp, rng.integers(-3, 4, (NUM_SIGNALS, S, A)) / 2.0)


def dense_kernel(mdp):
    """The law of the next state as an array (S, A, S), without discount."""
    lists, (_, S, A) = mdp.successors, mdp.successors.shape
    P = np.zeros((S, A, S))
    for k in range(lists.states.shape[3]):
        s, a = np.indices((S, A))
        np.add.at(P, (s, a, lists.states[0, ..., k]), lists.probabilities[0, ..., k])
    return P


def absorbed_instance(seed, shape, improper=False):
    """A random model whose last state ends every episode; with `improper` some policies never get there."""
    S, A, K = shape
    rng = np.random.default_rng(seed)
    states, probabilities = rng.integers(0, S, (S, A, K)), rng.dirichlet(np.ones(K), (S, A))
    states[..., 0] = S - 1
    signals = rng.integers(-3, 4, (NUM_SIGNALS, S, A)) / 2.0
    if improper:  # the last action stays, and costs something
        states[:, -1], signals[:, :, -1] = np.arange(S)[:, None], rng.integers(1, 4, (NUM_SIGNALS, S)) / 2.0
        signals = np.abs(signals)
    mdp = bd.TabularMDP((states, probabilities), rng.dirichlet(np.ones(S)), until=np.arange(S) == S - 1)
    return Instance(mdp, signals)


def average_instance(seed, shape):
    """A random model in which every action leads to state 0 now and then."""
    S, A, K = shape
    rng = np.random.default_rng(seed)
    states, probabilities = rng.integers(0, S, (S, A, K)), rng.dirichlet(np.ones(K), (S, A))
    states[..., 0] = 0
    mdp = bd.TabularMDP((states, probabilities), rng.dirichlet(np.ones(S)), average=True)
    return Instance(mdp, rng.integers(-3, 4, (NUM_SIGNALS, S, A)) / 2.0)


def flow(mdp):
    """The equations A mu = b of the occupancies mu[s, a], flattened: what leaves a state less what arrives there."""
    _, S, A = mdp.successors.shape
    criterion, P = mdp.criterion.to_json(), dense_kernel(mdp).reshape(S * A, S)
    staying = sp.kron(sp.eye_array(S), np.ones((1, A)))
    if "discount" in criterion:
        return sp.csr_array(staying - criterion["discount"] * P.T), mdp.initial
    if "average" in criterion:
        return sp.csr_array(np.vstack([(staying - P.T), np.ones(S * A)])), np.append(np.zeros(S), 1.0)
    live = ~mdp.absorbing  # and no occupancy elsewhere
    over = sp.diags_array(np.repeat(~live, A).astype(float))
    flows = sp.csr_array(sp.diags_array(live.astype(float)) @ (staying - P.T))
    return sp.vstack([flows, over]).tocsr(), np.append(mdp.initial * live, np.zeros(S * A))


def occupancy_optimum(problem, mdp):
    """(status, minimum) of the occupancy linear program by HiGHS, in the minimising sense."""
    program = problem.program()
    psi = mdp.stage(problem.embedding.features)
    rows = np.array([psi.pay(row[0], 0).ravel() for row in program.rows]).reshape(len(program.rows), mdp.actions.size)
    A, b = flow(mdp)
    equal = program.equality
    answer = linprog(
        psi.pay(program.objective[0], 0).ravel(),
        A_ub=rows[~equal] if (~equal).any() else None,
        b_ub=program.limits[~equal] if (~equal).any() else None,
        A_eq=sp.vstack([A, sp.csr_array(rows[equal])]),
        b_eq=np.append(b, program.limits[equal]),
        bounds=[(0, None) if ok else (0, 0) for ok in mdp.actions.ravel()],
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if answer.status == 2:
        return "infeasible", None
    assert answer.status == 0, answer.message
    return "optimal", answer.fun + program.offset


def occupancy_program(mdp, signals):
    """CVXPY over occupancies: (mu, constraints, totals of the signals)."""
    A, b = flow(mdp)
    mu = cp.Variable(mdp.actions.size, nonneg=True)
    totals = [signal.ravel() @ mu for signal in signals]
    return mu, [A @ mu == b, mu[~mdp.actions.ravel()] == 0] if not mdp.actions.all() else [A @ mu == b], totals
