"""Speed of `bidual.solve` beside the strongest method of each rival, in one run.

    make bench-rivals                        everything, about ten minutes
    python -m benchmarks.rivals programs     only some of: storm, large, constraints, programs, free

One core, CPU seconds; compilation, declaring, and the building of matrices are counted on no side, and neither is what
a rival would still need for a policy and a proof. Gaps are certified to 1e-6, absolute; Storm is asked for as much.
Runs take turns, and medians are compared: Storm's CPU time varies threefold on one instance.

* storm, large: one budget, 100 to 10 000 states and 100 000, five runs each.
* constraints: five budgets, one run of Storm.
* programs: the occupancy program over 100 states by the interior point of HiGHS (without crossover), its PDLP, and
  Clarabel, 30 seconds each; and by how much the policy in what they return breaks the budget.
* free: without a budget, beside ten lines of SciPy and beside QuantEcon.
"""

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # One core for everything, before any library counts them.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import cvxpy as cp
import highspy  # pyright: ignore[reportMissingImports]
import numpy as np
import quantecon.markov as qe  # pyright: ignore[reportMissingImports]
import scipy.sparse as sp

import bidual as bd
from benchmarks.models import HORIZON, MODELS
from benchmarks.solve import Instance, build_program, cpu_name, instance
from benchmarks.storm import StormQuery

RUNS, LIMIT, GAP = 5, 30.0, 1e-6
RESULTS = Path(__file__).parent / "results" / "rivals.json"
STARTS = ("uniform", "one state")


def main(sections: list[str]) -> None:
    """Measure some sections (all by default) and leave the others of the stored results as they are."""
    report = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    report |= {
        "command": "make bench-rivals",
        "version": bd.__version__,
        "machine": f"{platform.machine()}, {cpu_name()}, Python {platform.python_version()}",
        "problem": "A = 5, K = 5, H = 20, gap 1e-6; CPU seconds, one core, medians of five runs in turn",
    }
    for section in sections or SECTIONS:
        report[section] = []
        for case in SECTIONS[section]():
            report[section].append(case())
            RESULTS.write_text(json.dumps(report, indent=1) + "\n")
    print(f"wrote {RESULTS}")


def cpu(work: Callable[[], Any]) -> tuple[float, Any]:
    started = time.process_time()
    answer = work()
    return time.process_time() - started, answer


def take_turns(works: dict[str, Callable[[], Any]], runs: int = RUNS) -> tuple[dict[str, Any], dict[str, Any]]:
    """CPU seconds of every work in turn, each after one that does not count, and their answers."""
    batches: dict[str, int] = {}
    answers: dict[str, Any] = {}
    for name, work in works.items():
        work()
        batches[name] = max(1, round(0.1 / max(cpu(work)[0], 1e-6)))  # a run lasts a tenth of a second at least
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(runs):
        for name, work in works.items():
            spent, answers[name] = cpu(lambda work=work, n=batches[name]: [work() for _ in range(n)][-1])
            seconds[name].append(spent / batches[name])
    return {name: {"median": statistics.median(all_), "all": all_} for name, all_ in seconds.items()}, answers


def against_storm(model: str, start: str, states: int) -> dict[str, Any]:
    case = instance(model, start, states)
    problem = case.declare()
    storm = StormQuery(case.mdp, case.reward, {"cost": case.cost}, [case.budget])
    times, found = take_turns({"bidual": lambda: bd.solve(problem, case.mdp, gap=GAP), "storm": storm})
    assert found["bidual"].status == "optimal"
    assert abs(found["storm"] - found["bidual"].value) <= 3 * GAP, (found["storm"], found["bidual"].value)
    ratio = times["storm"]["median"] / times["bidual"]["median"]
    row = {"model": model, "start": start, "states": states, **times, "ratio": ratio, "plans": found["bidual"].plans}
    print(f"{model}, {start}, S = {states}: {words(times)}, {ratio:.1f}x, {row['plans']} plans", flush=True)
    return row


def words(times: dict[str, Any]) -> str:
    return ", ".join(f"{name} {1e3 * one['median']:.2f} ms" for name, one in times.items())


def with_five_budgets() -> dict[str, Any]:
    case = instance("random", "uniform", 1000)
    rng = np.random.default_rng(2)
    costs: dict[str, Any] = {f"cost{i}": rng.random(case.cost.shape) for i in range(5)}
    x = case.mdp.embedding(reward=case.reward, **costs)
    free: Any = bd.solve(bd.Problem(cp.Maximize(cp.sum(x.reward))), case.mdp)
    limits = [0.9 * float(free.totals[name]) for name in costs]
    problem = bd.Problem(
        cp.Maximize(cp.sum(x.reward)),
        {name: cp.sum(getattr(x, name)) <= limit for name, limit in zip(costs, limits, strict=True)},
    )
    times, found = take_turns({"bidual": lambda: bd.solve(problem, case.mdp, gap=GAP)})
    storm = StormQuery(case.mdp, case.reward, costs, limits)
    seconds, value = cpu(storm)
    times["storm"] = {"median": seconds, "all": [seconds]}
    row = {"model": "random", "start": "uniform", "states": 1000, "budgets": 5, **times}
    row |= {"ratio": seconds / times["bidual"]["median"], "difference": abs(value - found["bidual"].value)}
    print(f"five budgets: {words(times)}, {row['ratio']:.0f}x, values differ by {row['difference']:.1e}", flush=True)
    return row


def against_programs(model: str, start: str, states: int) -> dict[str, Any]:
    case = instance(model, start, states)
    problem = case.declare()
    times, found = take_turns({"bidual": lambda: bd.solve(problem, case.mdp, gap=GAP)})
    optimum, ours = found["bidual"].value, times["bidual"]["median"]
    row: dict[str, Any] = {"model": model, "start": start, "states": states, **times}
    program = build_program(case)
    for name, solver in (("highs-ipx", "ipx"), ("highs-pdlp", "pdlp"), ("clarabel", None)):
        seconds, x = cpu(lambda s=solver: by_clarabel(program) if s is None else by_highs(program, s))
        row[name] = {"seconds": seconds, "finished": x is not None, "ratio": seconds / ours}
        if x is not None:
            value, cost = evaluate(case, x)
            row[name] |= {"violation": max(0.0, cost - case.budget), "error": value - optimum}
        print(f"{model}, {start}, S = {states}: {name} {row[name]}", flush=True)
    return row


def by_highs(program: tuple[Any, ...], solver: str) -> np.ndarray | None:
    cost, flow, right, row, budget = program
    matrix = sp.csc_array(sp.vstack([flow, row[None]]))
    lp: Any = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = cost.size, right.size + 1
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = cost, np.zeros(cost.size), np.full(cost.size, highspy.kHighsInf)
    lp.row_lower_, lp.row_upper_ = np.append(right, -highspy.kHighsInf), np.append(right, budget)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = matrix.indptr, matrix.indices, matrix.data
    highs: Any = highspy.Highs()
    for name, value in (("output_flag", False), ("solver", solver), ("run_crossover", "off"), ("threads", 1)):
        highs.setOptionValue(name, value)
    highs.setOptionValue("time_limit", LIMIT)
    highs.passModel(lp)
    highs.run()
    if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    return np.array(highs.getSolution().col_value)


def by_clarabel(program: tuple[Any, ...]) -> np.ndarray | None:
    clarabel, (cost, flow, right, row, budget) = import_module("clarabel"), program
    n = cost.size
    A = sp.csc_matrix(sp.vstack([flow, row[None], -sp.eye_array(n)]))
    b = np.concatenate([right, [budget], np.zeros(n)])
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.time_limit = False, LIMIT
    cones = [clarabel.ZeroConeT(right.size), clarabel.NonnegativeConeT(n + 1)]
    answer = clarabel.DefaultSolver(sp.csc_matrix((n, n)), cost, A, b, cones, settings).solve()
    return np.array(answer.x) if str(answer.status) == "Solved" else None


def evaluate(case: Instance, x: np.ndarray) -> tuple[float, float]:
    """Evaluate the policy in what a solver returns: its reward and its cost."""
    S, A = case.mdp.num_states, case.mdp.num_actions
    occupancy = np.maximum(x, 0.0).reshape(HORIZON, S, A)
    lists, mu, totals = case.mdp.successors, case.mdp.initial, np.zeros(2)
    for row in occupancy:
        mass = row.sum(axis=1, keepdims=True)
        flow = mu[:, None] * np.where(mass > 0, row / np.where(mass > 0, mass, 1.0), 1.0 / A)
        totals += [np.vdot(case.reward, flow), np.vdot(case.cost, flow)]
        mu = np.bincount(lists.states[0].ravel(), (flow[..., None] * lists.probabilities[0]).ravel(), S)
    return float(totals[0]), float(totals[1])


def without_budget(model: str, states: int) -> dict[str, Any]:
    case = instance(model, "uniform", states)
    mdp, reward = case.mdp, case.reward
    S, A, K = mdp.successors.states.shape[1:]
    law = (mdp.successors.probabilities.ravel(), mdp.successors.states.ravel(), np.arange(S * A + 1) * K)
    kernel = sp.csr_array(law, shape=(S * A, S))
    pairs = np.indices((S, A)).reshape(2, -1)
    decisions = qe.DiscreteDP(reward.ravel(), sp.csr_matrix(kernel), 1.0, *pairs)

    def ten_lines() -> float:
        V, actions = np.zeros(S), []
        for _ in range(HORIZON):
            Q = reward + (kernel @ V).reshape(S, A)
            actions.append(Q.argmax(axis=1))
            V = Q[np.arange(S), actions[-1]]
        return float(mdp.initial @ V)

    x = mdp.embedding(reward=reward)
    problem = bd.Problem(cp.Maximize(cp.sum(x.reward)))
    works = {
        "bidual": lambda: bd.solve(problem, mdp, gap=GAP).value,
        "scipy": ten_lines,
        "quantecon": lambda: float(mdp.initial @ qe.backward_induction(decisions, HORIZON)[0][0]),
    }
    times, found = take_turns(works)
    assert max(found.values()) - min(found.values()) <= 1e-9, found
    ratios = {name: times["bidual"]["median"] / times[name]["median"] for name in ("scipy", "quantecon")}
    print(f"{model}, S = {states}, no budget: {words(times)}", flush=True)
    return {"model": model, "states": states, **times, "slower_than": ratios}


SECTIONS: dict[str, Callable[[], list[Callable[[], dict[str, Any]]]]] = {
    "storm": lambda: [
        lambda m=model, b=start, s=states: against_storm(m, b, s)
        for states in (100, 1000, 10_000)
        for model in MODELS
        for start in STARTS
    ],
    "large": lambda: [lambda m=model, b=start: against_storm(m, b, 100_000) for model in MODELS for start in STARTS],
    "constraints": lambda: [with_five_budgets],
    "programs": lambda: [lambda m=model, b=start: against_programs(m, b, 100) for model in MODELS for start in STARTS],
    "free": lambda: [lambda m=model, s=states: without_budget(m, s) for states in (1000, 10_000) for model in MODELS],
}

if __name__ == "__main__":
    main(sys.argv[1:])
