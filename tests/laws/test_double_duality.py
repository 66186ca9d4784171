"""The saddle function of the paper: true bounds at every dual point, supergradients, and a slip of the printed text."""

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual.dual._gradient_ascent import Variables, _bound
from bidual.dual.projections import Pair, project_onto_ball, project_onto_cone
from bidual.planners import BackwardInduction
from bidual.problem.modelling import make_variational
from bidual.solving.search import prepare
from tests.helpers import occupancy_program, random_instance

POINTS = 25


def _families(x):
    """Objective and constraints as functions of the totals of four signals."""
    target = np.array([0.5, -0.5, 0.25, 0.0])
    return {
        "linear": (x[0], [x[1] <= 0.5, x[2] >= -0.5]),
        "distance": (cp.norm(x - target), [x[1] <= 0.5]),
        "squared distance": (cp.sum_squares(x - target), [x[1] <= 0.5, x[2] == 0.1]),
        "maximum": (cp.max(x), [x[1] <= 0.5]),
        "norm constraint": (x[0], [cp.norm(x - target) <= 2.0]),
        "cone": (cp.norm1(x - target) + cp.norm(x), [x[3] <= 1.0]),
    }


def _made(name, seed):
    instance = random_instance(seed, (6, 2, 3, 4))
    x = instance.embedding(total=True)
    objective, limits = _families(x)[name]
    program, world = prepare(bd.Problem(cp.Minimize(objective), limits), instance.mdp)
    _, flow, totals = occupancy_program(instance.mdp, instance.signals)
    objective, limits = _families(cp.hstack(totals))[name]
    truth = cp.Problem(cp.Minimize(objective), [*flow, *limits])
    truth.solve(solver=cp.CLARABEL)
    return make_variational(program, world.psi), world, truth


def _random(program, rng):
    """A dual point within its sets."""
    f = program.f.function
    alpha = project_onto_ball(rng.normal(size=program.f.rows.size) * f.lipschitz, f.lipschitz)
    pairs = []
    for term, equal in zip(program.g, program.equality, strict=True):
        gamma = float(rng.exponential())
        if equal:
            gamma = float(rng.normal())
            pairs.append(Pair(gamma * term.function.weights, gamma))
        else:
            beta = rng.normal(size=term.rows.size) * gamma * term.function.lipschitz
            pairs.append(project_onto_cone(beta, gamma, term.function.lipschitz, 10.0))
    return Variables(alpha, tuple(pairs))


def _dual_function(program, world, at):
    slope = program.slope(at.alpha, [pair.beta for pair in at.pairs])
    plan = BackwardInduction()(world.model, world.layout, program.image.adjoint(slope))
    y = program.image(plan.embedding)
    return _bound(program, at, y).value, y


def _supergradient(program, at, y):
    f, z = program.f.function, program.f.part(y)
    alpha = z - f.conjugate_argmax(at.alpha, 1.0, z)
    pairs = []
    for term, pair in zip(program.g, at.pairs, strict=True):
        z = term.part(y)
        x = term.function.conjugate_argmax(pair.beta, pair.gamma, z)
        pairs.append(Pair(z - x, term.function.value(x)))
    return Variables(alpha, tuple(pairs))


def _inner(direction, after, before):
    total = float(direction.alpha @ (after.alpha - before.alpha))
    for d, a, b in zip(direction.pairs, after.pairs, before.pairs, strict=True):
        total += float(d.beta @ (a.beta - b.beta)) + d.gamma * (a.gamma - b.gamma)
    return total


@pytest.mark.parametrize("name", _families(cp.Variable(4)))
@pytest.mark.parametrize("seed", range(3))
def test_every_dual_point_bounds_the_optimum(name, seed):
    program, world, truth = _made(name, seed)
    assert truth.status == "optimal"
    rng = np.random.default_rng(seed)
    values = [_dual_function(program, world, _random(program, rng))[0] for _ in range(POINTS)]
    assert max(values) <= truth.value + 1e-6


@pytest.mark.parametrize("name", ["linear", "distance", "maximum", "norm constraint"])
@pytest.mark.parametrize("apex", [False, True])
def test_supergradients(name, apex):
    """L(p') <= L(p) + d . (p' - p), at gamma = 0 as well, where every x of K is a maximiser and x = y is taken."""
    program, world, _ = _made(name, 1)
    rng = np.random.default_rng(3)
    for _ in range(POINTS):
        at, other = _random(program, rng), _random(program, rng)
        if apex:
            at = at._replace(pairs=tuple(Pair(np.zeros_like(p.beta), 0.0) for p in at.pairs))
        value, y = _dual_function(program, world, at)
        there, _ = _dual_function(program, world, other)
        assert there <= value + _inner(_supergradient(program, at, y), other, at) + 1e-9


@pytest.mark.parametrize("name", ["distance", "norm constraint"])
def test_supergradients_are_derivatives_where_there_are_any(name):
    program, world, _ = _made(name, 2)
    rng, seen = np.random.default_rng(5), 0
    for _ in range(POINTS):
        at, way, step = _inside(_random(program, rng)), _random(program, rng), 1e-6
        value, y = _dual_function(program, world, at)
        ahead, back = (_dual_function(program, world, _moved(at, way, sign * step))[0] - value for sign in (1.0, -1.0))
        if abs(ahead + back) > 1e-9:  # a kink: the cheapest policy or the maximiser changes here
            continue
        seen += 1
        slope = _inner(_supergradient(program, at, y), _moved(at, way, 1.0), at)
        assert (ahead - back) / (2 * step) == pytest.approx(slope, abs=1e-4)
    assert seen >= 10


def _inside(at):
    """Away from the edge of the dual sets, where the maximiser is at the edge of K."""
    return Variables(0.6 * at.alpha, tuple(Pair(0.6 * p.beta, p.gamma) for p in at.pairs))


def _moved(at, way, t):
    pairs = [Pair(a.beta + t * w.beta, a.gamma + t * w.gamma) for a, w in zip(at.pairs, way.pairs, strict=True)]
    return Variables(at.alpha + t * way.alpha, tuple(pairs))


def test_the_sign_of_theta():
    """More of what theta charges for is never planned: the cost is alpha + beta, not its negative."""
    program, world, _ = _made("linear", 0)
    costly = Variables(np.ones(1), tuple(Pair(np.zeros(1), 0.0) for _ in program.g))
    _, cheap = _dual_function(program, world, costly)
    _, dear = _dual_function(program, world, costly._replace(alpha=-np.ones(1)))
    assert cheap[0] < dear[0]


def _ascend(program, world, T, printed):
    """Algorithm 1 with the printed line 4, g in the place of its conjugate, or with the corrected one."""
    term, Gamma = program.g[0], 4.0
    g, w = term.function, program.f.function.weights
    pair, mean, total = Pair(np.zeros(term.rows.size), 0.0), 0.0, np.zeros(program.image.size)
    for t in range(1, T + 1):
        _, y = _dual_function(program, world, Variables(w, (pair,)))
        z, eta = term.part(y), Gamma * 2 / (np.hypot(g.K.diameter, g.largest) * np.sqrt(t))
        x = g.conjugate_argmax(pair.beta, pair.gamma, z)
        rise = g.value(x)
        if printed and pair.gamma > 1e-9:
            at = pair.beta / pair.gamma
            rise = -g.value(at) + float(at @ g.gradient(at))  # d/dgamma of -gamma g(beta / gamma)
        mean, total = mean + pair.gamma / T, total + y / T
        pair = project_onto_cone(pair.beta + eta * (z - x), pair.gamma + eta * rise, g.lipschitz, Gamma)
    return program.g[0].value(total), mean


def test_the_printed_update_of_the_multiplier_fails():
    """With g for its conjugate the multiplier does not see how far the constraint is violated."""
    program, world, truth = _made("norm constraint", 4)
    multiplier = float(truth.constraints[-1].dual_value)
    assert multiplier > 0.1
    right, mean = _ascend(program, world, 800, printed=False)
    wrong, printed = _ascend(program, world, 800, printed=True)
    assert right <= 0.05
    assert abs(mean - multiplier) <= 0.1
    assert wrong > 0.2 or abs(printed - multiplier) > 0.5
