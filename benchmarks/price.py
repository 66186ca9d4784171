"""The cost of a price curve, in cold solves.

    make bench-price

Twenty limits between the tightest that can be kept and the one that costs nothing, with the achievable range and the
optimum without the limit, against one solve of the same problem from scratch; both to a certified gap of 1e-6. The
models are those of the solve benchmark at S = 1000 with one budget, and the rover. CPU seconds on one core; short
solves are timed in batches; compilation and the declaration in CVXPY are excluded from both (a warm-up of each).
"""

import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # One core for everything, before any library counts them.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import bidual as bd
from benchmarks.solve import cpu_name, instance

REPEATS, STATES, POINTS, TARGET = 3, 1000, 20, 4.0
RESULTS = Path(__file__).parent / "results" / "price.json"
CASES = (("rover", ""), ("random", "uniform"), ("random", "one state"), ("grid", "uniform"), ("grid", "one state"))


def main() -> None:
    """Measure every case and store the results."""
    report = {
        "command": "make bench-price",
        "version": bd.__version__,
        "machine": f"{platform.machine()}, {cpu_name()}, Python {platform.python_version()}",
        "problem": f"{POINTS} limits, S = {STATES}, one budget, gap 1e-6; CPU seconds, one core, medians of {REPEATS}",
        "target_ratio": TARGET,
        "cases": [measure(*case) for case in CASES],
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(report, indent=1) + "\n")
    print(f"wrote {RESULTS.relative_to(Path.cwd())}")


def measure(model: str, start: str) -> dict[str, Any]:
    problem, mdp = declare(model, start)
    solution, curve = bd.solve(problem, mdp), bd.price(problem, mdp, points=POINTS)  # compiles everything
    assert solution.status == "optimal"
    assert all(status == "optimal" for status in curve.statuses)
    solves, curves = [], []
    for _ in range(REPEATS):  # in turns, so that a busy machine slows both
        solves.append(seconds(lambda: bd.solve(problem, mdp)))
        curves.append(seconds(lambda: bd.price(problem, mdp, points=POINTS)))
    solve, price = sorted(solves)[REPEATS // 2], sorted(curves)[REPEATS // 2]
    row = {
        "model": model,
        "start": start,
        "states": mdp.num_states,
        "solve_seconds": solve,
        "all_solve_seconds": solves,
        "solve_plans": solution.plans,
        "curve_seconds": price,
        "all_curve_seconds": curves,
        "curve_plans": curve.total_plans,
        "ratio": price / solve,
    }
    print(
        f"{model} {start}: solve {solve * 1e3:.1f} ms, {solution.plans} plans; "
        f"curve {price * 1e3:.1f} ms, {curve.total_plans} plans; {price / solve:.2f} solves",
        flush=True,
    )
    return row


def declare(model: str, start: str) -> tuple[bd.Problem, bd.TabularMDP]:
    if model == "rover":
        task = bd.tasks.find("rover").build()
        return task.problem, task.mdp
    case = instance(model, start, STATES)
    return case.declare(), case.mdp


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of one call, from a batch that lasts half a second."""
    batch = max(1, round(0.5 / cpu(work)))
    return cpu(lambda: [work() for _ in range(batch)]) / batch


def cpu(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


if __name__ == "__main__":
    main()
