"""Linear dynamics and quadratic costs: what is optimal, exactly, and what no policy can go below.

    s_{h+1} = A_h s_h + B_h u_h + c_h + noise,     noise of mean 0 and covariance N_h, independent of the past
    cost of a step:  x' M_h x + 2 b_h . x + r_h,   x = (s_h, u_h, s_{h+1})

V_h(s) = s' P_h s + 2 p_h . s + v_h is what is left to pay from step h on. All in NumPy and in double precision: this is
what sampled plans are judged by.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve

from bidual._errors import ModelError

_CURVED = 1e-10  # least eigenvalue of a Hessian with diagonal 1 that counts as positive
_GOLDEN = (5**0.5 - 1) / 2


class Laws(NamedTuple):
    """u_h = gains_h s + offsets_h, and the value that this leaves: s' P_0 s + 2 p_0 . s + v_0."""

    gains: Float[np.ndarray, "H m n"]
    offsets: Float[np.ndarray, "H m"]
    P: Float[np.ndarray, "n n"]
    p: Float[np.ndarray, "n"]
    v: float

    def value(self, mean: Float[np.ndarray, "n"], covariance: Float[np.ndarray, "n n"] | None = None) -> float:
        """The expected total cost from a random start."""
        spread = 0.0 if covariance is None else float(np.vdot(self.P, covariance))
        return float(mean @ self.P @ mean + 2 * self.p @ mean + self.v) + spread


@final
@dataclass(frozen=True, eq=False)
class LinearQuadratic:
    """A linear-quadratic problem of H steps; shapes say what may change with time."""

    A: Float[np.ndarray, "H n n"]
    B: Float[np.ndarray, "H n m"]
    M: Float[np.ndarray, "H x x"]  # symmetric, x = n + m + n
    noise: Float[np.ndarray, "H n n"]
    c: Float[np.ndarray, "H n"]
    b: Float[np.ndarray, "H x"]
    r: Float[np.ndarray, "H"]

    def solve(self) -> Laws:
        """The optimal affine law, by the Riccati recursion; refused where the least cost of a step is -infinity."""
        laws = _solved(self)
        if laws is None:
            raise ModelError(
                "the cost of a linear-quadratic problem is not convex in the control at some step: no control is the "
                "best; add a positive cost of the controls"
            )
        return laws

    def moments(
        self, laws: Laws, mean: Float[np.ndarray, "n"], covariance: Float[np.ndarray, "n n"] | None = None
    ) -> tuple[Float[np.ndarray, "H x"], Float[np.ndarray, "H x x"]]:
        """Mean and covariance of (s_h, u_h, s_{h+1}) at every step under an affine law."""
        H, n, _ = self.A.shape
        means, covariances = [], []
        spread = np.zeros((n, n)) if covariance is None else covariance
        for h in range(H):
            K, k = laws.gains[h], laws.offsets[h]
            closed = self.A[h] + self.B[h] @ K
            lift = np.concatenate([np.eye(n), K, closed])
            shift = np.concatenate([np.zeros(n), k, self.B[h] @ k + self.c[h]])
            joint = lift @ spread @ lift.T
            joint[-n:, -n:] += self.noise[h]
            means.append(lift @ mean + shift)
            covariances.append(joint)
            mean, spread = means[-1][-n:], joint[-n:, -n:]
        return np.stack(means), np.stack(covariances)


def linear_quadratic(
    A: Float[np.ndarray, "n n"],
    B: Float[np.ndarray, "n m"],
    M: Float[np.ndarray, "x x"],
    noise: Float[np.ndarray, "n n"],
    horizon: int,
) -> LinearQuadratic:
    """The same at every step, without affine terms."""
    As, Bs, Ms, noises = (np.repeat(part[None], horizon, axis=0) for part in (A, B, M, noise))
    still = np.zeros((horizon, len(A))), np.zeros((horizon, len(M))), np.zeros(horizon)
    return LinearQuadratic(As, Bs, Ms, noises, *still)


def expected(
    means: Float[np.ndarray, "H x"],
    covariances: Float[np.ndarray, "H x x"],
    forms: Float[np.ndarray, "p x x"],
    slopes: Float[np.ndarray, "p x"],
    constants: Float[np.ndarray, "p"],
) -> Float[np.ndarray, "H p"]:
    """The embedding of features x' F x + 2 f . x + g, from the moments of (s, u, s')."""
    second = covariances + np.einsum("hi,hj->hij", means, means)
    return np.einsum("pij,hij->hp", forms, second) + 2 * means @ slopes.T + constants


def lower_bound(
    problem: LinearQuadratic,
    beta: float,
    covariance: Float[np.ndarray, "z z"],
    mean: Float[np.ndarray, "n"],
    spread: Float[np.ndarray, "n n"] | None = None,
) -> float:
    """No policy pays less, whichever law near (A, B) is true; -inf where this method shows nothing.

    Near means: (A*, B*) = (A, B) + D_h with |D_h Lambda^{1/2}| <= beta in the spectral norm at every step, Lambda^-1
    being `covariance`. Then w = D_h (s, u) has |w|^2 <= beta^2 (s, u)' Lambda^-1 (s, u).

    Claim. For every mu > 0 let V_H = 0 and

        V_h(s) = min over u, w of  E[cost_h(s, u, s') + V_{h+1}(s')] + mu (|w|^2 - beta^2 (s, u)' Lambda^-1 (s, u)),
                 s' = A_h s + B_h u + w + c_h + noise,

    and let every one of these minima be of a strictly convex quadratic function of (u, w). Then no policy under which
    controls have second moments (all that are bounded have), however it depends on the past, pays less than E V_0(s_0)
    in expectation, for any such D_h, even if D_h depends on the past.

    Proof. Under a law near (A, B) the step from (s, u) is that with w = D_h (s, u), whose term with mu is at most 0. So
    E[cost_h + V_{h+1}(s')] >= E[cost_h + V_{h+1}(s')] + mu (|w|^2 - ...) >= V_h(s) at every s and u. States have second
    moments as controls and noise have them and |w| <= beta |Lambda^{-1/2}| |(s, u)|, so V_h, which is quadratic, has an
    expectation at every step; taking it at h = H - 1, ..., 0 and adding up, the sum of the expected costs is at least
    E V_0(s_0). It is not used that V_h is convex, nor that mu is the best one.

    The same holds with any mu_h >= 0 per step; one mu for all is enough for the bound to tend to the optimum with beta.
    As a minimum over policies and w of functions that are linear in mu the bound is concave where it is finite, so it
    is found by golden section around the best point of a grid. Rounding is not accounted for: steps whose curvature is
    within rounding of 0 are refused, and at the others it is some 1e-12 of the numbers that are added up.

    Args:
        problem: the estimated law (A, B), costs, noise.
        beta: radius of the set of laws.
        covariance: Lambda^-1, for (s, u).
        mean: of the start state.
        spread: covariance of the start state; none if it is known.
    """
    if beta == 0:
        laws = _solved(problem)
        return -np.inf if laws is None else laws.value(mean, spread)

    def at(exponent: float) -> float:
        laws = _solved(_relaxed(problem, beta, covariance, scale * 10.0**exponent))
        return -np.inf if laws is None else laws.value(mean, spread)

    # With mu = scale both terms of the penalty are of the size of the cost: |w| about beta, and its price mu beta^2.
    scale = max(float(np.abs(problem.M).max()), np.finfo(float).tiny) / max(beta, np.finfo(float).tiny)
    grid = np.arange(-8.0, 8.25, 0.25)
    values = np.array([at(exponent) for exponent in grid])
    best = int(values.argmax())
    return max(float(values[best]), _golden(at, grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]))


def _solved(problem: LinearQuadratic) -> Laws | None:
    """The Riccati recursion; None where some step is not strictly convex in its control."""
    H, n, m = problem.B.shape
    P, p, v = np.zeros((n, n)), np.zeros(n), 0.0
    gains, offsets = np.zeros((H, m, n)), np.zeros((H, m))
    for h in reversed(range(H)):
        M, b = problem.M[h].copy(), problem.b[h].copy()
        M[-n:, -n:] += P
        b[-n:] += p
        shift = np.concatenate([np.zeros(n + m), problem.c[h]])
        lift = np.concatenate([np.eye(n + m), np.concatenate([problem.A[h], problem.B[h]], axis=1)])
        Q, q = lift.T @ M @ lift, lift.T @ (M @ shift + b)
        v += float(shift @ M @ shift + 2 * b @ shift + problem.r[h] + np.vdot(M[-n:, -n:], problem.noise[h]))
        if not _strictly_convex(Q[n:, n:]):
            return None
        solved = cho_solve(cho_factor(Q[n:, n:]), np.concatenate([Q[n:, :n], q[n:, None]], axis=1))
        K, k = -solved[:, :n], -solved[:, n]
        gains[h], offsets[h] = K, k
        P, p, v = Q[:n, :n] + Q[:n, n:] @ K, q[:n] + Q[:n, n:] @ k, v + float(q[n:] @ k)
        P = (P + P.T) / 2
    return Laws(gains, offsets, P, p, v)


def _strictly_convex(Q: Float[np.ndarray, "m m"]) -> bool:
    """Whatever the units of the controls: with a diagonal of 1."""
    diagonal = np.diagonal(Q)
    if not (np.isfinite(Q).all() and (diagonal > 0).all()):
        return False
    units = 1 / np.sqrt(diagonal)
    return bool(np.linalg.eigvalsh(Q * np.outer(units, units))[0] > _CURVED)


def _relaxed(problem: LinearQuadratic, beta: float, covariance: Float[np.ndarray, "z z"], mu: float) -> LinearQuadratic:
    """The problem with w as a further control, and the price of leaving the set of laws."""
    H, n, m = problem.B.shape
    z = n + m
    kept = np.r_[0:z, z + n : z + 2 * n]  # where (s, u, s') are in (s, u, w, s')
    M, b = np.zeros((H, z + 2 * n, z + 2 * n)), np.zeros((H, z + 2 * n))
    M[:, kept[:, None], kept] = problem.M
    M[:, :z, :z] -= mu * beta**2 * covariance
    M[:, z : z + n, z : z + n] += mu * np.eye(n)
    b[:, kept] = problem.b
    B = np.concatenate([problem.B, np.broadcast_to(np.eye(n), (H, n, n))], axis=2)
    return LinearQuadratic(problem.A, B, M, problem.noise, problem.c, b, problem.r)


def _golden(function: Callable[[float], float], low: float, high: float) -> float:
    """The largest value that golden section meets between two ends."""
    inner = [high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)]
    values = [function(point) for point in inner]
    best = max(values)
    for _ in range(30):
        if values[0] >= values[1]:
            high, inner[1], values[1] = inner[1], inner[0], values[0]
            inner[0] = high - _GOLDEN * (high - low)
            values[0] = function(inner[0])
        else:
            low, inner[0], values[0] = inner[0], inner[1], values[1]
            inner[1] = low + _GOLDEN * (high - low)
            values[1] = function(inner[1])
        best = max(best, *values)
    return best
