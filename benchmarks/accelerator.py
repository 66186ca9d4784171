"""The sampling planner on an accelerator, by the same code as on the processor.

    python -m benchmarks.accelerator         (with a JAX that has one; writes benchmarks/results/accelerator.json)

A plan of 50 steps with MPPI, 8 rounds of K sequences, in dynamics that were learned with 200 random Fourier features (4
state variables, 1 control), in the estimate and with hallucinated controls (rank 32). Time on the clock, with all cores
that the machine has for the processor's part, since that is the choice a user has; the median of several plans, three
times over, in turn. Both must find plans of about the same cost: they draw the same noise, in single precision.
"""

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.regulators import learned
from bidual.models import Stage
from bidual.planners.control import ControlSequence, Hallucinated, Mean, Regulator, mppi
from bidual.problem.features import computed

RESULTS = Path(__file__).parent / "results" / "accelerator.json"
REPEATS, PLANS, ROUNDS, HORIZON = 3, 5, 8, 50
SAMPLES = (256, 1024, 4096, 16384)
STAGE = Stage(computed(cost=lambda x, u, y: y @ y + 0.1 * u @ u), HORIZON, np.full((1, 4), 0.5))


def planned(device: Any, K: int, optimism: Mean | Hallucinated) -> Callable[[], ControlSequence]:  # noqa: ANN401 - of JAX
    """A plan on a device, which waits for its answer."""
    (dynamics,) = optimism(learned(20), np.random.default_rng(0))
    regulator = Regulator(mppi(K, ROUNDS))

    def plan() -> ControlSequence:
        with jax.default_device(device):
            return regulator.search(dynamics, STAGE, np.ones((HORIZON, 1)))

    return plan


def measured(devices: dict[str, Any], K: int, optimism: Mean | Hallucinated) -> dict[str, Any]:
    """Milliseconds of a plan on every device, ratios in the same repeat, and what the plans cost."""
    plans = {name: planned(device, K, optimism) for name, device in devices.items()}
    costs = {name: plan().cost for name, plan in plans.items()}  # compiles as well
    times: dict[str, list[float]] = {name: [] for name in plans}
    for _ in range(REPEATS):
        for name, plan in plans.items():
            taken = []
            for _ in range(PLANS):
                started = time.perf_counter()
                plan()
                taken.append(1e3 * (time.perf_counter() - started))
            times[name].append(statistics.median(taken))
    ratios = [slow / fast for slow, fast in zip(*times.values(), strict=True)]
    return {
        "samples": K,
        "ms": {name: np.round(each, 2).tolist() for name, each in times.items()},
        "ratio": np.round(ratios, 2).tolist(),
        "cost": {name: round(cost, 4) for name, cost in costs.items()},
    }


def main() -> None:
    """Measure, print and store."""
    try:
        accelerator = jax.devices("gpu")[0]
    except RuntimeError:
        sys.exit("no accelerator is here: JAX sees " + ", ".join(str(device) for device in jax.devices()))
    devices = {"cpu": jax.devices("cpu")[0], "gpu": accelerator}
    ways = {"mean": Mean(), "hallucinated": Hallucinated(0.01)}
    rows = {name: [measured(devices, K, way) for K in SAMPLES] for name, way in ways.items()}
    machine = {"accelerator": accelerator.device_kind, "cores": os.cpu_count(), "jax": jax.__version__}
    told = {"command": "python -m benchmarks.accelerator", "machine": machine, **rows}
    RESULTS.write_text(json.dumps(told, indent=1) + "\n")
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
