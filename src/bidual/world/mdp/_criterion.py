"""What is summed where there is no last step: discounted signals, signals until absorption, or long-run averages.

Under each of these criteria stationary randomised policies are enough, and what a policy does is one occupancy measure
mu(s, a) over all times: its embedding has one row, sum mu(s, a) psi(s, a). The mass of mu, the expected number of steps
that count, is 1 / (1 - discount), the expected time until absorption, or 1.
"""

import abc
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float

from bidual._base.errors import ModelError
from bidual._base.types import Successors
from bidual.world.mdp._steps import Steps, absorb_steps, average_steps, bound_steps, discount_steps

_EPS = float(np.finfo(np.float64).eps)


class AbstractCriterion(abc.ABC):
    """How the signals of an unbounded time are summed."""

    @abc.abstractmethod
    def find_steps(self, lists: Successors, initial: Float[np.ndarray, "S"], ends: Bool[np.ndarray, "S"]) -> Steps:
        """Return the steps that count; raise `ModelError` where signals cannot be summed like this in a model."""

    @abc.abstractmethod
    def find_mass(self, steps: Steps) -> tuple[float, float]:
        """Return the least and the largest number of steps that count."""

    @abc.abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the criterion as an entry of a file: the argument of `TabularMDP` that declares it."""

    @abc.abstractmethod
    def __str__(self) -> str:
        """Describe it in a few words, as in a line about the model."""


@final
@dataclass(frozen=True)
class Discounted(AbstractCriterion):
    """The signals of step t count discount^t times."""

    discount: float

    def find_steps(self, lists: Successors, initial: Float[np.ndarray, "S"], ends: Bool[np.ndarray, "S"]) -> Steps:
        """Return all steps, each followed by another one with probability `discount`."""
        del ends
        return discount_steps(lists, initial, self.discount)

    def find_mass(self, steps: Steps) -> tuple[float, float]:
        """Return 1 / (1 - discount), with its rounding."""
        del steps
        number = 1 / (1 - self.discount)
        return number * (1 - 4 * _EPS), number * (1 + 4 * _EPS)

    def to_json(self) -> dict[str, Any]:
        """Return the discount."""
        return {"discount": self.discount}

    def __str__(self) -> str:
        return f"discount {self.discount:g}"


@final
@dataclass(frozen=True)
class Absorbed(AbstractCriterion):
    """Signals are summed until a state is reached that no action leaves, by policies that get there for certain."""

    def find_steps(self, lists: Successors, initial: Float[np.ndarray, "S"], ends: Bool[np.ndarray, "S"]) -> Steps:
        """Return the steps before the ends."""
        return absorb_steps(lists, initial, ends)

    def find_mass(self, steps: Steps) -> tuple[float, float]:
        """Return 0 and the longest expected time until absorption; infinite where some policies are never absorbed."""
        return 0.0, bound_steps(steps)

    def to_json(self) -> dict[str, Any]:
        """Return the declaration."""
        return {"until": "absorbed"}

    def __str__(self) -> str:
        return "until absorbed"


@final
@dataclass(frozen=True)
class Averaged(AbstractCriterion):
    """Signals are averaged over an unbounded time, in models in which every policy passes some state for ever."""

    def find_steps(self, lists: Successors, initial: Float[np.ndarray, "S"], ends: Bool[np.ndarray, "S"]) -> Steps:
        """Return the steps between two visits of such a state."""
        del ends
        return average_steps(lists, initial)

    def find_mass(self, steps: Steps) -> tuple[float, float]:
        """Return 1: shares of time sum to that."""
        del steps
        return 1.0, 1.0

    def to_json(self) -> dict[str, Any]:
        """Return the declaration."""
        return {"average": True}

    def __str__(self) -> str:
        return "average"


def declare_criterion(horizon: object, discount: object, until: object, average: object) -> AbstractCriterion | None:
    """Return the criterion of an unbounded time, None where there is a horizon; one of the four must be given."""
    values = {
        "horizon": horizon,
        "discount": discount,
        "until": until,
        "average": None if average is False else average,
    }
    given = [name for name, value in values.items() if value is not None]
    if len(given) != 1:
        raise ModelError(
            "a model needs one of these: a horizon, or for an unbounded time a discount, until or average; "
            f"got {' and '.join(given) or 'none'}"
        )
    if horizon is not None:
        return None
    if until is not None:
        return Absorbed()
    if discount is None:
        if average is not True:
            raise ModelError(f"average is True or left out; got {average!r}")
        return Averaged()
    if isinstance(discount, bool) or not isinstance(discount, int | float | np.integer | np.floating):
        raise ModelError(f"discount must be a number between 0 and 1; got {discount!r}")
    if not 0 < discount < 1:
        raise ModelError(
            f"discount must lie strictly between 0 and 1; got {discount!r}: without discounting give a horizon, "
            'until="absorbed" or average=True'
        )
    return Discounted(float(discount))


def read_criterion(stored: object) -> dict[str, Any]:
    """Return the arguments of `TabularMDP` that a file's criterion stands for; raise `ValueError` for any other."""
    if isinstance(stored, dict) and len(stored) == 1:
        ((name, value),) = stored.items()
        if (name == "discount" and type(value) is float) or stored in ({"until": "absorbed"}, {"average": True}):
            return stored
    raise ValueError(f"the criterion is {stored!r:.80}")
