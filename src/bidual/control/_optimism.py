"""What to hope for: from what is known of the dynamics to the dynamics that a plan is made in.

| optimism | dynamics | costs |
|---|---|---|
| `Mean` | the estimate | one plan |
| `Thompson` | a draw from the posterior | one plan |
| `BestOf` | several draws, of which the cheapest plan counts | n plans |
| `Hallucinated` | the estimate, and extras that displace it within the ellipsoid | larger plans |
| `Bonus` | the estimate, and a payment for going where little is known | sigma in every step |

Their scales say how much to explore. They are practical numbers, a hundred times smaller than the certified radius
(`Posterior.radius`), and no bound rests on them.
"""

import abc
from dataclasses import dataclass
from numbers import Real
from typing import final

import numpy as np

from bidual._errors import ModelError
from bidual.models import Regressed, World, outer_ellipsoid


class AbstractOptimism(abc.ABC):
    """Which dynamics to plan in."""

    @property
    @abc.abstractmethod
    def optimistic(self) -> bool:
        """Whether plans are made for more than what is expected."""

    @property
    @abc.abstractmethod
    def words(self) -> str:
        """What plans are made in, for reports."""

    @abc.abstractmethod
    def __call__(self, world: World, rng: np.random.Generator) -> tuple[Regressed, ...]:
        """One dynamics, or several of which the one with the cheapest plan counts."""


@final
@dataclass(frozen=True)
class Mean(AbstractOptimism):
    """The estimate: what it does not know it never tries."""

    @property
    def optimistic(self) -> bool:
        """No."""
        return False

    @property
    def words(self) -> str:
        """The estimate."""
        return "the estimate"

    def __call__(self, world: World, rng: np.random.Generator) -> tuple[Regressed, ...]:
        """The estimate."""
        del rng
        return (world.dynamics(),)


@final
@dataclass(frozen=True)
class Thompson(AbstractOptimism):
    """A draw from the posterior, whose deviation is that of the noise.

    Args:
        scale: the deviation is multiplied by it. 1 is the posterior of a normal prior.
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        _check("Thompson", "scale", self.scale)

    @property
    def optimistic(self) -> bool:
        """Not by itself: a draw is as often worse than the truth as it is better."""
        return False

    @property
    def words(self) -> str:
        """With its scale."""
        return f"a draw from the posterior ({self.scale:g} deviations)"

    def __call__(self, world: World, rng: np.random.Generator) -> tuple[Regressed, ...]:
        """One draw."""
        return (_drawn(world, rng, self.scale),)


@final
@dataclass(frozen=True)
class BestOf(AbstractOptimism):
    """Several draws from the posterior, of which the one with the cheapest plan counts.

    Args:
        n: how many.
        scale: as in `Thompson`.
    """

    n: int = 16
    scale: float = 1.0

    def __post_init__(self) -> None:
        _check_count("BestOf", "n", self.n)
        _check("BestOf", "scale", self.scale)

    @property
    def optimistic(self) -> bool:
        """Where there is a choice."""
        return self.n > 1

    @property
    def words(self) -> str:
        """With its numbers."""
        return f"the best of {self.n} draws from the posterior ({self.scale:g} deviations)"

    def __call__(self, world: World, rng: np.random.Generator) -> tuple[Regressed, ...]:
        """All draws."""
        return tuple(_drawn(world, rng, self.scale) for _ in range(self.n))


@final
@dataclass(frozen=True)
class Hallucinated(AbstractOptimism):
    """The estimate with further controls, which displace the next state by up to beta sigma(s, u).

    Args:
        beta: the practical scale of exploration, in units of the state; not the certified radius.
        rank: of the outer ellipsoid that sigma is computed with; None: exactly.
    """

    beta: float = 0.01
    rank: int | None = 32

    def __post_init__(self) -> None:
        _check("Hallucinated", "beta", self.beta)
        _check_rank("Hallucinated", self.rank)

    @property
    def optimistic(self) -> bool:
        """Yes."""
        return True

    @property
    def words(self) -> str:
        """With its scale."""
        return f"the estimate with hallucinated controls (beta {self.beta:g})"

    def __call__(self, world: World, rng: np.random.Generator) -> tuple[Regressed, ...]:
        """The estimate, displaced."""
        del rng
        return (world.dynamics(ellipsoid=outer_ellipsoid(world.posterior, self.rank), beta=self.beta),)


@final
@dataclass(frozen=True)
class Bonus(AbstractOptimism):
    """The estimate with a payment of kappa sigma(s, u) in every step.

    Args:
        kappa: in units of the cost.
        rank: of the outer ellipsoid that sigma is computed with; None: exactly.
    """

    kappa: float
    rank: int | None = 32

    def __post_init__(self) -> None:
        _check("Bonus", "kappa", self.kappa)
        _check_rank("Bonus", self.rank)

    @property
    def optimistic(self) -> bool:
        """Yes."""
        return True

    @property
    def words(self) -> str:
        """With its scale."""
        return f"the estimate with a bonus for what is not known (kappa {self.kappa:g})"

    def __call__(self, world: World, rng: np.random.Generator) -> tuple[Regressed, ...]:
        """The estimate, and its bonus."""
        del rng
        return (world.dynamics(ellipsoid=outer_ellipsoid(world.posterior, self.rank), kappa=self.kappa),)


def _drawn(world: World, rng: np.random.Generator, scale: float) -> Regressed:
    posterior = world.posterior
    return world.dynamics(posterior.sample(rng, scale * posterior.deviation))


def _check(name: str, field: str, value: float) -> None:
    if not (isinstance(value, Real) and 0 <= value < np.inf):
        raise ModelError(f"{name}({field}=...) must be a number of at least 0; got {value!r}")


def _check_rank(name: str, rank: int | None) -> None:
    if rank is not None:
        _check_count(name, "rank", rank)


def _check_count(name: str, field: str, value: int) -> None:
    if not (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
        raise ModelError(f"{name}({field}=...) must be a whole number of at least 1; got {value!r}")
