"""The interface of maximum likelihood oracles: line 3 of Algorithm 3 as a part that can be given, as the planner is."""

import abc
from typing import Generic, TypeVar

Hypotheses = TypeVar("Hypotheses", contravariant=True)
Data = TypeVar("Data", contravariant=True)
Estimate = TypeVar("Estimate")


class AbstractMaximumLikelihood(abc.ABC, Generic[Hypotheses, Data, Estimate]):
    """A search for the hypothesis that explains the data of one step best.

    No bound rests on its success. Around a poor estimate a confidence set is larger, and it is never wrong: by how much
    the estimate misses the best candidate is part of its radius.
    """

    @abc.abstractmethod
    def __call__(self, hypotheses: Hypotheses, data: Data, warm: Estimate | None) -> Estimate:
        """Return the hypothesis of largest likelihood; `warm` is that of earlier data, where it is known."""
