"""Linear dynamics with quadratic signals: the set of laws that are near enough to the estimate to be true.

    s' = s + W phi + noise,   phi = (s, u) or (s, u, 1),   |(W - W_hat) Lambda^1/2| <= radius in the spectral norm.

Over this set a bound on what any policy pays is known, by a Riccati recursion (`control._riccati`).
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float

from bidual.features import Quadratic, Signal
from bidual.models._base import AbstractModel
from bidual.models._dynamics import Stage
from bidual.models._regression import Posterior
from bidual.policies import ControlPolicy

Controls = tuple[Float[np.ndarray, "m"], Float[np.ndarray, "m"]]


@final
@dataclass(frozen=True, eq=False)
class LinearLaws(AbstractModel):
    """All laws above; episodes begin in `first`, and noise of the declared deviation is added to every step."""

    W: Float[np.ndarray, "n d"]
    precision: Float[np.ndarray, "d d"]  # Lambda
    radius: float
    deviation: Float[np.ndarray, "n"]
    first: Float[np.ndarray, "n"]
    limits: Controls
    signals: tuple[Signal, ...]

    @property
    def sizes(self) -> tuple[int, int, bool]:
        """(n, m, whether phi has a constant)."""
        n, m = self.first.size, self.limits[0].size
        return n, m, self.W.shape[1] > n + m

    def restrict(self, psi: Stage) -> Stage:
        """As it is."""
        return psi

    def policy(self, actions: ControlPolicy) -> ControlPolicy:
        """As it is."""
        return actions

    @property
    def forms(self) -> tuple[Quadratic, ...]:
        """Every number of the signals as a quadratic function: 0 for those that were not declared so."""
        n, m, _ = self.sizes
        nothing = Quadratic(np.zeros((2 * n + m, 2 * n + m)), np.zeros(2 * n + m), 0.0)
        return tuple(
            nothing if signal.quadratic is None else signal.quadratic
            for signal in self.signals
            for _ in range(signal.size or 1)
        )

    def underestimates(self, theta: Float[np.ndarray, "H p"]) -> bool:
        """Whether theta . forms is nowhere dearer than theta . signals, so that a bound on it is one on these.

        A signal that is held to an end is no longer quadratic. Where more of it costs more, a lower end only makes it
        dearer; an upper end is harmless only if no control can reach it. With less of it, it is the other way round.
        """
        start = 0
        for signal in self.signals:
            costs = theta[:, start : start + (signal.size or 1)]
            start += signal.size or 1
            if not costs.any():
                continue
            if signal.quadratic is None:
                return False
            least, most = self._range(signal.quadratic)
            if (np.any(costs > 0) and most > signal.high) or (np.any(costs < 0) and least < signal.low):
                return False
        return True

    def _range(self, form: Quadratic) -> tuple[float, float]:
        """Ends that no control within its limits leads beyond: finite where states do not count."""
        n, m, _ = self.sizes
        controls = np.arange(n, n + m)
        others = np.setdiff1d(np.arange(2 * n + m), controls)
        if np.any(form.form[others]) or np.any(form.slope[others]):
            return -np.inf, np.inf
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


def laws_of(
    posterior: Posterior, delta: float, first: Float[np.ndarray, "n"], limits: Controls, signals: tuple[Signal, ...]
) -> LinearLaws:
    """The laws that a regression leaves possible, the true one among them at all times with probability 1 - delta."""
    return LinearLaws(
        W=posterior.mean,
        precision=posterior.precision,
        radius=posterior.radius(delta),
        deviation=posterior.deviation,
        first=first,
        limits=limits,
        signals=signals,
    )
