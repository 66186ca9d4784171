"""Planners, executions and optimisms on every task of controls: what each reaches, with the law known and learned.

    python -m benchmarks.control [known] [learned] [default] [long] [budgets] [figure]     (two hours on two cores)

* known: search x execution, planning in the true law, four seeds. What a plan is worth are four paths of that law, 64
  where it is noisy. Of MuJoCo's cart only 200 of its 1000 steps.
* learned: optimism, with the task's own search and execution: means of the last third of a run, two seeds.
* default: the same for explorers that know nothing of the task, with its model: the library's default, and an explicit
  law for every episode. The default was chosen on seeds 100 and 101.
* long: the cart and the acrobot for 100 episodes, four seeds, and the same planner in the true law, eight seeds.
* budgets: a run for every limit of effort: what the second half of its episodes earns and spends.
* figure: draws the stored budgets (docs/images/control-budgets.png).

All values are to be read as earned: costs have a minus. Results go to benchmarks/results/control.json, row by row: what
is stored there already is not made again, so that a run that was cut goes on where it was. Nothing is timed against
anything; CPU seconds are there to plan with.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

if __name__ in {"__main__", "__mp_main__"}:
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import gymnasium
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

import bidual as bd
from bidual._base.keys import Draw, Purpose
from bidual.learning.setup import set_up
from bidual.loop.explorers import Controls, Riccati
from bidual.loop.vpdpo import start_state, vpdpo
from bidual.models import Simulated, Stage
from bidual.planners.control import (
    AbstractExecution,
    AbstractOptimism,
    AbstractSearch,
    Chain,
    Descent,
    Feedback,
    Hallucinated,
    Mean,
    Mpc,
    Regulator,
    Thompson,
    icem,
)
from bidual.problem.features import Computed
from bidual.report._canvas import BLUE, GREEN, VERMILLION, create_figure
from bidual.tasks import Task, acrobot, cartpole, inverted_pendulum, mountain_car, pointmass
from bidual.tasks._control_laws import DENSE, SPARSE, step_integrator, step_observed_pendulum, step_point_mass

RESULTS = Path(__file__).parent / "results" / "control.json"
FIGURE = Path(__file__).parents[1] / "docs" / "images" / "control-budgets.png"
Row = dict[str, Any]
Job = tuple[Callable[..., Row], Row]  # what makes a row, and the names that tell it from others


class Known(NamedTuple):
    """The true law of a task, the deviation of its noise, and what a unit of each signal earns."""

    law: Callable[[Any, Any], Any]
    earns: tuple[float, ...]
    deviation: float = 0.0


LAWS = {
    "lqr": Known(step_integrator, (-1.0, -0.1), 0.1),
    "pointmass": Known(partial(step_point_mass, xp=jnp), (-1 / 30,), pointmass.NOISE),
    "pendulum": Known(partial(step_observed_pendulum, DENSE, xp=jnp), (-1.0, -0.001)),
    "pendulum-sparse": Known(partial(step_observed_pendulum, SPARSE, xp=jnp), (1.0, -0.1)),
    "mountain-car": Known(mountain_car.LAW, (1.0,)),
    "cartpole": Known(cartpole.LAW, (1.0,)),
    "acrobot": Known(acrobot.LAW, (1.0,)),
    "inverted-pendulum": Known(inverted_pendulum.LAW, (1.0, -1.0, -0.001)),
}
SEARCHES: dict[str, AbstractSearch] = {
    "icem": icem(128, 5, deviation=1.0),
    "icem, descent": Chain(icem(128, 5, deviation=1.0), Descent(2)),
    "descent": Descent(10),
}
EXECUTIONS: dict[str, AbstractExecution] = {
    "feedback": Feedback(),
    "shrinking, every 5": Mpc(5),
    "shrinking, every 20": Mpc(20),
    "100 ahead, every 5": Mpc(5, 100),
    "50 ahead, every 5": Mpc(5, 50),
    "25 ahead, every 1": Mpc(1, 25),
}
OPTIMISMS: dict[str, AbstractOptimism] = {
    "mean": Mean(),
    "thompson 1": Thompson(),
    "hallucinated 0.1": Hallucinated(0.1),
}
EXPLORERS = {
    "default": Controls(),
    "feedback": Controls(Thompson(), icem(256, 8), Feedback(), rollouts=32),
}
EPISODES = {
    "lqr": 10,
    "pointmass": 24,
    "pendulum": 12,
    "pendulum-sparse": 12,
    "mountain-car": 15,
    "cartpole": 15,
    "acrobot": 15,
    "inverted-pendulum": 9,
}
KNOWN_HORIZONS = {"inverted-pendulum": 200}
LONG = {"cartpole": 100, "acrobot": 100}
BUDGETS = {
    "pendulum-effort": (48, (40.0, 70.0, 100.0, 130.0, 160.0)),
    "mountain-car-effort": (48, (30.0, 45.0, 60.0, 90.0, 120.0)),
    "cartpole-effort": (48, (0.3, 0.6, 1.0, 1.5, 2.0)),
    "inverted-pendulum-effort": (16, (0.003, 0.01, 0.03, 0.1)),
    "acrobot-effort": (50, (50.0, 80.0, 110.0)),
}


@cache
def built(name: str, horizon: int | None = None) -> Task:
    """The task, once in a process: what is compiled for it serves all seeds."""
    build = bd.tasks.find(name).build
    return build() if horizon is None else build(horizon=horizon)


def suited(task: Task) -> Controls:
    """The task's own explorer that plans by sampling."""
    explorer = task.explorer.otherwise if isinstance(task.explorer, Riccati) else task.explorer
    assert isinstance(explorer, Controls)
    return explorer


def worth(name: str, search: AbstractSearch, execution: AbstractExecution, seed: int) -> float:
    """What a plan earns where the law is known, from states that episodes of the environment begin in."""
    known, task = LAWS[name], built(name, KNOWN_HORIZONS.get(name))
    paths = 64 if known.deviation else 4  # noise needs more of them
    embedding = task.problem.embedding
    env: Any = gymnasium.make(task.env).unwrapped if isinstance(task.env, str) else task.env
    space, n = env.action_space, env.observation_space.shape[0]
    law = Simulated(space.low, space.high, np.full(n, known.deviation), known.law)
    starts = np.stack([env.reset(seed=1000 * seed + i)[0] for i in range(paths)]).astype(np.float64)
    theta = np.zeros((embedding.horizon, embedding.size))
    theta[:, : len(known.earns)] = -np.array(known.earns)
    planner = Regulator(search, execution, paths, Draw(seed, Purpose.PLAN, 0))
    assert isinstance(embedding.features, Computed)
    return -planner(law, Stage(embedding.features, embedding.horizon, starts), theta).value


def run(task: Task, explorer: Controls, episodes: int, seed: int) -> Float[np.ndarray, "K p"]:
    """The sums of signals of every episode of a run."""
    setting = set_up(task.problem, task.env, task.model, explorer, delta=0.05, seed=seed)
    first = start_state(setting.program, setting.explorer, setting.knowledge)
    turns = vpdpo(setting.program, setting.env, setting.explorer, first, seed=seed)
    return np.array([next(turns).episodes[0].observed.sum(axis=0) for _ in range(episodes)])


def earned(name: str, sums: Float[np.ndarray, "K p"]) -> Float[np.ndarray, "K"]:
    """Of every episode."""
    earns = LAWS[name].earns
    return sums[:, : len(earns)] @ np.array(earns)


def known_row(task: str, search: str, execution: str) -> Row:
    """A planner on a task whose law it knows, in four seeds."""
    values, seconds = [], 0.0
    for seed in range(4):
        started = time.process_time()
        values.append(worth(task, SEARCHES[search], EXECUTIONS[execution], seed))
        seconds = time.process_time() - started  # that of the first seed compiles
    return {"earned": _round(values), "cpu_s": round(seconds, 2)}


def learned_row(task: str, optimism: str) -> Row:
    """An optimism on a task, in two seeds."""
    return late(task, replace(suited(built(task)), optimism=OPTIMISMS[optimism]))


def default_row(task: str, explorer: str) -> Row:
    """An explorer that knows nothing of the task, in two seeds."""
    return late(task, EXPLORERS[explorer])


def late(name: str, explorer: Controls) -> Row:
    """What the last third of a run earns, in two seeds, and the CPU time of a run."""
    values, episodes, started = [], EPISODES[name], time.process_time()
    for seed in range(2):
        sums = run(built(name), explorer, episodes, seed)
        values.append(earned(name, sums)[-(episodes // 3) :].mean())
    seconds = (time.process_time() - started) / 2
    return {"earned": _round(values), "cpu_s": round(seconds, 1)}


def long_row(task: str, seed: int | str) -> Row:
    """A long run with the task's own explorer; or its planner where the law is known, in eight seeds."""
    explorer = suited(built(task))
    if not isinstance(seed, int):
        return {"earned": _round(worth(task, explorer.sampler, explorer.execution, i) for i in range(8))}
    values = earned(task, run(built(task), explorer, LONG[task], seed))
    return {"last_25": round(float(values[-25:].mean()), 2), "earned": _round(values)}


def budget_row(task: str, budget: float, seed: int, episodes: int) -> Row:
    """A run within a limit of effort: means of its second half. Effort is the last signal of all these tasks."""
    limited = bd.tasks.find(task).build(budget=budget)
    sums = run(limited, suited(limited), episodes, seed)[episodes // 2 :]
    values = earned(task.removesuffix("-effort"), np.c_[sums[:, :-1], np.zeros(len(sums))])
    return {"earned": round(float(values.mean()), 2), "effort": round(float(sums[:, -1].mean()), 3)}


def jobs(part: str) -> list[Job]:
    """What a part consists of; the longest first."""
    if part == "known":
        return [
            (known_row, {"task": task, "search": search, "execution": execution})
            for task in reversed(LAWS)
            for search in SEARCHES
            for execution in EXECUTIONS
        ]
    if part == "learned":
        return [(learned_row, {"task": t, "optimism": optimism}) for t in reversed(EPISODES) for optimism in OPTIMISMS]
    if part == "default":
        return [(default_row, {"task": t, "explorer": explorer}) for t in reversed(EPISODES) for explorer in EXPLORERS]
    if part == "long":
        return [(long_row, {"task": t, "seed": seed}) for t in reversed(LONG) for seed in (0, 1, 2, 3, "law known")]
    if part == "budgets":
        return [
            (budget_row, {"task": task, "budget": budget, "seed": 0, "episodes": episodes})
            for task, (episodes, budgets) in reversed(BUDGETS.items())
            for budget in budgets
        ]
    sys.exit(f"there is no part {part!r}: known, learned, default, long, budgets and figure")


def main(parts: Iterable[str]) -> None:
    """Measure, print and store, part by part and row by row."""
    results: dict[str, Any] = {"command": "python -m benchmarks.control"}
    if RESULTS.exists():
        results = json.loads(RESULTS.read_text())
    for part in parts:
        if part == "figure":
            draw(results["budgets"])
            continue
        stored, asked = results.get(part, []), jobs(part)
        rows = [next((row for row in stored if names.items() <= row.items()), None) for _, names in asked]
        with ProcessPoolExecutor(os.cpu_count(), get_context("spawn"), max_tasks_per_child=12) as pool:
            missing = [place for place, row in enumerate(rows) if row is None]
            futures = {pool.submit(asked[place][0], **asked[place][1]): place for place in missing}
            for future in as_completed(futures):
                place = futures[future]
                rows[place] = asked[place][1] | future.result()
                print(json.dumps(rows[place]), flush=True)
                results[part] = [row for row in rows if row is not None]
                RESULTS.write_text(_lines(results))


def draw(rows: list[dict[str, Any]]) -> None:
    """A column for every task: what is earned within a limit above, what is spent below."""
    names = list(BUDGETS)
    figure = create_figure(2.5 * len(names), 4.6)
    panels = figure.subplots(2, len(names), sharex="col")
    for name, (top, bottom) in zip(names, panels.T, strict=True):
        limit, gain, effort = np.array([[r["budget"], r["earned"], r["effort"]] for r in rows if r["task"] == name]).T
        top.plot(limit, gain, "o-", color=BLUE)
        bottom.plot(limit, effort, "o-", color=GREEN, label="spent")
        bottom.plot(limit, limit, ":", color=VERMILLION, label="limit")
        top.set_title(name.removesuffix("-effort"), fontsize=10)
        bottom.set_xlabel("limit of effort")
        if limit.max() / limit.min() > 20:
            bottom.set_xscale("log")
            bottom.set_yscale("log")
    panels[0, 0].set_ylabel("earned")
    panels[1, 0].set_ylabel("effort")
    panels[1, 0].legend(frameon=False, fontsize=9)
    for axes in panels.flat:
        axes.grid(alpha=0.25)
    figure.savefig(FIGURE, dpi=90)


def _round(values: Iterable[float]) -> list[float]:
    return [round(float(value), 2) for value in values]


def _lines(results: dict[str, Any]) -> str:
    """A row is a line."""
    parts = []
    for name, part in results.items():
        rows = part if isinstance(part, str) else None
        text = json.dumps(rows) if rows else "[\n  " + ",\n  ".join(json.dumps(row) for row in part) + "\n ]"
        parts.append(f' "{name}": {text}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    main(sys.argv[1:] or ("known", "learned", "default", "long", "budgets", "figure"))
