"""Solutions on disk: save one, load its policy, derive its certificate again."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from cvxpy.error import DCPError

from bidual import _archive
from bidual._errors import ArchiveError, BidualError, CertificateError
from bidual._status import Status
from bidual.certificate import Certificate, Evidence, Record, certify, multipliers
from bidual.constraints import Goal, constraint_results, status_of
from bidual.features import Psi
from bidual.mdp import TabularMDP
from bidual.policies import MarkovPolicy
from bidual.problem import Line
from bidual.saved._programs import check_limits, check_rows, restored_program, stored_program

_KIND = "solution"
# What a damaged or forged manifest can make the readers of its parts raise.
_MALFORMED = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, ZeroDivisionError)
_CLAIMS = ("task", "status", "sense", "value", "lower", "upper", "gap", "constraints", "plans", "seconds", "version")


@final
@dataclass(frozen=True, eq=False)
class Check:
    """A saved solution whose certificate was derived again and agrees with what the file claims."""

    claims: dict[str, Any]
    certificate: Certificate

    def __str__(self) -> str:
        lines = [f"check passed: {self.claims['status']}"]
        for key in ("value", "lower", "upper", "gap"):
            if self.claims[key] is not None:
                lines.append(f"  {key:<10} {self.claims[key]:.9g}")
        if self.certificate.conflict is not None:
            lines.append("  its multipliers prove that no policy keeps all constraints")
        worst = float(self.certificate.violations_upper.max(initial=0.0))
        lines.append(f"  this policy violates no constraint by more than {worst:.3g}")
        return "\n".join(lines)


def save(
    path: str | os.PathLike[str], evidence: Evidence, lines: Sequence[Line], goal: Goal, claims: dict[str, Any]
) -> None:
    """Write evidence and claims to one file."""
    lists = evidence.mdp.successors
    problem, arrays = stored_program(evidence.program)
    _archive.write(
        path,
        _KIND,
        {
            "claims": claims,
            "goal": [goal.gap, goal.relative],
            "lines": [[line.name, line.sense, line.sign, line.bounds.tolist()] for line in lines],
            "horizon": evidence.mdp.horizon,
            "objective_weight": evidence.record.objective_weight,
            "features": [evidence.psi.visits, evidence.psi.occupancy],
            "problem": problem,
        },
        {
            "policy": evidence.policy.table,
            "next_states": lists.states,
            "probabilities": lists.probabilities,
            "allowed": lists.allowed,
            "initial": evidence.mdp.initial,
            "psi": evidence.psi.signals,
            "gamma": evidence.record.gamma,
            "auxiliary": evidence.auxiliary,
            **({} if evidence.record.point is None else {"point": evidence.record.point}),
            **{f"problem_{name}": array for name, array in arrays.items()},
        },
    )


def load(path: str | os.PathLike[str]) -> MarkovPolicy:
    """The policy of a saved solution, ready to act."""
    _, arrays = _archive.read(path, _KIND)
    table = arrays.get("policy", np.zeros(0))
    whole = table.ndim == 3 and table.size > 0 and table.dtype == np.float64
    if not (whole and table.min() >= 0 and np.abs(table.sum(axis=-1) - 1).max() <= 1e-9):
        raise ArchiveError(f"{path} holds no policy (a table of probabilities): save the solution again")
    return MarkovPolicy(table)


def check(path: str | os.PathLike[str]) -> Check:
    """Derive the certificate of a saved solution again; raise `CertificateError` where a claim does not hold."""
    manifest, arrays = _archive.read(path, _KIND)
    try:
        lines = _lines(manifest["lines"])
        evidence = _evidence(manifest, arrays)
        check_rows(lines, evidence.program)
        claims = {key: manifest["claims"][key] for key in _CLAIMS}
        gap, relative = manifest["goal"]
        goal = Goal(float(gap), bool(relative))
        if claims["sense"] not in ("minimize", "maximize"):
            raise ValueError(f"sense {claims['sense']!r}")
    except (*_MALFORMED, BidualError, DCPError) as error:
        raise ArchiveError(f"{path} is not a complete solution ({error}): save it again") from error
    check_limits(lines, evidence.program)
    certificate = certify(evidence)
    _compare(claims, _derive(claims["sense"], goal, evidence, lines, certificate))
    return Check(claims, certificate)


def _lines(written: list[list[Any]]) -> list[Line]:
    return [Line(n, sense, float(sign), np.array(bounds, dtype=np.float64)) for n, sense, sign, bounds in written]


def _evidence(manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> Evidence:
    lists = [a[0] if a.shape[0] == 1 else a for a in (arrays["next_states"], arrays["probabilities"])]
    mdp = TabularMDP((lists[0], lists[1]), arrays["initial"], int(manifest["horizon"]), actions=arrays["allowed"])
    psi = _features(manifest, arrays["psi"], mdp)
    own = {name.removeprefix("problem_"): a for name, a in arrays.items() if name.startswith("problem_")}
    return Evidence(
        program=restored_program(manifest["problem"], own, psi, mdp),
        psi=psi,
        mdp=mdp,
        policy=MarkovPolicy(arrays["policy"]),
        record=Record(arrays["gamma"], float(manifest["objective_weight"]), arrays.get("point")),
        auxiliary=arrays["auxiliary"],
    )


def _features(manifest: dict[str, Any], signals: np.ndarray, mdp: TabularMDP) -> Psi:
    visits, occupancy = manifest["features"]
    if signals.ndim != 4 or signals.shape[0] not in (1, mdp.horizon) or signals.shape[2:] != mdp.actions.shape:
        raise ValueError(f"psi has shape {signals.shape}")
    return Psi(signals, visits=visits is True, occupancy=occupancy is True)


def _derive(
    sense: str, goal: Goal, evidence: Evidence, lines: Sequence[Line], certificate: Certificate
) -> dict[str, Any]:
    """What the file may claim: status and numbers of `Solution.to_dict`, derived again."""
    maximises = sense == "maximize"
    status = status_of(evidence.program, certificate, goal)
    lower, upper = certificate.bounds(evidence.program, maximises=maximises)
    gamma = multipliers(evidence.program, evidence.record) if status is Status.OPTIMAL else None
    results = constraint_results(lines, certificate, gamma)
    return {
        "status": str(status),
        "value": -certificate.value if maximises else certificate.value,
        "lower": lower,
        "upper": upper,
        "gap": None if lower is None or upper is None else upper - lower,
        "constraints": [result.to_dict() for result in results],
    }


def _compare(claimed: object, derived: object, where: str = "") -> None:
    """Every claim must be what was derived again, up to the last bits of a renormalised model."""
    if isinstance(derived, dict):
        for key, value in derived.items():
            _compare(claimed.get(key) if isinstance(claimed, dict) else None, value, f"{where}{key} ")
    elif isinstance(derived, list):
        if not isinstance(claimed, list) or len(claimed) != len(derived):
            raise CertificateError(f"the file claims {where}= {claimed!r}, but there are {len(derived)}")
        for one, other in zip(claimed, derived, strict=True):
            _compare(one, other, where)
    elif isinstance(derived, float) and isinstance(claimed, float):
        # Written so that a NaN fails.
        if not abs(claimed - derived) <= 1e-10 * max(1.0, abs(derived)):
            raise CertificateError(f"the file claims {where}= {claimed!r}, but the check derives {derived!r}")
    elif claimed != derived:
        raise CertificateError(f"the file claims {where}= {claimed!r}, but the check derives {derived!r}")
