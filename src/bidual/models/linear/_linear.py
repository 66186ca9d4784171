"""`LinearMDP`: transitions with known features, P_h(s' | s, a) = phi_h(s, a) . mu_h(s'), and mu to be learned."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from bidual._base.brief import describe_briefly
from bidual._base.checksum import compute_checksum
from bidual._base.errors import ModelError
from bidual._base.types import Episode
from bidual.models._declaration import AbstractDeclaration, EnvironmentFacts, Needs
from bidual.models._known import Known
from bidual.models.counts._arrivals import NOISE
from bidual.models.counts._counted import ANYWHERE, AbstractCounted
from bidual.models.counts._counts import start_counts
from bidual.models.counts._support import NOBODY, Declared, read_absorbing, read_support
from bidual.models.linear._elliptical import Elliptical
from bidual.models.linear._ridge import Fit, count_log_vertices, find_learnable_rows, fit_ridge, sum_arrivals
from bidual.problem.features import Psi
from bidual.world.mdp import TabularMDP, check_initial

LINEAR_SETS = ("elliptical",)
_ROUNDING = 1e-9  # by which the norm of a feature vector may exceed 1


@final
@dataclass(frozen=True, eq=False)
class LinearMDP(AbstractDeclaration):
    """A linear MDP over finitely many states: P_h(s' | s, a) = phi_h(s, a) . mu_h(s'), phi known and mu unknown.

    Such a mu is assumed to exist, until episodes prove that there is none.

    Args:
        phi: the features of every state and action, an array (S, A, d), or (H, S, A, d) where they change with the
            step. Those of states that are never left, and of actions that are not allowed, are not used.
        bound: no sum of mu(s') over any set of states is longer than this. By default sqrt(d), the usual normalisation,
            which goes with features of length at most 1.
        ridge: lambda, the weight of the ridge. Bounds hold with any; they were tightest with about 1.
        stationary: whether mu is the same at every step of an episode.
        support: possible successors, as in `Tabular`; None: any.
        absorbing: states that are never left.
        initial: the start state, or law over states (S,); None: the environment's own where it has one, else learned.
    """

    __repr__ = describe_briefly

    phi: ArrayLike
    bound: float | None = None
    ridge: float = 1.0
    stationary: bool = True
    support: Declared = None
    absorbing: Sequence[int] | Int[np.ndarray, "e"] = ()
    initial: int | ArrayLike | None = None

    steps_apart = True
    subject = "has features and a set of laws of its own"

    def __post_init__(self) -> None:
        """Check the settings that do not depend on an environment."""
        for name, number in (("bound", self.bound), ("ridge", self.ridge)):
            if not (number is None and name == "bound") and not (isinstance(number, Real) and 0 < number < np.inf):
                raise ModelError(f"{name} must be a positive number; got {number!r}")
        object.__setattr__(self, "phi", _read_phi(self.phi))

    @property
    def one_law(self) -> bool:
        """Whether the law is the same at every step."""
        return self.stationary and len(np.asarray(self.phi)) == 1

    @property
    def needs(self) -> Needs:
        """Numbered states, with one law where one is declared."""
        return Needs(one_law=self.one_law)

    def adapt(self, confidence: str | None, *, per_step: bool, paper: bool) -> "LinearMDP":
        """Return the same, or with a mu for every step."""
        del confidence, paper
        return replace(self, stationary=False) if per_step else self

    @property
    def about_states(self) -> bool:
        """Whether something is declared of single states: all of it is."""
        return True

    def start(self, facts: EnvironmentFacts) -> "LinearKnowledge":
        """Return what is known before the first episode, with what the environment itself declares."""
        pieces, horizon, allowed = facts.pieces, facts.horizon, facts.allowed
        S, A = allowed.shape
        phi = np.asarray(self.phi)
        ends = np.union1d(read_absorbing(self.absorbing, S), np.flatnonzero(facts.absorbing))
        anywhere = np.broadcast_to(np.arange(S), (S, A, S))
        support = read_support(anywhere if self.support is None else self.support, ends, allowed)
        law = facts.initial if self.initial is None else check_initial(self.initial, S)
        noisy = np.array([one.noisy for _, one in pieces.observed], dtype=bool)
        counts = start_counts(support, noisy, 1 if self.one_law else horizon)
        check_phi(phi, horizon, allowed, find_learnable_rows(counts), normed=self.bound is None)
        bound = float(np.sqrt(phi.shape[-1])) if self.bound is None else float(self.bound)
        known = counts, pieces, horizon, law, facts.delta, LINEAR_SETS[0]
        return LinearKnowledge(*known, phi, bool(self.stationary), bound, float(self.ridge))


@final
@dataclass(frozen=True, eq=False)
class LinearKnowledge(AbstractCounted):
    """Knowledge from the ridge estimate of mu, which is a function of the counts."""

    __repr__ = describe_briefly

    phi: Float[np.ndarray, "step S A d"]
    stationary: bool
    bound: float
    ridge: float

    def update(self, *episodes: Episode) -> "LinearKnowledge":
        """Learn from episodes; raise where one contradicts a declaration."""
        self.check_starts(episodes)
        common = self.pieces, self.horizon, self.initial, self.delta, self.set
        counts = self.counts.update(*episodes)
        return LinearKnowledge(counts, *common, self.phi, self.stationary, self.bound, self.ridge)

    def build_confidence_set(self) -> Elliptical:
        """Return the confidence set; raise where no mu is consistent with the counts."""
        radius = self.fit.radius(self._log_share + count_log_vertices(self._arrivals), self.bound)
        model = Elliptical(self.counts, self.delta, self.initial, self.fit.centre, radius, self._log_share)
        model.check()
        return model

    def draw_posterior_sample(self, rng: np.random.Generator) -> tuple[Known, Psi]:
        """Draw one law, for exploration only, and return it with the features under it."""
        return self.single(self._draw_law(rng))

    def laws(self, rng: np.random.Generator, number: int) -> list[TabularMDP]:
        """Draw several such laws, as models."""
        return [self.model(self._draw_law(rng)) for _ in range(number)]

    @property
    def certifies(self) -> bool:
        """Whether the set is proved to hold the truth: it is, where phi and its bound are right."""
        return True

    def law_settings(self) -> str:
        """Return the checksum of features and settings."""
        return compute_checksum([self.stationary, self.bound, self.ridge], self.phi)

    def pack_declaration(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the features and their settings, as JSON values and arrays."""
        return {"linear": [self.stationary, self.bound, self.ridge]}, {"phi": self.phi}

    def law_assumptions(self) -> list[str]:
        """Return linearity, and the support if it is not all states."""
        support = self.counts.support
        sizes = support.sizes[~support.absorbing[:, None] & support.allowed]
        everywhere = sizes.min(initial=len(support.sizes)) == len(support.sizes)
        shared = "with one mu for all steps" if self.stationary else "with a mu of its own at every step"
        linear = (
            f"the law is phi . mu, linear in {self.phi.shape[-1]} known features, {shared}; no sum of mu(s') over "
            f"states is longer than {self.bound:.4g}; and nothing seen so far excludes that"
        )
        return [linear, *([ANYWHERE] if everywhere else super().law_assumptions())]

    def compute_smoothed_estimate(self) -> Float[np.ndarray, "law S A K"]:
        """Return the estimate with one more sample of every possible successor: `Tabular` has phi of indicators."""
        return self._normalise(self._to_pseudo_counts(self.fit.centre) + self._entry_mask)

    @cached_property
    def fit(self) -> Fit:
        """The ridge estimate."""
        return fit_ridge(self.phi, self.counts, self.ridge, stationary=self.stationary)

    def _draw_law(self, rng: np.random.Generator) -> Float[np.ndarray, "law S A K"]:
        """Draw a law by a bootstrap: the estimate from transitions with random gamma weights.

        All rows share the uncertainty about mu. The prior adds one sample. With indicators for phi this is a draw from
        the posterior of `Tabular`.
        """
        numbers, real = rng.standard_gamma(self.counts.transitions), self._entry_mask
        first = sum_arrivals(self.phi, self.counts, numbers, stationary=self.stationary)
        centre = np.matmul(self.fit.solved, first[:, None])
        prior = rng.standard_gamma(np.broadcast_to(real / real.sum(axis=-1, keepdims=True), numbers.shape))
        weights = self._to_pseudo_counts(centre) + prior
        lost = weights.sum(axis=-1, keepdims=True) <= 0  # draws with shapes near 0 may all underflow
        return self._normalise(np.where(lost, real, weights))

    def _to_pseudo_counts(self, centre: Float[np.ndarray, "law S A S"]) -> Float[np.ndarray, "law S A K"]:
        """Convert an estimate to pseudo-counts: a row is worth 1 / (phi . Lambda^-1 phi) samples of its own."""
        squared = np.sum(self.phi * self.fit.solved, axis=-1, keepdims=True)
        worth = np.divide(1.0, squared, out=np.zeros_like(squared), where=squared > 0)
        return worth * np.maximum(self.counts.support.listed(centre), 0.0)

    @property
    def _entry_mask(self) -> Float[np.ndarray, "S A K"]:
        """1 for the entries of the lists, 0 for padding; rows that are not allowed may be anything."""
        real = (self.counts.support.states != NOBODY).astype(np.float64)
        real[..., 0] = 1.0
        return real

    def _normalise(self, weights: Float[np.ndarray, "law S A K"]) -> Float[np.ndarray, "law S A K"]:
        """Normalise weights to laws; where there is nothing to learn, to the only successor."""
        law = weights / weights.sum(axis=-1, keepdims=True)
        return np.where(self.counts.support.unsure[..., None], law, np.arange(law.shape[-1]) == 0)

    @property
    def _arrivals(self) -> int:
        """The number of states that can follow one that can be left."""
        return np.unique(self.counts.support.filled[find_learnable_rows(self.counts)]).size

    @property
    def _log_share(self) -> float:
        """log(claims / delta): one claim per mu, 1 or H of them, and one about the start where it is learned."""
        delta = self.delta * (1 - NOISE) if self.counts.noisy.any() else self.delta
        return float(np.log(((1 if self.stationary else self.horizon) + (self.initial is None)) / delta))


def _read_phi(phi: ArrayLike) -> Float[np.ndarray, "step S A d"]:
    """Return a copy with an axis of steps, of length 1 where they are alike."""
    try:
        array = np.array(phi, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ModelError(f"phi must be an array of numbers (S, A, d), or (H, S, A, d): {error}") from error
    if array.ndim not in (3, 4) or not array.shape[-1]:
        raise ModelError(f"phi must have shape (S, A, d), or (H, S, A, d) where it changes; got {array.shape}")
    if not np.all(np.isfinite(array)):
        raise ModelError("phi contains NaN or infinity")
    return array[None] if array.ndim == 3 else array


def check_phi(
    phi: Float[np.ndarray, "step s a d"],
    horizon: int,
    allowed: Bool[np.ndarray, "S A"],
    used: Bool[np.ndarray, "S A"],
    *,
    normed: bool,
) -> None:
    """Check that features fit the environment, are not 0, and satisfy the normalisation that the bound on mu needs."""
    if phi.shape[1:3] != allowed.shape:
        raise ModelError(f"phi is over {phi.shape[1:3]} states and actions, the environment has {allowed.shape}")
    if len(phi) not in (1, horizon):
        raise ModelError(
            f"phi has features for {len(phi)} steps, the environment has {horizon}: give one array, or all"
        )
    length = np.where(used, np.linalg.norm(phi, axis=-1), 0.5)
    if not length.all():
        h, s, a = np.argwhere(length == 0)[0].tolist()
        raise ModelError(
            f"phi{_format_step(phi, h)}[{s}, {a}] is 0, and phi . mu no law: give it features, or declare its state "
            "absorbing"
        )
    if normed and length.max() > 1 + _ROUNDING:
        h, s, a = np.unravel_index(int(length.argmax()), length.shape)
        raise ModelError(
            f"phi{_format_step(phi, int(h))}[{s}, {a}] has length {length.max():.6g}, above 1: divide phi by the "
            "largest length if no sum of mu(s') over states is then longer than sqrt(d), or declare with bound=... how "
            "long it can be"
        )


def _format_step(phi: Float[np.ndarray, "step S A d"], h: int) -> str:
    return f"[{h}]" if len(phi) > 1 else ""
