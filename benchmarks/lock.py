"""The combination lock with rich observations: how many episodes until its policy opens it for certain.

    make bench-lock                           # H = 5, 10, 25: a few minutes
    python -m benchmarks.lock 50 100          # these horizons

Every tenth training episode the certainty-equivalent policy is evaluated on 20 clean episodes of its own; the number is
that of the training episodes when five such evaluations in a row were perfect, the forty after the first of them
included. The learner is told the number of latents (at most) and that noise is Gaussian, and that a reward lies in
[0, 1] at every step: it does not know that only the last one matters. Beside any comparison it must be said that the
lock's emissions are well separated: latents are 14 standard deviations of the noise apart. Results go to
benchmarks/results/lock.json.
"""

import itertools
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

if __name__ == "__main__":
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import cvxpy as cp
import numpy as np

import bidual as bd
from bidual._base.keys import Draw, Purpose
from bidual.learning.outputs import run_fresh_episodes
from bidual.learning.setup import LearnSetup, set_up
from bidual.loop.explorers import AbstractExplorer
from bidual.loop.vpdpo import start_state, vpdpo
from bidual.models import AbstractKnowledge, Latent
from bidual.tasks._lock_env import LockEnv

RESULTS = Path(__file__).parent / "results" / "lock.json"
HORIZONS = (5, 10, 25)
SEEDS = 5
EVERY, CLEAN, ROW = 10, 20, 5


class Opened(NamedTuple):
    """After how many episodes the lock was opened for certain, None for never, and how long that took."""

    episodes: int | None
    seconds: float


def opened(horizon: int, seed: int, model: Latent, most: int, explorer: AbstractExplorer[Any] | None = None) -> Opened:
    """Learn the lock until five evaluations in a row are perfect, or `most` episodes are spent."""
    setting = lock_setting(horizon, seed, model, explorer)
    started, row, spent = time.perf_counter(), 0, 0
    first = start_state(setting.program, setting.explorer, setting.knowledge)
    for turn in itertools.islice(vpdpo(setting.program, setting.env, setting.explorer, first, seed=seed), most):
        if turn.state.episodes % EVERY == 0:
            row = row + 1 if share_opened(setting, turn.state.knowledge, spent) == 1 else 0
            spent += CLEAN
        if row == ROW:
            return Opened(turn.state.episodes, time.perf_counter() - started)
    return Opened(None, time.perf_counter() - started)


def lock_setting(horizon: int, seed: int, model: Latent, explorer: AbstractExplorer[Any] | None) -> LearnSetup:
    """Maximise the reward, of which nothing is known but its bounds at every step."""
    x = bd.features.signals(reward=bd.features.observed(lambda step: step.reward)).embedding(horizon)
    problem = bd.Problem(cp.Maximize(cp.sum(x.reward)))
    return set_up(problem, LockEnv(horizon, seed), model, explorer, delta=0.05, seed=seed)


def share_opened(setting: LearnSetup, knowledge: AbstractKnowledge, first: int) -> float:
    """How many of 20 clean episodes of the policy of the moment open the lock."""
    made = setting.certainty(setting.problem, knowledge, Draw(setting.seed, Purpose.PLAN, 0).generator())
    episodes = run_fresh_episodes(setting.env, made.policy, setting.seed, first, CLEAN)
    return float(np.mean([episode.observed[-1, 0] == 1 for episode in episodes]))


def main(horizons: tuple[int, ...]) -> None:
    """Measure, and keep what was measured at other horizons."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for horizon in horizons:
        runs = [opened(horizon, seed, Latent(3), 20_000) for seed in range(SEEDS)]
        counts = [run.episodes for run in runs]
        found = [np.inf if count is None else count for count in counts]
        median = float(np.median(found))
        results[str(horizon)] = {
            "episodes": counts,
            "median": median if np.isfinite(median) else None,
            "seconds": [round(run.seconds, 1) for run in runs],
        }
        print(f"H = {horizon}: {results[str(horizon)]}", flush=True)
        RESULTS.write_text(json.dumps(dict(sorted(results.items(), key=lambda item: int(item[0]))), indent=1) + "\n")


if __name__ == "__main__":
    main(tuple(int(argument) for argument in sys.argv[1:]) or HORIZONS)
