"""Optimism: the choice of the dynamics to plan in, from the learned dynamics.

| optimism | dynamics | costs |
|---|---|---|
| `Mean` | the estimate | one plan |
| `Thompson` | a draw from the posterior | one plan |
| `BestOf` | several draws, of which the cheapest plan counts | n plans |
| `Hallucinated` | the estimate, and extras that displace it within the ellipsoid | larger plans |
| `Bonus` | the estimate, and a bonus where it is uncertain | sigma in every step |

Their scales set the amount of exploration. They are practical numbers, on which no bound rests. Only
`Hallucinated(share=1.0)` plans over the certified set of the moment (`Posterior.confidence`), as the paper does.
"""

import abc
from dataclasses import dataclass
from numbers import Real
from typing import final

import numpy as np

from bidual._base.errors import ModelError
from bidual.models import LearnedDynamics, Regressed, find_outer_ellipsoid


class AbstractOptimism(abc.ABC):
    """The choice of the dynamics to plan in."""

    @property
    @abc.abstractmethod
    def description(self) -> str:
        """A description of the dynamics to plan in, for reports."""

    @abc.abstractmethod
    def __call__(self, world: LearnedDynamics, rng: np.random.Generator) -> tuple[Regressed, ...]:
        """Return one dynamics, or several of which the one with the cheapest plan counts."""


@final
@dataclass(frozen=True)
class Mean(AbstractOptimism):
    """The estimate alone, without exploration."""

    @property
    def description(self) -> str:
        """The fixed description."""
        return "the estimate"

    def __call__(self, world: LearnedDynamics, rng: np.random.Generator) -> tuple[Regressed, ...]:
        """Return the estimate."""
        del rng
        return (world.dynamics(),)


@final
@dataclass(frozen=True, repr=False)
class PosteriorSample(AbstractOptimism):
    """A draw from the posterior, whose deviation is that of the noise; `bd.control.Thompson`.

    Args:
        scale: factor of the deviation. 1 is the posterior of a normal prior.
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        _check("Thompson", "scale", self.scale)

    def __repr__(self) -> str:
        return f"Thompson(scale={self.scale!r})"  # the public name, and that of stored runs

    @property
    def description(self) -> str:
        """A description with the scale."""
        return f"a draw from the posterior ({self.scale:g} deviations)"

    def __call__(self, world: LearnedDynamics, rng: np.random.Generator) -> tuple[Regressed, ...]:
        """Return one draw."""
        return (_draw(world, rng, self.scale),)


@final
@dataclass(frozen=True)
class BestOf(AbstractOptimism):
    """Several draws from the posterior, of which the one with the cheapest plan counts.

    Args:
        n: number of draws.
        scale: as in `Thompson`.
    """

    n: int = 16
    scale: float = 1.0

    def __post_init__(self) -> None:
        _check_count("BestOf", "n", self.n)
        _check("BestOf", "scale", self.scale)

    @property
    def description(self) -> str:
        """A description with the number of draws and the scale."""
        return f"the best of {self.n} draws from the posterior ({self.scale:g} deviations)"

    def __call__(self, world: LearnedDynamics, rng: np.random.Generator) -> tuple[Regressed, ...]:
        """Return all draws."""
        return tuple(_draw(world, rng, self.scale) for _ in range(self.n))


@final
@dataclass(frozen=True, repr=False)
class Hallucinated(AbstractOptimism):
    """The estimate with further controls, which displace the next state by up to beta sigma(s, u).

    With `share`, beta is that share of the certified radius, around the centre of the certified set: all of it,
    `share=1.0`, is the set that the paper plans over; `share=0.1` is a heuristic like every beta, but has no unit and
    shrinks as more is known.

    Args:
        beta: the practical scale of exploration, in units of the state; 0.01, unless a share is given.
        rank: rank of the outer ellipsoid that gives sigma; None: exact.
        share: of the certified radius, for models whose noise and bound are declared.
    """

    beta: float | None = None
    rank: int | None = 32
    share: float | None = None

    def __post_init__(self) -> None:
        if self.beta is not None and self.share is not None:
            raise ModelError(f"Hallucinated takes beta or share; got both, {self.beta!r} and {self.share!r}")
        if self.share is None:
            object.__setattr__(self, "beta", 0.01 if self.beta is None else self.beta)
        _check("Hallucinated", "beta" if self.share is None else "share", self._scale)
        _check_rank("Hallucinated", self.rank)

    def __repr__(self) -> str:
        scale = f"beta={self.beta!r}, " if self.share is None else ""
        return f"Hallucinated({scale}rank={self.rank!r}{'' if self.share is None else f', share={self.share!r}'})"

    @property
    def description(self) -> str:
        """A description with the scale: certified, or a heuristic."""
        if self.share is None:
            return f"the estimate with hallucinated controls (beta {self.beta:g})"
        if self.share < 1:
            return f"the estimate with hallucinated controls ({self.share:g} of the certified radius)"
        return "all laws of the certified set, chosen by hallucinated controls"

    def __call__(self, world: LearnedDynamics, rng: np.random.Generator) -> tuple[Regressed, ...]:
        """Return the estimate, or the centre of the certified set, with displacements as further controls."""
        del rng
        if self.share is None:
            return (world.dynamics(ellipsoid=find_outer_ellipsoid(world.posterior, self.rank), beta=self._scale),)
        certified = world.posterior.confidence(world.delta)
        ellipsoid = find_outer_ellipsoid(certified, self.rank)
        return (world.dynamics(certified.centre, ellipsoid=ellipsoid, beta=self.share * certified.radius),)

    @property
    def _scale(self) -> float:
        scale = self.beta if self.share is None else self.share
        assert scale is not None  # one of the two is set
        return scale


@final
@dataclass(frozen=True)
class Bonus(AbstractOptimism):
    """The estimate with a bonus of kappa sigma(s, u) in every step.

    Args:
        kappa: the scale of the bonus, in units of the cost.
        rank: rank of the outer ellipsoid that gives sigma; None: exact.
    """

    kappa: float
    rank: int | None = 32

    def __post_init__(self) -> None:
        _check("Bonus", "kappa", self.kappa)
        _check_rank("Bonus", self.rank)

    @property
    def description(self) -> str:
        """A description with the scale."""
        return f"the estimate with a bonus for what is not known (kappa {self.kappa:g})"

    def __call__(self, world: LearnedDynamics, rng: np.random.Generator) -> tuple[Regressed, ...]:
        """Return the estimate with its bonus."""
        del rng
        return (world.dynamics(ellipsoid=find_outer_ellipsoid(world.posterior, self.rank), kappa=self.kappa),)


def _draw(world: LearnedDynamics, rng: np.random.Generator, scale: float) -> Regressed:
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
