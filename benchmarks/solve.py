"""Speed and memory of `bidual.solve` against HiGHS on the occupancy linear program.

    make bench-solve                        everything, about a quarter of an hour
    python -m benchmarks.solve large        only some of: against_highs, large, startup

Maximise a random reward subject to a budget on a random cost, 70 % of what the best policy without a budget would
spend, to a certified gap of 1e-6. Everything runs on one core
and is measured in CPU seconds; compilation is excluded (one solve before the clock starts), declaring the problem in
CVXPY is reported apart. HiGHS is called through SciPy with its default method and with its interior-point method, and
is given 120 seconds; where it does not finish, the ratio is a lower bound and marked ">". Building its matrices is
not counted. Large models run in a process of their own, so that their peak memory is their own.
"""

import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # One core for everything, before any library counts them.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

import bidual as bd
from benchmarks.models import HORIZON, MODELS, start_law

REPEATS, LIMIT, SHARE = 3, 120.0, 0.7
RESULTS = Path(__file__).parent / "results" / "solve.json"


SECTIONS: dict[str, Callable[[], Any]] = {
    "against_highs": lambda: [
        compare(model, start, states)
        for states in (100, 1000)
        for model in MODELS
        for start in ("uniform", "one state")
    ],
    "large": lambda: [in_own_process(model) for model in MODELS],
    "startup": lambda: measure_startup(),
}


def main(sections: list[str]) -> None:
    """Measure some sections (all by default) and leave the others of the stored results as they are."""
    report = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    report |= {
        "command": "make bench-solve",
        "version": bd.__version__,
        "machine": f"{platform.machine()}, {cpu_name()}, Python {platform.python_version()}",
        "problem": "A = 5, K = 5, H = 20, one binding budget, gap 1e-6; CPU seconds, one core, median of 3",
    }
    for section in sections or SECTIONS:
        report[section] = SECTIONS[section]()
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(report, indent=1) + "\n")
    print(f"wrote {RESULTS}")


@dataclass(frozen=True)
class Instance:
    """A model, its two signals and a budget that binds."""

    mdp: bd.TabularMDP
    reward: np.ndarray
    cost: np.ndarray
    budget: float

    def declare(self) -> bd.Problem:
        """The problem in CVXPY."""
        x = self.mdp.embedding(reward=self.reward, cost=self.cost)
        return bd.Problem(cp.Maximize(cp.sum(x.reward)), {"budget": cp.sum(x.cost) <= self.budget})


def instance(model: str, start: str, states: int) -> Instance:
    next_states, probabilities = MODELS[model](states)
    rng = np.random.default_rng(1)
    reward, cost = rng.random((2, states, 5))
    mdp = bd.TabularMDP((next_states, probabilities), start_law(start, states), HORIZON)
    x = mdp.embedding(reward=reward, cost=cost)
    free = bd.solve(bd.Problem(cp.Maximize(cp.sum(x.reward))), mdp)
    return Instance(mdp, reward, cost, SHARE * float(free.embedding[:, 1].sum()))


def compare(model: str, start: str, states: int) -> dict[str, Any]:
    case = instance(model, start, states)
    row, solution = measure_solve(case)
    row = {"model": model, "start": start, "states": states} | row
    for method in ("highs", "highs-ipm"):
        seconds, value = measure_highs(case, method)
        if value is not None:
            assert abs(value - solution.value) <= 1e-5, (value, solution.value)
        row[method] = {"seconds": seconds, "finished": value is not None, "ratio": seconds / row["seconds"]}
    shown = "; ".join(f"{method} {words(row[method])}" for method in ("highs", "highs-ipm"))
    print(
        f"{model}, start {start}, S = {states}: {row['seconds'] * 1e3:.1f} ms, {row['plans']} plans; {shown}",
        flush=True,
    )
    return row


def words(highs: dict[str, Any]) -> str:
    return f"{highs['seconds']:.2f} s = {'' if highs['finished'] else '> '}{highs['ratio']:.0f}x"


def measure_solve(case: Instance) -> tuple[dict[str, Any], bd.Solution]:
    case.declare()  # CVXPY's own first call is slow
    declared = cpu(case.declare)
    problem, mdp = case.declare(), case.mdp
    first = cpu(lambda: bd.solve(problem, mdp))
    # A repeat lasts a fifth of a second at least: solves of milliseconds are timed in batches.
    batch = max(1, round(0.2 / cpu(lambda: bd.solve(problem, mdp))))
    seconds = sorted(cpu(lambda: [bd.solve(problem, mdp) for _ in range(batch)]) / batch for _ in range(REPEATS))
    solution = bd.solve(problem, mdp)
    assert solution.status == "optimal"
    row: dict[str, Any] = {
        "seconds": seconds[REPEATS // 2],
        "all_seconds": seconds,
        "plans": solution.plans,
        "gap": solution.gap,
        "declare_seconds": declared,
        "first_solve_seconds": first,
    }
    return row, solution


def cpu(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def build_program(case: Instance) -> tuple[Any, ...]:
    """Build the occupancy program: costs, flow, right side, the budget's row and limit."""
    mdp = case.mdp
    S, A, K = mdp.successors.states.shape[1:]
    law = (mdp.successors.probabilities.ravel(), mdp.successors.states.ravel(), np.arange(S * A + 1) * K)
    kernel = sp.csr_array(law, shape=(S * A, S))
    blocks: list[list[Any]] = [[None] * HORIZON for _ in range(HORIZON)]
    for h in range(HORIZON):
        blocks[h][h] = sp.kron(sp.eye_array(S), np.ones((1, A)))
        if h:
            blocks[h][h - 1] = -kernel.T
    flow = sp.csc_array(sp.block_array(blocks))
    right = np.append(mdp.initial, np.zeros(S * (HORIZON - 1)))
    return -np.tile(case.reward.ravel(), HORIZON), flow, right, np.tile(case.cost.ravel(), HORIZON), case.budget


def measure_highs(case: Instance, method: str) -> tuple[float, float | None]:
    """Median CPU seconds and the optimum, or the time spent and None."""
    objective, flow, right, row, budget = build_program(case)
    rows = sp.csc_array(row[None])
    seconds, value = [], None
    for _ in range(REPEATS):
        started = time.process_time()
        answer = linprog(
            objective, A_ub=rows, b_ub=[budget], A_eq=flow, b_eq=right, method=method, options={"time_limit": LIMIT}
        )
        seconds.append(time.process_time() - started)
        if answer.status != 0:
            return seconds[-1], None
        value = -answer.fun
    return sorted(seconds)[REPEATS // 2], value


def large(model: str) -> dict[str, Any]:
    """100 000 states: time after compilation, and the peak memory of the whole process."""
    states = 100_000
    row, _ = measure_solve(instance(model, "uniform", states))
    return {"model": model, "states": states, **row, "peak_gb": peak_memory()}


def peak_memory() -> float:
    """Peak resident memory in GB. Not getrusage: a child inherits its parent's peak there."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e9


def in_own_process(model: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.solve", "--alone", model]
    process = subprocess.run(command, check=True, capture_output=True, text=True)
    row = json.loads(process.stdout)
    print(
        f"{model}, S = {row['states']}: {row['seconds']:.2f} s, {row['plans']} plans, {row['peak_gb']:.2f} GB",
        flush=True,
    )
    return row


def measure_startup() -> dict[str, float]:
    """CPU seconds of whole processes, median of three, Python's own start included."""
    commands = {
        "import bidual": [sys.executable, "-c", "import bidual"],
        "import bidual and touch solve, Problem, TabularMDP": [
            sys.executable,
            "-c",
            "import bidual as bd; bd.solve, bd.Problem, bd.TabularMDP",
        ],
        "bidual --help": [sys.executable, "-m", "bidual", "--help"],
        "import cvxpy": [sys.executable, "-c", "import cvxpy"],
        "bidual solve rover": [sys.executable, "-m", "bidual", "solve", "rover"],
    }
    measured = {name: sorted(child_cpu(command) for _ in range(REPEATS))[1] for name, command in commands.items()}
    return measured | {f"first solve, S = {states}": first_solve(states) for states in (100, 1000, 10_000)}


def first_solve(states: int) -> float:
    """CPU seconds of the first solve of a process after its imports, median of three; declaring is not counted."""
    command = [sys.executable, "-m", "benchmarks.solve", "--first", str(states)]
    seconds = [
        float(subprocess.run(command, check=True, capture_output=True, text=True).stdout) for _ in range(REPEATS)
    ]
    return sorted(seconds)[REPEATS // 2]


def solve_first(states: int) -> float:
    """Solve a random graph to a gap of 1e-6, from every state, with a budget of 8.5 where 10 would be spent."""
    next_states, probabilities = MODELS["random"](states)
    reward, cost = np.random.default_rng(1).random((2, states, 5))
    mdp = bd.TabularMDP((next_states, probabilities), start_law("uniform", states), HORIZON)
    problem = Instance(mdp, reward, cost, 8.5).declare()
    solve = bd.solve  # imported here
    return cpu(lambda: solve(problem, mdp, gap=1e-6))


def child_cpu(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def cpu_name() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown CPU")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--alone"]:
        print(json.dumps(large(sys.argv[2])))
    elif sys.argv[1:2] == ["--first"]:
        print(solve_first(int(sys.argv[2])))
    else:
        main(sys.argv[1:])
