"""Ridge regression of state differences, s' - s = W phi(s, u) + noise, and the confidence radius of W.

With F the features of all transitions and Y their differences (one per row), Lambda = lambda I + F'F and

    W_hat = Y'F Lambda^-1.

Everything is a function of F'F, Y'F, the squares of Y and their number, which are added up in double precision; Lambda
is factored once for each posterior. (Updates of the inverse by single rows, in single precision, drifted by 150 %.)

**The radius of the net.** The sets that are used are in `_confidence.py`; the paper's is kept to compare with. Let the
noise be sigma-sub-Gaussian in every direction given the past, and E its matrix. Then

    (W_hat - W) Lambda^1/2 = -lambda W Lambda^-1/2 + E'F Lambda^-1/2.

The first term is no longer than sqrt(lambda) |W| in the spectral norm. For a unit vector v the noise E v is a scalar
one, and Theorem 1 of Abbasi-Yadkori et al. (2011) bounds |v'E'F Lambda^-1/2|^2 by
2 sigma^2 (log(1 / delta') + 1/2 log det(Lambda / lambda)) at all times at once. A net of 5^n unit vectors, to one of
which every unit vector is as near as 1/2, gives the norm of the matrix up to a factor of 2: with delta' = delta / 5^n

    |(W_hat - W) Lambda^1/2| <= sqrt(lambda) S + sigma sqrt(8 (n log 5 + log(1 / delta) + 1/2 log det(Lambda / lambda)))

for all times at once with probability 1 - delta, where S bounds |W| and n is the number of state variables. The
radius that the paper prints has lambda sigma^2 in place of lambda S^2, and loses W wherever sigma is small
(tests/statistical/test_regression.py).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from jaxtyping import Float
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from bidual._base.brief import describe_briefly
from bidual._base.errors import ModelError
from bidual.models.regression._confidence import Confidence, SetScale, find_confidence
from bidual.models.regression._moments import Moments

_EPS = float(np.finfo(np.float64).eps)


@final
@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior of W: an estimate, and an ellipsoid around every row of it."""

    __repr__ = describe_briefly

    moments: Moments
    ridge: float  # lambda
    noise: Float[np.ndarray, "n"] | None = None  # deviations that were declared; None: estimated
    bound: float | None = None  # S, declared: the true W has no larger norm

    @cached_property
    def factor(self) -> Float[np.ndarray, "d d"]:
        """L, lower triangular, with L L' = Lambda."""
        try:
            return cholesky(self.precision, lower=True)
        except LinAlgError:
            largest = float(np.diag(self.moments.gram).max())
            raise ModelError(
                f"features are too large for a ridge of {self.ridge:g}: their squares add up to {largest:.3g}, and "
                "in double precision nothing of the ridge is left. Declare a box for the states, scale them, use "
                "bounded features, or give a larger ridge"
            ) from None

    @cached_property
    def mean(self) -> Float[np.ndarray, "n d"]:
        """W_hat."""
        half = solve_triangular(self.factor, self.moments.cross.T, lower=True)
        return solve_triangular(self.factor, half, lower=True, trans=1).T

    def sample(self, rng: np.random.Generator, scale: float | Float[np.ndarray, "n"]) -> Float[np.ndarray, "n d"]:
        """Draw W with rows normal around those of the estimate, with covariance scale^2 Lambda^-1.

        With the deviation of the noise as scale, one for each row, this is a draw from the posterior of a normal prior.
        """
        normal = rng.standard_normal(self.mean.shape)
        spread = solve_triangular(self.factor, normal.T, lower=True, trans=1).T
        return self.mean + np.reshape(scale, (-1, 1)) * spread

    def sigma(self, phi: Float[np.ndarray, "k d"]) -> Float[np.ndarray, "k"]:
        """Compute |phi| in the norm of Lambda^-1: the uncertainty of the next state."""
        return np.linalg.norm(solve_triangular(self.factor, phi.T, lower=True), axis=0)

    @cached_property
    def logdet(self) -> float:
        """The logarithm of det(Lambda / lambda): the information gained."""
        return float(2 * np.log(np.diag(self.factor)).sum() - len(self.factor) * np.log(self.ridge))

    @cached_property
    def spectrum(self) -> tuple[Float[np.ndarray, "d"], Float[np.ndarray, "d d"]]:
        """The eigenvalues of Lambda, ascending, and a column for each."""
        values, vectors = np.linalg.eigh(self.moments.gram)
        return np.maximum(values, 0.0) + self.ridge, vectors

    @cached_property
    def deviation(self) -> Float[np.ndarray, "n"]:
        """The deviation of the noise: declared, or that of the residuals; 0 before the first transition.

        Squares of residuals are divided by the degrees of freedom, their number - tr(F'F Lambda^-1).
        """
        if self.noise is not None:
            return self.noise
        W, moments = self.mean, self.moments
        if moments.count == 0:
            return np.zeros_like(moments.squares)
        squares = moments.squares - 2 * np.sum(W * moments.cross, axis=1) + np.sum(W * (W @ moments.gram), axis=1)
        inverse = solve_triangular(self.factor, np.eye(len(self.factor)), lower=True)
        free = moments.count - len(self.factor) + self.ridge * np.sum(inverse**2)
        return np.sqrt(np.maximum(squares, 0.0) / max(free, 1e-9 * moments.count))

    @property
    def certifies(self) -> bool:
        """Whether a radius can be computed: noise and S are declared."""
        return self.noise is not None and self.bound is not None

    def confidence(self, delta: float, form: str = "tight") -> Confidence:
        """Return an ellipsoid that holds the true W at all times with probability 1 - delta: centre, precision, radius.

        "tight" is that of `_confidence.py`; "net" has the estimate, Lambda and `radius`, and is two to three times as
        wide. Without noise, or with a bound of 0, both are the same.
        """
        if form not in ("tight", "net"):
            raise ModelError(f"the form of a confidence set is 'tight' or 'net'; got {form!r}")
        noise, bound = self._check_declared(delta)
        deviation = float(noise.max(initial=0.0))
        if form == "net" or deviation == 0 or bound == 0:
            return Confidence(self.mean, self.precision, self.radius(delta))
        return find_confidence(self.moments, SetScale(deviation, bound, (deviation / bound) ** 2), delta)

    def radius(self, delta: float) -> float:
        """Compute the radius of the net: |(W_hat - W) Lambda^1/2| never exceeds it, with probability 1 - delta."""
        noise, bound = self._check_declared(delta)
        n, lost = len(self.mean), self._rounding_error
        values, _ = self.spectrum
        logdet = np.sum(np.log((values + lost) / self.ridge))  # Weyl: no eigenvalue is off by more
        room = 8 * (n * np.log(5.0) + np.log(1 / delta) + 0.5 * logdet)
        radius = np.sqrt(self.ridge) * bound + noise.max(initial=0.0) * np.sqrt(room)
        # The ellipsoid is around the W_hat that was computed, in the norm of the Lambda that was.
        return float(
            (radius + self._residual_error / np.sqrt(self.ridge)) * np.sqrt(1 + lost / self.ridge) * (1 + 16 * _EPS)
        )

    def _check_declared(self, delta: float) -> tuple[Float[np.ndarray, "n"], float]:
        """Return deviations and S, where both are declared and delta is a probability."""
        if self.noise is None or self.bound is None:
            missing = [name for name, value in (("noise", self.noise), ("bound", self.bound)) if value is None]
            raise ModelError(f"a certified radius needs declared numbers; {' and '.join(missing)} must be given")
        if not 0 < delta < 1:
            raise ModelError(f"delta, the probability of failure, must lie between 0 and 1; got {delta!r}")
        return self.noise, self.bound

    @cached_property
    def precision(self) -> Float[np.ndarray, "d d"]:
        """Lambda."""
        return self.moments.gram + self.ridge * np.eye(len(self.moments.gram))

    @property
    def _rounding_error(self) -> float:
        """The largest rounding error of Lambda and of its eigenvalues, in the spectral norm."""
        return self.moments.unit * float(np.trace(self.precision))

    @property
    def _residual_error(self) -> float:
        """|W_hat Lambda - Y'F| of the W_hat that was computed, with all roundings: exactly it would be 0."""
        moments, W = self.moments, self.mean
        residual = np.linalg.norm(W @ self.precision - moments.cross)
        size = np.sqrt(moments.squares.sum() * np.trace(moments.gram))
        return float(residual + 2 * np.linalg.norm(W) * self._rounding_error + self.moments.unit * size)


def compute_posterior(
    moments: Moments, ridge: float, noise: float | Float[np.ndarray, "n"] | None = None, bound: float | None = None
) -> Posterior:
    """Return the posterior for moments and the declared deviation of the noise (per state variable, or one for all)."""
    if not 0 < ridge < np.inf:
        raise ModelError(f"the ridge must be a positive number; got {ridge!r}")
    if bound is not None and not 0 <= bound < np.inf:
        raise ModelError(f"the bound on |W| must be a number of at least 0; got {bound!r}")
    return Posterior(
        moments, float(ridge), None if noise is None else _read_deviations(noise, len(moments.squares)), bound
    )


def _read_deviations(noise: float | Float[np.ndarray, "n"], n: int) -> Float[np.ndarray, "n"]:
    given = np.asarray(noise, dtype=np.float64)
    if given.shape not in ((), (n,)) or not np.all((given >= 0) & (given < np.inf)):
        raise ModelError(f"the noise must be a deviation of at least 0, or one for each of {n} numbers; got {noise!r}")
    return np.full(n, given)
