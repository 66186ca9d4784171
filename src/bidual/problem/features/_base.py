"""The interface of feature maps: names for the user, arrays for the planner."""

import abc
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
from jaxtyping import Float

from bidual._base.brief import describe_briefly
from bidual._base.types import Successors, select_step

if TYPE_CHECKING:
    from bidual.problem.features.embedding import Embedding


class FeaturePart(NamedTuple):
    """A named part of the embedding: its entries among the d features, from `position` on, in row-major order."""

    name: str
    position: int
    shape: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """The number of its features."""
        return math.prod(self.shape)


@final
@dataclass(frozen=True, eq=False)
class Psi:
    """psi over a known model, in the order of the features: signals, then visits, then occupancies.

    Signals are arrays. Visits (one indicator per state) and occupancies (one per state and action) are only named:
    as arrays they would hold S^2 A numbers, nearly all of them 0.
    """

    __repr__ = describe_briefly

    signals: Float[np.ndarray, "steps d S A"]
    visits: bool = False
    occupancy: bool = False
    mass: tuple[float, float] = (
        1.0,
        1.0,
    )  # least and most steps that count in a row of the embedding

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The numbers of features that are signals, visits and occupancies."""
        _, d, S, A = self.signals.shape
        return d, S if self.visits else 0, S * A if self.occupancy else 0

    @property
    def dimension(self) -> int:
        """The number d of features."""
        return sum(self.sizes)

    def split(self, theta: Float[np.ndarray, "*h d"]) -> list[Float[np.ndarray, "*h part"]]:
        """Split a cost, or an embedding, into its parts for signals, visits and occupancies."""
        first, second, _ = self.sizes
        return np.split(theta, (first, first + second), axis=-1)

    def pay(self, theta: Float[np.ndarray, "d"], h: int) -> Float[np.ndarray, "S A"]:
        """Return theta . psi_h(s, a) for every state and action."""
        signals, visits, occupancy = self.split(theta)
        pay = np.tensordot(signals, select_step(self.signals, h), axes=1)
        if self.visits:
            pay = pay + visits[:, None]
        return pay + occupancy.reshape(pay.shape) if self.occupancy else pay

    def expect(self, occupancy: Float[np.ndarray, "S A"], h: int) -> Float[np.ndarray, "d"]:
        """Return E psi_h under a distribution of state and action."""
        parts = [np.tensordot(select_step(self.signals, h), occupancy, axes=2)]
        parts += [occupancy.sum(axis=1)] if self.visits else []
        parts += [occupancy.ravel()] if self.occupancy else []
        return np.concatenate(parts)

    def peaks(self, steps: float | None = None) -> Float[np.ndarray, "steps d"]:
        """Return the largest absolute value of every entry of the embedding, where at most so many steps count."""
        signals = np.abs(self.signals).max(axis=(2, 3))
        ones = np.ones((len(signals), self.dimension - signals.shape[1]))
        peaks = np.concatenate([signals, ones], axis=1)
        return np.multiply(self.mass[1] if steps is None else steps, peaks, out=np.zeros_like(peaks), where=peaks > 0)

    def ends(self) -> tuple[Float[np.ndarray, "steps d"], Float[np.ndarray, "steps d"]]:
        """Return the least and the largest value of every entry of the embedding."""
        low, high = self.signals.min(axis=(2, 3)), self.signals.max(axis=(2, 3))
        indicators = (len(low), self.dimension - low.shape[1])
        low = np.concatenate([low, np.zeros(indicators)], axis=1)
        high = np.concatenate([high, np.ones(indicators)], axis=1)
        least, most = self.mass
        low = np.where(low < 0, np.multiply(most, low, out=np.zeros_like(low), where=low < 0), least * low)
        high = np.where(high > 0, np.multiply(most, high, out=np.zeros_like(high), where=high > 0), least * high)
        return low, high


@final
@dataclass(frozen=True, eq=False)
class Observed:
    """A signal that only an environment reports, within declared bounds; constructed by `observed`."""

    function: Callable[..., float]
    low: float
    high: float
    noisy: bool = False  # whether the same transition may show different values
    at_end: bool = False  # whether it is 0 but for the step that terminates an episode


@final
@dataclass(frozen=True, eq=False)
class Pieces:
    """psi without a known model: arrays over (state, action), arrays on arrival, and signals of an environment."""

    __repr__ = describe_briefly

    stage: Float[np.ndarray, "steps d S A"]  # 0 for the signals that are in the other pieces
    arrivals: tuple[tuple[int, Float[np.ndarray, "_ S A S"]], ...] = ()  # with the position; 1 or H steps each
    observed: tuple[tuple[int, Observed], ...] = ()
    visits: bool = False
    occupancy: bool = False

    @property
    def psi(self) -> Psi:
        """The features of state and action alone."""
        return Psi(self.stage, self.visits, self.occupancy)

    def peaks(self) -> Float[np.ndarray, "steps d"]:
        """Return the largest absolute value of every feature."""
        peaks = np.array(self.psi.peaks())
        for position, values in self.arrivals:
            peaks[:, position] += np.abs(values).max()
        for position, one in self.observed:
            peaks[:, position] += max(abs(one.low), abs(one.high))
        return peaks

    def span(self, rows: Float[np.ndarray, "r H d"]) -> tuple[Float[np.ndarray, "r"], Float[np.ndarray, "r"]]:
        """Bound linear functionals of an episode from both sides, where all signals come from the environment.

        Signals lie within their bounds, and are 0 after the end. Infinite where a signal of nonzero weight has none.
        """
        ends = np.array([[one.low, one.high, 0.0] for _, one in self.observed])
        with np.errstate(invalid="ignore"):
            products = np.where(rows[..., None] == 0, 0.0, rows[..., None] * ends)
        low, high = products.min(axis=-1).sum(axis=(1, 2)), products.max(axis=-1).sum(axis=(1, 2))
        slack = 1e-9 * np.maximum(1.0, np.abs(low) + np.abs(high))  # of sums in another order
        return low - slack, high + slack


class AbstractFeatures(abc.ABC):
    """A feature map psi: (step, state, action) -> R^d, with a name for each of its parts."""

    @property
    @abc.abstractmethod
    def parts(self) -> tuple[FeaturePart, ...]:
        """The named parts, in the order of the features."""

    @property
    def dimension(self) -> int:
        """The number d of features."""
        return sum(part.size for part in self.parts)

    @property
    def observed(self) -> tuple[tuple[str, Observed], ...]:
        """The signals that only an environment reports, by name."""
        return ()

    @abc.abstractmethod
    def stage(self, successors: Successors) -> Psi:
        """Compute psi over a known model, as an expectation where a signal depends on the next state."""

    @abc.abstractmethod
    def pieces(self, shape: tuple[int, int, int]) -> Pieces:
        """Return psi over H steps, S states and A actions with unknown transitions."""

    def with_end(self, shape: tuple[int, int, int]) -> "AbstractFeatures":
        """Return the features over states of which the last was added for ended episodes: arrays may be without it."""
        del shape
        return self

    def embedding(self, horizon: int, *, total: bool = False, criterion: object = None) -> "Embedding":
        """Return the CVXPY variable for the expectation of psi: shape (H, d), or (d,) summed over time.

        `criterion` is that of a model over an unbounded time, whose one row is such a sum.
        """
        from bidual.problem.features.embedding import Embedding

        return Embedding(self, horizon, total=total, criterion=criterion)
