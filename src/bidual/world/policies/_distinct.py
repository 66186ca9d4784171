"""Distinct policies among many: compared by their actions, not by object identity."""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from jaxtyping import Int

from bidual.world.policies._control import ControlPolicy
from bidual.world.policies._decoded import DecodedPolicy
from bidual.world.policies._markov import DeterministicPolicy

Played = DeterministicPolicy | DecodedPolicy | ControlPolicy  # the policies of episodes while learning


class DistinctPolicies:
    """Policies in the order of their first appearance; the same few objects come again and again."""

    def __init__(self) -> None:
        self.members: list[Played] = []
        self._numbers: dict[bytes, int] = {}
        self._seen: dict[int, tuple[Played, int]] = {}  # kept alive, so that an id is not given twice

    def number(self, policy: Played) -> int:
        """Return the index of a policy among the distinct ones, appending it if it is new."""
        seen = self._seen.get(id(policy))
        if seen is not None:
            return seen[1]
        number = self._numbers.setdefault(_compute_fingerprint(policy), len(self.members))
        if number == len(self.members):
            self.members.append(policy)
        self._seen[id(policy)] = (policy, number)
        return number


def find_distinct(policies: Sequence[Played]) -> tuple[list[Played], Int[np.ndarray, "n"]]:
    """Return the distinct policies, and the index of each policy among them."""
    found = DistinctPolicies()
    order = np.array([found.number(policy) for policy in policies], dtype=np.int64)
    return found.members, order


def _compute_fingerprint(policy: Played) -> bytes:
    """Return a digest, equal for policies with the same action on every observation."""
    if isinstance(policy, DeterministicPolicy):
        return blake2b(policy.actions.tobytes()).digest()
    if isinstance(policy, ControlPolicy):
        return policy.fingerprint
    return blake2b(policy.table.tobytes() + policy.decoder.fingerprint).digest()
