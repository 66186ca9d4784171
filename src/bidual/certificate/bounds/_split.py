"""The division of one probability of failure over all reported bounds (a union bound).

Half goes to the model set, three eighths to the evaluation rounds, a sixteenth each to the uniform mixture and to the
last half of the episodes. Of an evaluation nine tenths go to the side that the certificate needs (the upper
bound on the policy's value) and a tenth to the other, which is only reported. Each policy that is evaluated is a
round; all further episodes of the last one are one more, whose bounds hold for any number of them. Repeated claims get
the share 6 / (pi k)^2 at the k-th time: the shares sum to 1, so their number need not be known in advance.
"""

import math
from dataclasses import dataclass
from numbers import Real
from typing import final

from bidual._base.errors import ProblemError


@final
@dataclass(frozen=True)
class Split:
    """An overall `delta`, and its division.

    All statements hold at once with probability at least 1 - delta, however dependent they are: a union bound needs no
    independence. The methods return the share of one side of one functional.
    """

    delta: float

    def __post_init__(self) -> None:
        """Check the probability."""
        check_delta("delta", self.delta)

    @property
    def model(self) -> float:
        """The share of the confidence set: that it contains the true model at all times."""
        return self.delta / 2

    def evaluation(self, round: int, functionals: int) -> tuple[float, float]:
        """Return the shares of fresh episodes of one policy in round 1, 2, ...: of its lower and its upper bound."""
        each = self.delta * 3 / 8 * share(round) * 2 / _count_sides(functionals)
        return each / 10, each * 9 / 10

    def mixture(self, functionals: int) -> float:
        """Return the share of the uniform mixture of all executed policies, at all times."""
        return self.delta / 16 / _count_sides(functionals)

    def last_half(self, functionals: int) -> float:
        """Return the share of the mixture of the last half, at all times; `Restarts` divides it further."""
        return self.delta / 16 / _count_sides(functionals)


@final
@dataclass(frozen=True)
class Alone:
    """All of `delta` for one evaluation, without any other claim: an equal share for either side of a functional."""

    delta: float

    def __post_init__(self) -> None:
        """Check the probability."""
        check_delta("delta", self.delta)

    def evaluation(self, round: int, functionals: int) -> tuple[float, float]:
        """Return the shares of the lower and the upper bound."""
        if round != 1:
            raise ProblemError(f"all of delta is for one round; got round {round!r}")
        each = self.delta / _count_sides(functionals)
        return each, each


def share(k: int) -> float:
    """Return the k-th part of 1 = sum over k = 1, 2, ... of 6 / (pi k)^2."""
    if k < 1:
        raise ProblemError(f"rounds are counted 1, 2, ...; got {k!r}")
    return 6 / (math.pi * k) ** 2


def check_delta(name: str, delta: float) -> None:
    """Check that a probability of failure is strictly between 0 and 1; NaN is not."""
    if not (isinstance(delta, Real) and 0 < delta < 1):
        raise ProblemError(
            f"{name} must be strictly between 0 and 1; got {delta!r}: it is the probability that a bound may fail "
            "with, 0.05 for instance"
        )


def _count_sides(functionals: int) -> int:
    if functionals < 1:
        raise ProblemError(
            f"the number of functionals must be at least 1; got {functionals!r}: count the objective and each "
            "constraint"
        )
    return 2 * functionals
