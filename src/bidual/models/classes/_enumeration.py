"""The maximum likelihood oracle for finite classes: every pair of candidates is tried."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int

from bidual._base.errors import ModelError
from bidual.models._maximum_likelihood import AbstractMaximumLikelihood
from bidual.models.classes._factors import Factors
from bidual.models.classes._likelihood import add_transitions
from bidual.models.counts._counts import Counts


class Transitions(NamedTuple):
    """The different transitions of one step, and how often each was seen."""

    states: Int[np.ndarray, "t"]
    actions: Int[np.ndarray, "t"]
    arrivals: Int[np.ndarray, "t"]
    times: Float[np.ndarray, "t"]


@final
@dataclass(frozen=True)
class Enumeration(AbstractMaximumLikelihood[Factors, Transitions, int]):
    """The pair of largest likelihood among all; of equal ones the first. This is exact."""

    def __call__(self, hypotheses: Factors, data: Transitions, warm: int | None) -> int:
        """Return the number of the pair."""
        del warm
        total = np.zeros(hypotheses.count)
        add_transitions(total, hypotheses, (data.states, data.actions, data.arrivals), data.times)
        return int(total.argmax())


def list_transitions(counts: Counts, h: int) -> Transitions:
    """Return the transitions that were counted at one step."""
    s, a, place = np.nonzero(counts.transitions[h])
    return Transitions(s, a, counts.support.states[s, a, place], counts.transitions[h][s, a, place])


def check_best(numbers: Sequence[object], factors: Sequence[Factors]) -> Int[np.ndarray, "H"]:
    """Return the numbers that an oracle gave for every step; raise `ModelError` where one is of no pair."""
    for h, (number, one) in enumerate(zip(numbers, factors, strict=True)):
        if isinstance(number, bool) or not isinstance(number, int | np.integer) or not 0 <= number < one.count:
            raise ModelError(
                f"the maximum likelihood oracle gave {number!r} at step {h + 1}: it must give the number of a pair of "
                f"candidates, from 0 to {one.count - 1}"
            )
    return np.array(numbers, dtype=np.int64)
