"""The result of a check, and the parts of every file: constraints as the user wrote them, and claims to compare."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from cvxpy.error import DCPError

from bidual._base.errors import BidualError, CertificateError
from bidual.certificate import Certificate
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

    claims: dict[str, Any]
    certificate: Certificate
    episodes: int | None = None  # fresh ones that a learned policy was evaluated on; None where the model is known

    def __str__(self) -> str:
        lines = [f"check passed: {self.claims['status']}{self._probability()}"]
        for key in ("value", "lower", "upper", "gap"):
            if self.claims[key] is not None:
                lines.append(f"  {key:<10} {self.claims[key]:.9g}")
        if self.certificate.conflict is not None:
            lines.append("  its multipliers prove that no policy keeps all constraints")
        worst = float(self.certificate.violations_upper.max(initial=0.0))
        bounded = f"this policy violates no constraint by more than {worst:.3g}"
        lines.append(f"  {bounded if np.isfinite(worst) else 'no bound on what this policy violates is claimed'}")
        return "\n".join([*lines, *self._list_assumptions()])

    def _probability(self) -> str:
        return "" if self.episodes is None else f", with probability {1 - self.claims['delta']:.6g}"

    def _list_assumptions(self) -> list[str]:
        """List the assumptions that no file can prove."""
        if self.episodes is None:
            return []
        rests = f"rests on {self.episodes} fresh episodes of this policy"
        if not self.episodes:
            rests = "rests on no fresh episode: the value is that of the learned model, told and not certified"
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


def compare(claimed: object, derived: object, where: str = "") -> None:
    """Check every claim against its derivation, up to the last bits of a renormalised model."""
    if isinstance(derived, dict):
        for key, value in derived.items():
            compare(claimed.get(key) if isinstance(claimed, dict) else None, value, f"{where}{key} ")
    elif isinstance(derived, list):
        if not isinstance(claimed, list) or len(claimed) != len(derived):
            raise CertificateError(f"the file claims {where}= {claimed!r}, but there are {len(derived)}")
        for one, other in zip(claimed, derived, strict=True):
            compare(one, other, where)
    elif isinstance(derived, float) and isinstance(claimed, float):
        # Written so that a NaN fails.
        if not abs(claimed - derived) <= 1e-10 * max(1.0, abs(derived)):
            raise CertificateError(f"the file claims {where}= {claimed!r}, but the check derives {derived!r}")
    elif claimed != derived:
        raise CertificateError(f"the file claims {where}= {claimed!r}, but the check derives {derived!r}")
