"""Products of the cones that convex problems reduce to, and membership in their duals with room to spare."""

from dataclasses import dataclass
from typing import final

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

EPS = float(np.finfo(np.float64).eps)


@final
@dataclass(frozen=True)
class Cones:
    """A product of cones, in this order: {0}, >= 0, second-order, exponential, three-dimensional power cones.

    The exponential cone is {(x, y, z): y exp(x / y) <= z, y > 0} and its closure; the power cone with exponent a is
    {(x, y, z): x^a y^(1-a) >= |z|, x, y >= 0}.
    """

    zero: int
    nonneg: int
    second_order: tuple[int, ...]
    exponential: int
    power: tuple[float, ...]

    @property
    def size(self) -> int:
        """The number of rows."""
        return self.zero + self.nonneg + sum(self.second_order) + 3 * (self.exponential + len(self.power))

    def starts(self) -> tuple[int, int, int, int]:
        """Return the first row of the inequalities, the second-order, the exponential and the power cones."""
        second = self.zero + self.nonneg
        exponential = second + sum(self.second_order)
        return self.zero, second, exponential, exponential + 3 * self.exponential

    def extents(self) -> list[tuple[int, int]]:
        """Return first and last row (exclusive) of every cone but {0}; every inequality is one of its own."""
        nonneg, second, exponential, _ = self.starts()
        found = [(i, i + 1) for i in range(nonneg, second)]
        start = second
        for size in self.second_order:
            found.append((start, start + size))
            start += size
        triples = self.exponential + len(self.power)
        return found + [(exponential + 3 * i, exponential + 3 * i + 3) for i in range(triples)]

    def signs(self) -> Float[np.ndarray, "r"]:
        """Return 1 or -1 for rows whose multipliers cannot be of the other sign, 0 for the rest."""
        heads = [np.eye(1, size)[0] for size in self.second_order]
        parts = [np.zeros(self.zero), np.ones(self.nonneg), *heads]
        parts += [np.tile((-1.0, 0.0, 1.0), self.exponential), np.tile((1.0, 1.0, 0.0), len(self.power))]
        return np.concatenate(parts)

    def block_of_row(self) -> Int[np.ndarray, "r"]:
        """Return the index in `extents` of the cone of every row, -1 for the rows of {0}."""
        blocks = np.full(self.size, -1)
        for block, (start, stop) in enumerate(self.extents()):
            blocks[start:stop] = block
        return blocks

    def insides(self) -> sp.csr_array:
        """Return for every cone of `extents` a point deep inside its dual, as the rows of a matrix."""
        point, extents = self._list_points(exponential=(-1.0, 0.5, 1.0)), self.extents()
        columns = np.concatenate([*(np.arange(start, stop) for start, stop in extents), np.zeros(0, dtype=int)])
        starts = np.cumsum([0, *(stop - start for start, stop in extents)])
        return sp.csr_array((point[columns], columns, starts), shape=(len(extents), self.size))

    def size_of_duals(self) -> Float[np.ndarray, "r"]:
        """Return a point inside the cone itself: its product with a dual vector measures that vector."""
        return self._list_points(exponential=(-1.0, 1.0, 1.0))

    def _list_points(self, exponential: tuple[float, float, float]) -> Float[np.ndarray, "r"]:
        heads = [np.eye(1, size)[0] for size in self.second_order]
        parts = [np.zeros(self.zero), np.ones(self.nonneg), *heads]
        parts += [np.tile(exponential, self.exponential), np.tile((1.0, 1.0, 0.0), len(self.power))]
        return np.concatenate(parts)

    def zeros(self, dual: Float[np.ndarray, "r"]) -> Bool[np.ndarray, "r"]:
        """Return the rows of cones (inequalities one by one) whose dual vector is 0 in every entry."""
        _, second, exponential, _ = self.starts()
        zero = dual == 0
        zero[: self.zero] = False  # the dual of {0} has no apex
        start = second
        for size in self.second_order:
            zero[start : start + size] = np.all(zero[start : start + size])
            start += size
        triples = np.all(zero[exponential:].reshape(-1, 3), axis=1)
        zero[exponential:] = np.repeat(triples, 3)
        return zero

    def outside(self, dual: Float[np.ndarray, "r"], room: Float[np.ndarray, "r"]) -> list[int]:
        """Return the first row of every cone that a move of up to `room` in each row of the dual vector could leave."""
        nonneg, second, exponential, power = self.starts()
        lost = [nonneg + int(i) for i in np.flatnonzero(dual[nonneg:second] < room[nonneg:second])]
        start = second
        for size in self.second_order:
            if not _is_in_second_order(dual[start : start + size], room[start : start + size]):
                lost.append(start)
            start += size
        points, slacks = dual[exponential:power].reshape(-1, 3), room[exponential:power].reshape(-1, 3)
        lost += [exponential + 3 * int(i) for i in np.flatnonzero(~_are_in_dual_exponential(points, slacks))]
        points, slacks = dual[power:].reshape(-1, 3), room[power:].reshape(-1, 3)
        inside = _are_in_dual_power(points, slacks, np.array(self.power))
        return lost + [power + 3 * int(i) for i in np.flatnonzero(~inside)]


def _is_in_second_order(point: Float[np.ndarray, "n"], room: Float[np.ndarray, "n"]) -> bool:
    """Check that the whole box lies in the cone; a vector that is 0 and need not move is its apex, exactly."""
    if not np.any(point) and not np.any(room):
        return True
    return bool(point[0] - room[0] >= np.linalg.norm(np.abs(point[1:]) + room[1:]) * (1 + point.size * EPS))


def _are_in_dual_exponential(point: Float[np.ndarray, "n 3"], room: Float[np.ndarray, "n 3"]) -> Bool[np.ndarray, "n"]:
    """Check which boxes of half-width `room` lie in the dual cone: u < 0 and -u exp(v/u) <= e w, or u = 0 <= v, w.

    The dual cone grows with v and with w, and it is convex: the two ends in u at the least v and w decide.
    """
    v, w = point[:, 1] - room[:, 1], point[:, 2] - room[:, 2]
    inside = np.ones(len(point), dtype=bool)
    for u in (point[:, 0] - room[:, 0], point[:, 0] + room[:, 0]):
        with np.errstate(all="ignore"):
            exponent = v / u - 1 + np.log(-u)
            rounding = 4 * EPS * (2 + np.abs(v / u) + np.abs(np.log(-u)) + np.abs(np.log(w)))
            curved = (u < 0) & (w > 0) & (exponent <= np.log(w) - rounding)
        inside &= curved | ((u == 0) & (v >= 0) & (w >= 0))
    return inside


def _are_in_dual_power(
    point: Float[np.ndarray, "n 3"], room: Float[np.ndarray, "n 3"], a: Float[np.ndarray, "n"]
) -> Bool[np.ndarray, "n"]:
    """Check which boxes lie in the dual cone: (u/a)^a (v/(1-a))^(1-a) >= |w| and u, v >= 0."""
    u, v, w = point[:, 0] - room[:, 0], point[:, 1] - room[:, 1], np.abs(point[:, 2]) + room[:, 2]
    product = (np.maximum(u, 0) / a) ** a * (np.maximum(v, 0) / (1 - a)) ** (1 - a)
    return (u >= 0) & (v >= 0) & (product >= w * (1 + 16 * EPS))
