"""Linear dynamics and quadratic costs: the optimal policy, exactly.

    s_{h+1} = A_h s_h + B_h u_h + c_h + noise,     noise of mean 0 and covariance N_h, independent of the past
    cost of a step:  x' M_h x + 2 b_h . x + r_h,   x = (s_h, u_h, s_{h+1})

V_h(s) = s' P_h s + 2 p_h . s + v_h is the cost to go from step h on. All in NumPy and in double precision: a
reference for sampled plans.
"""

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve

from bidual._base.brief import describe_briefly
from bidual._base.errors import ModelError

_CURVED = 1e-10  # least eigenvalue of a Hessian with diagonal 1 that counts as positive


class RiccatiLaws(NamedTuple):
    """The control laws u_h = gains_h s + offsets_h, and their value s' P_0 s + 2 p_0 . s + v_0."""

    gains: Float[np.ndarray, "H m n"]
    offsets: Float[np.ndarray, "H m"]
    P: Float[np.ndarray, "n n"]
    p: Float[np.ndarray, "n"]
    v: float

    def value(self, mean: Float[np.ndarray, "n"], covariance: Float[np.ndarray, "n n"] | None = None) -> float:
        """Compute the expected total cost from a random start."""
        spread = 0.0 if covariance is None else float(np.vdot(self.P, covariance))
        return float(mean @ self.P @ mean + 2 * self.p @ mean + self.v) + spread


@final
@dataclass(frozen=True, eq=False)
class LinearQuadratic:
    """A linear-quadratic problem of H steps; all its parts may depend on the step."""

    __repr__ = describe_briefly

    A: Float[np.ndarray, "H n n"]
    B: Float[np.ndarray, "H n m"]
    M: Float[np.ndarray, "H x x"]  # symmetric, x = n + m + n
    noise: Float[np.ndarray, "H n n"]
    c: Float[np.ndarray, "H n"]
    b: Float[np.ndarray, "H x"]
    r: Float[np.ndarray, "H"]

    def solve(self) -> RiccatiLaws:
        """Compute the optimal affine law by the Riccati recursion; refused where the least cost of a step is -inf."""
        laws = solve_riccati(self)
        if laws is None:
            raise ModelError(
                "the cost of a linear-quadratic problem is not convex in the control at some step: no control is the "
                "best; add a positive cost of the controls"
            )
        return laws

    def moments(
        self, laws: RiccatiLaws, mean: Float[np.ndarray, "n"], covariance: Float[np.ndarray, "n n"] | None = None
    ) -> tuple[Float[np.ndarray, "H x"], Float[np.ndarray, "H x x"]]:
        """Compute mean and covariance of (s_h, u_h, s_{h+1}) at every step under an affine law."""
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
    """Build a problem with the same parts at every step, without affine terms."""
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
    """Compute the embedding of features x' F x + 2 f . x + g from the moments of (s, u, s')."""
    second = covariances + np.einsum("hi,hj->hij", means, means)
    return np.einsum("pij,hij->hp", forms, second) + 2 * means @ slopes.T + constants


def solve_riccati(problem: LinearQuadratic) -> RiccatiLaws | None:
    """Run the Riccati recursion; None where some step is not strictly convex in its control."""
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
        if not _is_strictly_convex(Q[n:, n:]):
            return None
        solve_riccati = cho_solve(cho_factor(Q[n:, n:]), np.concatenate([Q[n:, :n], q[n:, None]], axis=1))
        K, k = -solve_riccati[:, :n], -solve_riccati[:, n]
        gains[h], offsets[h] = K, k
        P, p, v = Q[:n, :n] + Q[:n, n:] @ K, q[:n] + Q[:n, n:] @ k, v + float(q[n:] @ k)
        P = (P + P.T) / 2
    return RiccatiLaws(gains, offsets, P, p, v)


def _is_strictly_convex(Q: Float[np.ndarray, "m m"]) -> bool:
    """Check strict convexity with the diagonal scaled to 1, so that units of the controls do not matter."""
    diagonal = np.diagonal(Q)
    if not (np.isfinite(Q).all() and (diagonal > 0).all()):
        return False
    units = 1 / np.sqrt(diagonal)
    return bool(np.linalg.eigvalsh(Q * np.outer(units, units))[0] > _CURVED)
