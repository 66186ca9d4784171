"""Linear dynamics with quadratic signals: the confidence set of laws around the estimate.

    s' = s + W phi + noise,   phi = (s, u) or (s, u, 1),   |(W - C) Lambda^1/2| <= radius in the spectral norm.

Over this set a Riccati recursion bounds the value of every policy (`planners/control/_riccati.py`).
"""

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float

from bidual.models._base import AbstractModel
from bidual.models.regression._dynamics import Stage
from bidual.models.regression._moments import Moments
from bidual.models.regression._regression import Posterior
from bidual.problem.features import Quadratic, Signal
from bidual.world.policies import ControlPolicy

ControlLimits = tuple[Float[np.ndarray, "m"], Float[np.ndarray, "m"]]


class SetEvidence(NamedTuple):
    """What the checker derives the radius of a set from: sums, declared numbers, and which set it is."""

    moments: Moments
    deviation: float  # of the noise, in every direction
    bound: float
    delta: float
    number: int  # 0: around 0; k > 0: around W with the k-th width


@final
@dataclass(frozen=True, eq=False)
class LinearLaws(AbstractModel):
    """All laws above; episodes begin in `first`, and noise of the declared deviation is added to every step."""

    W: Float[np.ndarray, "n d"]  # C, the centre
    precision: Float[np.ndarray, "d d"]  # Lambda
    radius: float
    deviation: Float[np.ndarray, "n"]
    first: Float[np.ndarray, "n"]
    limits: ControlLimits
    signals: tuple[Signal, ...]
    evidence: SetEvidence | None = None  # None: the radius is that of the net

    @property
    def sizes(self) -> tuple[int, int, bool]:
        """(n, m, whether phi has a constant)."""
        n, m = self.first.size, self.limits[0].size
        return n, m, self.W.shape[1] > n + m

    def restrict(self, psi: Stage) -> Stage:
        """Return `psi` itself."""
        return psi

    def policy(self, actions: ControlPolicy) -> ControlPolicy:
        """Return the plan itself."""
        return actions

    @property
    def forms(self) -> tuple[Quadratic, ...]:
        """Every component of the signals as a quadratic function: 0 for those not declared quadratic."""
        n, m, _ = self.sizes
        nothing = Quadratic(np.zeros((2 * n + m, 2 * n + m)), np.zeros(2 * n + m), 0.0)
        return tuple(
            nothing if signal.quadratic is None else signal.quadratic
            for signal in self.signals
            for _ in range(signal.size or 1)
        )

    def underestimates(self, theta: Float[np.ndarray, "H p"]) -> bool:
        """Return whether theta . forms never exceeds theta . signals, so that a lower bound on it is one on these.

        A signal that is clipped to an end is no longer quadratic. Where its cost is positive, a lower end only
        increases the cost; an upper end is harmless only if no control can reach it. Where it is negative, the reverse.
        """
        start = 0
        for signal in self.signals:
            costs = theta[:, start : start + (signal.size or 1)]
            start += signal.size or 1
            if not costs.any():
                continue
            if signal.quadratic is None:
                return False
            least, most = self._bound_form(signal.quadratic)
            if (np.any(costs > 0) and most > signal.high) or (np.any(costs < 0) and least < signal.low):
                return False
        return True

    def _bound_form(self, form: Quadratic) -> tuple[float, float]:
        """Bound a form over all controls within their limits, from above where it does not depend on states."""
        n, m, _ = self.sizes
        controls = np.arange(n, n + m)
        others = np.setdiff1d(np.arange(2 * n + m), controls)
        if np.any(form.form[others]) or np.any(form.slope[others]):
            return (form.constant if _is_never_negative(form) else -np.inf), np.inf
        low, high = self.limits
        F, f = form.form[np.ix_(controls, controls)], form.slope[controls]
        products = np.stack([np.multiply.outer(one, other) for one in (low, high) for other in (low, high)])
        least, most = products.min(axis=0), products.max(axis=0)
        # A square is never negative, though the product of two ends may be.
        np.fill_diagonal(least, np.where((low > 0) | (high < 0), np.minimum(low**2, high**2), 0.0))
        ends = np.stack([F * least, F * most]), np.stack([2 * f * low, 2 * f * high])
        return (
            float(sum(part.min(axis=0).sum() for part in ends) + form.constant),
            float(sum(part.max(axis=0).sum() for part in ends) + form.constant),
        )


def _is_never_negative(form: Quadratic) -> bool:
    """Return whether x' F x >= 0 for all x, without a slope: by the signs of a diagonal, or beyond all rounding."""
    used = np.any(form.form != 0, axis=0)
    F = form.form[np.ix_(used, used)]
    if np.any(form.slope):
        return False
    if not np.any(F - np.diag(np.diag(F))):
        return bool(np.all(np.diag(F) >= 0))
    least = 64 * len(F) ** 2 * np.finfo(np.float64).eps * np.abs(F).max()
    return bool(np.linalg.eigvalsh(F)[0] > least)


def build_linear_laws(
    posterior: Posterior,
    delta: float,
    first: Float[np.ndarray, "n"],
    limits: ControlLimits,
    signals: tuple[Signal, ...],
    form: str = "tight",
) -> LinearLaws:
    """Return the confidence set of a regression; it holds the truth at all times with probability 1 - delta."""
    centre, precision, radius, number = posterior.confidence(delta, form)
    evidence = None
    if number is not None and posterior.noise is not None and posterior.bound is not None:
        evidence = SetEvidence(posterior.moments, float(posterior.noise.max()), posterior.bound, delta, number)
    return LinearLaws(centre, precision, radius, posterior.deviation, first, limits, signals, evidence)
