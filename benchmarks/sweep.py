"""A sweep on two processes against one: seconds on the clock for the whole command.

    python -m benchmarks.sweep              the rover, 8 seeds of 10 000 episodes, three times each; ten minutes
    python -m benchmarks.sweep 30 2         so many episodes and seeds, once each, to see that it works; stores nothing

Needs two cores and a machine that does nothing else. Everything counts: starting, importing, compiling in every
process, checkpoints, the report. Every process computes with one thread. One and two processes take turns, and the
results of all sweeps must be the same to the bit. Results go to benchmarks/results/sweep.json.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "sweep.json"
TASK, EPISODES, SEEDS, REPEATS = "rover", 10_000, 8, 3
SPEC = 'tasks = "{task}"\nepisodes = {episodes}\nseeds = {seeds}\n'


def swept(spec: Path, out: Path, workers: int) -> tuple[float, list[dict[str, Any]]]:
    """Seconds of the command, and the results of its cells without theirs."""
    command = [
        sys.executable,
        "-m",
        "bidual",
        "sweep",
        str(spec),
        "--workers",
        str(workers),
        "--out",
        str(out),
        "--json",
    ]
    started = time.perf_counter()
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    seconds = time.perf_counter() - started
    return seconds, [cell["result"] | {"seconds": None} for cell in json.loads(done.stdout)["cells"]]


def compared(episodes: int, seeds: int, repeats: int) -> dict[str, Any]:
    """Both ways in turns."""
    times: dict[int, list[float]] = {1: [], 2: []}
    reference = None
    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder) / "bench.toml"
        spec.write_text(SPEC.format(task=TASK, episodes=episodes, seeds=seeds))
        for repeat in range(repeats):
            for workers, seconds in times.items():
                taken, results = swept(spec, Path(folder) / f"{repeat}-{workers}", workers)
                seconds.append(taken)
                reference = reference or results
                assert results == reference, "the same cells have given other results"
                print(f"{workers} processes: {taken:.1f} s", flush=True)
    ratios = [one / two for one, two in zip(times[1], times[2], strict=True)]
    return {
        "command": "python -m benchmarks.sweep",
        "task": TASK,
        "episodes": episodes,
        "cells": seeds,
        "cores": len(os.sched_getaffinity(0)),
        "seconds_with_1_process": times[1],
        "seconds_with_2_processes": times[2],
        "ratios": ratios,
        "median_ratio": statistics.median(ratios),
    }


def main() -> None:
    """Measure and store; with other sizes, measure once and print."""
    if len(sys.argv) > 1:
        print(json.dumps(compared(int(sys.argv[1]), int(sys.argv[2]), 1), indent=1))
        return
    found = compared(EPISODES, SEEDS, REPEATS)
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    print(f"{found['median_ratio']:.2f} times as fast with two processes; wrote {RESULTS.name}")


if __name__ == "__main__":
    main()
