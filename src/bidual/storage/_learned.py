"""Results of learning on disk: evidence, claims, and the claims derived again.

The counts and the samples are trusted. Everything else is derived: ranges, intervals, bounds, status.
"""

import math
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bidual._base import archive
from bidual._base.errors import ArchiveError, CertificateError
from bidual._base.names import UNNAMED, read_names
from bidual.certificate import Certificate, ControlEvidence, Record, Round, SampledEvidence, Spans, certify_sampled
from bidual.certificate.bounds import Split
from bidual.certificate.constraints import Goal, derive_learned_status
from bidual.certificate.rounding import with_planner_resolution
from bidual.models import AbstractCounted
from bidual.problem.convex import AbstractProgram
from bidual.problem.features import Pieces
from bidual.problem.modelling import Line
from bidual.storage._arrays import StoredArrays, require_type
from bidual.storage._belonging import (
    check_constants,
    check_policies,
    digest_policy,
    pack_constants,
    read_constants,
    read_policies,
    read_uniform,
    write_policies,
)
from bidual.storage._check import MALFORMED, Check, maximises, read_goal, read_lines, write_lines
from bidual.storage._claims import Ends, check_gap, compare, derive_claims
from bidual.storage._knowledge import pack_knowledge, restore_knowledge
from bidual.storage._programs import check_limits, check_rows, pack_program, restore_program
from bidual.storage._rows import collect_linear_rows
from bidual.world.observations import read_numbering
from bidual.world.policies import MarkovPolicy

KIND = "learned"
# Provenance fields are type-checked only; every other claim is derived again.
_PROVENANCE = {"task": (str, type(None)), "episodes": (int,), "plans": (int,), "seed": (int,), "version": (str,)}
_CLAIMS = ("status", "sense", "value", "lower", "upper", "gap", "constraints", "delta", *_PROVENANCE)
_MOST_ROUNDS = 2**32  # no run has as many


def save_learned(
    path: str | os.PathLike[str],
    evidence: SampledEvidence,
    lines: Sequence[Line],
    goal: float | None,
    claims: dict[str, Any],
) -> None:
    """Write evidence and claims to one file; the same result gives the same bytes, so the time it took is left out."""
    (problem, program_arrays), record = pack_program(evidence.program), evidence.record
    model, model_arrays = pack_knowledge(evidence.knowledge)
    archive.write(
        path,
        KIND,
        {
            "claims": list_claims(claims),
            "goal": write_goal(goal),
            "lines": write_lines(lines),
            "objective_weight": None if record is None else record.objective_weight,
            "problem": problem,
            "model": model,
            "rounds": [seen.number for seen in evidence.rounds],
            "policies": write_policies(evidence.rounds),
            "uniform": [seen.uniform for seen in evidence.rounds],
            **pack_names(evidence.policy),
        },
        {
            "policy": evidence.policy.table,
            **model_arrays,
            **pack_constants(lines, evidence.program),
            **pack_samples(evidence, guessed=_is_model_value(evidence.rounds, evidence.knowledge)),
            **{f"problem_{name}": array for name, array in program_arrays.items()},
        },
    )


def pack_samples(evidence: SampledEvidence | ControlEvidence, *, guessed: bool) -> dict[str, np.ndarray]:
    """Return samples and multipliers, and the embedding where the value is the model's; missing parts are left out."""
    corners, record = evidence.corners, evidence.record
    arrays = {
        "numbers": evidence.linear.numbers.astype(np.int64),
        "low": evidence.linear.low,
        "high": evidence.linear.high,
        "image_low": None if corners is None else corners.low,
        "image_high": None if corners is None else corners.high,
        "embedding": evidence.embedding if guessed else None,
        "gamma": None if record is None else record.gamma,
    }
    for i, seen in enumerate(evidence.rounds):
        arrays |= {f"paid_{i}": seen.values, f"image_{i}": seen.image, f"embedding_{i}": seen.embedding}
    return {name: array for name, array in arrays.items() if array is not None}


def check_learned(path: str | os.PathLike[str]) -> Check:
    """Derive the certificate of a learned policy again; raise `CertificateError` where a claim does not hold."""
    manifest, arrays = archive.read(path, KIND)
    with np.errstate(all="ignore"):  # an overflow is no number, and no claim is equal to it
        try:
            claims, goal = list_claims(manifest["claims"]), read_requested_gap(manifest["goal"])
            lines, evidence = read_lines(manifest["lines"]), _read_evidence(manifest, StoredArrays(arrays))
            check_rows(lines, evidence.program)
            constants = read_constants(StoredArrays(arrays), evidence.program)
            largest, rows = maximises(claims["sense"]), collect_linear_rows(evidence.program)
        except MALFORMED as error:
            raise ArchiveError(f"{path} is not a complete result of learning ({error}): save it again") from error
        check_limits(lines, evidence.program)
        if evidence.knowledge.counts.episodes > claims["episodes"] + _count_fresh_episodes(evidence):
            raise CertificateError(f"the file claims episodes = {claims['episodes']}, but its counts are of more")
        notes = check_constants(lines, evidence.program, constants) + check_policies(
            evidence.rounds, digest_policy(evidence.policy)
        )
        certificate = certify_sampled(evidence, rows)
        compare(claims, derive_learned(largest, goal, lines, certificate))
    check_gap(claims)
    return Check(claims, certificate, goal, _count_fresh_episodes(evidence), notes)


def list_claims(given: dict[str, Any]) -> dict[str, Any]:
    """Return the claims of a file, or of a solution; raise `ValueError` for malformed provenance."""
    claims = {key: given[key] for key in _CLAIMS}
    for key, kinds in _PROVENANCE.items():
        if type(claims[key]) not in kinds or (type(claims[key]) is int and claims[key] < 0):
            raise ValueError(f"{key} is {claims[key]!r:.80}")
    _check_prices(claims["constraints"])
    return claims


def _check_prices(constraints: object) -> None:
    """Check that prices are numbers, or None: they are those of the learned model, and not derived again."""
    for one in constraints if isinstance(constraints, list) else ():
        price = one.get("price") if isinstance(one, dict) else None
        if price is not None and not math.isfinite(require_type(float, price)):
            raise ValueError(f"a price is {price!r}")


def write_goal(goal: float | None) -> float | None:
    """Return the requested gap as JSON can express it."""
    return None if goal is None else min(float(goal), sys.float_info.max)


def read_requested_gap(written: object) -> Goal | None:
    """Read the requested gap, where there is one."""
    return None if written is None else read_goal(written, relative=False)


def _count_fresh_episodes(evidence: SampledEvidence) -> int:
    """Return the number of episodes that the policy was evaluated on."""
    return sum(len(seen.values) for seen in evidence.rounds)


def _read_evidence(manifest: dict[str, Any], stored: StoredArrays) -> SampledEvidence:
    """Read the evidence of a learned solution: policy, knowledge, problem, record and samples."""
    policy, split = read_named_policy(manifest, stored.arrays), Split(require_type(float, manifest["claims"]["delta"]))
    H, _, _ = policy.shape
    knowledge = restore_knowledge(manifest["model"], stored, policy.shape, split.model)
    if np.any(policy.table[:, ~knowledge.counts.support.allowed] > 0):
        raise ValueError("the policy takes an action that its state does not allow")
    dimension = knowledge.pieces.psi.dimension
    program = _restore_units(restore_program(manifest["problem"], stored.arrays, H, dimension), knowledge.pieces)
    linear, corners = read_spans(stored, program)
    numbers = require_type(list, manifest["rounds"])
    owners = read_policies(manifest.get("policies"), len(numbers))
    uniform = read_uniform(manifest.get("uniform"), len(numbers))
    rounds = tuple(
        replace(
            _round(stored, i, read_round_number(number), program, (linear, corners), (H, dimension)),
            policy=owner,
            uniform=any_number,
        )
        for i, (number, owner, any_number) in enumerate(zip(numbers, owners, uniform, strict=True))
    )
    return SampledEvidence(
        program=program,
        knowledge=knowledge,
        policy=policy,
        record=record_of(manifest["objective_weight"], stored, program),
        split=split,
        linear=linear,
        corners=corners,
        rounds=rounds,
        embedding=stored.numbers("embedding", H, dimension) if _is_model_value(rounds, knowledge) else None,
    )


def _is_model_value(rounds: tuple[Round, ...], knowledge: AbstractCounted) -> bool:
    """Return whether the value is that of the learned model: without episodes, or where a class is more precise."""
    return not rounds or knowledge.bounds_policies


def _restore_units(program: AbstractProgram, pieces: Pieces) -> AbstractProgram:
    """Return the program in the units that its rows had while it was learned."""
    rows = program.linear
    if rows is not None and not all(
        np.all(np.isfinite(part)) for part in (rows.objective, rows.offset, rows.rows, rows.limits)
    ):
        raise ValueError("the problem contains NaN or infinity")
    return with_planner_resolution(program, pieces)


def record_of(weight: object, stored: StoredArrays, program: AbstractProgram) -> Record | None:
    """Read the multipliers, where there are any."""
    if weight is None:
        return None
    curved = program.curved
    gamma = stored.numbers("gamma", program.equality.size if curved is None else None)
    point = None if curved is None or not stored.has("point") else stored.numbers("point", curved.image.size)
    return Record(gamma, require_type(float, weight), point)


def read_spans(stored: StoredArrays, program: AbstractProgram) -> tuple[Spans, Spans | None]:
    """Read the functionals of the samples, and the numbers of the corners, each with its range."""
    numbers = stored.places("numbers", 0, 1 + program.equality.size, None)
    if np.any(np.diff(numbers) <= 0):
        raise ValueError("functionals are not in their order")
    linear = Spans(numbers, *(stored.numbers(name, numbers.size) for name in ("low", "high")))
    if program.curved is None or not stored.has("image_low"):
        return linear, None
    size = program.curved.image.size
    return linear, Spans(np.arange(size), *(stored.numbers(name, size) for name in ("image_low", "image_high")))


def read_round_number(written: object) -> int:
    """Read the number of a round; they are counted from 1."""
    number = require_type(int, written)
    if not 0 < number < _MOST_ROUNDS:
        raise ValueError(f"there is no round {number!r:.40}")
    return number


def _round(
    stored: StoredArrays,
    i: int,
    number: int,
    program: AbstractProgram,
    spans: tuple[Spans, Spans | None],
    shape: tuple[int, int],
) -> Round:
    """Read the samples of a round of fresh episodes."""
    linear, corners = spans
    values = stored.numbers(f"paid_{i}", None, linear.numbers.size)
    if not len(values):
        raise ValueError(f"round {number} has 0 episodes")
    image = None if corners is None else stored.numbers(f"image_{i}", len(values), corners.low.size)
    return Round(number, values, image, None if program.is_linear else stored.numbers(f"embedding_{i}", *shape))


def derive_learned(largest: bool, goal: Goal | None, lines: Sequence[Line], certificate: Certificate) -> dict[str, Any]:
    """Derive the claims that a file may make: status and numbers of `Learned.to_dict`.

    Prices are not derived: they belong to the learned model, where the policy comes from.
    """
    upper = certificate.upper if np.isfinite(certificate.upper) else None
    ends = Ends(certificate.lower, upper)
    if largest:
        ends = Ends(*(None if end is None else -end for end in (upper, certificate.lower)))
    gap = None if ends.lower is None or ends.upper is None else ends.upper - ends.lower
    status = derive_learned_status(certificate, gap, None if goal is None else goal.gap)
    return derive_claims(status, ends, lines, certificate, maximises=largest)


def pack_names(policy: MarkovPolicy) -> dict[str, Any]:
    """Return the names of states and actions as an entry of a manifest, or the numbering that they come from."""
    if policy.numbering is not None:
        return {"numbering": policy.numbering.to_json()}
    return {} if policy.names is UNNAMED else {"names": policy.names.to_json()}


def read_named_policy(manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> MarkovPolicy:
    """Read the policy of a file with the names of its states and actions; raise `ValueError` for malformed ones."""
    policy, stored = read_policy(arrays), manifest.get("names", {})
    if "numbering" in manifest:
        numbering = read_numbering(manifest["numbering"])
        if numbering.size + 1 != policy.shape[1]:
            raise ValueError(f"its numbering has {numbering.size} states, and its policy {policy.shape[1] - 1}")
        return policy.with_numbering(numbering)
    if not isinstance(stored, dict) or not set(stored) <= {"states", "actions"}:
        raise ValueError("its names of states and actions are none")
    names = read_names(*(stored.get(what) for what in ("states", "actions")))
    names.check(*policy.shape[1:])
    return replace(policy, names=names)


def read_policy(arrays: dict[str, np.ndarray]) -> MarkovPolicy:
    """Read the policy among the arrays of a file; raise `ValueError` where there is none."""
    table = arrays.get("policy", np.zeros(0))
    whole = table.ndim == 3 and table.size > 0 and table.dtype == np.float64
    # Written so that a NaN fails.
    if not (whole and table.min() >= 0 and np.abs(table.sum(axis=-1) - 1).max() <= 1e-9):
        raise ValueError("it holds no policy, a table of probabilities")
    return MarkovPolicy(table)
