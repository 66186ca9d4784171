"""What every dual player promises: a mixture that gets better, bounds that are true, and an end."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual.dual import (
    AbstractDual,
    Bracketing,
    ConicCorrective,
    FollowTheLeader,
    FullyCorrective,
    GradientAscent,
    Interpolating,
    Proximal,
)
from bidual.loop.primal_dual import primal_dual
from bidual.models import known
from bidual.planners import BackwardInduction
from bidual.problem.convex import AffineProgram, VariationalProgram
from bidual.problem.modelling import make_variational
from bidual.problem.modelling._curved import CurvedProblem
from bidual.problem.modelling._lower import smooth
from bidual.solving.search import bind
from tests.helpers import keep_few, occupancy_optimum, occupancy_program, random_instance

DUALS = {
    "corrective": FullyCorrective(),
    "corrective, not smoothed": FullyCorrective(smoothing=0.0),
    "bracketing": Bracketing(),
    "interpolating": Interpolating(),
    "conic": ConicCorrective(),
    "conic, not smoothed": ConicCorrective(smoothing=0.0),
    "proximal": Proximal(gap=1e-8),
    "gradient ascent": GradientAscent(Gamma=4.0),
    "gradient ascent, literal": GradientAscent(Gamma=4.0, literal=True),
    "gradient ascent, doubling": GradientAscent(Gamma=0.1, doubling=True),
    "gradient ascent, adaptive": GradientAscent(Gamma=4.0, steps="adaptive", floor=1e-3),
    "leader": FollowTheLeader(Gamma=4.0),
    "leader, doubling": FollowTheLeader(Gamma=0.1, doubling=True),
}
AVERAGING = {name: dual for name, dual in DUALS.items() if isinstance(dual, GradientAscent | FollowTheLeader)}


def test_every_implementation_is_here():
    assert {type(dual) for dual in DUALS.values()} == set(AbstractDual.__subclasses__())


@pytest.fixture(params=DUALS)
def dual(request):
    return DUALS[request.param]


def _run(dual, seed, plans):
    """A random problem in the form that the player takes, its iterations, and the truth about it."""
    instance = random_instance(seed, (6, 2, 3, 4))
    x = instance.embedding()
    limits = {"a": cp.sum(x.s1) <= 1.0, "b": cp.sum(x.s2) >= -1.0}
    objective = cp.sum(x.s0)
    if isinstance(dual, Proximal):  # smooth and curved, without equalities
        objective = objective + 0.1 * cp.sum_squares(cp.sum(x, axis=0))
    else:
        limits["c"] = cp.sum(x.s3) == 0.25
    problem = bd.Problem(cp.Minimize(objective), limits)
    program, psi = bind(problem, instance.mdp)
    truth = _truth(problem, instance) if isinstance(dual, Proximal) else occupancy_optimum(problem, instance.mdp)
    if isinstance(dual, GradientAscent | FollowTheLeader):
        program = make_variational(program, psi)
    elif not isinstance(dual, FullyCorrective | Bracketing | Interpolating):
        program = CurvedProblem(problem.objective, problem.constraints, problem.embedding).program()
        program = replace(program, smooth=smooth(program.functions))
    iterations = []
    for iteration in primal_dual(program, psi, known(instance.mdp), BackwardInduction(), dual):
        iterations.append(iteration)
        duals = iteration.duals
        closed = duals.feasible and duals.f - duals.optimum.value <= 1e-7
        clash = duals.conflict.value > program.tolerances.max()
        if iteration.number == plans or duals.stalled or closed or clash:
            break
    return program, iterations, truth


def _truth(problem, instance):
    _, flow, (a, b, c, _) = occupancy_program(instance.mdp, instance.signals)
    totals = cp.hstack([a, b, c, _])
    theirs = cp.Problem(cp.Minimize(a + 0.1 * cp.sum_squares(totals)), [*flow, b <= 1.0, c >= -1.0])
    theirs.solve(solver=cp.CLARABEL)
    return ("infeasible", None) if theirs.status == "infeasible" else ("optimal", theirs.value)


@pytest.mark.parametrize("seed", keep_few(range(6), 3))
def test_bounds_are_true_and_monotone(dual, seed):
    program, iterations, (status, optimum) = _run(dual, seed, 60)
    previous = -np.inf
    for iteration in iterations:
        duals = iteration.duals
        assert duals.optimum.value >= previous
        previous = duals.optimum.value
        if status == "optimal":
            assert duals.optimum.value <= optimum + 1e-6
            assert duals.conflict.value <= program.tolerances.max()
        if duals.feasible and status == "optimal":
            assert duals.f >= optimum - 1e-6


@pytest.mark.parametrize("seed", keep_few(range(6), 3))
def test_the_mixture_is_a_mixture_and_has_the_reported_image(dual, seed):
    program, iterations, _ = _run(dual, seed, 30)
    embeddings = []
    for iteration in iterations:
        embeddings.append(iteration.plan.embedding)
        weights = iteration.duals.weights
        assert weights.min() >= 0
        assert abs(weights.sum() - 1) <= 1e-12
        f, g = _values(program, np.tensordot(weights, np.array(embeddings), axes=1), iteration.duals.auxiliary)
        assert abs(f - iteration.duals.f) <= 1e-12
        np.testing.assert_allclose(g, iteration.duals.g, atol=1e-12)
        if iteration.duals.feasible:
            assert np.all(program.violations(g) <= program.tolerances)


@pytest.mark.parametrize("name", [name for name in DUALS if name not in AVERAGING])
@pytest.mark.parametrize("seed", keep_few(range(6), 3))
def test_it_ends_with_the_gap_closed_or_a_conflict(name, seed):
    dual = DUALS[name]
    program, iterations, (status, optimum) = _run(dual, seed, 200)
    last = iterations[-1].duals
    assert len(iterations) < 200
    if status == "optimal":
        assert abs(last.f - optimum) <= 1e-6
    else:
        assert last.conflict.value > program.tolerances.max()


@pytest.mark.parametrize("name", AVERAGING)
@pytest.mark.parametrize("seed", keep_few(range(6), 1))
def test_averages_come_close(name, seed):
    """Their gap falls like 1 / sqrt t: 0.05 after 400 plans, times diameters of order 1 to 10."""
    program, iterations, (status, optimum) = _run(AVERAGING[name], seed, 400)
    last = iterations[-1].duals
    if status == "optimal":
        assert last.optimum.value >= optimum - 0.5
        assert np.max(program.violations(last.g)) <= 0.2


def test_multipliers_of_inequalities_are_never_negative(dual):
    program, iterations, _ = _run(dual, 1, 60)
    for iteration in iterations:
        gamma = iteration.duals.optimum.gamma
        if isinstance(dual, ConicCorrective):
            gamma = program.main.gamma(gamma, program.equality.size)
        # A cone solver keeps them inside the cone, on its own scale.
        assert gamma[~program.equality].min() >= -1e-12


def _values(program, embedding, auxiliary):
    """The same linear problem, as rows or as functions of its image."""
    if isinstance(program, AffineProgram):
        return program.values(embedding)
    if isinstance(program, VariationalProgram):
        return program.values(program.image(embedding))
    return program.functions.values(program.image(embedding), auxiliary)
