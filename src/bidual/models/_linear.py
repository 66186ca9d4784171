"""`LinearMDP`: transitions with known features, P_h(s' | s, a) = phi_h(s, a) . mu_h(s'), and mu to be learned."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from bidual._errors import ModelError
from bidual._lists import check_initial
from bidual._types import Episode
from bidual.features import Pieces, Psi
from bidual.mdp import TabularMDP
from bidual.models._arrivals import NOISE
from bidual.models._counted import AbstractCounted
from bidual.models._counts import no_counts
from bidual.models._elliptical import Elliptical
from bidual.models._known import Known
from bidual.models._ridge import Fit, arrivals, fitted, log_vertices, taught
from bidual.models._support import NOBODY, read_absorbing, read_support

LINEAR_SETS = ("elliptical",)
_ROUNDING = 1e-9  # by which the norm of a feature vector may exceed 1


@final
@dataclass(frozen=True, eq=False)
class LinearMDP:
    """A linear MDP over finitely many states: P_h(s' | s, a) = phi_h(s, a) . mu_h(s'), phi known and mu unknown.

    That there is such a mu is taken for granted, until episodes show that there is none.

    Args:
        phi: the features of every state and action, an array (S, A, d), or (H, S, A, d) where they change with the
            step. Those of states that are never left, and of actions that are not allowed, are not used.
        bound: no sum of mu(s') over any set of states is longer than this. By default sqrt(d), the usual normalisation,
            which goes with features of length at most 1.
        ridge: lambda, the weight of the ridge. Bounds hold with any; they were tightest with about 1.
        stationary: whether mu is the same at every step of an episode.
        support: which states can follow, as in `Tabular`; None: any.
        absorbing: states that are never left.
        initial: the start state, or law over states (S,); None: the environment's own where it tells, else learned.
    """

    phi: ArrayLike
    bound: float | None = None
    ridge: float = 1.0
    stationary: bool = True
    support: ArrayLike | TabularMDP | None = None
    absorbing: Sequence[int] | Int[np.ndarray, "e"] = ()
    initial: int | ArrayLike | None = None

    def __post_init__(self) -> None:
        """Check what can be checked without an environment."""
        for name, number in (("bound", self.bound), ("ridge", self.ridge)):
            if not (number is None and name == "bound") and not (isinstance(number, Real) and 0 < number < np.inf):
                raise ModelError(f"{name} must be a positive number; got {number!r}")
        object.__setattr__(self, "phi", _numbers(self.phi))

    @property
    def one_law(self) -> bool:
        """Whether what follows is alike at every step."""
        return self.stationary and len(np.asarray(self.phi)) == 1

    def start(
        self,
        pieces: Pieces,
        horizon: int,
        allowed: Bool[np.ndarray, "S A"],
        delta: float,
        *,
        absorbing: Bool[np.ndarray, "S"],
        initial: Float[np.ndarray, "S"] | None,
    ) -> "LinearKnowledge":
        """What is known before the first episode, with what an environment itself tells."""
        S, A = allowed.shape
        phi = np.asarray(self.phi)
        ends = np.union1d(read_absorbing(self.absorbing, S), np.flatnonzero(absorbing))
        anywhere = np.broadcast_to(np.arange(S), (S, A, S))
        support = read_support(anywhere if self.support is None else self.support, ends, allowed)
        law = initial if self.initial is None else check_initial(self.initial, S)
        noisy = np.array([one.noisy for _, one in pieces.observed], dtype=bool)
        counts = no_counts(support, noisy, 1 if self.one_law else horizon)
        check_phi(phi, horizon, allowed, taught(counts), normed=self.bound is None)
        bound = float(np.sqrt(phi.shape[-1])) if self.bound is None else float(self.bound)
        known = counts, pieces, horizon, law, delta, LINEAR_SETS[0]
        return LinearKnowledge(*known, phi, bool(self.stationary), bound, float(self.ridge))


@final
@dataclass(frozen=True, eq=False)
class LinearKnowledge(AbstractCounted):
    """What the ridge estimate of mu says about every row. Counts are all that it depends on."""

    phi: Float[np.ndarray, "step S A d"]
    stationary: bool
    bound: float
    ridge: float

    def update(self, *episodes: Episode) -> "LinearKnowledge":
        """Learn from episodes; raises where one shows what was declared impossible."""
        self.check_starts(episodes)
        common = self.pieces, self.horizon, self.initial, self.delta, self.set
        counts = self.counts.update(*episodes)
        return LinearKnowledge(counts, *common, self.phi, self.stationary, self.bound, self.ridge)

    def possible(self) -> Elliptical:
        """All laws that may be true; raises where no mu explains what was seen."""
        radius = self.fit.radius(self._log_share + log_vertices(self._arrivals), self.bound)
        model = Elliptical(self.counts, self.delta, self.initial, self.fit.centre, radius, self._log_share)
        model.check()
        return model

    def drawn(self, rng: np.random.Generator) -> tuple[Known, Psi]:
        """One law at random, for exploring alone, and the features under it."""
        return self.single(self._random(rng))

    def laws(self, rng: np.random.Generator, number: int) -> list[TabularMDP]:
        """Several such laws, as models."""
        return [self.model(self._random(rng)) for _ in range(number)]

    @property
    def certifies(self) -> bool:
        """The set holds the truth, if phi and bound are what they are said to be."""
        return True

    def likely(self) -> Float[np.ndarray, "law S A K"]:
        """The estimate, and one more sample of every possible successor: as in `Tabular`, with indicators for phi."""
        return self._normalised(self._samples(self.fit.centre) + self._real)

    @cached_property
    def fit(self) -> Fit:
        """The ridge estimate."""
        return fitted(self.phi, self.counts, self.ridge, stationary=self.stationary)

    def _random(self, rng: np.random.Generator) -> Float[np.ndarray, "law S A K"]:
        """The estimate from transitions that count as often as a gamma law says, which is a bootstrap of all of them.

        All rows share what is uncertain about mu. The prior adds one sample. With indicators for phi this is a draw
        from the posterior that `Tabular` has.
        """
        numbers, real = rng.standard_gamma(self.counts.transitions), self._real
        first = arrivals(self.phi, self.counts, numbers, stationary=self.stationary)
        centre = np.matmul(self.fit.solved, first[:, None])
        prior = rng.standard_gamma(np.broadcast_to(real / real.sum(axis=-1, keepdims=True), numbers.shape))
        weights = self._samples(centre) + prior
        lost = weights.sum(axis=-1, keepdims=True) <= 0  # draws with shapes near 0 may all underflow
        return self._normalised(np.where(lost, real, weights))

    def _samples(self, centre: Float[np.ndarray, "law S A S"]) -> Float[np.ndarray, "law S A K"]:
        """An estimate as numbers of samples: what is known of a row is worth 1 / (phi . Lambda^-1 phi) of its own."""
        squared = np.sum(self.phi * self.fit.solved, axis=-1, keepdims=True)
        worth = np.divide(1.0, squared, out=np.zeros_like(squared), where=squared > 0)
        return worth * np.maximum(self.counts.support.listed(centre), 0.0)

    @property
    def _real(self) -> Float[np.ndarray, "S A K"]:
        """1 for the entries of the lists, 0 for padding; rows that are not allowed may be anything."""
        real = (self.counts.support.states != NOBODY).astype(np.float64)
        real[..., 0] = 1.0
        return real

    def _normalised(self, weights: Float[np.ndarray, "law S A K"]) -> Float[np.ndarray, "law S A K"]:
        """Weights as laws; where there is nothing to learn, the only successor."""
        law = weights / weights.sum(axis=-1, keepdims=True)
        return np.where(self.counts.support.unsure[..., None], law, np.arange(law.shape[-1]) == 0)

    @property
    def _arrivals(self) -> int:
        """How many states can follow one that can be left."""
        return np.unique(self.counts.support.filled[taught(self.counts)]).size

    @property
    def _log_share(self) -> float:
        """What a claim about one mu costs: one or H of them, and one about the start where it is learned."""
        delta = self.delta * (1 - NOISE) if self.counts.noisy.any() else self.delta
        return float(np.log(((1 if self.stationary else self.horizon) + (self.initial is None)) / delta))


def _numbers(phi: ArrayLike) -> Float[np.ndarray, "step S A d"]:
    """A copy, with an axis of steps, of length 1 where they are alike."""
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
    """Features must fit the environment, be able to make a law, and be as long as the bound on mu wants them."""
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
            f"phi{_place(phi, h)}[{s}, {a}] is 0, and phi . mu no law: give it features, or declare its state absorbing"
        )
    if normed and length.max() > 1 + _ROUNDING:
        h, s, a = np.unravel_index(int(length.argmax()), length.shape)
        raise ModelError(
            f"phi{_place(phi, int(h))}[{s}, {a}] has length {length.max():.6g}, above 1: divide phi by the largest "
            "length if no sum of mu(s') over states is then longer than sqrt(d), or declare with bound=... how long it "
            "can be"
        )


def _place(phi: Float[np.ndarray, "step S A d"], h: int) -> str:
    return f"[{h}]" if len(phi) > 1 else ""
