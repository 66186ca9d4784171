"""How one probability of failure is divided over everything that is printed (a union bound).

Half goes to the model set, three eighths to the evaluation rounds, a sixteenth each to the uniform mixture and to the
last half of the episodes. Of an evaluation nine tenths go to the side that the certificate needs (what the policy pays
at most) and a tenth to the other, which is only told. What comes again and again gets the share 6 / (pi k)^2 at its
k-th time: the shares sum to 1, so nobody has to say in advance how often it will come.
"""

import math
from dataclasses import dataclass
from numbers import Real
from typing import final

from bidual._errors import ProblemError


@final
@dataclass(frozen=True)
class Split:
    """An overall `delta`, and who gets what of it.

    All statements hold at once with probability at least 1 - delta, whatever they have to do with each other: a union
    bound needs no independence. The methods give what is left for one side of one functional.
    """

    delta: float

    def __post_init__(self) -> None:
        """Check the probability."""
        check_delta("delta", self.delta)

    @property
    def model(self) -> float:
        """That the true model lies in its confidence set, at all times."""
        return self.delta / 2

    def evaluation(self, round: int, functionals: int) -> tuple[float, float]:
        """Fresh episodes of one policy: round 1, 2, ...; what it pays at least, and at most."""
        each = self.delta * 3 / 8 * share(round) * 2 / _sides(functionals)
        return each / 10, each * 9 / 10

    def mixture(self, functionals: int) -> float:
        """The uniform mixture of all that was executed, at all times."""
        return self.delta / 16 / _sides(functionals)

    def last_half(self, functionals: int) -> float:
        """The mixture of the last half of it, at all times; `Restarts` divides it further."""
        return self.delta / 16 / _sides(functionals)


@final
@dataclass(frozen=True)
class Alone:
    """All of `delta` for one evaluation, nothing else is claimed: an equal share for either side of a functional."""

    delta: float

    def __post_init__(self) -> None:
        """Check the probability."""
        check_delta("delta", self.delta)

    def evaluation(self, round: int, functionals: int) -> tuple[float, float]:
        """What it pays at least, and at most."""
        if round != 1:
            raise ProblemError(f"all of delta is for one round; got round {round!r}")
        each = self.delta / _sides(functionals)
        return each, each


def share(k: int) -> float:
    """The k-th part of 1 = sum over k = 1, 2, ... of 6 / (pi k)^2."""
    if k < 1:
        raise ProblemError(f"rounds are counted 1, 2, ...; got {k!r}")
    return 6 / (math.pi * k) ** 2


def check_delta(name: str, delta: float) -> None:
    """A probability of failure is strictly between 0 and 1; NaN is not."""
    if not (isinstance(delta, Real) and 0 < delta < 1):
        raise ProblemError(
            f"{name} must be strictly between 0 and 1; got {delta!r}: it is the probability that a bound may fail "
            "with, 0.05 for instance"
        )


def _sides(functionals: int) -> int:
    if functionals < 1:
        raise ProblemError(
            f"the number of functionals must be at least 1; got {functionals!r}: count the objective and each "
            "constraint"
        )
    return 2 * functionals
