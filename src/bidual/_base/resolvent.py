"""Sparse systems (I - M) x = b of Markov chains, where M is nonnegative and its powers vanish.

Small systems are factored. Large ones would fill in, and most chains mix fast: a Krylov method takes some tens of
products, and is refined until the residual is down to rounding. Where it does not get there, the system is factored all
the same, so that a chain that mixes slowly costs time and no digits. Whoever uses a solution derives its error from the
residual: nothing rests on this module.
"""

from typing import Any, final

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from jaxtyping import Float

EPS = float(np.finfo(np.float64).eps)
_SMALL = 128  # unknowns, up to which a dense factorisation is the fastest
_ROUNDS, _STEPS = 12, 50  # of refinement, and Krylov steps of each
_ENOUGH = 32 * EPS  # a residual of this share of the largest term is rounding,
_NEAR = 1e-12  # and one of this share is near enough where further rounds gain nothing: factors would gain little more


@final
class Resolvent:
    """(I - M)^-1 of one matrix M, for any number of right sides; its factors are made when they are first needed."""

    def __init__(self, matrix: sp.csr_array) -> None:
        self._matrix = matrix
        self._transposed: sp.csr_array | None = None
        self._factors: Any = None

    def __call__(
        self,
        right: Float[np.ndarray, "n"],
        guess: Float[np.ndarray, "n"] | None = None,
        *,
        transposed: bool = False,
    ) -> Float[np.ndarray, "n"]:
        """Solve (I - M) x = right, or the transposed system, from a guess."""
        if right.size > _SMALL and self._factors is None:
            found = _refine(self._side(transposed=transposed), right, guess)
            if found is not None:
                return found
        x = self._apply_factors(right, transposed=transposed)
        matrix = self._side(transposed=transposed)
        return x + self._apply_factors(right + matrix @ x - x, transposed=transposed)

    def _side(self, *, transposed: bool) -> sp.csr_array:
        if not transposed:
            return self._matrix
        if self._transposed is None:
            self._transposed = sp.csr_array(self._matrix.T)
        return self._transposed

    def _apply_factors(self, right: Float[np.ndarray, "n"], *, transposed: bool) -> Float[np.ndarray, "n"]:
        if self._factors is None:
            system = sp.csc_array(sp.eye_array(right.size, format="csc") - self._matrix)
            self._factors = spla.splu(system)
        return self._factors.solve(right, trans="T" if transposed else "N")


def _refine(
    matrix: sp.csr_array, right: Float[np.ndarray, "n"], guess: Float[np.ndarray, "n"] | None
) -> Float[np.ndarray, "n"] | None:
    """Solve by rounds of a Krylov method, each for the residual of the one before; None where that gets nowhere."""
    system = sp.csr_array(sp.eye_array(right.size, format="csr") - matrix)
    x = right.copy() if guess is None else guess
    residual = right + matrix @ x - x
    for _ in range(_ROUNDS):
        size, largest = np.abs(residual).max(), np.abs(right).max() + 2 * np.abs(x).max()
        if size <= _ENOUGH * largest:
            return x
        for solve in (_step_cheaply, _step_safely):
            better = x + solve(system, residual)
            after = right + matrix @ better - better
            if np.abs(after).max() <= 0.3 * size:
                break
        else:
            return x if size <= _NEAR * largest else None
        x, residual = better, after
    return x


def _step_cheaply(system: sp.csr_array, right: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """Solve roughly by BiCGSTAB, which may break down where the right side is one state's."""
    with np.errstate(all="ignore"):
        return spla.bicgstab(system, right, rtol=1e-9, atol=0.0, maxiter=_STEPS)[0]


def _step_safely(system: sp.csr_array, right: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """Solve roughly by GMRES, which never breaks down, for more arithmetic."""
    with np.errstate(all="ignore"):
        return spla.gmres(system, right, rtol=1e-9, atol=0.0, restart=_STEPS, maxiter=1)[0]
