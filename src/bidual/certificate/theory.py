"""The rates that the paper proves, to plot beside measured curves.

Every bound is an order of growth: the paper gives no constants. `constant` is that unknown multiplier, and `noise` the
paper's C, which depends on the noise of the regulator only. A curve is comparable in its slope, not in its height.

T counts episodes, H steps, B bounds the features' length, d is the dimension of the model (of phi), Gamma bounds the
multipliers, I counts objectives, delta is the probability of failure.
"""

from dataclasses import dataclass, fields
from typing import final

import numpy as np
from jaxtyping import Float

from bidual._base.errors import ProblemError

__all__ = ["LowRank", "Regulator"]

Episodes = Float[np.ndarray, "n"] | float


@final
@dataclass(frozen=True)
class RegulatorRates:
    """The kernelized nonlinear regulator: Theorem `main-thm` and its corollary."""

    H: int
    d: int
    B: float = 1.0
    Gamma: float = 1.0
    delta: float = 0.05
    noise: float = 1.0
    constant: float = 1.0

    def __post_init__(self) -> None:
        """Check the settings."""
        _check_positive(self)

    def regret(self, T: Episodes) -> Episodes:
        """Return Gamma B sqrt(H T) + C B H d sqrt(T) log(H T / (d delta))."""
        return self.constant * self.Gamma * self.B * np.sqrt(self.H * T) + self.violation(T)

    def violation(self, T: Episodes) -> Episodes:
        """Return C B H d sqrt(T) log(H T / (d delta))."""
        return self.constant * self.noise * self.B * self.H * self.d * np.sqrt(T) * self._log(T)

    def regret_several(self, T: Episodes, I: int) -> Episodes:  # noqa: E741 - the paper's letter
        """Return, for several objectives, Gamma H sqrt(I T) + C H^(3/2) d sqrt(I T) log(H T / (d delta))."""
        return self.constant * self.Gamma * self.H * np.sqrt(I * T) + self.violation_several(T, I)

    def violation_several(self, T: Episodes, I: int) -> Episodes:  # noqa: E741 - the paper's letter
        """Return, for several objectives, C H^(3/2) d sqrt(I T) log(H T / (d delta))."""
        return self.constant * self.noise * self.H**1.5 * self.d * np.sqrt(I * T) * self._log(T)

    def regret_feasibility(self, T: Episodes) -> Episodes:
        """Return, for feasibility, C H d sqrt(T) log(H T / (d delta))."""
        return self.constant * self.noise * self.H * self.d * np.sqrt(T) * self._log(T)

    def _log(self, T: Episodes) -> Episodes:
        return np.log(self.H * np.asarray(T) / (self.d * self.delta))


@final
@dataclass(frozen=True)
class LowRankRates:
    """The low-rank model over a finite class of `models` pairs: Theorem `main-thm-lowrank` and its corollary."""

    H: int
    d: int
    actions: int
    models: int
    B: float = 1.0
    Gamma: float = 1.0
    delta: float = 0.05
    constant: float = 1.0

    def __post_init__(self) -> None:
        """Check the settings."""
        _check_positive(self)

    def regret(self, T: Episodes) -> Episodes:
        """Return Gamma B sqrt(H T) + B sqrt(T H |A| d^2) log(T H |M| / delta)."""
        return self.constant * self.Gamma * self.B * np.sqrt(self.H * T) + self.violation(T)

    def violation(self, T: Episodes) -> Episodes:
        """Return B sqrt(T H |A| d^2) log(T H |M| / delta)."""
        return self.constant * self.B * self.d * np.sqrt(T * self.H * self.actions) * self._log(T)

    def regret_several(self, T: Episodes, I: int) -> Episodes:  # noqa: E741 - the paper's letter
        """Return, for several objectives, Gamma H sqrt(I d T) + H sqrt(|A| I d^3 T) log(T H |M| / delta)."""
        return self.constant * self.Gamma * self.H * np.sqrt(I * self.d * T) + self.violation_several(T, I)

    def violation_several(self, T: Episodes, I: int) -> Episodes:  # noqa: E741 - the paper's letter
        """Return, for several objectives, H sqrt(|A| I d^3 T) log(T H |M| / delta)."""
        return self.constant * self.H * np.sqrt(self.actions * I * self.d**3 * T) * self._log(T)

    def regret_feasibility(self, T: Episodes) -> Episodes:
        """Return, for feasibility, sqrt(H |A| d^2 T) log(T H |M| / delta)."""
        return self.constant * self.d * np.sqrt(self.H * self.actions * T) * self._log(T)

    def _log(self, T: Episodes) -> Episodes:
        return np.log(np.asarray(T) * self.H * self.models / self.delta)


def _check_positive(settings: "RegulatorRates | LowRankRates") -> None:
    for field in fields(settings):
        number = getattr(settings, field.name)
        if not (np.isfinite(number) and number > 0):
            raise ProblemError(f"{field.name} must be a positive number; got {number!r}")
    if not settings.delta < 1:
        raise ProblemError(f"delta must be a probability between 0 and 1; got {settings.delta!r}")


LowRank, Regulator = LowRankRates, RegulatorRates  # as `bd.theory` has them
