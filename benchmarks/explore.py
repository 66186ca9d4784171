"""Ways of exploring and sets of laws: what learning costs, how wide certificates are, and what a plan takes.

    make bench-explore                      everything, about half an hour
    python -m benchmarks.explore regret     only some of: regret, rover, widths, planner, figure

One core, CPU time, one seed unless a table says otherwise. `regret` runs every explorer for 100 000 episodes of
riverswim and evaluates every policy that was run in the true model; `figure` draws what it found. `rover` does so for
the paper's loop on the rover, 10 000 episodes. `widths` learns three models with each set of laws and compares what is
certified. `planner` compares the CPU time of a plan. Results go to benchmarks/results/explore.json.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # One core for everything, before any library counts them.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import cvxpy as cp
import numpy as np

import bidual as bd
from bidual.cli._explorer_options import find_explorer
from bidual.learning.outputs import run_fresh_episodes
from bidual.loop.explorers import AbstractExplorer
from bidual.models import SETS, EnvironmentFacts, Tabular
from bidual.planners import choose_optimistic_planner
from bidual.report._canvas import BLUE, DARK, GREEN, ORANGE, VERMILLION, create_figure
from bidual.tasks import Task
from bidual.world.envs import Simulator
from bidual.world.policies import MarkovPolicy

RESULTS = Path(__file__).parent / "results" / "explore.json"
FIGURE = Path(__file__).parent.parent / "docs" / "images" / "exploration.png"
REPEATS = 3
EPISODES, FIRST, POINTS = 100_000, 5000, 60
EXPLORERS = {  # by their names on the command line: --explorer, --dual
    "alternating": ("alternating", None),
    "optimistic": ("optimistic", None),
    "posterior draws": ("thompson", None),
    "greedy": ("greedy", None),
    "epsilon-greedy": ("epsilon-greedy", None),
    "bonus": ("bonus", None),
    "paper": (None, "paper"),
    "paper, literal": (None, "paper-literal"),
    "follow the leader": (None, "ftl"),
}


def regret() -> list[dict[str, Any]]:
    """Every explorer on riverswim."""
    task = bd.tasks.find("riverswim").build()
    return [_explored(task, name, find_explorer(*words), EPISODES) for name, words in EXPLORERS.items()]


def rover() -> list[dict[str, Any]]:
    """The paper's loop on the rover, whose limit is 0.3; and with a limit that leaves room for optimism."""
    found = []
    for budget in (0.3, 0.2):
        task = bd.tasks.find("rover").build(budget=budget)
        for name in ("paper", "paper, literal"):
            found.append(_explored(task, name, find_explorer(*EXPLORERS[name]), 10_000) | {"budget": budget})
    return found


def _explored(task: Task, name: str, explorer: AbstractExplorer[Any] | None, episodes: int) -> dict[str, Any]:
    started = time.process_time()
    solution = bd.learn(
        task.problem, task.mdp, Tabular(task.mdp), episodes=episodes, explorer=explorer, evaluation=0, seed=0
    )
    seconds = time.process_time() - started
    sums = solution.regret(task.mdp)
    looks = np.unique(np.geomspace(1, episodes, POINTS).astype(np.int64)) - 1
    best = bd.solve(task.problem, task.mdp)
    limit = float(task.problem.lines()[0].bounds[0])
    found = {
        "explorer": name,
        "episodes": episodes,
        "plans": solution.plans,
        "seconds": seconds,
        "optimum": best.value,
        "mixture_value": best.value + (-1 if task.problem.maximises else 1) * float(sums.regret[-1]) / episodes,
        "mixture_cost": limit + float(sums.violation[-1, 0]) / episodes,
        "limit": limit,
        "bound": solution.upper if task.problem.maximises else solution.lower,
        "slopes": sums.slopes(min(FIRST, episodes // 2)),
        "at": (looks + 1).tolist(),
        "series": {key: values[looks].tolist() for key, values in sums.series.items()},
    }
    print({key: value for key, value in found.items() if key not in ("at", "series")}, flush=True)
    return found


def widths() -> list[dict[str, Any]]:
    """What is certified with each set, after 1000 and 10 000 episodes of three models; medians of three seeds."""
    found = []
    worlds = {name: bd.tasks.find(name).build() for name in ("riverswim", "rover")}
    cases: dict[str, tuple[bd.Problem, bd.TabularMDP | Simulator, Tabular]]
    cases = {name: (task.problem, task.mdp, Tabular(task.mdp)) for name, task in worlds.items()}
    cases["random, nothing declared, start unknown"] = _random()
    for name, (problem, env, model) in cases.items():
        for set_ in SETS:
            for episodes in (1000, 10_000):
                runs = [
                    bd.learn(problem, env, _with(model, set_), episodes=episodes, seed=seed) for seed in range(REPEATS)
                ]
                gaps = [run.gap for run in runs if run.gap is not None]
                ends = [run.upper if problem.maximises else run.lower for run in runs]
                bounds = [end for end in ends if end is not None]
                found.append({"model": name, "set": set_, "episodes": episodes, "runs": len(runs)})
                found[-1] |= {"gap": float(np.median(gaps)) if gaps else None, "bound": float(np.median(bounds))}
                print(found[-1], flush=True)
    return found


def _with(model: Tabular, set_: str) -> Tabular:
    return Tabular(model.support, set=set_)


def _random() -> tuple[bd.Problem, Simulator, Tabular]:
    rng = np.random.default_rng(4)
    S, A, H = 8, 3, 8
    mdp = bd.TabularMDP(rng.dirichlet(np.full(S, 0.3), (S, A)), rng.dirichlet(np.ones(S)), H)
    x = mdp.embedding(cost=rng.random((S, A)), paid=rng.random((S, A, S)))
    problem = bd.Problem(cp.Minimize(cp.sum(x.cost)), {"paid": cp.sum(x.paid) >= 0.5 * H})
    return problem, Simulator(mdp, hidden_start=True), Tabular()


def planner() -> list[dict[str, Any]]:
    """Milliseconds per plan with each set, S = 100, A = 5, H = 20; medians of three."""
    found = []
    for declared in (True, False):
        for set_ in SETS:
            times = [_plan_milliseconds(set_, declared=declared, seed=seed) for seed in range(REPEATS)]
            found.append({"set": set_, "declared": declared, "ms_per_plan": float(np.median(times))})
            print(found[-1], flush=True)
    return found


def _plan_milliseconds(set_: str, *, declared: bool, seed: int) -> float:
    rng = np.random.default_rng(seed)
    S, A, K, H = 100, 5, 5, 20
    states = rng.permuted(np.broadcast_to(np.arange(S), (S, A, S)), axis=-1)[..., :K]
    mdp = bd.TabularMDP((states, rng.dirichlet(np.ones(K), (S, A))), np.full(S, 1 / S), H)
    pieces = bd.features.signals(reward=rng.random((S, A)), cost=rng.random((S, A))).pieces((H, S, A))
    model = Tabular(mdp if declared else None, set=set_)
    knowledge = model.start(EnvironmentFacts(pieces, H, mdp.actions, 0.025, np.zeros(S, dtype=bool), mdp.initial))
    anything = MarkovPolicy(np.full((H, S, A), 1 / A))  # 2500 episodes: about a hundred samples of every row
    knowledge = knowledge.update(*run_fresh_episodes(Simulator(mdp), anything, seed, 0, 2500))
    plan, theta = choose_optimistic_planner(knowledge.confidence_set), np.repeat(rng.normal(size=(1, 2)), H, axis=0)
    plan(knowledge.confidence_set, knowledge.layout, theta)  # compiles
    started = time.process_time()
    for _ in range(100):
        plan(knowledge.confidence_set, knowledge.layout, theta)
    return (time.process_time() - started) * 10


def figure() -> None:
    """Regret and violation over the episodes of riverswim, for the explorers that say the most."""
    rows = {row["explorer"]: row for row in json.loads(RESULTS.read_text())["regret"]}
    colours = {"alternating": BLUE, "optimistic": GREEN, "paper": VERMILLION, "paper, literal": ORANGE}
    drawn = create_figure(9.0, 4.0)
    panels = (("regret", "regret of the mixture"), ("positive violation", "violation, positive parts"))
    for axes, (series, title) in zip(drawn.subplots(1, 2), panels, strict=True):
        for name, colour in colours.items():
            row = rows[name]
            sums = np.where(np.array(row["series"][series]) > 0, row["series"][series], np.nan)
            label = f"{name}, slope {row['slopes'][series]:.2f}"
            axes.plot(row["at"], sums, color=colour, linewidth=1.8, label=label)
        t = np.array(rows["paper"]["at"])
        guide = 10 * np.sqrt(t)
        axes.plot(t, guide, color=DARK, linewidth=0.9, linestyle=(0, (6, 3)), label="10 sqrt(episodes)")
        axes.set(xscale="log", yscale="log", xlabel="episodes", title=title)
        axes.grid(alpha=0.25)
        axes.legend(frameon=False, fontsize=8)
    drawn.savefig(FIGURE, dpi=90)
    print(f"wrote {FIGURE.name}")


SECTIONS = {"regret": regret, "rover": rover, "widths": widths, "planner": planner}


def main() -> None:
    """Run the sections named on the command line, or all, and store what they found beside earlier results."""
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in sys.argv[1:] or [*SECTIONS, "figure"]:
        if name == "figure":
            figure()
            continue
        found[name] = SECTIONS[name]()
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
