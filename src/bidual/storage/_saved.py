"""Solutions of known models on disk: save one, derive its certificate again."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from bidual._base import archive
from bidual._base.errors import ArchiveError, CertificateError, ProblemError
from bidual._base.status import Status
from bidual.certificate import Certificate, Evidence, Record, certify, find_slopes, read_multipliers
from bidual.certificate.constraints import Goal, derive_status
from bidual.certificate.rounding import with_rounding
from bidual.problem.features import Psi
from bidual.problem.modelling import Line
from bidual.storage._arrays import StoredArrays, require_type
from bidual.storage._belonging import check_constants, pack_constants, read_constants
from bidual.storage._check import MALFORMED, Check, maximises, read_goal, read_lines, write_lines
from bidual.storage._claims import Ends, check_gap, check_goal, compare, derive_claims, derive_prices
from bidual.storage._learned import pack_names
from bidual.storage._programs import check_limits, check_rows, pack_program, restore_program
from bidual.world.mdp import TabularMDP, read_criterion
from bidual.world.policies import MarkovPolicy

KIND, STATIONARY = "solution", "stationary solution"  # over a horizon, and over an unbounded time
KINDS = (KIND, STATIONARY)
_CLAIMS = ("task", "status", "sense", "value", "lower", "upper", "gap", "constraints", "plans", "seconds", "version")


def save(
    path: str | os.PathLike[str], evidence: Evidence, lines: Sequence[Line], goal: Goal, claims: dict[str, Any]
) -> None:
    """Write evidence and claims to one file."""
    lists = evidence.mdp.successors
    problem, arrays = pack_program(evidence.program)
    curved = evidence.program.curved
    proof = {} if curved is None else find_slopes(evidence, curved, problem["functions"], arrays)
    criterion, potential = evidence.mdp.criterion, evidence.record.potential
    endless = {} if criterion is None else {"criterion": criterion.to_json()}
    archive.write(
        path,
        KIND if criterion is None else STATIONARY,
        {
            "claims": claims,
            "goal": [float(goal.gap), bool(goal.relative)],
            "lines": write_lines(lines),
            "horizon": evidence.mdp.horizon,
            "objective_weight": evidence.record.objective_weight,
            "features": [evidence.psi.visits, evidence.psi.occupancy],
            "problem": problem,
            **endless,
            **pack_names(evidence.policy),
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
            **({} if potential is None else {"potential": potential}),
            **pack_constants(lines, evidence.program),
            **proof,
            **{f"problem_{name}": array for name, array in arrays.items()},
        },
    )


def check_solution(path: str | os.PathLike[str]) -> Check:
    """Derive the certificate of a saved solution again; raise `CertificateError` where a claim does not hold."""
    kind = archive.read_kind(path)
    manifest, arrays = archive.read(path, kind if kind in KINDS else KIND)
    with np.errstate(all="ignore"):  # an overflow is no number, and no claim is equal to it
        try:
            lines = read_lines(manifest["lines"])
            evidence = _read_evidence(manifest, arrays, endless=kind == STATIONARY)
            check_rows(lines, evidence.program)
            constants = read_constants(StoredArrays(arrays), evidence.program)
            claims = {key: manifest["claims"][key] for key in _CLAIMS}
            gap, relative = manifest["goal"]
            goal, largest = read_goal(gap, relative=require_type(bool, relative)), maximises(claims["sense"])
        except MALFORMED as error:
            raise ArchiveError(f"{path} is not a complete solution ({error}): save it again") from error
        check_limits(lines, evidence.program)
        notes = check_constants(lines, evidence.program, constants)
        try:
            certificate = certify(evidence)
        except ProblemError as error:
            raise CertificateError(f"the evidence proves nothing: {error}") from error
        compare(claims, _derive(largest, goal, evidence, lines, certificate))
    check_gap(claims)
    check_goal(claims, goal)
    return Check(claims, certificate, goal, notes=notes)


def _read_evidence(manifest: dict[str, Any], arrays: dict[str, np.ndarray], *, endless: bool = False) -> Evidence:
    lists = [a[0] if a.shape[0] == 1 else a for a in (arrays["next_states"], arrays["probabilities"])]
    if require_type(int, manifest["horizon"]) != len(arrays["policy"]):  # before anything is done for every step
        raise ValueError(f"the horizon is {manifest['horizon']}, but its policy has {len(arrays['policy'])} steps")
    time: dict[str, Any] = {"horizon": manifest["horizon"]}
    if endless:
        time = read_criterion(manifest["criterion"])
        if len(arrays["policy"]) != 1:
            raise ValueError(f"a stationary policy has one step, and this one {len(arrays['policy'])}")
    mdp = TabularMDP((lists[0], lists[1]), arrays["initial"], **time, allowed=arrays["allowed"])
    psi = _read_features(manifest, arrays["psi"], mdp)
    program = restore_program(manifest["problem"], arrays, mdp.horizon, psi.dimension)
    if program.curved is None and arrays["gamma"].shape != program.equality.shape:
        raise ValueError(f"there are multipliers of shape {arrays['gamma'].shape} for {program.equality.size} rows")
    return Evidence(
        program=with_rounding(program, psi, mdp),
        psi=psi,
        mdp=mdp,
        policy=MarkovPolicy(arrays["policy"], stationary=endless),
        record=Record(
            arrays["gamma"],
            float(manifest["objective_weight"]),
            arrays.get("point"),
            StoredArrays(arrays).numbers("potential", mdp.num_states) if "potential" in arrays else None,
        ),
        auxiliary=arrays["auxiliary"],
    )


def _read_features(manifest: dict[str, Any], signals: np.ndarray, mdp: TabularMDP) -> Psi:
    visits, occupancy = (require_type(bool, flag) for flag in manifest["features"])
    if signals.ndim != 4 or signals.shape[0] not in (1, mdp.horizon) or signals.shape[2:] != mdp.actions.shape:
        raise ValueError(f"psi has shape {signals.shape}")
    return Psi(signals, visits=visits, occupancy=occupancy, mass=mdp.mass)


def _derive(
    largest: bool, goal: Goal, evidence: Evidence, lines: Sequence[Line], certificate: Certificate
) -> dict[str, Any]:
    """Derive the claims that a file may make: status and numbers of `Solution.to_dict`."""
    program = evidence.program
    status = derive_status(program, certificate, goal)
    ends = Ends(*certificate.bounds(program, maximises=largest))
    claims = derive_claims(status, ends, lines, certificate, maximises=largest)
    prices = derive_prices(lines, read_multipliers(program, evidence.record) if status is Status.OPTIMAL else None)
    claims["constraints"] = [one | price for one, price in zip(claims["constraints"], prices, strict=True)]
    return claims
