"""`KNR`: kernelized nonlinear regulators, s' = s + W phi(s, u) + noise with W unknown (Algorithm 2 of the paper)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real
from typing import Any, final

import numpy as np
from jaxtyping import Float

from bidual._base.brief import describe_briefly
from bidual._base.checksum import compute_checksum
from bidual._base.errors import EnvError, ModelError, ProblemError
from bidual._base.types import Episode
from bidual.models._declaration import AbstractDeclaration, EnvironmentFacts, Needs
from bidual.models._knowledge import AbstractKnowledge, Bound, BoundSolver
from bidual.models.regression._describe import describe_signals, explain_missing_bound, list_assumptions
from bidual.models.regression._dynamics import Stage
from bidual.models.regression._linear_laws import LinearLaws, build_linear_laws
from bidual.models.regression._moments import Moments, start_moments
from bidual.models.regression._regressed import LearnedDynamics
from bidual.models.regression._regression import Posterior, compute_posterior
from bidual.models.regression._restored import check_regression
from bidual.models.regression._scales import FITTED_IN, find_fitted, fit_scales, join_transitions
from bidual.problem.convex import AbstractProgram
from bidual.problem.features import (
    AbstractMap,
    AbstractModelFeatures,
    Computed,
    Pieces,
    compute_features,
    fourier,
)

_STARTS = 64  # number of latest first states kept

Limits = tuple[Float[np.ndarray, "m"], Float[np.ndarray, "m"]]
StateBox = tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]


@final
@dataclass(frozen=True)
class KNR(AbstractDeclaration):
    """State differences are linear in known features of state and control, plus noise; the matrix W is learned.

    Args:
        model_features: phi, for instance `bd.features.fourier(d=128, bandwidth=2.0)` or `bd.features.linear()`.
        ridge: lambda, the weight of W = 0 in the regression.
        noise: the deviation of the noise of every state variable, or one for all; None: estimated from residuals,
            and then nothing is certified.
        bound: S_W, a number that the spectral norm of the true W does not exceed; None: nothing is certified.
        first: the state that every episode begins in; None: nothing is certified.
        box: limits that states of the model are clipped to, two vectors (low, high). By default those of the
            observation space; where it has none, the observed range, wider by its own width on either side.
    """

    model_features: AbstractModelFeatures = field(default_factory=fourier)
    ridge: float = 0.01
    noise: float | tuple[float, ...] | None = None
    bound: float | None = None
    first: tuple[float, ...] | None = None
    box: tuple[tuple[float, ...], tuple[float, ...]] | None = None

    subject = "moves vectors"
    default_explorer = "controls"

    def __post_init__(self) -> None:
        """Check the settings."""
        if not isinstance(self.model_features, AbstractModelFeatures):
            raise ModelError(
                f"model_features must be bd.features.fourier(...), linear(...) or mapped(...); got "
                f"{self.model_features!r:.80}"
            )
        if not (isinstance(self.ridge, Real) and 0 < self.ridge < np.inf):
            raise ModelError(f"ridge must be a positive number; got {self.ridge!r}")
        if self.noise is not None and not np.all(np.asarray(self.noise) >= 0):
            raise ModelError(f"noise is a deviation, at least 0; got {self.noise!r}")
        if self.bound is not None and not 0 <= self.bound < np.inf:
            raise ModelError(f"bound is a norm of W, at least 0; got {self.bound!r}")

    @property
    def needs(self) -> Needs:
        """States that are vectors, moved by controls."""
        return Needs("vectors")

    @property
    def map_features(self) -> AbstractModelFeatures:
        """Those of the regression."""
        return self.model_features

    def start(self, facts: EnvironmentFacts) -> "ControlKnowledge":
        """Return what is known before the first episode, of states of so many numbers and controls within limits."""
        features, limits, space = facts.features, facts.limits, facts.space
        assert features is not None and limits is not None and space is not None  # noqa: PT018 - of controls
        n, m = facts.dimension, limits[0].size
        phi = self.model_features.build_map(n, m)
        low, high = space if self.box is None else (np.asarray(end, dtype=np.float64) for end in self.box)
        if low.shape != (n,) or high.shape != (n,) or not np.all(low < high):
            raise ModelError(f"box must be two vectors of {n} numbers, low below high; got {self.box!r:.120}")
        if self.noise is not None and np.size(self.noise) not in (1, n):
            raise ModelError(f"noise must be one number, or one for each of the {n} state variables")
        if self.first is not None and (len(self.first) != n or not np.isfinite(self.first).all()):
            raise ModelError(f"first must be {n} finite numbers, one for each state variable; got {self.first!r:.80}")
        return ControlKnowledge(
            declared=self,
            features=features,
            phi=phi,
            pieces=facts.pieces,
            horizon=facts.horizon,
            delta=facts.delta,
            limits=limits,
            declared_box=(low, high),
            discrete=facts.discrete,
            moments=start_moments(n, phi.sizes[2]),
            starts=np.zeros((0, n)),
            seen=(np.full(n, np.inf), np.full(n, -np.inf)),
            episodes=0,
            broken=0,
        )


@final
@dataclass(frozen=True, eq=False)
class ControlKnowledge(AbstractKnowledge):
    """Knowledge from episodes of vectors and controls: a regression, and first states."""

    __repr__ = describe_briefly

    declared: KNR
    features: Computed
    phi: AbstractMap
    pieces: Pieces
    horizon: int
    delta: float
    limits: Limits
    declared_box: StateBox
    discrete: bool
    moments: Moments
    starts: Float[np.ndarray, "k n"]
    seen: StateBox  # the least and the largest of every state variable
    episodes: int
    broken: int  # episodes stopped early because a number was not finite
    early: tuple[np.ndarray, ...] | None = None  # states, controls and differences, while scales are fitted to them

    def update(self, *episodes: Episode) -> "ControlKnowledge":
        """Add the transitions of episodes, up to their ends."""
        left = FITTED_IN - self.episodes
        if 0 < left < len(episodes):  # the same as one by one
            return self.update(*episodes[:left]).update(*episodes[left:])
        fitted = find_fitted(self.declared.model_features) if left > 0 else None
        moments, (low, high), new = self.moments, self.seen, []
        for episode in episodes:
            assert episode.observations is not None and episode.controls is not None  # noqa: PT018 - of controls
            L = self.horizon if episode.length is None else episode.length
            s, u = episode.observations[: L + 1], episode.controls[:L]
            new.append((s[:-1], u, np.diff(s, axis=0)))
            if L and fitted is None:
                moments = moments.add(compute_features(self.phi, s[:-1], u), np.diff(s, axis=0))
            low, high = np.minimum(low, s.min(axis=0)), np.maximum(high, s.max(axis=0))
        phi, early = self.phi, None
        if fitted is not None:
            early = join_transitions(self.early, new)
            scales = fit_scales((low, high), self.declared_box, None if self.discrete else self.limits, self.shape[2])
            phi = fitted.fit_map(scales, low.size)
            moments = start_moments(low.size, phi.sizes[2]).add(compute_features(phi, *early[:2]), early[2])
        first = np.stack([one.observations[0] for one in episodes if one.observations is not None])
        if self.declared.first is not None and np.any(first != np.array(self.declared.first)):
            row = int(np.argmax(np.any(first != np.array(self.declared.first), axis=1)))
            raise EnvError(
                f"an episode began in {first[row].tolist()}, but every one was declared to begin in "
                f"{list(self.declared.first)}: leave out KNR(first=...), or mend the environment's reset"
            )
        return replace(
            self,
            phi=phi,
            early=early,
            moments=moments,
            starts=np.concatenate([self.starts, first])[-_STARTS:],
            seen=(low, high),
            episodes=self.episodes + len(episodes),
            broken=self.broken + sum(one.broken for one in episodes),
        )

    @property
    def shape(self) -> tuple[int, int, int]:
        """(H, n, m): steps, numbers of a state, controls."""
        n, m, _ = self.phi.sizes
        return self.horizon, n, m

    @property
    def observation_size(self) -> int:
        """The length of a state."""
        return self.shape[1]

    @property
    def controlled(self) -> "ControlKnowledge":
        """This knowledge: its states are vectors."""
        return self

    @property
    def invariants(self) -> tuple[object, ...]:
        """Sizes and settings."""
        return self.shape, self.phi.sizes, self.delta, self.discrete

    @property
    def certifies(self) -> bool:
        """Whether a bound is proved: not by the model alone, for sampled plans bound nothing."""
        return False

    @property
    def signals_consistent(self) -> bool:
        """Whether signals are functions of the transition: always, for they are computed."""
        return True

    @property
    def functions(self) -> tuple[Computed, AbstractModelFeatures]:
        """Signals and features of the law, which controllers plan with."""
        return self.features, self.declared.model_features

    def final_bound(self, solver: BoundSolver[Bound], program: AbstractProgram) -> Bound:
        """Return the bound over linear laws, where these are all that may be true."""
        return solver.nothing() if self.laws is None else solver.over_laws(program, self)

    def settings(self) -> dict[str, Any]:
        """Return the declaration and the signals; functions by their sizes, for they have no name."""
        model = self.declared
        return {
            "map of the model": model.model_features.header,
            "ridge": float(model.ridge),
            "noise": np.asarray(model.noise, dtype=np.float64).tolist() if model.noise is not None else None,
            "bound": None if model.bound is None else float(model.bound),
            "box": compute_checksum([], *self.declared_box),
            "signals": describe_signals(self.features),
            "limits of the controls": [end.tolist() for end in self.limits],
            "numbered actions": self.discrete,
        }

    def assumptions(
        self, program: AbstractProgram, signals: Sequence[str], delta: float, share: float
    ) -> tuple[str, ...]:
        """Return the assumptions of bounds and intervals, in words."""
        del signals
        return list_assumptions(self, program, delta, share)

    def resume(self, now: AbstractKnowledge) -> "ControlKnowledge":
        """Return the same regression with the failure probability of `now`; raise where the two do not match."""
        if not isinstance(now, ControlKnowledge) or now.shape != self.shape or now.declared != self.declared:
            raise ProblemError(
                "the state to go on from was learned with another model, or in an environment of other sizes: give "
                "those of then"
            )
        return replace(self, delta=now.delta)

    def check_restored(self, first: AbstractKnowledge, episodes: int, check_stored: Callable[..., None]) -> None:
        """Check declarations and sums; nothing of a regression is kept in files of counts."""
        del check_stored
        check_regression(self, first.controlled, episodes)

    @property
    def stage(self) -> Stage:
        """The control problem to plan for, from the first states of episodes."""
        # Always the same number, cyclically: another one would be compiled again.
        return Stage(self.features, self.horizon, np.resize(self.starts, (_STARTS, self.starts.shape[1])))

    @cached_property
    def posterior(self) -> Posterior:
        """The posterior of W given the transitions."""
        noise = self.declared.noise
        each = None if noise is None else np.resize(np.asarray(noise, dtype=np.float64), self.starts.shape[1])
        return compute_posterior(self.moments, self.declared.ridge, each, self.declared.bound)

    @property
    def missing(self) -> str | None:
        """The reason why there is no bound on other policies; None where there is one."""
        return explain_missing_bound(self)

    @cached_property
    def laws(self) -> LinearLaws | None:
        """All linear laws that may be true, where one of them is known to be."""
        if self.missing is not None or self.declared.first is None:
            return None
        first = np.array(self.declared.first, dtype=np.float64)
        return build_linear_laws(self.posterior, self.delta, first, self.limits, self.features.signals)

    @cached_property
    def world(self) -> LearnedDynamics:
        """The learned dynamics that every kind of optimism starts from."""
        low, high = self.declared_box
        least, most = self.seen
        width = most - least if self.episodes else np.zeros_like(least)
        box = (
            np.where(np.isfinite(low), low, least - width),
            np.where(np.isfinite(high), high, most + width),
        )
        return LearnedDynamics(self.posterior, self.phi, box, self.limits, self.discrete, self.delta)
