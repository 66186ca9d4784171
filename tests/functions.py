"""Every convex function of `bd.convex` on every kind of set where it is defined, for the contract suites."""

from functools import cache

import cvxpy as cp
import jax.numpy as jnp
import numpy as np

from bidual.problem.convex import (
    Affine,
    Box,
    ConeFunction,
    Distance,
    DistanceToBall,
    DistanceToBox,
    Function,
    MaxAffine,
    NegativeEntropy,
    Product,
    Scaled,
    Simplex,
    SquaredDistance,
)
from bidual.problem.modelling._compile import extract_conic_form, reduce_to_cones

SIZE = 5


def sets():
    """Three sets of five numbers; none is special to the functions on it."""
    box = Box(np.array([-1.0, -0.5, 0.0, 0.2, -2.0]), np.array([1.0, 0.7, 0.0, 0.9, 1.5]))
    small = Box(np.array([-0.3, 0.1]), np.array([0.4, 0.8]))
    return {
        "box": box,
        "simplex": Simplex(SIZE, 1.5),
        "product": Product((Simplex(3, 0.8), small)),
        "simplices": Product((Simplex(2, 1.0), Simplex(3, 0.5))),
        "numbers": Product((Simplex(1, 0.4),) * SIZE),
    }


def cone_form(expression, y):
    """A CVXPY expression of the variable y as a cone form."""
    return extract_conic_form(reduce_to_cones(cp.Problem(cp.Minimize(expression))), [], [y], [])


def functions(K, seed=0):
    """One or more of every implementation on K."""
    rng = np.random.default_rng(seed)
    n = K.size
    t, w, W, b = rng.normal(size=n), rng.normal(size=n), rng.normal(size=(4, n)), rng.normal(size=4)
    lower, upper = t - rng.random(n), t + rng.random(n)
    inside = 0.6 * K.center + 0.4 * K.maximiser(w)
    y = cp.Variable(n)
    squares = 2 * K.farthest(t)
    found = {
        "affine": Affine(w, 0.3, K),
        "max affine": MaxAffine(W, b, K),
        "one row": MaxAffine(W[:1], b[:1], K),
        "distance": Distance(t, K),
        "distance from inside": Distance(inside, K),
        "distance from a vertex": Distance(K.maximiser(t), K),
        "squared distance": SquaredDistance(t, K, 0.7),
        "squared distance from inside": SquaredDistance(inside, K),
        "distance to a box": DistanceToBox(lower, upper, K),
        "distance to a box inside": DistanceToBox(inside - 0.1, inside + 0.05, K),
        "distance to a half-space": DistanceToBox(np.full(n, -np.inf), inside, K),
        "distance to a box around K": DistanceToBox(K.bounds[0] - 1.0, K.bounds[1] + 1.0, K),
        "distance to a ball": DistanceToBall(t, 0.5, K),
        "distance to a ball inside": DistanceToBall(inside, 0.2, K),
        "distance to a ball around K": DistanceToBall(inside, 9.0, K),
        "cone norm": ConeFunction(cone_form(cp.norm(y - t) + cp.norm1(y - inside), y), K),
        "cone square": ConeFunction(cone_form(cp.sum_squares(y - t), y), K, squares),
        "cone exponential": ConeFunction(cone_form(cp.log_sum_exp(W @ y + b), y), K),
        "given square": Function(lambda x: jnp.sum((x - t) ** 2), K, lipschitz=squares),
        "given exponential": Function(lambda x: jnp.log(jnp.sum(jnp.exp(W @ x + b))), K, lipschitz=_longest(W)),
        "given kink": Function(lambda x: jnp.max(W @ x + b), K, lipschitz=_longest(W)),
    }
    found["scaled distance"] = Scaled(found["distance"], 2.5, -0.4)
    if _all_simplices(K):
        found["entropy"] = NegativeEntropy(K, 0.7)
    return found


def as_cvxpy(name, f, x):
    """The same function as a CVXPY expression, for those with a closed form."""
    match f:
        case Affine():
            return f.weights @ x + f.constant
        case MaxAffine():
            return cp.max(f.W @ x + f.b)
        case Distance():
            return cp.norm(x - f.target)
        case SquaredDistance():
            return f.weight * cp.sum_squares(x - f.target)
        case DistanceToBox():
            lower = np.maximum(f.lower, -100.0)
            return cp.norm(cp.pos(x - f.upper) + cp.pos(lower - x))
        case DistanceToBall():
            return cp.pos(cp.norm(x - f.center) - f.radius)
        case Scaled():
            return f.factor * as_cvxpy(name, f.function, x) + f.constant
        case NegativeEntropy():
            return -f.scale * cp.sum(cp.entr(x))
    raise AssertionError(f"{name} has no closed form")


def rules(K, x):
    """x in K, in CVXPY's terms."""
    (lower, upper), (A, b) = K.bounds, K.equations
    return [x >= lower, x <= upper, *([A @ x == b] if b.size else [])]


def _all_simplices(K):
    return isinstance(K, Simplex) or (isinstance(K, Product) and all(isinstance(part, Simplex) for part in K.parts))


def _longest(W):
    return float(np.linalg.norm(W, axis=1).max())


@cache
def zoo():
    """(set, function) by name, compiled once; what is solved or searched for on three kinds of sets, for time."""
    return {
        (kind, name): f
        for kind, K in sets().items()
        for name, f in functions(K).items()
        if kind != "simplices" or not name.startswith(SEARCHED)
    }


SEARCHED = ("cone", "given")
CASES = list(zoo())
CLOSED = [case for case in CASES if not case[1].startswith(SEARCHED)]
