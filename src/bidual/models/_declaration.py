"""The interface of what a user declares about the transitions before the first episode."""

import abc
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from bidual.problem.features import AbstractModelFeatures, Computed, Pieces

if TYPE_CHECKING:
    from typing import Self

    from bidual.models._knowledge import AbstractKnowledge

Ends = tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]


SignalFunction = Callable[[int, Float[np.ndarray, "D"], int, Float[np.ndarray, "D"] | None], float]


class EnvironmentFacts(NamedTuple):
    """Sizes and known facts of an environment, with the features over it: the input of every declaration's `start`."""

    pieces: Pieces
    horizon: int
    allowed: Bool[np.ndarray, "S A"]
    delta: float  # the probability of failure that the model may use
    absorbing: Bool[np.ndarray, "S"]
    initial: Float[np.ndarray, "S"] | None = None  # None: unknown
    dimension: int = 0  # of an observation, where it is a vector
    symbols: int | None = None  # how many values an entry of it can have, where these are finitely many
    features: Computed | None = None  # signals of vectors and controls
    limits: Ends | None = None  # of controls
    space: Ends | None = None  # of observations
    discrete: bool = False  # whether controls are indicators of numbered actions
    met: bool = False  # whether states are numbered as they are met
    seed: int = 0  # of the run, for random actions that belong to the collection of data
    signal: SignalFunction | None = None  # where vectors are observed: that of a number, or NaN


class Needs(NamedTuple):
    """The environment that a declaration asks for."""

    observes: str = "states"  # numbers of states; "observations" of a hidden state; or "vectors" moved by controls
    one_law: bool = False  # whether the law must be the same at every step
    latents: int = 0  # how many states observations are decoded to
    symbols: bool = False  # whether observations are symbols


class AbstractDeclaration(abc.ABC):
    """What is declared about the transitions before the first episode. All of it is taken for granted."""

    sets: ClassVar[tuple[str, ...]] = ()  # the confidence sets to choose from
    steps_apart: ClassVar[bool] = False  # whether a law for every step can be asked for
    subject: ClassVar[str]  # of error messages about the two
    default_explorer: ClassVar[str] = "alternating"

    @abc.abstractmethod
    def start(self, facts: EnvironmentFacts) -> "AbstractKnowledge":
        """Return what is known before the first episode."""

    @property
    def needs(self) -> Needs:
        """The environment that it is learned in."""
        return Needs()

    @property
    def about_states(self) -> bool:
        """Whether something is declared of single states, whose numbers must then be known."""
        return False

    @property
    def map_features(self) -> AbstractModelFeatures | None:
        """The features of the law that stored policies plan with; None where they hold none."""
        return None

    def adapt(self, confidence: str | None, *, per_step: bool, paper: bool) -> "Self":
        """Return the same with another set of laws, a law for every step, or as the paper's algorithm has it."""
        del confidence, per_step, paper
        return self
