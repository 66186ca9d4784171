"""Compact convex sets K that hold every embedding: boxes, simplices and their products.

Conjugates are taken over K (spec 2): f_K*(a) = max over x in K of a.x - f(x). For tables K is one simplex over states
and actions per step; for signals it is the box of their bounds. Every set here is a polyhedron, known by its bounds
and its equations, and solves one problem in closed form to which all distances reduce (`nearest`).
"""

import abc
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import final

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from bidual._base.brief import describe_briefly
from bidual._base.errors import ProblemError
from bidual.problem.convex._fill import fill, lift
from bidual.problem.convex._vectors import check_vector


class AbstractCompact(abc.ABC):
    """A compact convex polyhedron {x: lower <= x <= upper, equations}."""

    size: int  # the number of entries of a point

    @property
    @abc.abstractmethod
    def diameter(self) -> float:
        """The largest Euclidean distance between two points."""

    @property
    @abc.abstractmethod
    def center(self) -> Float[np.ndarray, "n"]:
        """A point in the middle."""

    @property
    @abc.abstractmethod
    def bounds(self) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
        """The least and the largest value of every entry."""

    @property
    @abc.abstractmethod
    def equations(self) -> tuple[sp.csr_array, Float[np.ndarray, "e"]]:
        """A and b of A x = b."""

    @abc.abstractmethod
    def maximiser(self, slope: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """Return a vertex where slope.x is largest."""

    @abc.abstractmethod
    def nearest(
        self, move: Float[np.ndarray, "n"], lower: Float[np.ndarray, "n"], upper: Float[np.ndarray, "n"]
    ) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
        """Maximise move.x - d(x)^2 / 2 over K, d the distance to the box [lower, upper]; return x and its excess.

        The second vector, x - clip(x, lower, upper), is not computed as a difference: it keeps its digits also where
        it is much smaller than x.
        """

    @abc.abstractmethod
    def farthest(self, point: Float[np.ndarray, "n"]) -> float:
        """Return the largest distance of a point of K from `point`."""

    def support(self, slope: Float[np.ndarray, "n"]) -> float:
        """Return the largest value of slope.x."""
        return float(slope @ self.maximiser(slope))

    def project(self, x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """Return the point of K nearest to x."""
        check_vector(x, self.size, "x")
        return self.nearest(np.zeros_like(x), x, x)[0]

    def contains(self, x: Float[np.ndarray, "n"], tolerance: float = 1e-9) -> bool:
        """Return whether every bound and every equation holds up to `tolerance`; false for NaN."""
        check_vector(x, self.size, "x", finite=False)
        (lower, upper), (A, b) = self.bounds, self.equations
        inside = np.all(x >= lower - tolerance) and np.all(x <= upper + tolerance)
        return bool(inside and np.all(np.abs(A @ x - b) <= tolerance))

    @property
    def reach(self) -> Float[np.ndarray, "n"]:
        """The largest absolute value of every entry."""
        lower, upper = self.bounds
        return np.maximum(np.abs(lower), np.abs(upper))


@final
@dataclass(frozen=True, eq=False)
class Box(AbstractCompact):
    """{x: lower <= x <= upper}."""

    __repr__ = describe_briefly

    lower: Float[np.ndarray, "n"]
    upper: Float[np.ndarray, "n"]
    size: int = field(init=False)

    def __post_init__(self) -> None:
        """Refuse bounds that are missing, crossed or not numbers."""
        object.__setattr__(self, "size", self.lower.size)
        check_vector(self.lower, self.lower.size, "K's lower bounds", finite=False)
        check_vector(self.upper, self.lower.size, "K's upper bounds", finite=False)
        if self.lower.size == 0:
            raise ProblemError("K has no entries; give at least one pair of bounds")
        for bound in (self.lower, self.upper):
            for i in np.flatnonzero(~np.isfinite(bound)):
                raise ProblemError(f"K must be compact: its bound on entry {i} is {bound[i]}; give finite bounds")
        for i in np.flatnonzero(self.lower > self.upper):
            raise ProblemError(
                f"K is empty: its bounds on entry {i} are {self.lower[i]} <= x <= {self.upper[i]}; exchange them"
            )

    @property
    def diameter(self) -> float:
        """The distance from corner to corner."""
        return float(np.linalg.norm(self.upper - self.lower))

    @property
    def center(self) -> Float[np.ndarray, "n"]:
        """The middle of every interval."""
        return np.clip(0.5 * self.lower + 0.5 * self.upper, self.lower, self.upper)

    @property
    def bounds(self) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
        """The fields themselves."""
        return self.lower, self.upper

    @property
    def equations(self) -> tuple[sp.csr_array, Float[np.ndarray, "e"]]:
        """No equations."""
        return sp.csr_array((0, self.size)), np.zeros(0)

    def maximiser(self, slope: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """Return the upper bound where the slope is positive, else the lower one."""
        check_vector(slope, self.size, "the slope")
        return np.where(slope > 0, self.upper, self.lower)

    def nearest(
        self, move: Float[np.ndarray, "n"], lower: Float[np.ndarray, "n"], upper: Float[np.ndarray, "n"]
    ) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
        """Solve entry by entry: `move` beyond the end of the interval that it points to, clipped to K."""
        anchor = np.where(move > 0, upper, np.where(move < 0, lower, np.clip(self.center, lower, upper)))
        excess = lift(move, lower, upper, self.lower, self.upper)
        return np.clip(anchor + move, self.lower, self.upper), excess

    def farthest(self, point: Float[np.ndarray, "n"]) -> float:
        """Return the distance of the farthest corner."""
        return float(np.linalg.norm(np.maximum(np.abs(self.lower - point), np.abs(self.upper - point))))


@final
@dataclass(frozen=True, eq=False)
class Simplex(AbstractCompact):
    """{x: x >= 0, sum x = mass}."""

    size: int
    mass: float = 1.0

    def __post_init__(self) -> None:
        """Refuse an empty set and one that is not bounded."""
        if self.size < 1:
            raise ProblemError(f"a simplex needs at least one entry; got size {self.size}")
        if not (math.isfinite(self.mass) and self.mass > 0):
            raise ProblemError(f"the mass of a simplex must be positive and finite; got {self.mass}")

    @property
    def diameter(self) -> float:
        """The distance from vertex to vertex."""
        return self.mass * math.sqrt(2.0) if self.size > 1 else 0.0

    @property
    def center(self) -> Float[np.ndarray, "n"]:
        """The uniform vector."""
        return np.full(self.size, self.mass / self.size)

    @property
    def bounds(self) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
        """The bounds 0 and the mass (a single entry has all of it)."""
        return np.full(self.size, self.mass if self.size == 1 else 0.0), np.full(self.size, self.mass)

    @property
    def equations(self) -> tuple[sp.csr_array, Float[np.ndarray, "e"]]:
        """The equation of the sum."""
        return sp.csr_array(np.ones((1, self.size))), np.array([self.mass])

    def maximiser(self, slope: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """Put all mass on the largest slope."""
        check_vector(slope, self.size, "the slope")
        x = np.zeros(self.size)
        x[np.argmax(slope)] = self.mass
        return x

    def nearest(
        self, move: Float[np.ndarray, "n"], lower: Float[np.ndarray, "n"], upper: Float[np.ndarray, "n"]
    ) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
        """Solve entry by entry at the multiplier of the sum."""
        return fill(self.mass, move, lower, upper)

    def farthest(self, point: Float[np.ndarray, "n"]) -> float:
        """Return the distance of the vertex of the least entry: |mass e_i - t|^2 = |t|^2 - t_i^2 + (mass - t_i)^2."""
        rest = point.copy()
        rest[np.argmin(point)] -= self.mass
        return float(np.linalg.norm(rest))


@final
@dataclass(frozen=True, eq=False)
class Product(AbstractCompact):
    """Points of several sets, one after the other."""

    __repr__ = describe_briefly

    parts: tuple[AbstractCompact, ...]
    size: int = field(init=False)

    def __post_init__(self) -> None:
        """Refuse a product of nothing."""
        object.__setattr__(self, "size", sum(part.size for part in self.parts))
        if not self.parts:
            raise ProblemError("K is a product of no sets; give at least one part")

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """The slice of every part."""
        ends = np.cumsum([part.size for part in self.parts])
        return tuple(slice(int(end) - part.size, int(end)) for part, end in zip(self.parts, ends, strict=True))

    @property
    def diameter(self) -> float:
        """The norm of the parts' diameters."""
        return math.hypot(*(part.diameter for part in self.parts))

    @property
    def center(self) -> Float[np.ndarray, "n"]:
        """The centers of all parts, concatenated."""
        return np.concatenate([part.center for part in self.parts])

    @property
    def bounds(self) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
        """The bounds of all parts, concatenated."""
        return self._bounds

    @property
    def equations(self) -> tuple[sp.csr_array, Float[np.ndarray, "e"]]:
        """The equations of all parts, as one block-diagonal system."""
        return self._equations

    @cached_property
    def _bounds(self) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
        lowers, uppers = zip(*(part.bounds for part in self.parts), strict=True)
        return np.concatenate(lowers), np.concatenate(uppers)

    @cached_property
    def _equations(self) -> tuple[sp.csr_array, Float[np.ndarray, "e"]]:
        matrices, sides = zip(*(part.equations for part in self.parts), strict=True)
        return sp.csr_array(sp.block_diag(matrices)), np.concatenate(sides)

    def maximiser(self, slope: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """Maximise part by part."""
        check_vector(slope, self.size, "the slope")
        if self._alike is None:
            return np.concatenate([part.maximiser(slope[rows]) for part, rows in self.split()])
        x = np.zeros((len(self.parts), self._alike.size))
        x[np.arange(len(x)), slope.reshape(x.shape).argmax(axis=1)] = self._alike.mass
        return x.ravel()

    @cached_property
    def _alike(self) -> Simplex | None:
        """The common simplex of all parts, if there is one: the canonical embedding has it for every step."""
        first = self.parts[0]
        if not isinstance(first, Simplex):
            return None
        same = (isinstance(p, Simplex) and (p.size, p.mass) == (first.size, first.mass) for p in self.parts)
        return first if all(same) else None

    def nearest(
        self, move: Float[np.ndarray, "n"], lower: Float[np.ndarray, "n"], upper: Float[np.ndarray, "n"]
    ) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
        """Solve part by part: a squared distance is a sum."""
        found = [part.nearest(move[rows], lower[rows], upper[rows]) for part, rows in self.split()]
        return np.concatenate([x for x, _ in found]), np.concatenate([excess for _, excess in found])

    def farthest(self, point: Float[np.ndarray, "n"]) -> float:
        """Return the norm of the parts' distances."""
        return math.hypot(*(part.farthest(point[rows]) for part, rows in self.split()))

    def split(self) -> Iterator[tuple[AbstractCompact, slice]]:
        """Iterate over the parts with their slices."""
        return zip(self.parts, self.slices, strict=True)
