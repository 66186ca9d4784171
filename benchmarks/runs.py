"""What storing a run costs: metrics and checkpoints, against the same run without them.

    make bench-runs

One core, CPU time and the clock, 1000 episodes of each task with everything that belongs to them (bounds on the way,
output, evaluation), compiled beforehand. Nine pairs, one run right after the other because a machine is not equally
fast all the time; the ratio is the median over the pairs, and half of them lie between its quartiles. Where the
machine's own variation is larger than what is measured, `share` is the better number: the CPU time spent in the
functions that store, divided by that of everything else. Results go to benchmarks/results/runs.json.
"""

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

if __name__ == "__main__":
    # One core for everything, before any library counts them.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import numpy as np

import bidual as bd
from bidual.cli._explorer_options import find_explorer
from bidual.learning import learn
from bidual.learning.metrics import MetricLog
from bidual.tasks import Task

RESULTS = Path(__file__).parent / "results" / "runs.json"
EPISODES, PAIRS = 1000, 9
_STORING = (
    *((bd.runs.RunWriter, name) for name in ("__init__", "__exit__", "due", "write_checkpoint", "finish")),
    *((MetricLog, name) for name in ("__init__", "record_plans", "record_values", "record_progress")),
    (learn, "facts_of"),
)
CASES = (("riverswim", None), ("riverswim", "paper"), ("media", None), ("rover", None))


def overhead(name: str, dual: str | None) -> dict[str, Any]:
    """Seconds without and with a store."""
    task = bd.tasks.find(name).build()
    plain, stored, storing = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        _seconds(task, dual, None)
        for pair in range(PAIRS):
            plain.append(_seconds(task, dual, None))
            with _watched() as spent:
                stored.append(_seconds(task, dual, bd.runs.Folder(Path(folder) / f"{pair}")))
            storing.append(sum(spent))
    shares = [spent / (cpu - spent) for spent, (cpu, _) in zip(storing, stored, strict=True)]
    cpu, clock = (np.array(stored) / np.array(plain)).T
    row = {
        "task": name,
        "dual": dual or "corrective",
        "cpu_seconds": round(float(np.median(plain, axis=0)[0]), 3),
        "cpu_seconds_stored": round(float(np.median(stored, axis=0)[0]), 3),
        "cpu_ratio": round(float(np.median(cpu)), 3),
        "cpu_ratio_quartiles": [round(float(np.quantile(cpu, q)), 3) for q in (0.25, 0.75)],
        "share": round(float(np.median(shares)), 3),
        "clock_ratio": round(float(np.median(clock)), 3),
    }
    print(row, flush=True)
    return row


@contextmanager
def _watched() -> Iterator[list[float]]:
    """The CPU seconds of every call that stores something, or gathers it for that."""
    spent: list[float] = []

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: object, **kwargs: object) -> object:
            started = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                spent.append(time.process_time() - started)

        return wrapped

    with ExitStack() as patches:
        for owner, name in _STORING:
            patches.enter_context(patch.object(owner, name, timed(getattr(owner, name))))
        yield spent


def _seconds(task: Task, dual: str | None, run: bd.runs.Folder | None) -> tuple[float, float]:
    cpu, clock = time.process_time(), time.perf_counter()
    bd.learn(
        task.problem,
        task.mdp,
        bd.models.Tabular(support=task.mdp),
        episodes=EPISODES,
        explorer=find_explorer(None, dual),
        run=run,
    )
    return time.process_time() - cpu, time.perf_counter() - clock


if __name__ == "__main__":
    rows = [overhead(*case) for case in CASES]
    RESULTS.write_text(
        json.dumps({"command": "make bench-runs", "episodes": EPISODES, "overhead": rows}, indent=1) + "\n"
    )
