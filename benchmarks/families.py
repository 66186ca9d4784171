"""Every example of the paper in every family of models, learned by the default loop and by the paper's.

    python -m benchmarks.families            # all cells that are not stored yet
    python -m benchmarks.families tabular    # one family anew

Six examples (plain RL, a constrained MDP, several objectives, feasibility, apprenticeship, entropy) in three families
(counted states, a finite low-rank class, controls of vectors), by two loops. Each cell is one seed. For finite models
value and violation are exact, of the returned policy or, for the paper's loop, of the mixture of its plans, and the
optimum is that of the known model. For controls they are means of episodes, and the optimum comes from Riccati's
recursion; of the entropy of vectors only a bound is known. Results go to benchmarks/results/families.json, from which
docs/examples.md has its table.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
from scipy.optimize import minimize_scalar

import bidual as bd
from bidual.tasks.lqr import FORCE, SPEED_COST, exact

RESULTS = Path(__file__).parent / "results" / "families.json"
EXAMPLES = ("plain RL", "constrained", "multi-objective", "feasibility", "apprenticeship", "entropy")
FAMILIES = ("tabular", "low-rank", "KNR")
LOOPS = ("default", "paper")
EPISODES = {"tabular": (2000, 2000), "low-rank": (600, 600), "KNR": (60, 120)}  # by the default loop and the paper's
# What a cell may be above its optimum, in units of its objective, and over a limit: see docs/examples.md.
ALLOWED = {
    ("tabular", "default"): (0.2, 0.01),
    ("tabular", "paper"): (0.1, 0.2),
    ("low-rank", "default"): (0.02, 0.01),
    ("low-rank", "paper"): (0.1, 0.2),
    ("KNR", "default"): (0.8, 0.3),
    ("KNR", "paper"): (6.0, 1.5),
}

S, A, H = 5, 2, 6
RNG = np.random.default_rng(7)
PHI, MU = RNG.dirichlet(np.ones(3), (S, A)), RNG.dirichlet(0.4 * np.ones(S), 3)
MDP = bd.TabularMDP(PHI @ MU, 0, H)
REWARD, COST = RNG.random((2, S, A))
STEPS = 20  # of the double integrator


class Cell(NamedTuple):
    """What was found: the objective, minimised, its optimum, and by how much constraints are broken."""

    value: float
    optimum: float
    violation: float
    episodes: float
    seconds: float

    @property
    def distance(self) -> float:
        """How far the value is above the optimum."""
        return self.value - self.optimum


def finite_problem(example: str) -> bd.Problem:
    """Return an example over the five states."""
    signals, problems = {"reward": REWARD, "cost": COST}, bd.problems
    match example:
        case "plain RL":
            return problems.constrained(MDP, REWARD)
        case "constrained":
            return problems.constrained(MDP, REWARD, {"limit": (COST, 2.95)})
        case "multi-objective":
            wish = np.array([4.5, 1.5])
            return problems.multi_objective(MDP, lambda y: cp.norm(y - wish), lambda y: y[1] - 2.95, **signals)
        case "feasibility":
            return problems.feasibility(MDP, problems.hull([[4.5, 1.5], [4.5, 2.5], [3.5, 1.5]]), **signals)
        case "apprenticeship":
            return problems.apprenticeship(MDP, [4.2, 2.0], **signals)
        case _:
            return problems.max_entropy(MDP)


def candidates() -> bd.models.LowRank:
    """Return a class of eight features and eight measures, the true ones among them."""
    rng = np.random.default_rng(8)
    phis = [PHI, *(0.7 * PHI + 0.3 * rng.dirichlet(np.ones(3), (S, A)) for _ in range(7))]
    mus = [MU, *(0.7 * MU + 0.3 * rng.dirichlet(np.ones(S), 3) for _ in range(7))]
    return bd.models.LowRank(phis, mus)


def run_finite(family: str, example: str, loop: str, episodes: int, seed: int = 0) -> Cell:
    """Learn an example over counts or over the class, and evaluate what is returned in the true model."""
    problem, model = finite_problem(example), candidates() if family == "low-rank" else bd.models.Tabular()
    explorer = bd.explorers.PrimalDual(choose_dual(example)) if loop == "paper" else None
    started = time.process_time()
    found = bd.learn(problem, MDP, model, episodes=episodes, explorer=explorer, seed=seed)
    seconds = time.process_time() - started
    policy = found.policy if loop == "default" else found.mixture
    psi, program = problem.embedding.features.stage(MDP.successors), problem.program()
    f, g = program.at(embed(policy, psi))
    best = bd.solve(problem, MDP)
    optimum = -best.value if problem.maximises else best.value
    return Cell(f, optimum, float(program.violations(g).max(initial=0.0)), found.episodes, seconds)


def embed(policy: Any, psi: Any) -> np.ndarray:  # noqa: ANN401 - a table or a mixture of tables
    """Return the true embedding of a policy, of a mixture the mean over its members."""
    if isinstance(policy, bd.policies.Mixture):
        each = np.stack([embed(member, psi) for member in policy.members])
        return np.tensordot(policy.weights, each, axes=1)
    return bd.policies.embedding(MDP, psi, policy)


def choose_dual(example: str, *, controls: bool = False) -> bd.dual.GradientAscent | bd.dual.FollowTheLeader:
    """Return the paper's player as ``--dual paper`` has it, or the one for entropies, which are not Lipschitz."""
    if example == "entropy":
        return bd.dual.FollowTheLeader()
    return bd.dual.GradientAscent(steps="adaptive", floor=3e-3) if controls else bd.dual.GradientAscent()


def control_problem(example: str) -> tuple[bd.Problem, float]:
    """Return an example with the double integrator, and its optimum; of the entropy its largest conceivable value."""
    highest = 25.0  # of a step: bounds that no policy worth running meets
    far = bd.features.quadratic(np.diag([0.0, 0.0, 0.0, 1.0, SPEED_COST]), low=0.0, high=highest)
    effort = bd.features.quadratic(np.diag([0.0, 0.0, 1.0, 0.0, 0.0]), low=0.0, high=FORCE**2)
    if example == "entropy":
        bins = bd.features.signal(_read_bins, 0.0, 1.0, size=4)
        x = bd.features.computed(bins=bins).embedding(STEPS, total=True)
        law = x.bins / STEPS
        return bd.Problem(cp.Maximize(np.log(4) - cp.sum(cp.kl_div(law, 1 / 4)))), -float(np.log(4))
    x = bd.features.computed(far=far, effort=effort).embedding(STEPS, total=True)
    y = cp.hstack([x.far, x.effort])
    match example:
        case "plain RL":
            return bd.Problem(cp.Minimize(x.far + 0.1 * x.effort)), price(1.0, 0.1)
        case "constrained":
            return bd.Problem(cp.Minimize(x.far), {"effort": x.effort <= 3}), 6.634285
        case "multi-objective":
            limits = {"limit": x.effort <= 12}
            return bd.Problem(cp.Minimize(cp.max(cp.multiply(np.array([1.0, 0.8]), y))), limits), search(
                lambda share: price(1 - share, 0.8 * share), 0.0, 1.0
            )
        case "feasibility":
            centre, radius = np.array([4.0, 2.0]), 0.5
            return bd.problems.feasibility(x, bd.problems.ball(centre, radius), far="far", effort="effort"), (
                nearest(centre) - radius
            )
        case _:
            expert = np.array([5.0, 3.0])
            return bd.problems.apprenticeship(x, expert, far="far", effort="effort"), nearest(expert)


def _read_bins(x: Any, u: Any, y: Any) -> Any:  # noqa: ANN401 - arrays of JAX
    """Return soft indicators of four places, which sum to 1."""
    import jax

    del x, u
    return jax.nn.softmax(-8.0 * (y[0] - np.array([-0.6, 0.0, 0.6, 1.2], dtype=np.float32)) ** 2)


def price(far: float, effort: float) -> float:
    """Return the least far D + effort E of all laws, from (1, 0), by Riccati's recursion."""
    far = max(far, 1e-9)
    return far * exact(STEPS, max(effort / far, 1e-9)).solve().value(np.array([1.0, 0.0]))


def search(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the largest value of a concave function of one number."""
    found: Any = minimize_scalar(lambda t: -function(t), bounds=(low, high), method="bounded")
    return -float(found.fun)


def nearest(centre: np.ndarray) -> float:
    """Return the distance of a point below the frontier from it: the largest of its supporting lines."""
    return search(
        lambda angle: price(np.cos(angle), np.sin(angle)) - np.cos(angle) * centre[0] - np.sin(angle) * centre[1],
        1e-3,
        np.pi / 2 - 1e-3,
    )


def run_controls(example: str, loop: str, episodes: int, seed: int = 0) -> Cell:
    """Learn an example with the double integrator, and run what is returned."""
    task, (problem, optimum) = bd.tasks.find("lqr").build(), control_problem(example)
    control = bd.control
    explorer = bd.explorers.Controls(control.Thompson(), control.icem(64, 10), control.Feedback())
    if loop == "paper":
        explorer = bd.explorers.Controls(
            control.Thompson(), control.icem(64, 10), control.Feedback(), choose_dual(example, controls=True)
        )
    started = time.process_time()
    found = bd.learn(problem, task.env, task.model, episodes=episodes, evaluation=300, explorer=explorer, seed=seed)
    seconds = time.process_time() - started
    output = found.outputs[0] if loop == "default" else found.output("uniform mixture")
    value = -output.objective.value if problem.maximises else output.objective.value
    limits = {line.name: float(line.bounds[0]) for line in problem.lines()}
    over = [interval.value - limits[name] for name, interval in output.constraints.items()]
    return Cell(value, optimum, max([0.0, *over]), found.episodes, seconds)


def run(family: str, example: str, loop: str, episodes: int | None = None) -> Cell:
    """Run one cell."""
    count = episodes or EPISODES[family][LOOPS.index(loop)]
    if family == "KNR":
        return run_controls(example, loop, count)
    return run_finite(family, example, loop, count)


def read_results() -> dict[str, dict[str, float]]:
    """Return what is stored, by the names of the cells."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def name_cell(family: str, example: str, loop: str) -> str:
    """Return the name of a cell."""
    return f"{family}, {example}, {loop}"


def write_table() -> str:
    """Return the table of the page from what is stored."""
    found = read_results()
    columns = [(family, loop) for family in FAMILIES for loop in LOOPS]
    lines = ["| example | " + " | ".join(f"{family}, {loop}" for family, loop in columns) + " |"]
    lines.append("|---" * (1 + len(columns)) + "|")
    for example in EXAMPLES:
        cells = [Cell(**found[name_cell(family, example, loop)]) for family, loop in columns]
        texts = [
            f"{cell.distance:+.3f}" + (f" (over by {cell.violation:.3f})" if cell.violation > 5e-4 else "")
            for cell in cells
        ]
        lines.append(f"| {example} | " + " | ".join(texts) + " |")
    return "\n".join(lines) + "\n"


def main(chosen: list[str]) -> None:
    """Run the cells of the families named on the command line, or all that are missing, and store them."""
    found = read_results()
    for family in FAMILIES:
        for example in EXAMPLES:
            for loop in LOOPS:
                name = name_cell(family, example, loop)
                if (name in found and family not in chosen) or (chosen and family not in chosen):
                    continue
                cell = run(family, example, loop)
                found[name] = {key: round(number, 6) for key, number in cell._asdict().items()}
                RESULTS.write_text(json.dumps(found, indent=1) + "\n")
                ends = f"{cell.distance:+.4f} above {cell.optimum:.4f}, over by {cell.violation:.4f}"
                print(f"{name}: {ends}, {cell.seconds:.1f} s")
    print(write_table())


if __name__ == "__main__":
    main(sys.argv[1:])
