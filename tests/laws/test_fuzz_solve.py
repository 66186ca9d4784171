"""Random problems against an occupancy program of this file's own: no false bound, and nothing left unfinished.

Models, problems and judges share no code with the product but the calls of `bd.solve`. Linear problems are judged by
HiGHS, convex ones by Clarabel; both are trusted to `ACCURACY`. Saved solutions are verified in exact arithmetic. The
convex problems have images of 48 numbers and more, half of them with their optimum at a kink. The gate tries 500
problems with fixed seeds; `make test-all` tries 10 000 with fresh seeds, which a failure names (`FUZZ=seed` in the
environment repeats them, `FUZZ_COUNT` sets how many).
"""

import os
import secrets
import tempfile
import warnings
from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

import bidual as bd
from bidual.certificate.verify import verify
from bidual.certificate.verify_convex import read_convex

LINEAR_SHAPES = ((4, 2, 5), (6, 3, 4))  # S, A, H: few, because each compiles a planner
CONVEX_SHAPES = ((8, 2, 6), (12, 2, 4))
ACCURACY = 3e-6  # of the judges, relative to the larger of 1 and the optimum
MARGIN = 1e-5  # problems that are closer to infeasible than this are judged either way
LINEAR, CONVEX, CHUNK = 380, 120, 5  # problems in the gate, and convex ones in one test


def random_model(rng, shape):
    """A model with sharp, flat and sparse laws, as dense arrays."""
    S, A, H = shape
    law = rng.dirichlet(np.full(S, rng.choice([0.2, 1.0])), size=(S, A))
    sharp = rng.random((S, A)) < 0.3
    law[sharp] = np.eye(S)[rng.integers(0, S, int(sharp.sum()))]
    start = rng.dirichlet(np.ones(S)) if rng.random() < 0.5 else np.eye(S)[rng.integers(S)]
    return SimpleNamespace(law=law, start=start, S=S, A=A, H=H, mdp=bd.TabularMDP(law, start, H))


def visits_of(model, policy):
    """The visits of a policy (H, S, A)."""
    visits = [model.start]
    for h in range(model.H - 1):
        visits.append(np.einsum("s,sa,sat->t", visits[-1], policy[h], model.law))
    return np.array(visits)


def random_policy(rng, model):
    kind = rng.integers(3)
    if kind == 0:
        return np.full((model.H, model.S, model.A), 1 / model.A)
    if kind == 1:
        return rng.dirichlet(np.ones(model.A), size=(model.H, model.S))
    return np.eye(model.A)[rng.integers(0, model.A, (model.H, model.S))]


def flow_rows(model):
    """The equations of occupancies mu[h, s, a]: what flows in flows out."""
    S, A, H = model.S, model.A, model.H
    leave = sp.kron(sp.eye(S), np.ones((1, A)))
    arrive = sp.csr_matrix(model.law.reshape(S * A, S).T)
    rows = sp.kron(sp.eye(H), leave) - sp.kron(sp.eye(H, k=-1), arrive)
    return sp.csr_matrix(rows), np.append(model.start, np.zeros((H - 1) * S))


def judge_linear(seed):
    rng = np.random.default_rng(seed)
    model = random_model(rng, LINEAR_SHAPES[rng.integers(len(LINEAR_SHAPES))])
    scale = 10.0 ** rng.choice([0, 0, 0, -4, -8, 4])
    costs = scale * rng.integers(-3, 4, (3, model.S, model.A)) / 2.0
    x = model.mdp.embedding(a=costs[0], b=costs[1], c=costs[2])
    policy = random_policy(rng, model)
    paid = np.einsum("hs,hsa,isa->i", visits_of(model, policy), policy, costs)
    room = scale * rng.choice([0.0, 0.3, -2.0, 1.0], size=2)
    limits, rows = {}, {"ub": [], "eq": []}
    over = np.array([np.tile(cost.ravel(), model.H) for cost in costs])
    if rng.random() < 0.7:
        limits["b"] = cp.sum(x.b) <= paid[1] + room[0]
        rows["ub"].append((over[1], paid[1] + room[0]))
    if rng.random() < 0.4:
        limits["c"] = cp.sum(x.c) >= paid[2] - room[1]
        rows["ub"].append((-over[2], room[1] - paid[2]))
    elif rng.random() < 0.3:
        limits["c"] = cp.sum(x.c) == paid[2]
        rows["eq"].append((over[2], paid[2]))
    solution = bd.solve(bd.Problem(cp.Minimize(cp.sum(x.a)), limits), model.mdp)
    flow, start = flow_rows(model)

    def optimum(slack):  # in units of the signals: the judge's tolerances are absolute
        return linprog(
            over[0] / scale,
            A_ub=np.array([row for row, _ in rows["ub"]]) / scale if rows["ub"] else None,
            b_ub=np.array([limit for _, limit in rows["ub"]]) / scale + slack if rows["ub"] else None,
            A_eq=sp.vstack([flow, *(sp.csr_matrix(row / scale) for row, _ in rows["eq"])]),
            b_eq=np.append(start, [limit / scale for _, limit in rows["eq"]]),
        )

    found = optimum(0.0)
    doubtful = optimum(MARGIN).status != optimum(-MARGIN).status
    compare(seed, solution, found.fun if found.status == 0 else None, scale, doubtful=doubtful)
    verify_exactly(seed, solution)


def distance(e):
    return cp.norm(e, "fro")


# Objective and limits over visits (H, S), the pay and constants: a, b and c are targets, r numbers in [0, 1].
KINDS = {
    "norm": lambda v, pay, k: (distance(v - k.a), {}),
    "norms": lambda v, pay, k: (distance(v - k.a) + k.r[0] * distance(v - k.b), {}),
    "norm of rows": lambda v, pay, k: (cp.sum(cp.norm(v - k.a, 2, axis=1)), {}),
    "norm and pay": lambda v, pay, k: (0.3 * pay + distance(v - k.a), {}),
    "within": lambda v, pay, k: (pay, {"near": distance(v - k.a) <= 3 * k.r[0]}),
    "within nothing": lambda v, pay, k: (pay, {"near": distance(v - k.near) <= 0}),
    "absolute": lambda v, pay, k: (cp.sum(cp.abs(v - k.a)) + k.r[0] * cp.sum_squares(v - k.b), {}),
    "hinge": lambda v, pay, k: (cp.sum(cp.pos(v - k.a)) + 0.1 * distance(v - k.b), {}),
    "mixture": lambda v, pay, k: (
        cp.sum_squares(v - k.a) + k.r[0] * distance(v - k.b) + 0.1 * pay,
        {"ball": distance(v - k.c) <= 0.5 + 2 * k.r[1]},
    ),
    "largest": lambda v, pay, k: (cp.sum_largest(v - k.a, 5) + k.r[0] * distance(v - k.b), {}),
    "sorted": lambda v, pay, k: (cp.dotsort(cp.sum(v, axis=0), np.arange(v.shape[1])) + 0.1 * pay, {}),
    "squares": lambda v, pay, k: (cp.sum_squares(v - k.a), {"pay": pay <= k.limit}),
    "entropy": lambda v, pay, k: (-cp.sum(cp.entr(v)), {"pay": pay <= k.limit}),
    "huber": lambda v, pay, k: (cp.sum(cp.huber(v - k.a, 0.05 + 0.3 * k.r[0])), {}),
    "divergence": lambda v, pay, k: (cp.sum(cp.kl_div(v, k.a + 0.05)), {}),
}
COMPILED = ("squares", "entropy", "huber", "divergence")  # half a second each for JAX: fewer of these
DRAWN = [kind for kind in KINDS if kind not in COMPILED] * 4 + list(COMPILED)


def judge_convex(seed):
    rng = np.random.default_rng(seed)
    model = random_model(rng, CONVEX_SHAPES[rng.integers(len(CONVEX_SHAPES))])
    kind = DRAWN[rng.integers(len(DRAWN))]
    cost = rng.integers(-3, 4, (model.S, model.A)) / 2.0
    policy = random_policy(rng, model)
    near = visits_of(model, policy)

    def target():
        far = rng.random() < 0.3
        return rng.dirichlet(np.ones(model.S), size=model.H) if far else visits_of(model, random_policy(rng, model))

    paid = float(np.einsum("hs,hsa,sa->", near, policy, cost))
    constants = SimpleNamespace(a=target(), b=target(), c=target(), near=near, r=rng.random(3), limit=paid + 0.3)
    x = model.mdp.embedding(visits=True, pay=cost)
    f, limits = KINDS[kind](x.visits, cp.sum(x.pay), constants)
    solution = bd.solve(bd.Problem(cp.Minimize(f), limits), model.mdp)
    flow, start = flow_rows(model)
    mu = cp.Variable(model.H * model.S * model.A, nonneg=True)
    by_state = cp.reshape(
        cp.sum(cp.reshape(mu, (model.H * model.S, model.A), order="C"), axis=1), near.shape, order="C"
    )
    f, limits = KINDS[kind](by_state, np.tile(cost.ravel(), model.H) @ mu, constants)
    judge = cp.Problem(cp.Minimize(f), [*limits.values(), flow @ mu == start])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where Clarabel says that it is less exact than it was asked to be
        judge.solve(solver=cp.CLARABEL)
    # Without any room Clarabel's own answer is as exact as its tolerance times large multipliers.
    accuracy = 1e3 * ACCURACY if kind == "within nothing" else ACCURACY
    compare(seed, solution, judge.value if judge.status.startswith("optimal") else None, accuracy=accuracy)
    verify_exactly(seed, solution, known=kind != "sorted")


def compare(seed, solution, optimum, scale=1.0, *, accuracy=ACCURACY, doubtful=False):
    """Compare a solution in signals of this size with the truth in signals of size 1; None: there is no policy."""
    text = f"seed {seed}: {optimum!r} against {solution}"
    assert doubtful or solution.status == ("optimal" if optimum is not None else "infeasible"), text
    if optimum is None or solution.status != "optimal":
        return
    accuracy *= max(1.0, abs(optimum))
    assert solution.lower / scale <= optimum + accuracy, text
    assert solution.upper / scale >= optimum - accuracy, text


def verify_exactly(seed, solution, known=True):
    """Every claim is proved in rational arithmetic; of functions of the same numbers it may be not decided."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.bidual")
        solution.save(path)
        found = verify(path, convex=read_convex)
    outcomes = {outcome for outcome, _, _ in found}
    assert outcomes == {"proved"} or (not known and outcomes == {"proved", "not decided"}), f"seed {seed}: {found}"


@pytest.mark.parametrize("first", range(0, LINEAR, 20 * CHUNK))
def test_linear_problems_end_with_true_bounds(first):
    for seed in range(first, min(first + 20 * CHUNK, LINEAR)):
        judge_linear(seed)


@pytest.mark.parametrize("seed", [540230491148, 540230494740, 540230499940, 902217449136])
def test_problems_that_once_ended_with_loose_bounds(seed):
    """Limits that cost nothing, where no point near the slope keeps them; a last mixture that was not the best."""
    judge_convex(seed)


@pytest.mark.parametrize("first", range(0, CONVEX, CHUNK))
def test_convex_problems_end_with_true_bounds(first):
    for seed in range(first, first + CHUNK):
        judge_convex(seed)


def test_a_policy_that_undercuts_the_bound_by_a_rounding_of_its_limits_is_optimal():
    """Found by the fuzz: a gap of 0 was measured against a goal for bounds of 1e-12, and printing it failed."""
    judge_convex(365655365988)


@pytest.mark.parametrize("seed", [5001, 587120318188, 587120315956])
def test_the_last_digits_of_a_mixture_do_not_decide(seed):
    """Found by the fuzz: norms that must be 0 were violated by 1e-8, a sum of sizes had a gap of 2e-7."""
    judge_convex(seed)


@pytest.mark.slow
def test_fresh_problems_end_with_true_bounds():
    first, count = int(os.environ.get("FUZZ", secrets.randbelow(2**40))), int(os.environ.get("FUZZ_COUNT", "10000"))
    print(f"fuzz of {count} problems from seed {first} on: FUZZ={first}")
    failures = []
    for seed in range(first, first + count):
        try:
            (judge_convex if seed % 4 == 0 else judge_linear)(seed)
        except AssertionError as error:
            failures.append(f"FUZZ={seed} FUZZ_COUNT=1: {error}")
    assert not failures, "\n".join([f"{len(failures)} of {count}", *failures])
