"""The master problem over many-dimensional images: Newton steps in the weights of the columns.

    min_w  f(Y'w)    s.t.   g(Y'w) <= 0,   w in the simplex

A Newton step needs the Hessians of f and g only as Gram matrices of the columns, y_j . H y_l, taken at a frozen
point: a new column costs one Hessian-vector product and one pass over the columns. They are recomputed when
the curvature along a step disagrees with a fresh Hessian-vector product. `solve_simplex_qp` solves them.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float

from bidual.dual._columns import Mix, NewtonColumns, NewtonStep, blend, find_longest_step, multiply_points, search_line
from bidual.dual._simplex_qp import QuadraticProgram, solve_simplex_qp
from bidual.problem.convex import AbstractSmooth


@final
@dataclass(frozen=True)
class NewtonMaster:
    """Settings of the master; the numbers were found by trial on grids and random graphs (docs/performance.md)."""

    newton_steps: int = 8
    idle_calls: int = 12  # a column without weight for so many calls is dropped
    capacity: int = 150
    duplicate: float = 1e-6  # refused: squared distance below this share of that to the point x
    curvature_low: float = 0.7  # fresh over frozen curvature outside these: recompute the Hessians
    curvature_high: float = 1.4
    anchor_weight: float = 1e-9
    refreshes: int = 3  # per call
    block: int = 8  # Hessian-vector products at once
    ridge: float = 1e-11

    def start(self, anchor: Float[np.ndarray, "n"], plan: int, rows: int) -> NewtonColumns:
        """Return the master with the anchor as its only column."""
        nothing = np.zeros(rows)
        mix = Mix(np.array([plan]), np.ones(1))
        return NewtonColumns((anchor,), (mix,), np.ones(1), np.zeros(1, dtype=int), None, nothing, anchor, anchor, {})

    def add(
        self, smooth: AbstractSmooth, columns: NewtonColumns, point: Float[np.ndarray, "n"], mix: Mix
    ) -> NewtonColumns:
        """Add a column of weight 0, unless it nearly repeats one."""
        if len(columns.points) == 1:
            columns = self._refresh_grams(smooth, columns._replace(grams=_empty_grams(smooth, columns.x, point)))
        products = {
            row: np.append(multiply_points(columns.points, along), point @ along)
            for row in columns.grams
            for along in smooth.curvature(row, columns.reference, point[None])
        }
        if self._is_repeated(columns, point, products):
            return columns
        grams = {row: _border(gram, products[row]) for row, gram in columns.grams.items()}
        return columns._replace(
            points=(*columns.points, point),
            mixes=(*columns.mixes, mix),
            weights=np.append(columns.weights, 0.0),
            idle=np.append(columns.idle, 0),
            grams=grams,
        )

    def solve(self, smooth: AbstractSmooth, columns: NewtonColumns, accuracy: float) -> NewtonColumns:
        """Take Newton steps until one gains less than `accuracy` and the constraints hold as well."""
        values, gradients = smooth.gradients(columns.x)
        refreshes = self.refreshes if columns.grams else 0
        for _ in range(self.newton_steps):
            step = self._propose(columns, values, gradients, accuracy)
            columns = columns._replace(gamma=step.gamma)
            if step.predicted <= 1e-3 * accuracy and step.excess <= accuracy and step.reach <= accuracy:
                break
            stale = refreshes > 0 and step.curve > 0 and self._is_stale(smooth, columns, step)
            t, reached = (0.0, values) if stale else search_line(smooth, columns, step, values)
            if t == 0.0:
                if refreshes == 0:
                    break
                columns, refreshes = self._refresh_grams(smooth, columns), refreshes - 1
                continue
            weights = np.maximum(columns.weights + t * step.weights, 0.0)
            columns = columns._replace(weights=weights / weights.sum(), x=columns.x + t * step.point)
            model = values[0] + t * step.slope + 0.5 * t * t * step.curve
            exact = t == 1.0 and abs(reached[0] - model) <= 0.1 * accuracy
            met = float(step.gamma.sum() * np.max(reached[1:], initial=0.0)) <= accuracy
            if met and (exact or values[0] - reached[0] <= accuracy):
                break
            values, gradients = smooth.gradients(columns.x)
        used = columns.weights > self._lower(columns) + 1e-14
        return self._drop_idle(columns._replace(idle=np.where(used, 0, columns.idle + 1)))

    def _lower(self, columns: NewtonColumns) -> Float[np.ndarray, "k"]:
        lower = np.zeros(len(columns.points))
        lower[0] = self.anchor_weight
        return lower

    def _is_repeated(
        self, columns: NewtonColumns, point: Float[np.ndarray, "n"], products: dict[int, Float[np.ndarray, "k1"]]
    ) -> bool:
        """Return whether a point is a column already, up to rounding, in the metric of f where there is one."""
        if 0 in products:  # in the metric of f
            gram, product = columns.grams[0], products[0]
            apart = np.diag(gram) + product[-1] - 2 * product[:-1]
            scale = columns.weights @ gram @ columns.weights + product[-1] - 2 * columns.weights @ product[:-1]
        else:
            apart = np.array([np.sum((other - point) ** 2) for other in columns.points])
            scale = np.sum((columns.x - point) ** 2)
        return bool(apart.min() <= self.duplicate * max(float(scale), 0.0))

    def _refresh_grams(self, smooth: AbstractSmooth, columns: NewtonColumns) -> NewtonColumns:
        """Recompute the Gram matrices at the present point."""
        k, grams = len(columns.points), {}
        for row in columns.grams:
            gram = np.empty((k, k))
            for start in range(0, k, self.block):
                some = columns.points[start : start + self.block]
                padded = np.zeros((self.block, columns.x.size))  # one shape, one compilation
                padded[: len(some)] = some
                along = smooth.curvature(row, columns.x, padded)[: len(some)]
                gram[start : start + len(some)] = [multiply_points(columns.points, one) for one in along]
            grams[row] = 0.5 * (gram + gram.T)
        return columns._replace(reference=columns.x, grams=grams)

    def _propose(
        self,
        columns: NewtonColumns,
        values: Float[np.ndarray, "r"],
        gradients: Float[np.ndarray, "r n"],
        accuracy: float,
    ) -> NewtonStep:
        """Solve the quadratic model with the frozen Hessians at the present point."""
        images = np.array([multiply_points(columns.points, gradient) for gradient in gradients])
        c, A, b = images[0], images[1:], gradients[1:] @ columns.x - values[1:]
        M = np.zeros((c.size, c.size))
        for row, gram in columns.grams.items():
            M += gram * (1.0 if row == 0 else columns.gamma[row - 1])
        lower = self._lower(columns)
        quadratic = QuadraticProgram(M, c - M @ columns.weights, A, b, lower)
        start = _restore_feasibility(columns, A, b, lower)
        w, gamma = solve_simplex_qp(quadratic, start, tolerance=0.1 * accuracy, ridge=self.ridge)
        change, reduced = w - columns.weights, c + gamma @ A
        slope, curve = float(c @ change), float(change @ M @ change)
        over = np.maximum(values[1:], 0.0)
        return NewtonStep(
            weights=change,
            point=blend(columns.points, w) - columns.x,
            gamma=gamma,
            slope=slope,
            curve=curve,
            predicted=float(gamma @ over) - slope - 0.5 * curve,
            excess=float(gamma.sum() * np.max(over, initial=0.0)),
            reach=float(reduced @ columns.weights - reduced.min()),
            longest_step=find_longest_step(columns.weights, change, A, b, lower),
        )

    def _is_stale(self, smooth: AbstractSmooth, columns: NewtonColumns, step: NewtonStep) -> bool:
        """Check whether the curvature along the step disagrees with a fresh Hessian-vector product."""
        fresh = 0.0
        for row in columns.grams:
            factor = 1.0 if row == 0 else float(columns.gamma[row - 1])
            if factor > 0:
                fresh += factor * float(step.point @ smooth.curvature(row, columns.x, step.point[None])[0])
        return not self.curvature_low * step.curve <= fresh <= self.curvature_high * step.curve

    def _drop_idle(self, columns: NewtonColumns) -> NewtonColumns:
        """Drop columns that had no weight for long, and the longest idle ones above the capacity."""
        age = columns.idle.copy()
        age[[0] if columns.slater is None else [0, columns.slater]] = -1
        out = age >= self.idle_calls
        excess = age.size - int(out.sum()) - self.capacity
        if excess > 0:
            longest = np.argsort(-np.where(out, -1, age), kind="stable")[:excess]
            out[longest[age[longest] > 0]] = True
        if not out.any():
            return columns
        stay = np.flatnonzero(~out)
        weights = columns.weights[stay]
        weights[0] += columns.weights[out].sum()
        return columns._replace(
            points=tuple(columns.points[i] for i in stay),
            mixes=tuple(columns.mixes[i] for i in stay),
            weights=weights,
            idle=columns.idle[stay],
            slater=None if columns.slater is None else int(np.searchsorted(stay, columns.slater)),
            grams={row: gram[np.ix_(stay, stay)] for row, gram in columns.grams.items()},
        )


def _empty_grams(
    smooth: AbstractSmooth, x: Float[np.ndarray, "n"], point: Float[np.ndarray, "n"]
) -> dict[int, np.ndarray]:
    """Return an empty Gram matrix for every row whose Hessian does not vanish towards the first other column."""
    rows = range(smooth.values(x).size)
    places = (x, 0.5 * (x + point))
    way = (point - x)[None]
    curved = [row for row in rows if any(np.any(smooth.curvature(row, place, way)) for place in places)]
    return {row: np.zeros((0, 0)) for row in curved}


def _border(gram: Float[np.ndarray, "k k"], product: Float[np.ndarray, "k1"]) -> Float[np.ndarray, "k1 k1"]:
    k = product.size - 1
    larger = np.empty((k + 1, k + 1))
    larger[:k, :k], larger[k], larger[:, k] = gram, product, product
    return larger


def _restore_feasibility(
    columns: NewtonColumns, A: Float[np.ndarray, "m k"], b: Float[np.ndarray, "m"], lower: Float[np.ndarray, "k"]
) -> Float[np.ndarray, "k"]:
    """Mix the weights with the Slater column until the linearised constraints hold."""
    w = np.maximum(columns.weights, lower)
    w /= w.sum()
    if b.size == 0 or columns.slater is None:
        return w
    over, room = A @ w - b, b - A[:, columns.slater]
    share = max((o / (o + r) for o, r in zip(over, room, strict=True) if o > 0), default=0.0)
    if share > 0:
        share = min(1.0, share * (1 + 1e-12))
        w = (1 - share) * w
        w[columns.slater] += share
        w = np.maximum(w, lower)
        w /= w.sum()
    return w
