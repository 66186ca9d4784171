"""The policies of all episodes, in files that are written once: each holds those of the episodes since the last.

A checkpoint that held them all would be written in time that grows with the run.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bidual._base import archive
from bidual._base.errors import ArchiveError
from bidual.learning.folder import POLICIES
from bidual.learning.runs import _decoders
from bidual.learning.runs._decoders import Emissions
from bidual.planners.control import MALFORMED, Given, read_control
from bidual.world.policies import (
    ArrayPool,
    ControlPolicy,
    DecodedPolicy,
    DeterministicPolicy,
    DistinctPolicies,
    Played,
    PolicySequence,
    encode_control,
)

_KIND = "policies"
_PER_POLICY = {"actions", "decoders"}  # arrays of what every new policy has


class PolicyPart(NamedTuple):
    """A file, and the checksum that it had when the checkpoint was written."""

    name: str
    sha256: str


class Journal:
    """The written parts and their policies; `given` are the functions that controllers plan with."""

    def __init__(self, folder: Path, parts: Sequence[PolicyPart] = (), given: Given | None = None) -> None:
        self.folder = folder / POLICIES
        self.parts: list[PolicyPart] = []
        self.count = 0
        self._found, self._known = DistinctPolicies(), 0  # of those found, so many are in files
        self._emissions = Emissions()
        self._pool, self._given = ArrayPool(), given or Given()
        self.policies = PolicySequence()
        for part in parts:
            self._read(part)

    def write(self, policies: Sequence[Played]) -> None:
        """Write those of all executed policies that are not written yet."""
        new = range(self.count, len(policies))
        if not new:
            return
        order = np.fromiter((self._found.number(policies[place]) for place in new), dtype=np.int64)
        members, first, last = self.distinct[self._known :], self.count, len(policies)
        controls = [one for one in members if isinstance(one, ControlPolicy)]
        header, arrays = self._encode_controls(controls) if controls else ({}, self._encode_tables(members))
        name = f"{first:09d}-{last:09d}.bidual"
        manifest = {"first": first, "num_actions": policies[-1].shape[2]} | header
        written = archive.write(self.folder / name, _KIND, manifest, {"order": order} | arrays)
        self.parts.append(PolicyPart(name, written))
        self.count, self._known = last, len(self._found.members)

    @property
    def distinct(self) -> list[Played]:
        """The distinct policies."""
        return self._found.members

    def _encode_tables(self, members: Sequence[Played]) -> dict[str, np.ndarray]:
        """Return tables of actions and, where observations are decoded, the decoders with their new emissions."""
        tables = [one.actions for one in members if not isinstance(one, ControlPolicy)]
        if not tables:
            return {}
        arrays, known = {"actions": np.stack(tables)}, len(self._emissions.members)
        decoders = [one.decoder for one in members if isinstance(one, DecodedPolicy)]
        if decoders:
            arrays["decoders"] = np.stack([self._emissions.numbers(decoder) for decoder in decoders])
            arrays["dimension"] = np.array([decoders[0].dimension])
        new = self._emissions.members[known:]
        return arrays | (_decoders.pack_emissions(new) if new else {})

    def _encode_controls(self, members: Sequence[ControlPolicy]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return controllers as JSON values, and the new arrays: arrays shared within a run are written once."""
        known = len(self._pool.arrays)
        header = [encode_control(one, self._pool) for one in members]
        return {"controls": header}, self._pool.arrays_by_number(known)

    def _read(self, part: PolicyPart) -> None:
        """Read a file of policies and append them to those before it."""
        path = self.folder / part.name
        manifest, arrays = archive.read(path, _KIND, sha256=part.sha256)
        try:
            if manifest["first"] != self.count:
                raise ValueError(f"it begins at episode {manifest['first']}, not {self.count}")
            order = arrays["order"]
            if order.dtype != np.int64 or order.ndim != 1 or order.min() < 0:
                raise ValueError("its order is not one of policies")
            if any(arrays[name].ndim and len(arrays[name]) > order.size for name in _PER_POLICY & arrays.keys()):
                raise ValueError(f"it has more policies than its {order.size} episodes")
            if "controls" in manifest:
                self._find_controls(manifest["controls"], arrays)
            elif "actions" in arrays:
                self._find(arrays, manifest["num_actions"])
            for number in order.tolist():
                self.policies = self.policies.followed_by(self._found.members[number], 1)
        except MALFORMED as error:
            raise ArchiveError(f"{path} does not hold the policies it should ({error})") from error
        self.parts.append(part)
        self.count, self._known = len(self.policies), len(self._found.members)

    def _find(self, arrays: dict[str, np.ndarray], num_actions: object) -> None:
        """Find the policies of the arrays among those known, or add them."""
        members = arrays["actions"]
        if not (isinstance(num_actions, int) and members.dtype.kind == "i" and members.ndim == 3):
            raise ValueError("its actions are not those of policies")
        if members.min() < 0 or int(members.max()) >= num_actions:
            raise ValueError(f"it has actions that are not among {num_actions}")
        tables = [DeterministicPolicy(actions, num_actions) for actions in members]
        for emission in _decoders.read(arrays) if "sizes" in arrays else ():
            self._emissions.add(emission)
        if "decoders" not in arrays:
            found = tables
        else:
            decoders = [self._emissions.decoder(numbers, int(arrays["dimension"][0])) for numbers in arrays["decoders"]]
            found = [DecodedPolicy(*both) for both in zip(tables, decoders, strict=True)]
        for policy in found:
            self._found.number(policy)

    def _find_controls(self, header: list[dict[str, Any]], arrays: dict[str, np.ndarray]) -> None:
        for number in range(len(self._pool.arrays), len(self._pool.arrays) + len(arrays) - 1):  # one is the order
            if self._pool.number(arrays[str(number)]) != number:
                raise ValueError(f"its array {number} is there twice")
        pool = self._pool.arrays_by_number()
        for one in header:
            self._found.number(read_control(one, pool, self._given))
