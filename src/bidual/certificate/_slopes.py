"""Slopes of the functions in a convex problem, for a proof that needs no cone form (`verify_convex`).

A record proves that w f + gamma . g is at least constant + theta . y. Every convex function in it then has slopes s,
one for each of its arguments, whose sum over all functions is theta: the multipliers of a cone form contain them,
but under no name. Images seldom enter two functions, so that theta alone tells them; where arguments share images, the
shortest s is taken, and a function within another one gets the least weight that its slopes need.
"""

from fractions import Fraction

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from bidual.certificate._convex import bound_image
from bidual.certificate._cuts import cut_of, read_multipliers
from bidual.certificate._types import Evidence
from bidual.certificate.verify import NotDecidedError
from bidual.certificate.verify_expressions import Leaf, Tree, difference, entries
from bidual.certificate.verify_functions import FUNCTIONS
from bidual.problem.convex import ConvexProgram

_ERROR = 1e-6  # relative to the weight, of slopes that come from a cone solver
_MOST_SHARED = 1500  # numbers of a dense least-squares problem

# The least weight w under which slopes s are those of a function that grows like its argument (Fenchel: a dual norm).
_LEAST_WEIGHT = {
    "norm": lambda s, p: float(np.linalg.norm(s)),
    "norm1": lambda s, p: float(np.abs(s).max()),
    "norm_inf": lambda s, p: float(np.abs(s).sum()),
    "max": lambda s, p: float(np.maximum(s, 0.0).sum()),
    "sum_largest": lambda s, p: max(float(np.maximum(s, 0.0).sum()) / float(p), float(np.max(s))),
}

# The slope of the first argument, in units of the weight, at which the second has the given one.
_DIVERGENCES = {
    "rel_entr": lambda r: 1 + np.log(max(-r, 1e-300)),
    "kl_div": lambda r: np.log(max(1 - r, 1e-300)),
}


def find_slopes(
    evidence: Evidence, program: ConvexProgram, stored: dict, arrays: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return the multipliers of the constraints and, where they are found, the slopes of the functions.

    Args:
        evidence: what is certified.
        program: its program.
        stored: the expressions as JSON values, as they are saved.
        arrays: and their constants.
    """
    cut = cut_of(program, evidence.record, bound_image(evidence, program))
    if cut is None:  # a record without multipliers proves nothing
        return {"multipliers": np.zeros(program.units.size)}
    gamma = read_multipliers(program, evidence.record)
    found = {"multipliers": gamma}
    try:
        tree = Tree(
            stored, {f"problem_{name}": (array.shape, array.ravel().tolist()) for name, array in arrays.items()}
        )
        parts = [tree.read(stored["objective"])]
        parts += [entries([tree.read(side) for side in sides], difference) for sides in stored["sides"]]
    except NotDecidedError:
        return found
    weights = [evidence.record.objective_weight, *gamma.tolist()]
    forms = [form for part in parts for form in part.forms.values()]
    slopes = _distribute(tree.leaves, forms, weights, cut.slope)
    return found if slopes is None else {**found, "slopes": np.concatenate([*slopes, np.zeros(0)])}


def _distribute(
    leaves: list[Leaf], forms: list, weights: list[float], theta: Float[np.ndarray, "n"]
) -> list[np.ndarray] | None:
    """Distribute theta over the arguments of all functions."""
    slots = [(n, j, form) for n, leaf in enumerate(leaves) for j, form in enumerate(leaf.arguments)]
    slopes = [np.zeros(len(leaf.arguments)) for leaf in leaves]
    shared = [(n, j, form) for n, j, form in slots if any(name and name[0] == "y" for name in form)]
    rest = theta.copy()
    for weight, form in zip(weights, forms, strict=True):
        for name, c in form.items():
            if name and name[0] == "y":
                rest[name[1]] -= weight * float(c)
    values = _solve([form for *_, form in shared], rest)
    if values is None:
        return None
    for (n, j, _), value in zip(shared, values, strict=True):
        slopes[n][j] = value
    if not _nest(leaves, slopes):
        return None
    return slopes if _fill(leaves, slopes, forms, weights) else None


def _solve(arguments: list, rest: Float[np.ndarray, "n"]) -> Float[np.ndarray, "k"] | None:
    """Find the shortest slopes of these arguments whose sum is `rest`; None where there are too many."""
    entries = [
        (name[1], k, float(c))
        for k, form in enumerate(arguments)
        for name, c in form.items()
        if name and name[0] == "y"
    ]
    rows, columns, values = (
        (np.array(part) for part in zip(*entries, strict=True)) if entries else (np.zeros(0, int),) * 3
    )
    if len(set(rows.tolist())) == len(rows) and len(set(columns.tolist())) == len(columns):
        found = np.zeros(len(arguments))
        found[columns] = rest[rows] / values
        return found
    if max(len(arguments), rest.size) > _MOST_SHARED:
        return None
    A = sp.csr_array((values, (rows, columns)), shape=(rest.size, len(arguments))).toarray()
    found = np.linalg.lstsq(A, rest, rcond=None)[0]
    return found + np.linalg.lstsq(A, rest - A @ found, rcond=None)[0]


def _nest(leaves: list[Leaf], slopes: list[np.ndarray]) -> bool:
    """Set the slopes of arguments that are functions themselves; return whether all of them have a least weight."""
    for n, leaf in enumerate(leaves):
        for j, form in enumerate(leaf.arguments):
            for name, c in form.items():
                if name and name[0] == "leaf":
                    inner = leaves[name[1]]
                    if inner.function not in _LEAST_WEIGHT:
                        return False
                    least = _LEAST_WEIGHT[inner.function](slopes[name[1]], inner.p)
                    slopes[n][j] = least / float(c) * (1 + 2.0**-50)
    return True


def _fill(leaves: list[Leaf], slopes: list[np.ndarray], forms: list, weights: list[float]) -> bool:
    """Give what is left of a function's weight to its largest constant argument, where slopes have to sum to it.

    Return whether all slopes suit their weights: the shortest need not, where functions share their images.
    """
    weight = np.zeros(len(leaves))
    for w, form in zip(weights, forms, strict=True):
        _add(weight, form, w)
    for n, leaf in reversed(list(enumerate(leaves))):
        constants = [j for j, form in enumerate(leaf.arguments) if set(form) <= {None}]
        if leaf.function in ("max", "log_sum_exp", "sum_largest") and constants:
            largest = max(constants, key=lambda j: leaf.arguments[j].get(None, 0))
            slopes[n][largest] = max(weight[n] - slopes[n].sum(), 0.0)
        if leaf.function in _DIVERGENCES and constants == [0] and weight[n] > 0:
            slopes[n][0] = weight[n] * _DIVERGENCES[leaf.function](slopes[n][1] / weight[n])
        if leaf.function in _LEAST_WEIGHT and not _suit(leaf, slopes[n], float(weight[n])):
            return False
        for s, form in zip(slopes[n], leaf.arguments, strict=True):
            _add(weight, form, s)
    return True


def _suit(leaf: Leaf, slopes: Float[np.ndarray, "k"], weight: float) -> bool:
    """Return whether slopes are those of the function under its weight, up to what a cone solver errs."""
    if weight <= 0:
        return not np.any(slopes)
    moved, _ = FUNCTIONS[leaf.function].conjugate(Fraction(weight), list(map(Fraction, slopes.tolist())), leaf.p)
    return bool(np.abs(np.array(moved, dtype=np.float64) - slopes).max(initial=0.0) <= _ERROR * weight)


def _add(weight: Float[np.ndarray, "leaves"], form: dict, w: float) -> None:
    for name, c in form.items():
        if name and name[0] == "leaf":
            weight[name[1]] += w * float(c)
