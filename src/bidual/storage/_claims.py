"""Claims of a file against their derivation: a claim may be weaker than what is derived, and never stronger.

Each number is compared from the side that matters, up to the rounding slack that the checker has derived for it, which
shrinks and grows with the problem: a lower bound of 9e-11 is false where the optimum is 3e-11.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from bidual._base.errors import CertificateError
from bidual._base.status import Status
from bidual.certificate import Certificate, Resolution
from bidual.certificate.constraints import Goal, list_constraint_results
from bidual.certificate.rounding import EPS
from bidual.problem.modelling import Line, slice_rows


class Derived(NamedTuple):
    """A derived number, its rounding slack, and the side of it on which a claim is weaker."""

    value: float
    slack: float
    weaker: Literal["below", "above", "nowhere"]

    def admits(self, claimed: object) -> bool:
        """Return whether a claim is no stronger than this number; written so that a NaN fails."""
        if not isinstance(claimed, float) or not math.isfinite(claimed):
            return False
        over = claimed - self.value
        return bool((self.weaker == "below" or -over <= self.slack) and (self.weaker == "above" or over <= self.slack))


class Ends(NamedTuple):
    """Lower and upper bound in the user's sense; None where there is none."""

    lower: float | None
    upper: float | None


def derive_claims(
    status: Status, ends: Ends, lines: Sequence[Line], certificate: Certificate, *, maximises: bool
) -> dict[str, Any]:
    """Return what a file may claim: its status and numbers, without prices."""
    resolution = collect_resolution(certificate)
    slacks = (resolution.value, resolution.lower) if maximises else (resolution.lower, resolution.value)
    lower, upper = (_drop_infinite(end) for end in ends)
    if lower is not None and upper is not None and lower >= upper:  # the one was weakened to the other
        slacks = (max(slacks),) * 2
    gap = None if lower is None or upper is None else upper - lower
    value = _drop_infinite(-certificate.value if maximises else certificate.value)
    return {
        "status": str(status),
        "value": None if value is None else Derived(value, resolution.value, "nowhere"),
        "lower": None if lower is None else Derived(lower, slacks[0], "below"),
        "upper": None if upper is None else Derived(upper, slacks[1], "above"),
        "gap": None
        if gap is None
        else Derived(gap, sum(slacks) + 2 * EPS * (abs(lower or 0) + abs(upper or 0)), "above"),
        "constraints": _derive_constraints(lines, certificate, resolution),
    }


def derive_prices(lines: Sequence[Line], gamma: Float[np.ndarray, "m"] | None) -> list[dict[str, Any]]:
    """Return the prices that a file may claim, one for each constraint."""
    prices = []
    for line, rows in slice_rows(lines):
        total = None if gamma is None else float(np.sum(gamma[rows] * (line.sign if line.sense == "==" else 1.0)))
        slack = 0.0 if gamma is None else 8 * gamma[rows].size * EPS * float(np.abs(gamma[rows]).sum())
        prices.append({"price": None if total is None else Derived(total, slack, "nowhere")})
    return prices


def collect_resolution(certificate: Certificate) -> Resolution:
    """Return the rounding slacks of a certificate that claims are compared with."""
    assert certificate.resolution is not None  # every checker sets them
    return certificate.resolution


def _derive_constraints(
    lines: Sequence[Line], certificate: Certificate, resolution: Resolution
) -> list[dict[str, Any]]:
    results = list_constraint_results(lines, certificate, None)
    return [
        _derive_constraint(result.to_dict(), float(resolution.g[rows].max()))
        for result, (_, rows) in zip(results, slice_rows(lines), strict=True)
    ]


def _derive_constraint(result: dict[str, Any], slack: float) -> dict[str, Any]:
    numbers = {
        "value": Derived(result["value"], slack + 4 * EPS * abs(result["limit"]), "nowhere"),
        "limit": Derived(result["limit"], 0.0, "nowhere"),
        "violation": Derived(result["violation"], slack, "nowhere"),
        "violation_upper": Derived(result["violation_upper"], slack, "above"),
    }
    known = {key: number if math.isfinite(number.value) else None for key, number in numbers.items()}
    return {"name": result["name"], "sense": result["sense"], **known}


def _drop_infinite(number: float | None) -> float | None:
    """Replace infinity, which JSON cannot express, by None."""
    return None if number is None or not math.isfinite(number) else number


def compare(claimed: object, derived: object, where: str = "") -> None:
    """Check every claim against its derivation; raise `CertificateError` where it is stronger, or of another kind."""
    if isinstance(derived, dict):
        for key, value in derived.items():
            compare(claimed.get(key) if isinstance(claimed, dict) else None, value, f"{where}{key} ")
    elif isinstance(derived, list):
        if not isinstance(claimed, list) or len(claimed) != len(derived):
            raise CertificateError(f"the file claims {where}= {claimed!r}, but there are {len(derived)}")
        for one, other in zip(claimed, derived, strict=True):
            compare(one, other, where)
    elif isinstance(derived, Derived):
        if not derived.admits(claimed):
            raise CertificateError(f"the file claims {where}= {claimed!r}, but the check derives {derived.value!r}")
    elif claimed != derived:
        raise CertificateError(f"the file claims {where}= {claimed!r}, but the check derives {derived!r}")


def check_goal(claims: dict[str, Any], goal: Goal) -> None:
    """Check that the claimed bounds are as close as "optimal" says; weaker ones than those derived may not be."""
    if claims["status"] == Status.OPTIMAL and not goal.is_met(claims["lower"], claims["upper"]):
        raise CertificateError(
            f"the file claims to be optimal with a gap of {claims['gap']:.9g}, but counts one of "
            f"{goal.allowed(claims['lower'], claims['upper']):.9g} as optimal"
        )


def check_gap(claims: dict[str, Any]) -> None:
    """Check that the claimed gap is the distance of the claimed bounds, which `compare` has seen."""
    if claims["gap"] is not None and claims["gap"] != claims["upper"] - claims["lower"]:
        raise CertificateError(f"the file claims gap = {claims['gap']!r}, which is not upper - lower of its claims")
