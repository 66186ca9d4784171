"""Solutions on disk: save one, load its policy, derive its certificate again."""

import os
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from bidual import _archive
from bidual._errors import ArchiveError, CertificateError, ModelError
from bidual._status import Status
from bidual.certificate import Certificate, Evidence, Record, certify
from bidual.convex import AffineProgram
from bidual.mdp import TabularMDP
from bidual.policies import MarkovPolicy
from bidual.rounding import with_tolerances

_KIND = "solution"


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
            lines.append(f"  every policy violates a constraint by at least {self.certificate.conflict:.9g}")
        worst = float(self.certificate.violations_upper.max(initial=0.0))
        lines.append(f"  this policy violates no constraint by more than {worst:.3g}")
        return "\n".join(lines)


def save(path: str | os.PathLike[str], evidence: Evidence, claims: dict[str, Any]) -> None:
    """Write evidence and claims to one file."""
    program, lists = evidence.program, evidence.mdp.successors
    _archive.write(
        path,
        _KIND,
        {
            "claims": claims,
            "horizon": evidence.mdp.horizon,
            "offset": program.offset,
            "objective_weight": evidence.record.objective_weight,
        },
        {
            "policy": evidence.policy.table,
            "next_states": lists.states,
            "probabilities": lists.probabilities,
            "allowed": lists.allowed,
            "initial": evidence.mdp.initial,
            "psi": evidence.psi,
            "objective": program.objective,
            "rows": program.rows,
            "limits": program.limits,
            "equality": program.equality,
            "gamma": evidence.record.gamma,
        },
    )


def load(path: str | os.PathLike[str]) -> MarkovPolicy:
    """The policy of a saved solution, ready to act."""
    _, arrays = _archive.read(path, _KIND)
    if "policy" not in arrays:
        raise ArchiveError(f"{path} holds no policy: save the solution again")
    return MarkovPolicy(arrays["policy"])


def check(path: str | os.PathLike[str]) -> Check:
    """Derive the certificate of a saved solution again; raise `CertificateError` where a claim does not hold."""
    manifest, arrays = _archive.read(path, _KIND)
    try:
        claims = dict(manifest["claims"])
        evidence = _evidence(manifest, arrays)
    except (KeyError, TypeError, ValueError, ModelError) as error:
        raise ArchiveError(f"{path} is not a complete solution ({error}): save it again") from error
    certificate = certify(evidence)
    _compare(claims, evidence.program, certificate)
    return Check(claims, certificate)


def _evidence(manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> Evidence:
    lists = [a[0] if a.shape[0] == 1 else a for a in (arrays["next_states"], arrays["probabilities"])]
    mdp = TabularMDP((lists[0], lists[1]), arrays["initial"], int(manifest["horizon"]), actions=arrays["allowed"])
    program = AffineProgram(
        objective=arrays["objective"],
        offset=float(manifest["offset"]),
        rows=arrays["rows"],
        limits=arrays["limits"],
        equality=arrays["equality"],
        tolerances=np.zeros_like(arrays["limits"]),
    )
    return Evidence(
        program=with_tolerances(program, arrays["psi"], mdp),
        psi=arrays["psi"],
        mdp=mdp,
        policy=MarkovPolicy(arrays["policy"]),
        record=Record(arrays["gamma"], float(manifest["objective_weight"])),
    )


def _compare(claims: dict[str, Any], program: AffineProgram, certificate: Certificate) -> None:
    """No claim may be stronger than what was derived again (up to the last bits of a renormalised model)."""
    sign = -1.0 if claims["sense"] == "maximize" else 1.0
    derived = {"value": sign * certificate.value}
    if certificate.lower is not None:
        ends = (certificate.lower, certificate.upper) if sign > 0 else (-certificate.upper, -certificate.lower)
        derived |= {"lower": ends[0], "upper": ends[1], "gap": ends[1] - ends[0]}
    for key, number in derived.items():
        if claims[key] is None or abs(claims[key] - number) > 1e-10 * max(1.0, abs(certificate.value)):
            raise CertificateError(f"the file claims {key} = {claims[key]!r}, but the check derives {number!r}")
    feasible = claims["status"] in (Status.OPTIMAL, Status.FEASIBLE)
    if feasible and not certificate.feasible(program):
        worst = certificate.violations_upper.max()
        raise CertificateError(f"the file claims a feasible policy, but it may violate a limit by {worst:.3g}")
    if claims["status"] == Status.INFEASIBLE and not (certificate.conflict or 0.0) > 0:
        raise CertificateError("the file claims an infeasible problem, but its multipliers do not prove it")
    claimed = max((c["violation_upper"] for c in claims["constraints"]), default=0.0)
    worst = float(certificate.violations_upper.max(initial=0.0))
    if worst > claimed + 1e-12 * max(1.0, float(np.abs(program.limits).max(initial=0.0))):
        raise CertificateError(f"the file claims violations of at most {claimed:.3g}, the check derives {worst:.3g}")
