"""Learning unknown tabular models: values and costs reached, certified gaps, and CPU time.

    make bench-learn                        everything, about an hour
    python -m benchmarks.learn speed        only some of: speed, plans, quality, unknown, certified,
                                            convex, lakes

One core, CPU time. `quality` learns every task with 20 seeds and evaluates the returned policy exactly in the true
model, which the learner never sees; a run counts where value and costs keep their floors at once. `speed` counts
everything that `bd.learn` does after compilation: episodes, plans, bounds on the way, the output and its evaluation.
Results go to benchmarks/results/learn.json.
"""

import json
import os
import sys
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, final

if __name__ == "__main__":
    # One core for everything, before any library counts them.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import cvxpy as cp
import numpy as np

import bidual as bd
from bidual._base.types import Episode
from bidual.learning.setup import set_up
from bidual.loop.vpdpo import start_state, vpdpo
from bidual.models import EnvironmentFacts, Tabular
from bidual.planners import choose_optimistic_planner
from bidual.tasks import Task
from bidual.world.envs import Step, gymnasium_environment
from bidual.world.mdp._toy_text import Transition
from bidual.world.policies import AbstractPolicy, embedding

RESULTS = Path(__file__).parent / "results" / "learn.json"
REPEATS = 3


@final
@dataclass(frozen=True)
class Floor:
    """A task, how long to learn it, and what value and costs count as good."""

    task: str
    episodes: int
    value: float
    costs: tuple[float, ...]


QUALITY = (
    Floor("box", 300, 1.740, (0.102,)),
    Floor("box", 1000, 1.745, (0.102,)),
    Floor("rover", 1000, 1.510, (0.306,)),
    Floor("rover", 3000, 1.525, (0.306,)),
    Floor("media", 1000, 6.87, (5.05,)),
    Floor("riverswim", 1000, 2.79, (15.15,)),
    Floor("rover-two", 1000, 1.49, (0.315, 0.063)),
)
UNKNOWN = (Floor("rover", 1000, 1.505, (0.31,)), Floor("box", 1000, 1.745, (0.102,)))
CERTIFIED = (Floor("rover", 10_000, 1.525, (0.306,)), Floor("box", 10_000, 1.745, (0.102,)))
CONVEX = (Floor("rover-match", 3000, 0.069554 + 0.003, (0.32,)), Floor("rover-entropy", 3000, 4.108622 - 0.02, (0.32,)))


def exact(task: Task, policy: AbstractPolicy) -> tuple[float, list[float]]:
    """The policy's value in the task's own sense and its constraints' left sides, in the true model."""
    psi = task.problem.embedding.features.stage(task.mdp.successors)
    program = task.problem.program()
    expected = embedding(task.mdp, psi, policy)
    f, g = program.at(expected)
    sides = [float((line.bounds + line.sign * row)[0]) for line, row in zip(task.problem.lines(), g, strict=True)]
    return (-f if task.problem.maximises else f), sides


def declared(task: Task, *, unknown: bool = False) -> Tabular:
    """The successor lists of a task, or nothing but the states that it never leaves."""
    if not unknown:
        return Tabular(task.mdp)
    lists = task.mdp.successors
    own = np.arange(lists.shape[1])[:, None, None]
    stays = np.sum(lists.probabilities[0] * (lists.states[0] == own), axis=-1)
    return Tabular(absorbing=np.flatnonzero(np.where(lists.allowed, stays, 1.0).min(axis=1) >= 1))


def good(task: Task, floor: Floor, value: float, costs: list[float]) -> bool:
    """Whether value and costs keep their floors at once."""
    reached = value >= floor.value if task.problem.maximises else value <= floor.value
    return reached and all(cost <= limit for cost, limit in zip(costs, floor.costs, strict=True))


def runs(floor: Floor, seeds: int, *, unknown: bool = False) -> dict[str, Any]:
    task = bd.tasks.find(floor.task).build()
    rows = []
    for seed in range(seeds):
        started = time.process_time()
        solution = bd.learn(task.problem, task.mdp, declared(task, unknown=unknown), episodes=floor.episodes, seed=seed)
        value, costs = exact(task, solution.policy)
        true = all(cost <= c.limit + 1e-9 for cost, c in zip(costs, solution.constraints, strict=True))
        rows.append(
            {
                "seed": seed,
                "value": value,
                "costs": costs,
                "good": good(task, floor, value, costs),
                "gap": solution.gap,
                "lower": solution.lower,
                "upper": solution.upper,
                "status": str(solution.status),
                "truly_feasible": true,
                "seconds": time.process_time() - started,
            }
        )
    values, costs = [row["value"] for row in rows], np.array([row["costs"] for row in rows])
    gaps = [row["gap"] for row in rows if row["gap"] is not None]
    found = {
        "task": floor.task,
        "episodes": floor.episodes,
        "floor": floor.value,
        "limits": list(floor.costs),
        "good": sum(row["good"] for row in rows),
        "runs": len(rows),
        "median_value": float(np.median(values)),
        "worst_value": float(min(values) if task.problem.maximises else max(values)),
        "median_costs": np.median(costs, axis=0).tolist(),
        "worst_costs": costs.max(axis=0).tolist(),
        "gaps": gaps,
        "rows": rows,
    }
    print(
        f"{floor.task} {floor.episodes}: {found['good']} of {len(rows)} good, value {found['median_value']:.4f} (worst "
        f"{found['worst_value']:.4f}), costs {np.round(found['median_costs'], 4)} (worst "
        f"{np.round(found['worst_costs'], 4)}), gap {np.median(gaps) if gaps else float('nan'):.4f}",
        flush=True,
    )
    return found


def speed() -> list[dict[str, Any]]:
    """Milliseconds per episode over 10 000 of them, after compilation."""
    results = []
    for name in ("rover", "riverswim"):
        task = bd.tasks.find(name).build()
        bd.learn(task.problem, task.mdp, declared(task), episodes=64, evaluation=3333)  # compiles
        seconds = []
        for seed in range(REPEATS):
            started = time.process_time()
            bd.learn(task.problem, task.mdp, declared(task), episodes=10_000, seed=seed)
            seconds.append(time.process_time() - started)
        loops = [_loop_seconds(task, seed) for seed in range(REPEATS)]
        results.append(
            {
                "task": name,
                "ms_per_episode": float(np.median(seconds)) / 10,
                "ms_per_episode_without_bounds_and_output": float(np.median(loops)) / 10,
            }
        )
        print(results[-1], flush=True)
    return results


def _loop_seconds(task: Task, seed: int) -> float:
    setting = set_up(task.problem, task.mdp, declared(task), None, delta=0.05, seed=seed)
    start = start_state(setting.program, setting.explorer, setting.knowledge)
    started = time.process_time()
    for _ in islice(vpdpo(setting.program, setting.env, setting.explorer, start, seed=seed), 10_000):
        pass
    return time.process_time() - started


def plans() -> list[dict[str, Any]]:
    """Milliseconds per optimistic plan: 5 actions, 5 declared successors, 1 to 200 samples of every row."""
    results = []
    for states, horizon in ((20, 10), (100, 20), (400, 50)):
        milliseconds = [_plan_milliseconds(states, horizon, seed) for seed in range(REPEATS)]
        results.append({"states": states, "horizon": horizon, "ms_per_plan": float(np.median(milliseconds))})
        print(results[-1], flush=True)
    return results


def _plan_milliseconds(S: int, H: int, seed: int) -> float:
    rng = np.random.default_rng(seed)
    states = rng.permuted(np.broadcast_to(np.arange(S), (S, 5, S)), axis=-1)[..., :5]
    law = rng.dirichlet(np.ones(5), (S, 5))
    mdp = bd.TabularMDP((states, law), np.full(S, 1 / S), H)
    pieces = bd.features.signals(reward=rng.random((S, 5)), cost=rng.random((S, 5))).pieces((H, S, 5))
    knowledge = Tabular(mdp).start(
        EnvironmentFacts(pieces, H, mdp.actions, 0.025, np.zeros(S, dtype=bool), mdp.initial)
    )
    for s in range(S):
        for a in range(5):
            arrivals = rng.choice(states[s, a], rng.integers(1, 200), p=law[s, a])
            path = np.repeat(s, arrivals.size + 1)
            for arrival in arrivals:
                path[1] = arrival
                step = Episode(path[:2].copy(), np.array([a]), np.zeros((1, 0)))
                knowledge = knowledge.update(step)
    planner, theta = choose_optimistic_planner(knowledge.confidence_set), np.repeat(rng.normal(size=(1, 2)), H, axis=0)
    planner(knowledge.confidence_set, knowledge.layout, theta)  # compiles
    count = 200 if S < 400 else 20
    started = time.process_time()
    for _ in range(count):
        planner(knowledge.confidence_set, knowledge.layout, theta)
    return (time.process_time() - started) / count * 1e3


def lakes() -> list[dict[str, Any]]:
    """Frozen lakes through Gymnasium's API alone, with nothing declared but that signals come at the end."""
    return [lake("4x4", 50, 3000, REPEATS), lake("8x8", 100, 3000, REPEATS)]


def lake(size: str, horizon: int, episodes: int, seeds: int) -> dict[str, Any]:
    """The probabilities of the goal and of a hole, which may be 0.1, against the best in the environment's table."""

    def goal(step: Step | Transition) -> float:
        return step.reward

    def hole(step: Step | Transition) -> float:
        return float(step.terminated and step.reward == 0)

    options = {"map_name": size}
    mdp = bd.TabularMDP.from_gymnasium("FrozenLake-v1", horizon, **options)
    y = mdp.embedding(goal=goal, holes=hole)
    best = bd.solve(bd.Problem(cp.Maximize(cp.sum(y.goal)), {"holes": cp.sum(y.holes) <= 0.1}), mdp)
    # On the large lake one step from a cell beside the goal can end in it or in a hole: noisy, given where it ends.
    seen = [bd.features.observed(function, noisy=size == "8x8", at_end=True) for function in (goal, hole)]
    x = bd.features.signals(goal=seen[0], holes=seen[1]).embedding(horizon)
    problem = bd.Problem(cp.Maximize(cp.sum(x.goal)), {"holes": cp.sum(x.holes) <= 0.1})
    rows = []
    for seed in range(seeds):
        started = time.process_time()
        env = gymnasium_environment("FrozenLake-v1", horizon, options=options)
        solution = bd.learn(problem, env, episodes=episodes, seed=seed)
        reached, drowned = embedding(mdp, y.features.stage(mdp.successors), solution.policy).sum(axis=0).tolist()
        rows.append({"seed": seed, "goal": reached, "hole": drowned, "upper": solution.upper, "lower": solution.lower})
        rows[-1] |= {"status": str(solution.status), "seconds": time.process_time() - started}
        print(size, rows[-1], flush=True)
    return {"lake": size, "horizon": horizon, "episodes": episodes, "best": best.value, "rows": rows}


SECTIONS = {
    "speed": speed,
    "plans": plans,
    "quality": lambda: [runs(floor, 20) for floor in QUALITY],
    "unknown": lambda: [runs(floor, 10, unknown=True) for floor in UNKNOWN],
    "certified": lambda: [runs(floor, 10) for floor in CERTIFIED],
    "convex": lambda: [runs(floor, 5) for floor in CONVEX],
    "lakes": lakes,
}


def main() -> None:
    """Run the sections named on the command line, or all, and store what they found beside earlier results."""
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in sys.argv[1:] or list(SECTIONS):
        found[name] = SECTIONS[name]()
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
