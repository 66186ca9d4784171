"""Enclosures of CVXPY expressions: an interval that holds the exact value for every argument within a box.

A derivative says nothing where it is 0 or jumps, however small the box: (1e8 d)^2 is 1e-16 of a d of 1e-16, and its
derivative at 0 is 0. So expressions are evaluated in interval arithmetic, atom by atom. Three facts give every rule:

* what is monotone has its range between its values at the two ends (entry by entry, axis or not);
* what is convex has its maximum over a box at a corner of it; in one dimension its minimum is at the end nearest to its
  lowest point, or there;
* a floating-point operation has a relative error of at most EPS / 2, a sum of n terms one of n EPS relative to the sum
  of absolute values, NumPy's elementary functions a few units in the last place. Every result is moved outwards by more
  than that (`widen`), relative to the largest number that it was made of.

So the interval holds by induction over the tree, and to first order it is no wider than |derivative| times the box.
Atoms without a rule have no enclosure by themselves; `Functions` then uses convexity of the whole.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.binary_operators import DivExpression, MulExpression
from cvxpy.atoms.affine.broadcast_to import broadcast_to
from cvxpy.atoms.affine.concatenate import Concatenate
from cvxpy.atoms.affine.diag import diag_mat, diag_vec
from cvxpy.atoms.affine.hstack import Hstack
from cvxpy.atoms.affine.index import index, special_index
from cvxpy.atoms.affine.promote import Promote
from cvxpy.atoms.affine.reshape import reshape
from cvxpy.atoms.affine.trace import Trace
from cvxpy.atoms.affine.transpose import transpose
from cvxpy.atoms.affine.unary_operators import NegExpression
from cvxpy.atoms.affine.upper_tri import upper_tri
from cvxpy.atoms.affine.vstack import Vstack
from cvxpy.atoms.affine.wraps import Wrap
from cvxpy.atoms.atom import Atom
from jaxtyping import Float

from bidual.problem.modelling._hulls import (
    EPS,
    TINY,
    Hull,
    enclose_moves,
    enclose_multiple,
    enclose_negative,
    enclose_product,
    enclose_quotient,
    enclose_running_sum,
    enclose_sum,
    evaluate_atom,
    to_dense,
    widen,
    with_sign_of_terms,
)

_ELEMENTARY = 16.0  # units in the last place: far more than NumPy's functions err


_NEVER_NEGATIVE = (cp.abs, cp.norm1, cp.norm_inf, cp.quad_over_lin, cp.huber, cp.exp, cp.logistic, cp.kl_div)


class NoEnclosureError(Exception):
    """An atom without a rule."""


Rule = Callable[[Any, list[Hull]], Hull]


def enclose(expression: cp.Expression, leaves: Mapping[int, Hull]) -> Hull:
    """Enclose the values of an expression; `leaves` are the boxes of its variables, by id."""
    if isinstance(expression, cp.Variable):
        return leaves[expression.id]
    if not isinstance(expression, Atom) or not expression.variables():
        value = to_dense(expression.value)
        return Hull(value, value)
    rule = next((RULES[kind] for kind in type(expression).__mro__ if kind in RULES), None)
    if rule is None:
        raise NoEnclosureError(type(expression).__name__)
    with np.errstate(all="ignore"):  # outside a domain: infinite, or NaN, which bounds nothing
        low, high = rule(expression, [enclose(argument, leaves) for argument in expression.args])
    shape = expression.shape
    low, high = (np.broadcast_to(np.asarray(end, dtype=np.float64), shape) for end in (low, high))
    least = 0.0 if _is_never_negative(expression) else -np.inf
    return Hull(np.where(np.isnan(low), least, np.maximum(low, least)), np.where(np.isnan(high), np.inf, high))


def _is_never_negative(atom: Atom) -> bool:
    """Return whether no value of an atom is below 0; outside its domain a convex one is +inf."""
    if isinstance(atom, cp.Pnorm):
        return float(atom.get_data()[0]) >= 1
    return isinstance(atom, _NEVER_NEGATIVE)


# Nonlinear atoms.


def _select_entries(atom: Atom, parts: list[Hull]) -> Hull:
    return enclose_moves(atom, parts)  # a maximum is one of its arguments


def _sum_largest(atom: Any, parts: list[Hull]) -> Hull:  # noqa: ANN401
    n = parts[0].low.size
    return with_sign_of_terms(widen(*enclose_moves(atom, parts), size=np.sum(parts[0].largest), units=2 * n + 4), parts)


def _replace_infinite(end: np.ndarray) -> Float[np.ndarray, "..."]:
    return np.where(np.isfinite(end), np.abs(end), 0.0)


def _enclose_absolute(atom: Atom, parts: list[Hull]) -> Hull:
    del atom
    return Hull(parts[0].smallest, parts[0].largest)


def _enclose_norm(atom: Any, parts: list[Hull]) -> Hull:  # noqa: ANN401
    """Enclose a norm, or the concave kind on its domain, where the norm of absolute values is increasing."""
    part, n = parts[0], parts[0].low.size
    p = 1.0 if isinstance(atom, cp.norm1) else np.inf if isinstance(atom, cp.norm_inf) else float(atom.get_data()[0])
    units = (2 * n + 8) * max(1.0, 1.0 / abs(p)) + _ELEMENTARY
    unit = max(float(np.max(part.largest, initial=0.0)), TINY)  # in these units the largest entry does not underflow
    unit = unit if np.isfinite(unit) else 1.0
    low, high = (unit * evaluate_atom(atom, [end / unit]) for end in (part.smallest, part.largest))
    lost = (
        0.0 if np.all(part.largest == 0) else 1e-150 + (unit * (n * TINY) ** (1 / p) if atom.axis is not None else 0.0)
    )
    if p < 1:
        low = np.where(np.any(part.low < 0), -np.inf, low)
    return Hull(low * (1 - units * EPS) - lost, high * (1 + units * EPS) + lost)


def _enclose_power(atom: Any, parts: list[Hull]) -> Hull:  # noqa: ANN401
    """Enclose x^p by its values at the ends, for every kind of p."""
    part, p = parts[0], float(np.asarray(atom.p.value, dtype=np.float64))
    if p == 0:
        return Hull(np.ones(part.low.shape), np.ones(part.low.shape))
    if p == 1:
        return part
    even = p >= 2 and p == int(p) and int(p) & (int(p) - 1) == 0
    ends = (part.smallest, part.largest) if even else (part.low, part.high)
    low, high = (end**p for end in (ends if p > 0 else ends[::-1]))
    units = _ELEMENTARY + 4 * abs(p)
    low, high = np.minimum(low, high) * (1 - units * EPS), np.maximum(low, high) * (1 + units * EPS)
    high = np.where(high == 0, np.where(ends[1] == 0, 0.0, TINY), high)  # a square may underflow
    if even:
        return Hull(low, high)
    outside, reached = part.low < 0, part.high < 0
    if p > 1:  # convex on v >= 0, and +inf beyond
        return Hull(np.where(outside & ~reached, 0.0, low), np.where(outside, np.inf, high))
    if p > 0:
        return Hull(np.where(outside, -np.inf, low), high)
    return Hull(np.where(reached, -np.inf, low), np.where(part.low <= 0, np.inf, high))


def _enclose_squared_over(atom: Any, parts: list[Hull]) -> Hull:  # noqa: ANN401
    """Enclose sum(x^2) / y: it grows with every |x|, and falls with y > 0."""
    x, y = parts
    n = x.low.size
    large, small = (np.asarray(evaluate_atom(atom, [end, np.ones(y.low.shape)])) for end in (x.largest, x.smallest))
    none = np.all(x.largest == 0) & np.all(y.low >= 0)
    high = np.where(np.all(y.low > 0), large / np.max(np.abs(y.low)), np.where(none, 0.0, np.inf))
    low = np.where(np.all(y.high > 0), small / np.max(np.abs(y.high)), 0.0)
    units = 2 * n + 8
    lost = np.where(np.any(x.largest > 0), (n + 1) * TINY, 0.0)  # squares may underflow
    return Hull(np.maximum(low * (1 - units * EPS) - lost, 0.0), high * (1 + units * EPS) + lost)


def _enclose_huber(atom: Any, parts: list[Hull]) -> Hull:  # noqa: ANN401
    part, M = parts[0], float(np.asarray(atom.M.value, dtype=np.float64))

    def value(size: np.ndarray) -> np.ndarray:
        return np.where(size <= M, size * size, 2 * M * size - M * M)

    size = np.minimum(part.largest, M) * part.largest
    return widen(value(part.smallest), value(part.largest), 3 * size, 4)


def _enclose_entropies(atom: Atom, parts: list[Hull]) -> Hull:
    """Enclose -x log x: concave, largest at 1/e, and -inf below 0."""
    del atom
    part = parts[0]
    ends = [np.where(v > 0, -v * np.log(np.where(v > 0, v, 1.0)), np.where(v == 0, 0.0, -np.inf)) for v in part]
    peak = (part.low <= np.exp(-1.0)) & (part.high >= np.exp(-1.0))
    high = np.where(peak, np.exp(-1.0), np.maximum(*ends))
    size = np.maximum(_replace_infinite(high), np.maximum(_replace_infinite(ends[0]), _replace_infinite(ends[1])))
    return widen(np.minimum(*ends), high, size, _ELEMENTARY)


def _compute_relative(x: np.ndarray, y: np.ndarray) -> Float[np.ndarray, "..."]:
    inside = (x > 0) & (y > 0)
    value = x * (np.log(np.where(inside, x, 1.0)) - np.log(np.where(inside, y, 1.0)))
    return np.where(inside, value, np.where((x == 0) & (y >= 0), 0.0, np.inf))


def _enclose_relative_entropies(atom: Atom, parts: list[Hull]) -> Hull:
    """Enclose x log(x/y), and - x + y for the divergence: jointly convex, so largest at a corner."""
    x, y = (Hull(*(np.broadcast_to(end, atom.shape) for end in part)) for part in parts)
    divergence = isinstance(atom, cp.kl_div)
    corners = [_compute_relative(a, b) + (b - a if divergence else 0.0) for a in x for b in y]
    logs = [np.where(v > 0, np.abs(np.log(np.where(v > 0, v, 1.0))), 0.0) for v in (*x, *y)]
    size = x.largest * (2 + np.maximum.reduce(logs)) + (y.largest if divergence else 0.0)
    least = (
        np.where(x.high < y.low, x.high, np.clip(y.high, x.low, x.high))
        if divergence
        else np.clip(y.high / np.e, x.low, x.high)
    )
    other = np.clip(least, y.low, y.high) if divergence else y.high
    low = _compute_relative(np.maximum(least, 0.0), np.maximum(other, 0.0)) + (other - least if divergence else 0.0)
    return widen(np.where(np.isfinite(low), low, -np.inf), np.maximum.reduce(corners), size, 2 * _ELEMENTARY)


def _enclose_logarithms(atom: Atom, parts: list[Hull]) -> Hull:
    """Enclose log(x) or log(1 + x): -inf where the box leaves the domain."""
    edge = -1.0 if isinstance(atom, cp.log1p) else 0.0
    function = np.log1p if isinstance(atom, cp.log1p) else np.log
    low, high = (np.where(end > edge, function(np.where(end > edge, end, 1.0)), -np.inf) for end in parts[0])
    return widen(low, high, np.maximum(_replace_infinite(low), _replace_infinite(high)), _ELEMENTARY)


def _enclose_exponential_sums(atom: Any, parts: list[Hull]) -> Hull:  # noqa: ANN401
    low, high = enclose_moves(atom, parts)
    size = np.max(parts[0].largest) + np.log(parts[0].low.size) + 1.0
    return widen(low, high, size, 2 * parts[0].low.size + _ELEMENTARY)


def _enclose_logistics(atom: Atom, parts: list[Hull]) -> Hull:
    del atom
    low, high = (np.logaddexp(0.0, end) for end in parts[0])
    return widen(low, high, np.maximum(low, high), _ELEMENTARY)


def _enclose_exponentials(atom: Atom, parts: list[Hull]) -> Hull:
    del atom
    low, high = (np.exp(end) for end in parts[0])
    return Hull(low * (1 - _ELEMENTARY * EPS), high * (1 + _ELEMENTARY * EPS) + TINY)


def _enclose_geometric_mean(atom: Any, parts: list[Hull]) -> Hull:  # noqa: ANN401
    low, high = (evaluate_atom(atom, [np.maximum(end, 0.0)]) for end in parts[0])
    low = np.where(np.any(parts[0].low < 0), -np.inf, low)
    return widen(low, high, _replace_infinite(high), 8.0 * parts[0].low.size + _ELEMENTARY)


RULES: Mapping[type, Rule] = MappingProxyType(
    {
        **dict[type, Rule].fromkeys(
            (
                *(broadcast_to, Concatenate, diag_mat, diag_vec, Hstack, index, special_index, Promote, reshape),
                *(transpose, upper_tri, Vstack, Wrap),
            ),
            enclose_moves,
        ),
        cp.AddExpression: enclose_sum,
        cp.Sum: enclose_sum,
        Trace: enclose_sum,
        cp.cumsum: enclose_running_sum,
        NegExpression: enclose_negative,
        cp.multiply: enclose_multiple,
        DivExpression: enclose_quotient,
        MulExpression: enclose_product,
        cp.abs: _enclose_absolute,
        cp.norm1: _enclose_norm,
        cp.norm_inf: _enclose_norm,
        cp.Pnorm: _enclose_norm,
        cp.max: _select_entries,
        cp.min: _select_entries,
        cp.maximum: _select_entries,
        cp.minimum: _select_entries,
        cp.cummax: _select_entries,
        cp.sum_largest: _sum_largest,
        cp.Power: _enclose_power,
        cp.quad_over_lin: _enclose_squared_over,
        cp.huber: _enclose_huber,
        cp.entr: _enclose_entropies,
        cp.rel_entr: _enclose_relative_entropies,
        cp.kl_div: _enclose_relative_entropies,
        cp.log: _enclose_logarithms,
        cp.log1p: _enclose_logarithms,
        cp.exp: _enclose_exponentials,
        cp.log_sum_exp: _enclose_exponential_sums,
        cp.logistic: _enclose_logistics,
        cp.GeoMean: _enclose_geometric_mean,
    }
)
