"""What learned dynamics cost: cosines, and rollouts with and without optimism.

python -m benchmarks.regulators [cosine] [hallucinated]       writes benchmarks/results/regulators.json

* cosine: 512 x 200 numbers, ours against `jnp.cos`.
* hallucinated: a batch of 512 rollouts of 30 steps, with 200 random Fourier features, 4 state variables and 1 control,
  in dynamics that extras displace (outer ellipsoids of several ranks), against the estimate alone; and by how much
  these ellipsoids overestimate sigma, on what was seen and elsewhere, as a run goes on.

CPU time of one thread. The machine is shared, so a time is the least of many, in turns, three times over; ratios are of
times in the same turn.
"""

import json
import os
import sys
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
from jaxtyping import Array, Float

from bidual.models import Ellipsoid, LearnedDynamics, Regressed, compute_posterior, find_outer_ellipsoid, start_moments
from bidual.planners.control import AbstractOptimism, Bonus, Hallucinated, Mean
from bidual.problem.features import compute_features, fourier
from bidual.problem.features._phi import compute_cosine

RESULTS = Path(__file__).parent / "results" / "regulators.json"
REPEATS, CALLS = 3, 40
SAMPLES, HORIZON, FEATURES, N, M = 512, 30, 200, 4, 1
RANKS = (None, 64, 32, 16)
STEPS, RIDGE = 100, 0.01


def cosines() -> dict[str, Any]:
    """Microseconds for one sample of 512 x 200 phases."""
    x = jnp.asarray(np.random.default_rng(0).normal(size=(SAMPLES, FEATURES)) * 5, dtype=jnp.float32)

    def often(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
        return jax.jit(lambda x: jax.lax.fori_loop(0, 20, lambda _, y: function(y) + x, x))

    ours, theirs = often(compute_cosine), often(jnp.cos)
    times = 1e6 / 20 * _times({"ours": lambda: ours(x), "jnp.cos": lambda: theirs(x)})
    ours_us, theirs_us = times.T
    ratios = theirs_us / ours_us
    return {
        "us": ours_us.round(1).tolist(),
        "jnp_cos_us": theirs_us.round(1).tolist(),
        "ratio": ratios.round(1).tolist(),
    }


def hallucinated() -> dict[str, Any]:
    """Milliseconds of a batch of rollouts, and ratios of sigma."""
    known, rng = learned(20), np.random.default_rng(0)
    ways: dict[str, AbstractOptimism] = {
        "mean": Mean(),
        "bonus, rank 64": Bonus(1.0, 64),
        **{f"rank {rank or 'full'}": Hallucinated(0.01, rank) for rank in RANKS},
    }
    start, controls, extras, noise = (
        jnp.asarray(rng.normal(size=size), dtype=jnp.float32)
        for size in ((N,), (HORIZON, SAMPLES, M), (HORIZON, SAMPLES, N), (HORIZON, SAMPLES, N))
    )

    def call(optimism: AbstractOptimism) -> Callable[[], object]:
        (dynamics,) = optimism(known, rng)
        dynamics = jax.device_put(dynamics)
        e = extras[:, :, : dynamics.sizes[2]]
        return lambda: rollouts(dynamics, start, controls, e, noise)

    times = 1e3 * _times({name: call(way) for name, way in ways.items()})
    rows = {
        name: {"ms": times[:, i].round(2).tolist(), "ratio": (times[:, i] / times[:, 0]).round(2).tolist()}
        for i, name in enumerate(ways)
    }
    return {"rollouts": rows, "sigma": [overestimates(episodes) for episodes in (2, 5, 10, 20, 50)]}


@jax.jit
def rollouts(
    dynamics: Regressed,
    start: Float[Array, "n"],
    controls: Float[Array, "H k m"],
    extras: Float[Array, "H k e"],
    noise: Float[Array, "H k n"],
) -> Float[Array, "k"]:
    """What all samples pay: squares of states and controls, less the bonus."""

    def step(
        carried: tuple[Float[Array, "k n"], Float[Array, "k"]], now: tuple[Array, Array, Array]
    ) -> tuple[tuple[Array, Array], None]:
        s, paid = carried
        following, bonus = jax.vmap(dynamics.step)(s, *now)
        return (following, paid + jnp.sum(s * s, axis=1) + jnp.sum(now[0] * now[0], axis=1) - bonus), None

    first = jnp.tile(start, (controls.shape[1], 1)), jnp.zeros(controls.shape[1])
    (_, paid), _ = jax.lax.scan(step, first, (controls, extras, noise))
    return paid


def learned(episodes: int) -> LearnedDynamics:
    """What is known of a cart with a pole after so many episodes of random pushes."""
    s, u, following = _pushes(episodes, seed=0)
    phi = fourier(FEATURES, bandwidth=4.5).build_map(N, M)
    moments = start_moments(N, FEATURES).add(compute_features(phi, s, u), following - s)
    box = np.full(N, -10.0), np.full(N, 10.0)
    return LearnedDynamics(compute_posterior(moments, RIDGE, 0.01), phi, box, (np.full(M, -3.0), np.full(M, 3.0)))


def overestimates(episodes: int) -> dict[str, Any]:
    """The mean of sigma over the exact one, on what was seen and on harder pushes."""
    known = learned(episodes)
    places = {"seen": _pushes(episodes, seed=0), "elsewhere": _pushes(5, seed=1, strength=2.0)}
    row: dict[str, Any] = {"episodes": episodes, "directions": round(_directions(known), 1)}
    for where, (s, u, _) in places.items():
        phi = compute_features(known.phi, s, u)
        exact = known.posterior.sigma(phi)
        for rank in RANKS[1:]:
            outer = _sigma(find_outer_ellipsoid(known.posterior, rank), phi)
            row[f"{where}, rank {rank}"] = round(float(np.mean(outer / exact)), 3)
    print(row, flush=True)
    return row


def _sigma(ellipsoid: Ellipsoid, phi: Float[np.ndarray, "k d"]) -> Float[np.ndarray, "k"]:
    return np.asarray(jax.vmap(ellipsoid.sigma)(jnp.asarray(phi, dtype=jnp.float32)))


def _directions(known: LearnedDynamics) -> float:
    """tr(F'F Lambda^-1): of how many directions something is known."""
    values, _ = known.posterior.spectrum
    return float(np.sum(1 - known.posterior.ridge / values))


def _pushes(
    episodes: int, seed: int, strength: float = 1.0
) -> tuple[Float[np.ndarray, "k n"], Float[np.ndarray, "k m"], Float[np.ndarray, "k n"]]:
    """A cart and a hanging pole, pushed by noise that is correlated in time: position, speed, sine, angular speed."""
    rng, rows = np.random.default_rng(seed), []
    for _ in range(episodes):
        s, u = np.array([0.0, 0.0, np.pi, 0.0]) + 0.1 * rng.normal(size=4), 0.0
        for _ in range(STEPS):
            u = 0.9 * u + 0.9 * strength * rng.normal()
            push = strength * np.clip(u, -3, 3)
            _, speed, angle, turn = s
            force = push - 0.1 * speed
            slope = np.array([speed, force, turn, 9.8 * np.sin(angle) + force * np.cos(angle) - 0.1 * turn])
            following = np.clip(s + 0.05 * slope, -10, 10)
            rows.append((_shown(s), [push], _shown(following)))
            s = following
    states, controls, followers = zip(*rows, strict=True)
    return np.array(states), np.array(controls), np.array(followers)


def _shown(s: Float[np.ndarray, "4"]) -> Float[np.ndarray, "4"]:
    return np.array([s[0], s[1], np.sin(s[2]), s[3]])


def _times(calls: dict[str, Callable[[], object]]) -> Float[np.ndarray, "repeats calls"]:
    """The least CPU seconds of each, called in turn."""
    for call in calls.values():
        jax.block_until_ready(call())
    times = np.array([_least(calls) for _ in range(REPEATS)])
    print(dict(zip(calls, (times * 1e3).round(3).T.tolist(), strict=True)), flush=True)
    return times


def _least(calls: dict[str, Callable[[], object]]) -> list[float]:
    taken = np.array([[_seconds(call) for call in calls.values()] for _ in range(CALLS)])
    return taken.min(axis=0).tolist()


def _seconds(call: Callable[[], object]) -> float:
    started = time.process_time()
    jax.block_until_ready(call())
    return time.process_time() - started


PARTS = {"cosine": cosines, "hallucinated": hallucinated}

if __name__ == "__main__":
    report = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for part in sys.argv[1:] or PARTS:
        report |= {"command": "make bench-regulators", part: PARTS[part]()}
    RESULTS.write_text(json.dumps(report, indent=1) + "\n")
