"""Convex problems over visits: certified gap against CPU time, and against cone solvers on the occupancy program.

    make bench-convex                       everything
    python -m benchmarks.convex large       only some of: small, large, huge, features

One core, CPU time, H = 20, A = 5, K = 5. The first solve of a problem compiles; it is reported on its own (`first`),
`seconds` is the best of the later ones. CVXPY's own compilation is part of the cone solvers' time; they are given 120
seconds. Results go to benchmarks/results/convex.json.
"""

import json
import os
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    # One core for everything, before any library counts them.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.error import SolverError

import bidual as bd
from benchmarks.models import HORIZON, MODELS, start_law

RESULTS = Path(__file__).parent / "results" / "convex.json"
LIMIT = 120.0  # seconds of CPU for another solver


def problem(kind: str, mdp: bd.TabularMDP) -> bd.Problem:
    """A family over the time-averaged visits; targets and costs are random with a fixed seed."""
    S = mdp.num_states
    rng = np.random.default_rng(1)
    cost, target = rng.random(S), rng.dirichlet(np.ones(S))
    x = mdp.embedding(total=True, visits=True, cost=cost)
    law = x.visits / HORIZON
    budget = {"budget": x.cost <= _budget(mdp, cost)}
    return {
        "squared": lambda: bd.Problem(cp.Minimize(S * cp.sum_squares(law - target)), budget),
        "entropy": lambda: bd.Problem(cp.Maximize(cp.sum(cp.entr(law))), budget),
        "norm": lambda: bd.Problem(cp.Minimize(x.cost), {"ball": cp.norm(law - target) <= _radius(mdp, target)}),
    }[kind]()


def _budget(mdp: bd.TabularMDP, cost: np.ndarray) -> float:
    """A quarter of the way from the least possible cost to half a unit per step."""
    x = mdp.embedding(total=True, cost=cost)
    least = bd.solve(bd.Problem(cp.Minimize(x.cost)), mdp).value
    return least + 0.25 * (HORIZON * 0.5 - least)


def _radius(mdp: bd.TabularMDP, target: np.ndarray) -> float:
    """A little more than the distance of the uniform law."""
    return float(np.linalg.norm(np.full(mdp.num_states, 1 / mdp.num_states) - target))


def ours(kind: str, mdp: bd.TabularMDP, gap: float, repeats: int) -> dict[str, object]:
    """CPU seconds to a certified relative gap."""
    declared = problem(kind, mdp)
    times, solution = [], None
    for _ in range(repeats + 1):
        start = time.process_time()
        solution = bd.solve(declared, mdp, gap=gap, relative=True, time_limit=200.0)
        times.append(time.process_time() - start)
    assert solution is not None
    bounds = (solution.lower, solution.upper)
    return {
        "status": str(solution.status),
        "first": times[0],
        "seconds": min(times[1:], default=times[0]),
        "plans": solution.plans,
        "value": solution.value,
        "relative_gap": None if solution.gap is None else solution.gap / max(abs(b) for b in bounds if b is not None),
        "peak_gb": _peak(),
    }


def _peak() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1e6


def theirs(kind: str, mdp: bd.TabularMDP, solver: str) -> dict[str, object]:
    """CPU seconds of CVXPY with a cone solver on the occupancy program."""
    mu, rows = _occupancies(mdp)
    H, S, A = mdp.successors.shape
    visits = sp.kron(sp.csr_matrix(np.ones((1, H))), sp.kron(sp.eye(S), np.ones((1, A)))) @ mu
    rng = np.random.default_rng(1)
    cost, target = rng.random(S), rng.dirichlet(np.ones(S))
    law, paid = visits / HORIZON, cost @ visits
    objective, limits = {
        "squared": lambda: (cp.Minimize(S * cp.sum_squares(law - target)), [paid <= _budget(mdp, cost)]),
        "entropy": lambda: (cp.Maximize(cp.sum(cp.entr(law))), [paid <= _budget(mdp, cost)]),
        "norm": lambda: (cp.Minimize(paid), [cp.norm(law - target) <= _radius(mdp, target)]),
    }[kind]()
    program = cp.Problem(objective, [row for row in (*limits, *rows) if isinstance(row, cp.Constraint)])
    options = {"CLARABEL": {"time_limit": LIMIT}, "SCS": {"eps_abs": 1e-6, "eps_rel": 1e-6, "time_limit_secs": LIMIT}}
    start = time.process_time()
    try:
        program.solve(solver=solver, **options[solver])
        status = program.status
    except SolverError as error:
        status = str(error)
    seconds = time.process_time() - start
    value = None if program.value is None else float(np.asarray(program.value))
    return {"status": status, "seconds": seconds, "value": value}


def _occupancies(mdp: bd.TabularMDP) -> tuple[cp.Variable, list[cp.Constraint | bool]]:
    H, S, A = mdp.successors.shape
    lists = mdp.successors
    K = lists.states.shape[3]
    law = (lists.probabilities[0].ravel(), lists.states[0].ravel(), np.arange(S * A + 1) * K)
    kernel, out = sp.csr_matrix(law, shape=(S * A, S)).T, sp.kron(sp.eye(S), np.ones((1, A)))
    flow = sp.kron(sp.eye(H), out) - sp.kron(sp.eye(H, k=-1), kernel)
    mu = cp.Variable(H * S * A, nonneg=True)
    right = np.zeros(H * S)
    right[:S] = mdp.initial
    return mu, [flow.tocsr() @ mu == right]


def _model(kind: str, start: str, states: int) -> bd.TabularMDP:
    return bd.TabularMDP(MODELS[kind](states), start_law(start, states), HORIZON)


def small() -> dict[str, object]:
    """Grid, 1024 states, certified 1e-4, against Clarabel and SCS."""
    mdp, found = _model("grid", "uniform", 1024), {}
    for kind in ("squared", "entropy", "norm"):
        row = {"ours": ours(kind, mdp, 1e-4, 3), **{s: theirs(kind, mdp, s) for s in ("CLARABEL", "SCS")}}
        found[kind] = row
        print("small", kind, json.dumps(row), flush=True)
    return found


def large() -> dict[str, object]:
    """10 000 states to 1e-3 and 1e-4."""
    found = {}
    for model in ("grid", "random"):
        mdp = _model(model, "uniform", 10_000)
        for kind in ("squared", "entropy", "norm"):
            for gap in (1e-3, 1e-4):
                found[f"{model} {kind} {gap:g}"] = row = ours(kind, mdp, gap, 1)
                print("large", model, kind, gap, json.dumps(row), flush=True)
    return found


def huge() -> dict[str, object]:
    """100 000 states on a grid: entropy to 1e-3."""
    row = ours("entropy", _model("grid", "uniform", 100_000), 1e-3, 1)
    print("huge", json.dumps(row), flush=True)
    return row


def features() -> dict[str, object]:
    """Eight features, four convex constraints, to 1e-4: how many plans."""
    found = {}
    for model in ("grid", "random"):
        for states in (100, 1000, 10_000):
            mdp = _model(model, "uniform", states)
            rng = np.random.default_rng(2)
            signals = bd.features.signals(**{f"s{i}": rng.random((states, 5)) for i in range(8)})
            x = signals.embedding(HORIZON, total=True)
            middle = np.full(8, HORIZON / 2)
            limits = {
                "ball": cp.norm(x - middle) <= 0.15 * HORIZON,
                "first": x.s0 <= 0.48 * HORIZON,
                "spread": cp.max(x) - cp.min(x) <= 0.2 * HORIZON,
                "square": cp.sum_squares(x[4:] - middle[4:]) <= (0.1 * HORIZON) ** 2,
            }
            declared = bd.Problem(cp.Minimize(x.s1 + 2 * x.s2 - x.s3), limits)
            solution = bd.solve(declared, mdp, gap=1e-4, time_limit=100.0)
            found[f"{model} {states}"] = {"status": str(solution.status), "plans": solution.plans}
            print("features", model, states, found[f"{model} {states}"], flush=True)
    return found


SECTIONS = {"small": small, "large": large, "huge": huge, "features": features}


def main() -> None:
    """Run the sections named on the command line, or all, and store what they found."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in sys.argv[1:] or SECTIONS:
        results[name] = SECTIONS[name]()
        results["command"] = "make bench-convex"
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
