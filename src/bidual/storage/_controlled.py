"""Learned policies of controls on disk: evidence, claims, and the claims derived again.

The file is that of the policy, with the evidence beside it. Signals are functions, which no file stores: their values
in the file are trusted, and so are the sums of the regression. All else is derived.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float

from bidual._base import archive
from bidual._base.errors import ArchiveError, CertificateError
from bidual.certificate import ControlEvidence, Round, certify_controlled
from bidual.certificate.bounds import Split
from bidual.certificate.rounding import with_sampled_resolution
from bidual.models import ControlKnowledge, LinearLaws, Moments, build_linear_laws, compute_posterior
from bidual.problem.convex import AbstractProgram
from bidual.problem.features import Computed, Quadratic, Signal
from bidual.problem.modelling import Line
from bidual.storage._arrays import StoredArrays, require_type
from bidual.storage._belonging import (
    check_constants,
    check_policies,
    digest_controls,
    pack_constants,
    read_constants,
    read_policies,
    read_uniform,
    write_policies,
)
from bidual.storage._check import MALFORMED, Check, maximises, read_lines, write_lines
from bidual.storage._claims import check_gap, compare
from bidual.storage._learned import (
    derive_learned,
    list_claims,
    pack_samples,
    read_requested_gap,
    read_round_number,
    read_spans,
    record_of,
    write_goal,
)
from bidual.storage._programs import check_limits, check_rows, pack_program, restore_program
from bidual.storage._rows import collect_linear_rows
from bidual.world.policies import CONTROLS, ControlPolicy, Mixture, encode_controls


class Claim(NamedTuple):
    """The claims of a solution, and the problem they are about."""

    lines: Sequence[Line]
    goal: float | None
    claims: dict[str, Any]


def save_controlled(
    path: str | os.PathLike[str],
    policy: ControlPolicy | Mixture,
    evidence: ControlEvidence,
    knowledge: ControlKnowledge,
    claim: Claim,
) -> None:
    """Write policy, evidence and claims to one file; `knowledge` is what the record proves its bound with."""
    manifest, arrays = encode_controls(*_list_members(policy))
    problem, program_arrays = pack_program(evidence.program)
    signals, signal_arrays = _pack_signals(knowledge.features)
    archive.write(
        path,
        CONTROLS,
        {
            **manifest,
            "claims": list_claims(claim.claims),
            "goal": write_goal(claim.goal),
            "lines": write_lines(claim.lines),
            "objective_weight": None if evidence.record is None else evidence.record.objective_weight,
            "problem": problem,
            "horizon": knowledge.horizon,
            "signals": signals,
            "rounds": [seen.number for seen in evidence.rounds],
            "policies": write_policies(evidence.rounds),
            "uniform": [seen.uniform for seen in evidence.rounds],
            "laws": None if evidence.laws is None else _encode_regression(knowledge),
        },
        {
            **arrays,
            **signal_arrays,
            **pack_constants(claim.lines, evidence.program),
            **(_pack_moments(knowledge) if evidence.laws is not None else {}),
            **pack_samples(evidence, guessed=not evidence.rounds),
            **{f"problem_{name}": array for name, array in program_arrays.items()},
        },
    )


def check_controlled(path: str | os.PathLike[str]) -> Check:
    """Derive the certificate again; raise `CertificateError` where a claim does not hold, or where there is none."""
    manifest, arrays = archive.read(path, CONTROLS)
    if "claims" not in manifest:
        raise CertificateError(f"{path} holds a policy of controls alone, without claims that could be checked")
    with np.errstate(all="ignore"):  # an overflow is no number, and no claim is equal to it
        try:
            claims, goal = list_claims(manifest["claims"]), read_requested_gap(manifest["goal"])
            lines, evidence = read_lines(manifest["lines"]), _read_evidence(manifest, StoredArrays(arrays))
            check_rows(lines, evidence.program)
            constants = read_constants(StoredArrays(arrays), evidence.program)
            largest, rows = maximises(claims["sense"]), collect_linear_rows(evidence.program)
            digest = digest_controls(manifest, arrays)
        except MALFORMED as error:
            raise ArchiveError(f"{path} is not a complete result of learning ({error}): save it again") from error
        check_limits(lines, evidence.program)
        notes = check_constants(lines, evidence.program, constants)
        notes += check_policies(evidence.rounds, digest)
        certificate = certify_controlled(evidence, rows)
        compare(claims, derive_learned(largest, goal, lines, certificate))
    check_gap(claims)
    return Check(claims, certificate, goal, sum(len(seen.values) for seen in evidence.rounds), notes)


def _list_members(policy: ControlPolicy | Mixture) -> tuple[tuple[ControlPolicy, ...], Float[np.ndarray, "k"]]:
    if isinstance(policy, ControlPolicy):
        return (policy,), np.ones(1)
    return tuple(member for member in policy.members if isinstance(member, ControlPolicy)), policy.weights


def _pack_signals(features: Computed) -> tuple[list[Any], dict[str, np.ndarray]]:
    """Return names, sizes and whether they are quadratic; bounds may be infinite, which JSON cannot express."""
    header = [
        [name, one.size, one.quadratic is not None] for name, one in zip(features.names, features.signals, strict=True)
    ]
    arrays = {"signal_ends": np.array([[one.low, one.high] for one in features.signals])}
    for i, one in enumerate(features.signals):
        if one.quadratic is not None:
            form, slope, constant = one.quadratic
            arrays |= {f"form_{i}": form, f"slope_{i}": slope, f"constant_{i}": np.array([constant])}
    return header, arrays


def _encode_regression(knowledge: ControlKnowledge) -> dict[str, Any]:
    declared = knowledge.declared
    counts = {"ridge": declared.ridge, "bound": declared.bound, "count": knowledge.moments.count}
    tight = knowledge.laws is not None and knowledge.laws.evidence is not None
    return counts | ({"set": "tight"} if tight else {})  # older files are of the net, and do not say so


def _pack_moments(knowledge: ControlKnowledge) -> dict[str, np.ndarray]:
    moments, (low, high) = knowledge.moments, knowledge.limits
    return {
        **{"gram": moments.gram, "cross": moments.cross, "squares": moments.squares},
        **{"noise": knowledge.posterior.deviation, "first": np.array(knowledge.declared.first, dtype=np.float64)},
        **{"control_low": low, "control_high": high},
    }


def _read_evidence(manifest: dict[str, Any], stored: StoredArrays) -> ControlEvidence:
    """Read the evidence of a solution for dynamics of vectors."""
    split, horizon = Split(require_type(float, manifest["claims"]["delta"])), require_type(int, manifest["horizon"])
    features = _read_features(manifest["signals"], stored)
    program = restore_program(manifest["problem"], stored.arrays, horizon, features.dimension)
    program = with_sampled_resolution(program)
    linear, corners = read_spans(stored, program)
    numbers = require_type(list, manifest["rounds"])
    owners = read_policies(manifest.get("policies"), len(numbers))
    uniform = read_uniform(manifest.get("uniform"), len(numbers))
    rounds = tuple(
        replace(
            _round(stored, i, read_round_number(number), program, horizon, features.dimension),
            policy=owner,
            uniform=any_number,
        )
        for i, (number, owner, any_number) in enumerate(zip(numbers, owners, uniform, strict=True))
    )
    if any(len(seen.values.T) != linear.numbers.size for seen in rounds):
        raise ValueError("samples are not of the functionals that they are stated for")
    laws = None if manifest["laws"] is None else _read_laws(manifest["laws"], stored, features, split)
    return ControlEvidence(
        program=program,
        pieces=features.pieces((horizon, 1, 1)),
        record=record_of(manifest["objective_weight"], stored, program),
        laws=laws,
        split=split,
        linear=linear,
        corners=corners,
        rounds=rounds,
        embedding=None if rounds else stored.numbers("embedding", horizon, features.dimension),
    )


def _read_features(header: Any, stored: StoredArrays) -> Computed:  # noqa: ANN401 - JSON
    """Read the signals: their sizes and bounds, and those that are quadratic in full."""
    ends = stored.arrays["signal_ends"]
    if ends.shape != (len(header), 2) or ends.dtype != np.float64 or not np.all(ends[:, 0] <= ends[:, 1]):
        raise ValueError("signals have bounds that are none")
    signals = []
    for i, ((_, size, known), (low, high)) in enumerate(zip(header, ends.tolist(), strict=True)):
        if size is not None and require_type(int, size) < 1:
            raise ValueError(f"a signal has {size} numbers")
        form = _read_quadratic(i, stored) if require_type(bool, known) else None
        if form is not None and size is not None:
            raise ValueError("a quadratic signal is one number")
        signals.append(Signal(_refuse_call, low, high, size, form))
    return Computed(tuple(require_type(str, name) for name, _, _ in header), tuple(signals))


def _read_quadratic(i: int, stored: StoredArrays) -> Quadratic:
    slope = stored.numbers(f"slope_{i}", None)
    form = stored.numbers(f"form_{i}", slope.size, slope.size)
    if not np.array_equal(form, form.T):
        raise ValueError("a form is not symmetric")
    return Quadratic(form, slope, float(stored.numbers(f"constant_{i}", 1)[0]))


def _read_laws(header: Any, stored: StoredArrays, features: Computed, split: Split) -> LinearLaws:  # noqa: ANN401 - JSON
    """Read the linear laws that may be true, from the moments of transitions."""
    gram = stored.numbers("gram", None, None)
    first, low = stored.numbers("first", None), stored.numbers("control_low", None)
    (d, n, m), high = (len(gram), first.size, low.size), stored.numbers("control_high", low.size)
    sizes = {one.quadratic.slope.size for one in features.signals if one.quadratic is not None}
    lawful = gram.shape == (d, d) and np.array_equal(gram, gram.T) and d in (n + m, n + m + 1) and np.all(low <= high)
    if not (lawful and sizes <= {2 * n + m}):
        raise ValueError("the sums of the regression are not those of linear dynamics")
    count, squares = require_type(int, header["count"]), stored.numbers("squares", n)
    if count < 0 or np.any(squares < 0) or np.any(gram.diagonal() < 0):
        raise ValueError("sums of squares are negative")
    known = compute_posterior(
        Moments(gram, stored.numbers("cross", n, d), squares, count),
        require_type(float, header["ridge"]),
        stored.numbers("noise", n),
        require_type(float, header["bound"]),
    )
    form = require_type(str, header.get("set", "net"))
    return build_linear_laws(known, split.model, first, (low, high), features.signals, form)


def _round(stored: StoredArrays, i: int, number: int, program: AbstractProgram, horizon: int, dimension: int) -> Round:
    """Read the samples of a round of fresh episodes."""
    values = stored.numbers(f"paid_{i}", None, None)
    if not len(values):
        raise ValueError(f"round {number} has 0 episodes")
    image = None
    if stored.has(f"image_{i}") and program.curved is not None:
        image = stored.numbers(f"image_{i}", len(values), program.curved.image.size)
    embedding: Float[np.ndarray, "H d"] | None = None
    if stored.has(f"embedding_{i}"):
        embedding = stored.numbers(f"embedding_{i}", horizon, dimension)
    return Round(number, values, image, embedding)


def _refuse_call(obs: Array, control: Array, next_obs: Array) -> Array:
    raise ArchiveError("functions of signals are not stored in files")
