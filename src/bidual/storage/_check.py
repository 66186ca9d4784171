"""The result of a check, and the parts of every file: constraints as the user wrote them, and the requested gap."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from cvxpy.error import DCPError

from bidual._base.brief import describe_briefly
from bidual._base.errors import BidualError
from bidual.certificate import Certificate
from bidual.certificate.constraints import Goal
from bidual.problem.modelling import Line

# What a damaged or forged manifest can make the readers of its parts raise.
MALFORMED = (
    *(KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, RecursionError),
    *(BidualError, DCPError),
)


@final
@dataclass(frozen=True, eq=False)
class Check:
    """A saved solution whose certificate was derived again and agrees with the file's claims."""

    __repr__ = describe_briefly

    claims: dict[str, Any]
    certificate: Certificate
    goal: Goal | None  # the gap that the file counts as optimal
    episodes: int | None = None  # fresh ones that a learned policy was evaluated on; None where the model is known
    notes: tuple[str, ...] = ()  # on what the file states and no derivation can confirm

    def __str__(self) -> str:
        lines = [f"check passed: {self.claims['status']}{self._describe_meaning()}{self._describe_probability()}"]
        for key in ("value", "lower", "upper", "gap"):
            if self.claims[key] is not None:
                lines.append(f"  {key:<10} {self.claims[key]:.9g}")
        if self.certificate.conflict is not None:
            lines.append("  its multipliers prove that no policy keeps all constraints")
        worst = float(self.certificate.violations_upper.max(initial=0.0))
        bounded = f"this policy violates no constraint by more than {worst:.3g}"
        lines.append(f"  {bounded if np.isfinite(worst) else 'no bound on what this policy violates is claimed'}")
        return "\n".join([*lines, *(f"  {note}" for note in self.notes), *self._list_assumptions()])

    def _describe_meaning(self) -> str:
        """Return what "optimal" means here: whoever wrote the file has chosen the gap."""
        if self.claims["status"] != "optimal" or self.goal is None:
            return ""
        return (
            f" (a gap of at most {self.goal.gap:.3g}{' times the value' if self.goal.relative else ''} was asked for)"
        )

    def _describe_probability(self) -> str:
        return "" if self.episodes is None else f", with probability {1 - self.claims['delta']:.6g}"

    def _list_assumptions(self) -> list[str]:
        """List the assumptions that no file can prove."""
        if self.episodes is None:
            return []
        rests = f"rests on {self.episodes} fresh episodes of this policy"
        if not self.episodes:
            rests = "rests on no fresh episode: the value is that of the learned model, estimated and not certified"
        granted = "what was declared of the environment, and that counts and samples in the file are what was seen"
        return [f"  {rests}", f"  taken for granted: {granted}"]


def write_lines(lines: Sequence[Line]) -> list[list[Any]]:
    """Return constraints as JSON values."""
    return [[line.name, line.sense, line.sign, line.bounds.tolist()] for line in lines]


def read_lines(written: list[list[Any]]) -> list[Line]:
    """Read the constraints that `write_lines` wrote."""
    lines = [Line(n, sense, float(sign), np.array(bounds, dtype=np.float64)) for n, sense, sign, bounds in written]
    if not all(np.all(np.isfinite(line.bounds)) for line in lines):
        raise ValueError("a limit is NaN or infinite")
    return lines


def maximises(sense: object) -> bool:
    """Return whether the user maximises; raise `ValueError` for any other sense."""
    if sense not in ("minimize", "maximize"):
        raise ValueError(f"sense {sense!r}")
    return sense == "maximize"


def read_goal(gap: object, *, relative: bool) -> Goal:
    """Read a requested gap; raise `ValueError` where it is none."""
    if not (type(gap) is float and 0 <= gap < np.inf):
        raise ValueError(f"the goal is a gap of {gap!r}")
    return Goal(gap, relative)
