"""Hulls, intervals that hold the exact values of an expression, and the rules of affine atoms for them.

Affine atoms move entries about, add them, or multiply them by constants. Every result is moved outwards by more than
its rounding error (`widen`), relative to the largest number that it was made of.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.atoms.atom import Atom
from jaxtyping import Float

EPS = float(np.finfo(np.float64).eps)
TINY = float(np.finfo(np.float64).tiny)  # below it errors are absolute, and no larger
Ends = np.ndarray | np.floating | float


class Hull(NamedTuple):
    """The least and the largest value, entry by entry; a NaN encloses nothing and is treated as infinite."""

    low: Float[np.ndarray, "..."]
    high: Float[np.ndarray, "..."]

    @property
    def largest(self) -> Float[np.ndarray, "..."]:
        """The largest absolute value."""
        return np.asarray(np.maximum(np.abs(self.low), np.abs(self.high)))

    @property
    def smallest(self) -> Float[np.ndarray, "..."]:
        """The smallest absolute value."""
        return np.asarray(np.maximum(np.maximum(self.low, -self.high), 0.0))


def widen(low: Ends, high: Ends, size: Ends, units: float | int) -> Hull:
    """Move both ends outwards by so many EPS of `size`, the largest number that they were made of."""
    slack = units * EPS * np.asarray(size) + units * TINY
    return Hull(np.asarray(low - slack), np.asarray(high + slack))


def to_dense(value: Any) -> Float[np.ndarray, "..."]:  # noqa: ANN401 - CVXPY's constants have many types
    return np.asarray(sp.coo_array(value).toarray() if sp.issparse(value) else value, dtype=np.float64)


def enclose_moves(atom: Atom, parts: list[Hull]) -> Hull:
    """Enclose an atom that only moves entries about."""
    return Hull(evaluate_atom(atom, [part.low for part in parts]), evaluate_atom(atom, [part.high for part in parts]))


def evaluate_atom(atom: Any, values: Sequence[Ends]) -> Float[np.ndarray, "..."]:  # noqa: ANN401 - any atom
    return np.asarray(atom.numeric([np.asarray(value) for value in values]), dtype=np.float64)


def enclose_sum(atom: Any, parts: list[Hull]) -> Hull:  # noqa: ANN401 - any sum of entries or of arguments
    """Enclose a sum, each end by itself: additions lose nothing but a share of what they add, and nothing of 0."""
    if isinstance(atom, cp.Sum) and atom.axis is None and np.all(np.isfinite(parts[0])):
        low, high = (np.asarray(math.fsum(end.ravel().tolist())) for end in parts[0])  # rounded once, however many
        return Hull(low - EPS * np.abs(low), high + EPS * np.abs(high))
    low, high = enclose_moves(atom, parts)
    units = 1 + max(len(parts), max(part.low.size for part in parts) // max(1, int(np.prod(atom.shape))))
    low_size, high_size = (evaluate_atom(atom, [np.abs(part[end]) for part in parts]) for end in (0, 1))
    return with_sign_of_terms(Hull(low - units * EPS * low_size, high + units * EPS * high_size), parts)


def enclose_running_sum(atom: Any, parts: list[Hull]) -> Hull:  # noqa: ANN401
    found = widen(
        *enclose_moves(atom, parts), size=evaluate_atom(atom, [parts[0].largest]), units=parts[0].low.size + 1
    )
    return with_sign_of_terms(found, parts)


def with_sign_of_terms(found: Hull, parts: list[Hull]) -> Hull:
    """Return the hull of a sum without what rounding, or an infinity times 0, has put on the wrong side of 0."""
    low = np.fmax(found.low, 0.0) if all(np.all(part.low >= 0) for part in parts) else found.low
    high = np.fmin(found.high, 0.0) if all(np.all(part.high <= 0) for part in parts) else found.high
    return Hull(np.asarray(low), np.asarray(high))


def with_sign_of_product(found: Hull, first: Hull, second: Hull) -> Hull:
    """Return the hull of a product or quotient likewise, where both factors have a known sign all over."""
    above = [bool(np.all(part.low >= 0)) for part in (first, second)]
    below = [bool(np.all(part.high <= 0)) for part in (first, second)]
    low, high = found
    if all(above) or all(below):
        low = np.fmax(low, 0.0)
    if (above[0] and below[1]) or (below[0] and above[1]):
        high = np.fmin(high, 0.0)
    return Hull(np.asarray(low), np.asarray(high))


def enclose_negative(atom: Atom, parts: list[Hull]) -> Hull:
    del atom
    return Hull(-parts[0].high, -parts[0].low)


def enclose_multiple(atom: Atom, parts: list[Hull]) -> Hull:
    del atom
    first, second = parts
    corners = [np.asarray(a * b) for a in first for b in second]
    found = widen(np.minimum.reduce(corners), np.maximum.reduce(corners), first.largest * second.largest, 2)
    return with_sign_of_product(found, first, second)


def enclose_quotient(atom: Atom, parts: list[Hull]) -> Hull:
    """Enclose a / b by its corners; unbounded where b may be 0."""
    del atom
    first, second = parts
    corners = [np.asarray(a / b) for a in first for b in second]
    high = np.maximum.reduce(corners)
    inside = second.smallest > 0
    found = widen(
        np.where(inside, np.minimum.reduce(corners), -np.inf),
        np.where(inside, high, np.inf),
        first.largest / np.where(inside, second.smallest, 1.0),
        2,
    )
    return with_sign_of_product(found, first, second) if np.all(inside) else found


def enclose_product(atom: Any, parts: list[Hull]) -> Hull:  # noqa: ANN401
    """Enclose a matrix product by its centre and radius: one factor is constant, so nothing is lost."""
    (a, ra), (b, rb) = (((p.high + p.low) / 2, (p.high - p.low) / 2) for p in parts)
    large = evaluate_atom(atom, [np.abs(a) + ra, np.abs(b) + rb])
    centre = evaluate_atom(atom, [a, b])
    radius = evaluate_atom(atom, [np.abs(a), rb]) + evaluate_atom(atom, [ra, np.abs(b)]) + evaluate_atom(atom, [ra, rb])
    terms = parts[0].low.shape[-1] if parts[0].low.ndim else 1
    return with_sign_of_product(widen(centre - radius, centre + radius, large, 3 * terms + 8), *parts)
