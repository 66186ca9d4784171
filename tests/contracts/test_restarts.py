"""What every dual player promises when it starts from plans of another problem: nothing is lost but the work."""

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual.dual import AbstractDual, ConicCorrective, FollowTheLeader, GradientAscent, Proximal, Reply
from bidual.loop.primal_dual import primal_dual
from bidual.models import known
from bidual.planners import BackwardInduction
from bidual.problem.modelling._curved import CurvedProblem
from bidual.solving.search import bind
from tests.contracts.test_duals import DUALS, _values
from tests.helpers import occupancy_optimum, random_instance

SEEDS = range(4)
# The proximal player starts afresh: its soft policies are not the cheapest for anything.
# Those that average use known plans for their Slater point only.
COLD = (Proximal, GradientAscent, FollowTheLeader)
WARM = {name: dual for name, dual in DUALS.items() if not isinstance(dual, COLD)}

# Price curves of cone forms start from one another, so only these start as below.
LINEAR = {name: dual for name, dual in WARM.items() if not isinstance(dual, ConicCorrective)}


@pytest.fixture(params=WARM)
def dual(request):
    return WARM[request.param]


def _program(dual, instance, limits, weight=1.0):
    x = instance.embedding()
    limits = [cp.sum(x.s1) <= limits[0], cp.sum(x.s2) >= limits[1], cp.sum(x.s3) == limits[2]]
    problem = bd.Problem(cp.Minimize(weight * cp.sum(x.s0)), limits)
    program, psi = bind(problem, instance.mdp)
    if isinstance(dual, ConicCorrective):
        program = CurvedProblem(problem.objective, problem.constraints, problem.embedding).program()
    return program, psi, occupancy_optimum(problem, instance.mdp)


def _run(dual, program, psi, mdp, plans=200, replies=()):
    iterations = []
    for iteration in primal_dual(program, psi, known(mdp), BackwardInduction(), dual, replies):
        iterations.append(iteration)
        if iteration.number == plans or iteration.duals.stalled:
            break
    return iterations


def _twice(dual, seed, weight=1.0):
    """A problem, and the same one with other limits (and perhaps another objective), started from its plans."""
    instance = random_instance(seed, (6, 2, 3, 4))
    first, psi, _ = _program(dual, instance, (1.0, -1.0, 0.25))
    replies = [iteration.reply for iteration in _run(dual, first, psi, instance.mdp)]
    second, psi, truth = _program(dual, instance, (1.25, -1.5, 0.5), weight)
    return second, replies, _run(dual, second, psi, instance.mdp, replies=replies), truth


@pytest.mark.parametrize("weight", [1.0, -2.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_bounds_stay_true_and_monotone(dual, seed, weight):
    program, _, iterations, (status, optimum) = _twice(dual, seed, weight)
    assert iterations[0].number == 0
    previous = -np.inf
    for iteration in iterations:
        duals = iteration.duals
        assert duals.optimum.value >= previous
        previous = duals.optimum.value
        if status == "optimal":
            assert duals.optimum.value <= optimum + 1e-6
            assert duals.conflict.value <= program.tolerances.max()
            assert not duals.feasible or duals.f >= optimum - 1e-6
    last = iterations[-1].duals
    if status == "optimal":
        assert abs(last.f - optimum) <= 1e-6
    else:
        assert last.conflict.value > program.tolerances.max()


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("limit", [-2.0, 0.0, 1.25])
@pytest.mark.parametrize("seed", SEEDS)
def test_one_row_from_plans_of_the_objective_and_of_the_row(name, seed, limit):
    """As a price curve starts: the plans that it has were made for costs of other problems."""
    dual = LINEAR[name]
    instance = random_instance(seed, (12, 3, 3, 6))
    x = instance.embedding()
    problem = bd.Problem(cp.Minimize(cp.sum(x.s0)), [cp.sum(x.s1) <= limit])
    program, psi = bind(problem, instance.mdp)
    model = known(instance.mdp)
    thetas = [program.theta(np.ones(1), 0.0), program.theta(np.zeros(1), 1.0)]
    plans = [Reply(theta, None, BackwardInduction()(model, model.restrict(psi), theta)) for theta in thetas]
    iterations = _run(dual, program, psi, instance.mdp, replies=plans)
    status, optimum = occupancy_optimum(problem, instance.mdp)
    assert status == "optimal"
    bounds = [iteration.duals.optimum.value for iteration in iterations]
    assert bounds == sorted(bounds)
    assert max(bounds) <= optimum + 1e-6
    last = iterations[-1].duals
    assert last.stalled
    assert abs(last.f - optimum) <= 1e-6
    assert abs(last.optimum.value - optimum) <= 1e-6


@pytest.mark.parametrize("seed", SEEDS)
def test_the_weights_are_a_mixture_of_known_and_new_plans(dual, seed):
    program, replies, iterations, _ = _twice(dual, seed)
    embeddings = [reply.plan.embedding for reply in replies]
    for iteration in iterations:
        embeddings += [] if iteration.reply is None else [iteration.plan.embedding]
        duals = iteration.duals
        assert duals.weights.shape == (len(embeddings),)
        assert duals.weights.min() >= 0
        assert abs(duals.weights.sum() - 1) <= 1e-12
        f, g = _values(program, np.tensordot(duals.weights, np.array(embeddings), axes=1), duals.auxiliary)
        assert abs(f - duals.f) <= 1e-12
        np.testing.assert_allclose(g, duals.g, atol=1e-12)


def test_the_same_problem_again_needs_no_plan(dual):
    instance = random_instance(3, (6, 2, 3, 4))
    program, psi, (status, optimum) = _program(dual, instance, (1.0, -1.0, 0.25))
    assert status == "optimal"
    replies = [iteration.reply for iteration in _run(dual, program, psi, instance.mdp)]
    again = _run(dual, program, psi, instance.mdp, plans=0, replies=replies)
    assert again[0].number == 0
    assert abs(again[0].duals.f - optimum) <= 1e-6
    assert abs(again[0].duals.optimum.value - optimum) <= 1e-6


def test_bounds_of_another_objective_are_not_kept(dual):
    _, _, iterations, _ = _twice(dual, 0, weight=-2.0)
    assert iterations[0].duals.optimum.value == -np.inf


def test_a_player_without_use_for_plans_starts_afresh():
    instance = random_instance(0, (6, 2, 3, 4))
    dual = DUALS["corrective"]
    program, psi, _ = _program(dual, instance, (1.0, -1.0, 0.25))
    replies = [iteration.reply for iteration in _run(dual, program, psi, instance.mdp)]
    assert AbstractDual.restart(dual, program, replies).weights.size == 0
    assert dual.restart(program, []).weights.size == 0
