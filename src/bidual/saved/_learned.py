"""Results of learning on disk: what was seen, what is claimed of it, and the claims derived again.

The counts and the samples are taken for what they are said to be. Everything else is derived: ranges, intervals,
bounds, status.
"""

import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from bidual import _archive
from bidual._errors import ArchiveError, CertificateError
from bidual.bounds import Split
from bidual.certificate import Certificate, Controlled, Record, Round, Sampled, Spans, certify_sampled
from bidual.constraints import constraint_results, status_of_learned
from bidual.convex import AffineProgram, ConvexProgram
from bidual.features import Pieces
from bidual.models import AbstractCounted, ClassKnowledge
from bidual.problem import Line
from bidual.rounding import with_planner_resolution
from bidual.saved._arrays import Stored, exactly
from bidual.saved._check import MALFORMED, Check, compare, maximises, read_lines, write_lines
from bidual.saved._knowledge import restored_knowledge, stored_knowledge
from bidual.saved._policies import read_policy
from bidual.saved._programs import check_limits, check_rows, restored_program, stored_program
from bidual.saved._rows import linear_rows

KIND = "learned"
# What says how it was done is told, and only has to make sense; the other claims are derived again.
_TOLD = {"task": (str, type(None)), "episodes": (int,), "plans": (int,), "seed": (int,), "version": (str,)}
_CLAIMS = ("status", "sense", "value", "lower", "upper", "gap", "constraints", "delta", *_TOLD)
_MOST_ROUNDS = 2**32  # no run has as many


def save_learned(
    path: str | os.PathLike[str], evidence: Sampled, lines: Sequence[Line], goal: float | None, claims: dict[str, Any]
) -> None:
    """Write evidence and claims to one file; the same result gives the same bytes, so the time it took is left out."""
    problem, program_arrays = stored_program(evidence.program)
    model, model_arrays = stored_knowledge(evidence.knowledge)
    record = evidence.record
    _archive.write(
        path,
        KIND,
        {
            "claims": claims_of(claims),
            "goal": told_goal(goal),
            "lines": write_lines(lines),
            "objective_weight": None if record is None else record.objective_weight,
            "problem": problem,
            "model": model,
            "rounds": [seen.number for seen in evidence.rounds],
        },
        {
            "policy": evidence.policy.table,
            **model_arrays,
            **stored_samples(evidence, guessed=_guessed(evidence.rounds, evidence.knowledge)),
            **{f"problem_{name}": array for name, array in program_arrays.items()},
        },
    )


def stored_samples(evidence: Sampled | Controlled, *, guessed: bool) -> dict[str, np.ndarray]:
    """Samples and multipliers, and the embedding where the value is the model's; what is not there is left out."""
    corners, record = evidence.corners, evidence.record
    arrays = {
        "numbers": evidence.linear.numbers.astype(np.int64),
        "low": evidence.linear.low,
        "high": evidence.linear.high,
        "image_low": None if corners is None else corners.low,
        "image_high": None if corners is None else corners.high,
        "embedding": evidence.embedding if guessed else None,
        "gamma": None if record is None else record.gamma,
        "point": None if record is None else record.point,
    }
    for i, seen in enumerate(evidence.rounds):
        arrays |= {f"paid_{i}": seen.paid, f"image_{i}": seen.image, f"embedding_{i}": seen.embedding}
    return {name: array for name, array in arrays.items() if array is not None}


def check_learned(path: str | os.PathLike[str]) -> Check:
    """Derive the certificate of a learned policy again; raise `CertificateError` where a claim does not hold."""
    manifest, arrays = _archive.read(path, KIND)
    with np.errstate(all="ignore"):  # what overflows is no number, and no claim is equal to it
        try:
            claims, goal = claims_of(manifest["claims"]), goal_of(manifest["goal"])
            lines, evidence = read_lines(manifest["lines"]), _evidence(manifest, Stored(arrays))
            check_rows(lines, evidence.program)
            sense, rows = -1.0 if maximises(claims["sense"]) else 1.0, linear_rows(evidence.program)
        except MALFORMED as error:
            raise ArchiveError(f"{path} is not a complete result of learning ({error}): save it again") from error
        check_limits(lines, evidence.program)
        if evidence.knowledge.counts.episodes > claims["episodes"] + _fresh(evidence):
            raise CertificateError(f"the file claims episodes = {claims['episodes']}, but its counts are of more")
        certificate = certify_sampled(evidence, rows)
        compare(claims, derived(sense, goal, lines, certificate))
    return Check(claims, certificate, _fresh(evidence))


def claims_of(told: dict[str, Any]) -> dict[str, Any]:
    """The claims of a file, or of a solution: `ValueError` where what is only told makes no sense."""
    claims = {key: told[key] for key in _CLAIMS}
    for key, kinds in _TOLD.items():
        if type(claims[key]) not in kinds:
            raise ValueError(f"{key} is {claims[key]!r:.80}")
    return claims


def told_goal(goal: float | None) -> float | None:
    """The gap that was asked for, as JSON knows it."""
    return None if goal is None else min(float(goal), sys.float_info.max)


def goal_of(written: object) -> float | None:
    """The gap that was asked for."""
    if written is not None and not 0 < exactly(float, written) < np.inf:
        raise ValueError(f"the goal is a gap of {written!r}")
    return None if written is None else exactly(float, written)


def _fresh(evidence: Sampled) -> int:
    """How many episodes the policy was evaluated on."""
    return sum(len(seen.paid) for seen in evidence.rounds)


def _evidence(manifest: dict[str, Any], stored: Stored) -> Sampled:
    policy, split = read_policy(stored.arrays), Split(exactly(float, manifest["claims"]["delta"]))
    H, _, _ = policy.shape
    knowledge = restored_knowledge(manifest["model"], stored, policy.shape, split.model)
    if np.any(policy.table[:, ~knowledge.counts.support.allowed] > 0):
        raise ValueError("the policy takes an action that its state does not allow")
    dimension = knowledge.pieces.psi.dimension
    program = _measured(restored_program(manifest["problem"], stored.arrays, H, dimension), knowledge.pieces)
    linear, corners = spans_of(stored, program)
    rounds = tuple(
        _round(stored, i, number_of_round(number), program, (linear, corners), (H, dimension))
        for i, number in enumerate(exactly(list, manifest["rounds"]))
    )
    return Sampled(
        program=program,
        knowledge=knowledge,
        policy=policy,
        record=record_of(manifest["objective_weight"], stored, program),
        split=split,
        linear=linear,
        corners=corners,
        rounds=rounds,
        embedding=stored.numbers("embedding", H, dimension) if _guessed(rounds, knowledge) else None,
    )


def _guessed(rounds: tuple[Round, ...], knowledge: AbstractCounted) -> bool:
    """Whether the value is that of the learned model: without episodes, and where a class knows it better than they."""
    return not rounds or isinstance(knowledge, ClassKnowledge)


def _measured(program: AffineProgram | ConvexProgram, pieces: Pieces) -> AffineProgram | ConvexProgram:
    """The program in the units that its rows had while it was learned."""
    if not isinstance(program, AffineProgram):
        return program
    if not all(np.all(np.isfinite(part)) for part in (program.objective, program.offset, program.rows, program.limits)):
        raise ValueError("the problem contains NaN or infinity")
    return with_planner_resolution(program, pieces)


def record_of(weight: object, stored: Stored, program: AffineProgram | ConvexProgram) -> Record | None:
    """The multipliers, where there are any."""
    if weight is None:
        return None
    affine = isinstance(program, AffineProgram)
    gamma = stored.numbers("gamma", program.limits.size if affine else None)
    point = None if affine or not stored.has("point") else stored.numbers("point", program.image.size)
    return Record(gamma, exactly(float, weight), point)


def spans_of(stored: Stored, program: AffineProgram | ConvexProgram) -> tuple[Spans, Spans | None]:
    """The functionals that samples are of, and the numbers that corners are made of, each with its range."""
    numbers = stored.places("numbers", 0, 1 + program.equality.size, None)
    if np.any(np.diff(numbers) <= 0):
        raise ValueError("functionals are not in their order")
    linear = Spans(numbers, *(stored.numbers(name, numbers.size) for name in ("low", "high")))
    if isinstance(program, AffineProgram) or not stored.has("image_low"):
        return linear, None
    size = program.image.size
    return linear, Spans(np.arange(size), *(stored.numbers(name, size) for name in ("image_low", "image_high")))


def number_of_round(written: object) -> int:
    """Rounds are counted from 1 on."""
    number = exactly(int, written)
    if not 0 < number < _MOST_ROUNDS:
        raise ValueError(f"there is no round {number!r:.40}")
    return number


def _round(
    stored: Stored,
    i: int,
    number: int,
    program: AffineProgram | ConvexProgram,
    spans: tuple[Spans, Spans | None],
    shape: tuple[int, int],
) -> Round:
    linear, corners = spans
    paid = stored.numbers(f"paid_{i}", None, linear.numbers.size)
    if not len(paid):
        raise ValueError(f"round {number} has 0 episodes")
    image = None if corners is None else stored.numbers(f"image_{i}", len(paid), corners.low.size)
    curved = isinstance(program, ConvexProgram)
    return Round(number, paid, image, stored.numbers(f"embedding_{i}", *shape) if curved else None)


def derived(sense: float, goal: float | None, lines: Sequence[Line], certificate: Certificate) -> dict[str, Any]:
    """What the file may claim: status and numbers of `Learned.to_dict`, derived again, None where there is no number.

    Prices are told, not derived: they belong to the learned model, where the policy comes from.
    """
    ends = [None if end is None else _number(sense * end) for end in (certificate.lower, certificate.upper)]
    lower, upper = ends if sense > 0 else reversed(ends)
    gap = None if lower is None or upper is None else _number(upper - lower)
    results = [result.to_dict() for result in constraint_results(lines, certificate, None)]
    return {
        "status": str(status_of_learned(certificate, gap, goal)),
        "value": _number(sense * certificate.value),
        "lower": lower,
        "upper": upper,
        "gap": gap,
        "constraints": [{key: _number(value) for key, value in result.items() if key != "price"} for result in results],
    }


def _number(value: Any) -> Any:  # noqa: ANN401 - a value of `to_dict`
    """JSON has no infinity: what is not bounded is None."""
    return None if isinstance(value, float) and not np.isfinite(value) else value
