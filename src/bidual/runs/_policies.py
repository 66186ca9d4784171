"""The policies of all episodes, in files that are written once: each holds those of the episodes since the last.

A checkpoint that held them all would be written in time that grows with the run.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bidual import _archive
from bidual._errors import ArchiveError
from bidual.policies import DeterministicPolicy, Found, Played

FOLDER = "policies"
_KIND = "policies"


class Part(NamedTuple):
    """A file, and the checksum that it had when the checkpoint was written."""

    name: str
    sha256: str


class Journal:
    """What has been written, and which policies that were."""

    def __init__(self, folder: Path, parts: Sequence[Part] = ()) -> None:
        self.folder = folder / FOLDER
        self.parts: list[Part] = []
        self.count = 0
        self._found, self._known = Found(), 0  # of those found, so many are in files
        self.policies: list[DeterministicPolicy] = []
        for part in parts:
            self._read(part)

    def write(self, policies: Sequence[Played]) -> None:
        """Those that are not written yet, of all that were run."""
        new = [_table(policy) for policy in policies[self.count :]]
        if not new:
            return
        order = np.array([self._found.number(policy) for policy in new], dtype=np.int64)
        members = self.distinct[self._known :]
        arrays = {"order": order, "actions": np.stack([m.actions for m in members])} if members else {"order": order}
        first, last = self.count, len(policies)
        name = f"{first:09d}-{last:09d}.bidual"
        manifest = {"first": first, "num_actions": new[0].num_actions}
        self.parts.append(Part(name, _archive.write(self.folder / name, _KIND, manifest, arrays)))
        self.count, self._known = last, len(self._found.members)

    @property
    def distinct(self) -> list[DeterministicPolicy]:
        """Each of them once."""
        return [_table(member) for member in self._found.members]

    def _read(self, part: Part) -> None:
        path = self.folder / part.name
        manifest, arrays = _archive.read(path, _KIND, sha256=part.sha256)
        try:
            if manifest["first"] != self.count:
                raise ValueError(f"it begins at episode {manifest['first']}, not {self.count}")
            if "actions" in arrays:
                self._find(arrays["actions"], manifest["num_actions"])
            order = arrays["order"]
            if order.dtype != np.int64 or order.ndim != 1 or order.min() < 0:
                raise ValueError("its order is not one of policies")
            self.policies += [_table(self._found.members[number]) for number in order]
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise ArchiveError(f"{path} does not hold the policies it should ({error})") from error
        self.parts.append(part)
        self.count, self._known = len(self.policies), len(self._found.members)

    def _find(self, members: np.ndarray, num_actions: object) -> None:
        if not (isinstance(num_actions, int) and members.dtype.kind == "i" and members.ndim == 3):
            raise ValueError("its actions are not those of policies")
        if members.min() < 0 or int(members.max()) >= num_actions:
            raise ValueError(f"it has actions that are not among {num_actions}")
        for actions in members:
            self._found.number(DeterministicPolicy(actions, num_actions))


def _table(policy: Played) -> DeterministicPolicy:
    """A policy over states: runs with decoders are not stored."""
    assert isinstance(policy, DeterministicPolicy)
    return policy
