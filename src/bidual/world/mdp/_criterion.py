"""What is summed where there is no last step: discounted signals, signals until absorption, or long-run averages.

Under each of these criteria stationary randomised policies are enough, and what a policy does is one occupancy measure
mu(s, a) over all times: its embedding has one row, sum mu(s, a) psi(s, a). The mass of mu, the expected number of steps
that count, is 1 / (1 - discount), the expected time until absorption, or 1.
"""

import abc
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from bidual._base.errors import ModelError

_EPS = float(np.finfo(np.float64).eps)


class AbstractCriterion(abc.ABC):
    """How the signals of an unbounded time are summed."""

    @property
    @abc.abstractmethod
    def mass(self) -> tuple[float, float]:
        """The least and the largest number of steps that count."""

    @abc.abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the criterion as an entry of a file."""

    @abc.abstractmethod
    def __str__(self) -> str:
        """Describe it in a few words, as in a line about the model."""


@final
@dataclass(frozen=True)
class Discounted(AbstractCriterion):
    """The signals of step t count discount^t times."""

    discount: float

    @property
    def mass(self) -> tuple[float, float]:
        """1 / (1 - discount), with its rounding."""
        steps = 1 / (1 - self.discount)
        return steps * (1 - 4 * _EPS), steps * (1 + 4 * _EPS)

    def to_json(self) -> dict[str, Any]:
        """Return the discount."""
        return {"discount": self.discount}

    def __str__(self) -> str:
        return f"discount {self.discount:g}"


def declare_criterion(discount: object) -> AbstractCriterion:
    """Check the declaration of an unbounded time; raise `ModelError` for one that means nothing."""
    if isinstance(discount, bool) or not isinstance(discount, int | float | np.integer | np.floating):
        raise ModelError(f"discount must be a number between 0 and 1; got {discount!r}")
    if not 0 < discount < 1:
        raise ModelError(
            f"discount must lie strictly between 0 and 1; got {discount!r}: without discounting give a horizon"
        )
    return Discounted(float(discount))


def read_criterion(stored: object) -> dict[str, Any]:
    """Return the arguments of `TabularMDP` that a file's criterion stands for; raise `ValueError` for any other."""
    if not isinstance(stored, dict) or list(stored) != ["discount"] or type(stored["discount"]) is not float:
        raise ValueError(f"the criterion is {stored!r:.80}")
    return stored
