"""Every ready problem against the same problem written by hand over occupancies and solved by CVXPY."""

import warnings
from functools import cache
from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import bidual as bd
from bidual.tasks import problems
from tests.helpers import flow_constraints, random_instance

SHAPES = ((3, 2, 2, 2), (4, 3, 3, 5), (6, 2, 3, 4))
TOLERANCE = 1e-5  # Clarabel's own accuracy on the occupancy program
NO_SHRINKING = (Phase.explicit, Phase.generate)  # a case is small as it is, and every try takes a second


def world(mdp, *signals):
    """Occupancies: totals and step values of signals over (S, A), visits by step, and what holds for all policies."""
    H, S, A = mdp.successors.shape
    mu = cp.Variable(H * S * A, nonneg=True)
    flow, start = flow_constraints(mdp)
    by_step = cp.reshape(mu, (H, S * A), order="C")
    steps = by_step @ np.stack([signal.ravel() for signal in signals], axis=1)  # (H, number of signals)
    visits = by_step @ np.kron(np.eye(S), np.ones((A, 1)))
    forbidden = np.tile(~mdp.actions.ravel(), H)
    rules = [flow @ mu == start, *([mu[forbidden] == 0] if forbidden.any() else [])]
    uniform = _uniform(mdp)
    return SimpleNamespace(
        mdp=mdp, rng=np.random.default_rng(S * H), signals=signals, steps=steps, totals=cp.sum(steps, axis=0),
        visits=visits, law=cp.sum(visits, axis=0) / H, rules=rules,
        at_uniform=[float(np.sum(uniform * signal)) for signal in signals], uniform=uniform,
    )  # fmt: skip


def _uniform(mdp):
    """The occupancies (H, S, A) of the policy that draws any allowed action: its totals are limits one can keep."""
    H, S, A = mdp.successors.shape
    flow, _ = flow_constraints(mdp)
    policy = mdp.actions / mdp.actions.sum(axis=1, keepdims=True)
    laws = [mdp.initial]
    for h in range(H - 1):
        onwards = -flow[(h + 1) * S : (h + 2) * S, h * S * A : (h + 1) * S * A]
        laws.append(onwards @ (laws[-1][:, None] * policy).ravel())
    return np.stack(laws)[..., None] * policy


def constrained(w):
    a, b, c = w.signals
    p = cp.Parameter(name="p", value=w.at_uniform[2])
    limits = {"b": (b, w.at_uniform[1]), "c": (c, ">=", p)}
    theirs = [w.totals[1] <= w.at_uniform[1], w.totals[2] >= w.at_uniform[2]]
    return problems.constrained(w.mdp, a, limits), cp.Maximize(w.totals[0]), theirs


def constrained_cost(w):
    a, b, _ = w.signals
    limits = {"b": (b, "==", w.at_uniform[1])}
    ours = problems.constrained(w.mdp, a, limits, maximise=False)
    return ours, cp.Minimize(w.totals[0]), [w.totals[1] == w.at_uniform[1]]


def multi_objective(w):
    a, b, c = w.signals
    wish = w.rng.normal(size=2)
    radius = np.linalg.norm(w.at_uniform[:2]) + 0.1

    def h1(y):
        return cp.sum_squares(y - wish) + cp.max(y)

    ours = problems.multi_objective(
        w.mdp, h1, {"ball": lambda y: cp.norm(y) - radius}, limits={"c": (c, w.at_uniform[2])}, a=a, b=b
    )
    y = w.totals[:2]
    return ours, cp.Minimize(h1(y)), [cp.norm(y) <= radius, w.totals[2] <= w.at_uniform[2]]


def multi_objective_reward(w):
    a, b, _ = w.signals

    def h1(y):
        return cp.sum(y) - cp.sum_squares(y)

    ours = problems.multi_objective(w.mdp, h1, lambda y: y - np.array(w.at_uniform[:2]), maximise=True, a=a, b=b)
    y = w.totals[:2]
    return ours, cp.Maximize(h1(y)), [y <= np.array(w.at_uniform[:2])]


def apprentice_of(distance, norm):
    def family(w):
        a, b, c = w.signals
        expert = w.rng.normal(size=2)
        ours = problems.apprenticeship(
            w.mdp, expert, distance=distance, limits={"c": (c, ">=", w.at_uniform[2])}, a=a, b=b
        )
        return ours, cp.Minimize(norm(w.totals[:2] - expert)), [w.totals[2] >= w.at_uniform[2]]

    family.__name__ = f"apprentice_{distance}"
    return family


def apprentice_of_visits(w):
    expert = w.mdp.horizon * w.rng.dirichlet(np.ones(w.mdp.num_states))
    ours = problems.apprenticeship(w.mdp, expert, limits={"a": (w.signals[0], w.at_uniform[0])})
    return ours, cp.Minimize(cp.norm(cp.sum(w.visits, axis=0) - expert)), [w.totals[0] <= w.at_uniform[0]]


def apprentice_by_step(w):
    a, b, _ = w.signals
    expert = w.rng.normal(size=(w.mdp.horizon, 2))
    ours = problems.apprenticeship(w.mdp, expert, distance="l1", by_step=True, a=a, b=b)
    return ours, cp.Minimize(cp.sum(cp.abs(w.steps[:, :2] - expert))), []


def apprentice_of_visits_by_step(w):
    expert = w.rng.dirichlet(np.ones(w.mdp.num_states), size=w.mdp.horizon)
    ours = problems.apprenticeship(w.mdp, expert, by_step=True)
    return ours, cp.Minimize(cp.norm(w.visits - expert, "fro")), []


def feasible_box(w):
    a, b, c = w.signals
    low, high = np.array([1.0, -np.inf, 2.0]), np.array([np.inf, -0.5, 3.0])
    v = cp.Variable(3)
    ours = problems.feasibility(w.mdp, problems.box(low, high), a=a, b=b, c=c)
    return ours, cp.Minimize(cp.norm(w.totals - v)), [v[0] >= 1, v[1] <= -0.5, v[2] >= 2, v[2] <= 3]


def feasible_ball(w):
    v = cp.Variable(w.mdp.num_states)
    centre = np.append(w.mdp.horizon, np.zeros(w.mdp.num_states - 1))
    limits = {"a": (w.signals[0], w.at_uniform[0])}
    ours = problems.feasibility(w.mdp, problems.ball(centre, 0.1), distance="l1", limits=limits)
    theirs = [cp.norm(v - centre) <= 0.1, w.totals[0] <= w.at_uniform[0]]
    return ours, cp.Minimize(cp.norm1(cp.sum(w.visits, axis=0) - v)), theirs


def feasible_polyhedron(w):
    a, b, _ = w.signals
    A, v = w.rng.normal(size=(3, 2 * w.mdp.horizon)), cp.Variable((w.mdp.horizon, 2))
    ours = problems.feasibility(w.mdp, problems.polyhedron(A, -np.ones(3)), distance="squared", by_step=True, a=a, b=b)
    return ours, cp.Minimize(cp.sum_squares(w.steps[:, :2] - v)), [A @ cp.vec(v, order="C") <= -1]


def feasible_hull(w):
    a, b, _ = w.signals
    corners, share = w.rng.normal(size=(3, 2)), cp.Variable(3, nonneg=True)
    ours = problems.feasibility(w.mdp, problems.hull(corners), distance="linf", a=a, b=b)
    return ours, cp.Minimize(cp.norm_inf(w.totals[:2] - corners.T @ share)), [cp.sum(share) == 1]


def feasible_own(w):
    a, b, c = w.signals
    v = cp.Variable(3)

    def simplex(v):
        return [v >= 0, cp.sum(v) == 1]

    ours = problems.feasibility(w.mdp, simplex, a=a, b=b, c=c)
    return ours, cp.Minimize(cp.norm(w.totals - v)), simplex(v)


def mean_discrepancy(w):
    """The square root of (d - q)' K (d - q), with the kernel as it is."""
    S = w.mdp.num_states
    target, points = w.rng.dirichlet(np.ones(S)), w.rng.normal(size=(S, 2))
    kernel = np.exp(-((points[:, None] - points[None]) ** 2).sum(axis=-1) / 2)
    ours = problems.mean_discrepancy(w.mdp, target, problems.gaussian_kernel(points, width=1.0))
    root = np.linalg.cholesky(kernel + 1e-15 * np.eye(S))
    return ours, cp.Minimize(cp.norm(root.T @ (w.law - target))), []


def max_entropy(w):
    return problems.max_entropy(w.mdp), cp.Maximize(cp.sum(cp.entr(w.law))), []


def max_entropy_limited(w):
    a = w.signals[0]
    first = float(w.uniform[-1, 0].sum())
    limits = {"a": (a, w.at_uniform[0]), "last": lambda x: x.visits[-1, 0] <= first}
    theirs = [w.totals[0] <= w.at_uniform[0], w.visits[-1, 0] <= first]
    return problems.max_entropy(w.mdp, limits=limits), cp.Maximize(cp.sum(cp.entr(w.law))), theirs


def fair(w):
    a, b, c = w.signals
    ours = problems.fair(w.mdp, {"a": a, "b": b}, limits={"c": (c, w.at_uniform[2])})
    return ours, cp.Maximize(cp.minimum(w.totals[0], w.totals[1])), [w.totals[2] <= w.at_uniform[2]]


def fair_weighted(w):
    groups = dict(zip("abc", w.signals, strict=True))
    ours = problems.fair(w.mdp, groups, weights={"c": 0.5, "a": 2, "b": 1})
    a, b, c = w.totals[0], w.totals[1], w.totals[2]
    return ours, cp.Maximize(cp.min(cp.hstack([2 * a, b, 0.5 * c]))), []


FAMILIES = (
    constrained, constrained_cost, multi_objective, multi_objective_reward,
    apprentice_of("l2", cp.norm2), apprentice_of("l1", cp.norm1), apprentice_of("linf", cp.norm_inf),
    apprentice_of("squared", cp.sum_squares), apprentice_of_visits, apprentice_by_step, apprentice_of_visits_by_step,
    feasible_box, feasible_ball, feasible_polyhedron, feasible_hull, feasible_own,
    mean_discrepancy, max_entropy, max_entropy_limited, fair, fair_weighted,
)  # fmt: skip


def judge(family, w, gap=1e-6):
    ours, objective, constraints = family(w)
    theirs = cp.Problem(objective, [*constraints, *w.rules])
    solution = bd.solve(ours, w.mdp, gap=gap, max_plans=1500)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # CVXPY warns where Clarabel stops at reduced accuracy
        theirs.solve(solver=cp.CLARABEL)
    assert theirs.status in ("optimal", "optimal_inaccurate"), theirs.status
    assert solution.status == "optimal", solution
    assert solution.lower <= theirs.value + TOLERANCE
    assert solution.upper >= theirs.value - TOLERANCE
    assert abs(solution.value - theirs.value) <= TOLERANCE + (gap if gap > 1e-6 else 0)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
@given(st.integers(0, 10_000), st.sampled_from(SHAPES), st.booleans())
@settings(max_examples=2, phases=NO_SHRINKING)
def test_the_optimum_is_the_occupancy_programs(family, seed, shape, masked):
    instance = random_instance(seed, shape, masked=masked)
    judge(family, world(instance.mdp, *instance.signals[:3]))


@cache
def _task(name, horizon=None):
    return bd.tasks.find(name).with_settings({} if horizon is None else {"horizon": horizon})


def _task_world(name, horizon=None):
    """A built-in task with its own two signals, as expectations given state and action, and a third one."""
    task = _task(name, horizon)
    mdp, features = task.mdp, task.problem.embedding.features
    first, second = features.stage(mdp.successors).signals[0]
    return world(mdp, first, second, (np.arange(mdp.num_states) % 3 == 1)[:, None] * np.ones((1, mdp.num_actions)))


@pytest.mark.parametrize(
    ("family", "name"),
    [
        (constrained, "rover"),
        (multi_objective, "rover"),
        (apprentice_of("l2", cp.norm2), "rover"),
        (apprentice_of_visits, "riverswim"),
        (feasible_box, "rover"),
        (feasible_hull, "inventory"),
        (max_entropy, "riverswim"),
        (max_entropy_limited, "inventory"),
        (fair, "rover"),
        (fair_weighted, "media"),
    ],
    ids=lambda part: part if isinstance(part, str) else part.__name__,
)
def test_the_optimum_on_a_task(family, name):
    judge(family, _task_world(name))


def test_exploring_the_rovers_map():
    """Dozens of visits take the corrective method long: a wider gap and a shorter day are asked for."""
    judge(max_entropy, _task_world("rover", horizon="12"), gap=1e-3)


def test_the_rover_in_one_line():
    """The same numbers as the task, whose signals are paid on arrival."""
    task = _task("rover")
    reward, cost = task.problem.embedding.features.arrays
    problem = problems.constrained(task.mdp, reward, {"pits": (cost, 0.3)})
    assert abs(bd.solve(problem, task.mdp).value - bd.tasks.find("rover").optimum) <= 2e-6
