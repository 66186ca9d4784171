"""What belongs together in a file: samples and the policy they are of, limits and the constants of left sides."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from bidual._base.checksum import compute_checksum
from bidual._base.errors import CertificateError
from bidual.certificate import Round
from bidual.certificate.rounding import EPS
from bidual.problem.convex import AbstractProgram
from bidual.problem.modelling import Line, slice_rows
from bidual.storage._arrays import StoredArrays
from bidual.world.policies import AbstractPolicy, ControlPolicy, MarkovPolicy, Mixture, encode_controls

Notes = tuple[str, ...]


def digest_policy(policy: AbstractPolicy) -> str | None:
    """Return a checksum of all that a policy acts by; None for policies that no file claims anything about."""
    if isinstance(policy, MarkovPolicy):
        numbering = [] if policy.numbering is None else [policy.numbering.to_json()]
        return compute_checksum(numbering, policy.table)
    weights, members = (policy.weights, policy.members) if isinstance(policy, Mixture) else (np.ones(1), (policy,))
    controls = [member for member in members if isinstance(member, ControlPolicy)]
    return digest_controls(*encode_controls(controls, weights)) if len(controls) == len(members) else None


def digest_controls(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> str:
    """Return the same of encoded policies of controls, from all or more of their file."""
    names = sorted(name for name in arrays if name.isdigit() or name == "weights")
    return compute_checksum([header["members"], names], *(arrays[name] for name in names))


def write_policies(rounds: Sequence[Round]) -> list[str | None]:
    """Return whose samples every round holds."""
    return [seen.policy for seen in rounds]


def read_uniform(written: object, rounds: int) -> list[bool]:
    """Read which rounds have bounds for any number of episodes: none in files of earlier versions."""
    found = [False] * rounds if written is None else written
    if not (isinstance(found, list) and len(found) == rounds and all(isinstance(one, bool) for one in found)):
        raise ValueError(f"uniform is {written!r:.80}")
    return found


def read_policies(written: object, rounds: int) -> list[str | None]:
    """Read whose samples every round holds; raise `ValueError` where that is malformed."""
    if written is None:
        return [None] * rounds
    if not (
        isinstance(written, list) and len(written) == rounds and all(isinstance(one, str | None) for one in written)
    ):
        raise ValueError(f"policies are {written!r:.80}")
    return list(written)


def check_policies(rounds: Sequence[Round], digest: str | None) -> Notes:
    """Check that all samples are of the policy in the file, which has this digest; name the rounds that do not tell."""
    for seen in rounds:
        if seen.policy not in (None, digest):
            raise CertificateError(f"the samples of round {seen.number} are of another policy than the one in the file")
    unknown = [str(seen.number) for seen in rounds if seen.policy is None]
    if not unknown:
        return ()
    which = f"in round {', '.join(unknown)} whose policy the samples are of is not stored"
    return (f"{which}: the file is of an earlier version, or its policy has no digest",)


def compute_left_constants(lines: Sequence[Line], program: AbstractProgram) -> Float[np.ndarray, "m"] | None:
    """Return the constants of the left sides, which the rows of a linear problem have moved into their limits."""
    rows = program.linear
    if rows is None:
        return None  # the functions of a convex problem hold them
    parts = [line.bounds - line.sign * rows.limits[place] for line, place in slice_rows(lines)]
    return np.concatenate([*parts, np.zeros(0)])


def pack_constants(lines: Sequence[Line], program: AbstractProgram) -> dict[str, np.ndarray]:
    """Return the constants of the left sides as an array of a file, where there are rows to have them."""
    constants = compute_left_constants(lines, program)
    return {} if constants is None else {"constants": constants}


def read_constants(stored: StoredArrays, program: AbstractProgram) -> Float[np.ndarray, "m"] | None:
    """Read the constants of the left sides; None in files of earlier versions."""
    return stored.numbers("constants", program.equality.size) if stored.has("constants") else None


def check_constants(lines: Sequence[Line], program: AbstractProgram, stored: Float[np.ndarray, "m"] | None) -> Notes:
    """Check that stated limits are those of the rows and the stored constants; return which constants there are."""
    implied = compute_left_constants(lines, program)
    if implied is None:
        return ()
    assert program.linear is not None  # convex problems have returned
    given = implied if stored is None else stored
    for line, place in slice_rows(lines):
        limits, constants = program.linear.limits[place], given[place]
        room = 2 * EPS * (np.abs(line.bounds) + np.abs(limits) + np.abs(constants))
        if not np.all(np.abs(implied[place] - constants) <= room):
            raise CertificateError(
                f"the file states the limit {line.bounds.tolist()} of constraint {line.name!r}, but its rows and the "
                f"constant of its left side have {(line.sign * limits + constants).tolist()}"
            )
    found = [(line.name, implied[place]) for line, place in slice_rows(lines) if np.any(implied[place])]
    if not found:
        return ()
    if stored is None:
        listed = ", ".join(f"{name!r} {_format_range(constants)}" for name, constants in found)
        return (
            "the file is of an earlier version, which stored no constants of left sides; by the limits it states, they "
            f"are {listed}",
        )
    first, *others = (f"{name!r} includes the constant {_format_range(constants)}" for name, constants in found)
    rest = (f", that of {other.replace(' includes the constant', '')}" for other in others)
    return (f"the left side of {first}{''.join(rest)}",)


def _format_range(constants: Float[np.ndarray, "n"]) -> str:
    low, high = float(constants.min()), float(constants.max())
    return f"{low:.9g}" if low == high else f"{low:.9g} to {high:.9g}"
