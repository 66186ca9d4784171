"""One step of MPPI in a model with random Fourier features, against pytorch-mppi.

    make bench-mppi                          (installs the extra `bench`: torch and pytorch-mppi)

One core, CPU time, single precision. A step is what a controller does when it is asked for a control: draw K sequences
around the rest of the plan before, roll them out for H steps through s' = s + W cos(Omega (s, u) + b) with d = 200
features of n = 4 numbers and m = 1 control, weigh them, and answer. Costs are quadratic. Ours is `Receding.act`; theirs
is `MPPI.command`, eager, with `torch.cos` and one matrix product for all sequences. Ours also colours its noise; `kept`
moreover lets the best sequence so far compete and evaluates the new one, which they do not. The median of many steps is
taken three times over, in turn; the ratio is that of the medians of the three, and `at_least` that of their fastest to
our slowest (from K = 1024 on torch asks the system for new memory at every step, which takes more or less). Both models
are first followed along the same controls, and the largest difference of a state is stored. Results go to
benchmarks/results/mppi.json.
"""

import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # One core for everything, before any library counts them.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import jax
import jax.numpy as jnp
import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from jaxtyping import Array, Float
from pytorch_mppi import MPPI  # pyright: ignore[reportMissingImports]

from bidual.models import Simulated
from bidual.planners.control import Exponential, Receding, Sampling
from bidual.problem.features import computed
from bidual.problem.features._phi import compute_cosine

RESULTS = Path(__file__).parent / "results" / "mppi.json"
REPEATS, STEPS = 3, 30
N, M, D = 4, 1, 200
DEVIATION = 0.5

RNG = np.random.default_rng(0)
OMEGA = RNG.normal(size=(N + M, D)).astype(np.float32)
SHIFT = RNG.uniform(0, 2 * np.pi, D).astype(np.float32)
W = (RNG.normal(size=(N, D)) * 0.1 / np.sqrt(D)).astype(np.float32)


def move(s: Float[Array, "n"], u: Float[Array, "m"]) -> Float[Array, "n"]:
    """The model in JAX."""
    return s + jnp.asarray(W) @ compute_cosine(jnp.concatenate([s, u]) @ jnp.asarray(OMEGA) + jnp.asarray(SHIFT))


def torch_move() -> Callable[[Any, Any], Any]:
    """The model in torch, for all sequences at once."""
    omega, shift, w = (torch.from_numpy(part) for part in (OMEGA, SHIFT, np.ascontiguousarray(W.T)))
    return lambda s, u: s + torch.cos(torch.cat([s, u], dim=1) @ omega + shift) @ w


def ours(K: int, H: int, keep: bool) -> Callable[[np.ndarray], np.ndarray]:
    """A controller of ours that remembers."""
    dynamics = Simulated(-np.ones(M), np.ones(M), np.zeros(N), move)
    features = computed(cost=lambda x, u, y: y @ y + 0.1 * u @ u)
    sampler = Sampling(K, 1, DEVIATION, 0.9, Exponential(), 1.0, 0.0, keep)
    controller = Receding(dynamics, np.ones((10_000, 1)), np.zeros((H, M)), features, sampler)
    memory, h = controller.start(np.random.default_rng(0)), 0

    def act(s: np.ndarray) -> np.ndarray:
        nonlocal memory, h
        u, memory = controller.act(memory, h, s)
        h += 1
        return u

    return act


def theirs(K: int, H: int) -> Callable[[np.ndarray], np.ndarray]:
    """A controller of pytorch-mppi."""

    def cost(s: Any, u: Any) -> Any:  # noqa: ANN401 - tensors
        return (s * s).sum(dim=1) + 0.1 * (u * u).sum(dim=1)

    one = torch.ones(M)
    controller: Any = MPPI(
        torch_move(),
        cost,
        N,
        DEVIATION**2 * torch.eye(M),
        K,
        H,
        lambda_=1.0,
        u_min=-one,
        u_max=one,
        U_init=torch.zeros(H, M),
    )

    def act(s: np.ndarray) -> np.ndarray:
        return controller.command(torch.from_numpy(s)).numpy()

    return act


def agree() -> dict[str, float]:
    """The largest error of the cosine, and the largest difference of the models along the same fifty controls."""
    x = np.linspace(-50, 50, 200_001, dtype=np.float32)
    error = np.abs(np.asarray(jax.jit(compute_cosine)(x)) - np.cos(x.astype(np.float64))).max()
    s, u = jnp.ones(N), np.random.default_rng(1).uniform(-1, 1, (50, M)).astype(np.float32)
    their, step, apart = torch.ones(1, N), torch_move(), 0.0
    for control in u:
        s, their = jax.jit(move)(s, control), step(their, torch.from_numpy(control)[None])
        apart = max(apart, float(np.abs(np.asarray(s) - their[0].numpy()).max()))
    return {"cosine_error": float(error), "models_apart": apart}


def milliseconds(act: Callable[[np.ndarray], np.ndarray]) -> float:
    states = RNG.normal(size=(STEPS, N)).astype(np.float32)
    times = []
    for s in states:
        before = time.process_time()
        act(s)
        times.append(time.process_time() - before)
    return 1e3 * statistics.median(times)


def measured(K: int, H: int) -> dict[str, Any]:
    players = {"bidual": ours(K, H, False), "bidual_kept": ours(K, H, True), "pytorch_mppi": theirs(K, H)}
    for act in players.values():  # compiles, and warms up
        for _ in range(3):
            act(np.zeros(N, dtype=np.float32))
    times: dict[str, list[float]] = {name: [] for name in players}
    for _ in range(REPEATS):
        for name, act in players.items():
            times[name].append(milliseconds(act))
    medians = {name: statistics.median(each) for name, each in times.items()}
    ratios = {name: medians["pytorch_mppi"] / medians[name] for name in ("bidual", "bidual_kept")}
    least = min(times["pytorch_mppi"]) / max(*times["bidual"], *times["bidual_kept"])
    return {"K": K, "H": H, "milliseconds": times, "ratio": ratios, "at_least": least}


def main() -> None:
    torch.set_num_threads(1)
    rows = []
    for K in (256, 512, 1024):
        for H in (30, 50):
            rows.append(measured(K, H))
            shown = {name: round(statistics.median(each), 2) for name, each in rows[-1]["milliseconds"].items()}
            ratios = {name: round(ratio, 2) for name, ratio in rows[-1]["ratio"].items()}
            print(f"K={K} H={H} ms {shown}, ratio {ratios}, at least {rows[-1]['at_least']:.2f}", flush=True)
    versions = {"jax": jax.__version__, "torch": torch.__version__}
    found = {
        "command": "python -m benchmarks.mppi",
        "versions": versions,
        **agree(),
        "n": N,
        "m": M,
        "d": D,
        "rows": rows,
    }
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    with jax.enable_x64(False):
        main()
