"""Convex problems over visits: certified gap against CPU time, and against cone solvers on the occupancy program.

    make bench-convex                       everything, about half an hour
    python -m benchmarks.convex large       only some of: small, large, huge, growth, features, rover

One core, CPU time, H = 20, A = 5, K = 5. The first solve of a problem compiles; it is reported on its own (`first`),
`seconds` is the median of three later ones. CVXPY's own compilation is part of the cone solvers' time; they are given
400 seconds. Results go to benchmarks/results/convex.json; `python -m benchmarks.growth` draws those of `growth`.
"""

import json
import os
import statistics
import sys
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple, final

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
from bidual.models import Known, Layout
from bidual.planners import AbstractSoftPlanner, BackwardInduction, Plan
from bidual.tasks.rover import build_rover_world
from bidual.tasks.rover_spread import rover_entropy

RESULTS = Path(__file__).parent / "results" / "convex.json"
LIMIT = 400.0  # seconds for another solver
REPEATS = 3
KINDS = ("squared", "entropy", "norm", "tight norm")


@final
@dataclass(frozen=True, eq=False)
class Counting(AbstractSoftPlanner[Known]):
    """Backward induction that counts its passes."""

    planner: BackwardInduction = field(default_factory=BackwardInduction)
    hard: list[None] = field(default_factory=list)
    softened: list[None] = field(default_factory=list)

    def __call__(self, model: Known, psi: Layout, theta: np.ndarray) -> Plan:
        """A hard pass."""
        self.hard.append(None)
        return self.planner(model, psi, theta)

    def soft(self, model: Known, psi: Layout, theta: np.ndarray) -> Plan:
        """A soft pass."""
        self.softened.append(None)
        return self.planner.soft(model, psi, theta)

    def occupancy(self, model: Known, psi: Layout, plan: Plan) -> np.ndarray:
        """A soft policy made again for the output; not part of the search."""
        return self.planner.occupancy(model, psi, plan)


class Data(NamedTuple):
    """Random costs and targets with a fixed seed."""

    cost: np.ndarray
    target: np.ndarray


@cache
def data(mdp: bd.TabularMDP) -> Data:
    """What the families over this model are made of."""
    rng = np.random.default_rng(1)
    return Data(rng.random(mdp.num_states), rng.dirichlet(np.ones(mdp.num_states)))


@cache
def _cheapest(mdp: bd.TabularMDP) -> tuple[float, np.ndarray]:
    """The least cost and the law of the policy that pays it; not the solution, which would stay in memory."""
    x = mdp.embedding(total=True, cost=data(mdp).cost)
    found = bd.solve(bd.Problem(cp.Minimize(x.cost)), mdp)
    return found.value, found.visits.mean(axis=0)


def _budget(mdp: bd.TabularMDP) -> float:
    """A quarter of the way from the least possible cost to half a unit per step."""
    least, _ = _cheapest(mdp)
    return least + 0.25 * (HORIZON * 0.5 - least)


@cache
def _radius(mdp: bd.TabularMDP) -> float:
    """Halfway between the least possible distance from the target and that of the cheapest policy."""
    x = mdp.embedding(total=True, visits=True)
    distance = mdp.num_states * cp.sum_squares(x.visits / HORIZON - data(mdp).target)
    nearest = bd.solve(bd.Problem(cp.Minimize(distance)), mdp, gap=0.1, relative=True, max_plans=200)
    laws = nearest.visits.mean(axis=0), _cheapest(mdp)[1]
    return float(sum(np.linalg.norm(law - data(mdp).target) for law in laws)) / 2


def family(
    kind: str, mdp: bd.TabularMDP, law: cp.Expression, paid: cp.Expression
) -> tuple[cp.Minimize | cp.Maximize, list[cp.Constraint]]:
    """Objective and constraints in terms of the time-averaged visits and the cost."""
    far, S = law - data(mdp).target, mdp.num_states
    uniform = float(np.linalg.norm(1 / S - data(mdp).target))
    return {
        "squared": lambda: (cp.Minimize(S * cp.sum_squares(far)), [paid <= _budget(mdp)]),
        "entropy": lambda: (cp.Maximize(cp.sum(cp.entr(law))), [paid <= _budget(mdp)]),
        "norm": lambda: (cp.Minimize(paid), [cp.norm(far) <= _radius(mdp)]),
        "tight norm": lambda: (cp.Minimize(paid), [cp.norm(far) <= uniform]),
    }[kind]()


def problem(kind: str, mdp: bd.TabularMDP) -> bd.Problem:
    """A family over the embedding."""
    x = mdp.embedding(total=True, visits=True, cost=data(mdp).cost)
    objective, limits = family(kind, mdp, x.visits / HORIZON, x.cost)
    return bd.Problem(objective, limits)


def ours(kind: str, mdp: bd.TabularMDP, gap: float) -> dict[str, object]:
    """CPU seconds to a certified relative gap."""
    return measure(problem(kind, mdp), mdp, gap)


def measure(declared: bd.Problem, mdp: bd.TabularMDP, gap: float) -> dict[str, object]:
    """CPU seconds of one solve that compiles and of three that do not, passes, bounds and memory."""
    counting, times, memory = Counting(), [], 0.0
    solution = None
    for repeat in range(REPEATS + 1):
        counting = Counting()
        start = time.process_time()
        solution = bd.solve(declared, mdp, gap=gap, relative=True, time_limit=200.0, planner=counting)
        times.append(time.process_time() - start)
        memory = _peak() if repeat == 0 else memory
    assert solution is not None
    bounds = (solution.lower, solution.upper)
    return {
        "status": str(solution.status),
        "first": times[0],
        "seconds": statistics.median(times[1:]),
        "all_seconds": times[1:],
        "hard": len(counting.hard),
        "soft": len(counting.softened),
        "value": solution.value,
        "relative_gap": None if solution.gap is None else solution.gap / max(abs(b) for b in bounds if b is not None),
        "peak_gb_one_solve": memory,
    }


def _peak() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1e6


def theirs(kind: str, mdp: bd.TabularMDP, solver: str) -> dict[str, object]:
    """CPU seconds of CVXPY with a cone solver on the occupancy program."""
    _, law, rows = _occupancies(mdp)
    objective, limits = family(kind, mdp, law, HORIZON * (data(mdp).cost @ law))
    return _by_cones(cp.Problem(objective, [*limits, *rows]), solver)


def _by_cones(program: cp.Problem, solver: str) -> dict[str, object]:
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


def _occupancies(mdp: bd.TabularMDP) -> tuple[cp.Variable, cp.Expression, list[cp.Constraint]]:
    """The occupancies, the time-averaged visits as an expression of them, and what they must satisfy."""
    H, S, A = mdp.horizon, mdp.num_states, mdp.num_actions
    lists = mdp.successors
    K = lists.states.shape[3]
    law = (lists.probabilities[0].ravel(), lists.states[0].ravel(), np.arange(S * A + 1) * K)
    kernel, out = sp.csr_matrix(law, shape=(S * A, S)).T, sp.kron(sp.eye(S), np.ones((1, A)))
    flow = sp.kron(sp.eye(H), out) - sp.kron(sp.eye(H, k=-1), kernel)
    mu = cp.Variable(H * S * A, nonneg=True)
    right = np.zeros(H * S)
    right[:S] = mdp.initial
    flows = flow.tocsr() @ mu == right
    assert isinstance(flows, cp.Constraint)
    visits = cp.Constant(sp.kron(sp.csr_matrix(np.ones((1, H))), out)) @ mu
    return mu, visits / H, [flows]


def _model(kind: str, start: str, states: int) -> bd.TabularMDP:
    return bd.TabularMDP(MODELS[kind](states), start_law(start, states), HORIZON)


def small() -> dict[str, object]:
    """Grid, 1024 states, certified 1e-4, against Clarabel and SCS."""
    mdp, found = _model("grid", "uniform", 1024), {}
    for kind in KINDS:
        row = {"ours": ours(kind, mdp, 1e-4), **{s: theirs(kind, mdp, s) for s in ("CLARABEL", "SCS")}}
        found[kind] = row
        print("small", kind, json.dumps(row), flush=True)
    return found


def large() -> dict[str, object]:
    """10 000 states to 1e-3 and 1e-4."""
    found = {}
    for model in ("grid", "random"):
        mdp = _model(model, "uniform", 10_000)
        for kind in KINDS:
            for gap in (1e-3, 1e-4):
                found[f"{model} {kind} {gap:g}"] = row = ours(kind, mdp, gap)
                print("large", model, kind, gap, json.dumps(row), flush=True)
    return found


def huge() -> dict[str, object]:
    """100 000 states on a grid: entropy to 1e-3. Peak memory means something only in a process of its own."""
    row = ours("entropy", _model("grid", "uniform", 100_000), 1e-3)
    print("huge", json.dumps(row), flush=True)
    return row


def growth() -> dict[str, object]:
    """Passes and seconds to 1e-3 against the number of states, and the powers of S that fit them."""
    found: dict[str, object] = {}
    for model in ("grid", "random"):
        for kind in KINDS[:3]:
            rows = []
            for states in (256, 1024, 4096, 16_384):
                row = {"states": states, **ours(kind, _model(model, "uniform", states), 1e-3)}
                rows.append(row)
                print("growth", model, kind, json.dumps(row), flush=True)
            passes = [float(row["hard"]) + float(row["soft"]) for row in rows]  # pyright: ignore[reportArgumentType]
            sizes = [row["states"] for row in rows]
            found[f"{model} {kind}"] = {
                "rows": rows,
                "power_of_passes": _power(sizes, passes),
                "power_of_seconds": _power(sizes[2:], [row["seconds"] for row in rows[2:]]),
            }
    return found


def _power(sizes: list[object], numbers: list[object] | list[float]) -> float:
    """The slope of a straight line through the logarithms."""
    x, y = (np.log(np.array(values, dtype=float)) for values in (sizes, numbers))
    return float(np.polyfit(x, y, 1)[0])


def rover() -> dict[str, object]:
    """The rover's most entropy with a pit budget, to 1e-4, against CVXPY and Clarabel on its occupancy program."""
    task = rover_entropy()
    mdp, _, _, cost = build_rover_world(0.1, task.mdp.horizon)
    mu, law, rows = _occupancies(mdp)
    states, chances = mdp.successors.states[0], mdp.successors.probabilities[0]
    expected = np.sum(chances * np.take_along_axis(cost, states, axis=2), axis=2)
    pits = np.tile(expected.ravel(), mdp.horizon) @ mu <= 0.3
    row: dict[str, object] = {
        "ours": measure(task.problem, task.mdp, 1e-4),
        "CLARABEL": _by_cones(cp.Problem(cp.Maximize(cp.sum(cp.entr(law))), [pits, *rows]), "CLARABEL"),
    }
    print("rover", json.dumps(row), flush=True)
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


SECTIONS = {"small": small, "large": large, "huge": huge, "growth": growth, "features": features, "rover": rover}


def main() -> None:
    """Run the sections named on the command line, or all, and store what they found."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in sys.argv[1:] or SECTIONS:
        results[name] = SECTIONS[name]()
        results["command"] = "make bench-convex"
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
