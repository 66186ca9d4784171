"""Which of many policies are different: by what they do, not by which object they are."""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from jaxtyping import Int

from bidual.policies._control import ControlPolicy
from bidual.policies._decoded import DecodedPolicy
from bidual.policies._markov import DeterministicPolicy

Played = DeterministicPolicy | DecodedPolicy | ControlPolicy  # what an episode is run with while learning


class Found:
    """Policies in the order of their first appearance; the same few objects come again and again."""

    def __init__(self) -> None:
        self.members: list[Played] = []
        self._numbers: dict[bytes, int] = {}
        self._seen: dict[int, tuple[Played, int]] = {}  # kept alive, so that an id is not given twice

    def number(self, policy: Played) -> int:
        """The place of a policy among the distinct ones, to which it is added if it is new."""
        seen = self._seen.get(id(policy))
        if seen is not None:
            return seen[1]
        number = self._numbers.setdefault(_fingerprint(policy), len(self.members))
        if number == len(self.members):
            self.members.append(policy)
        self._seen[id(policy)] = (policy, number)
        return number


def distinct(policies: Sequence[Played]) -> tuple[list[Played], Int[np.ndarray, "n"]]:
    """The distinct policies, and which of them each one is."""
    found = Found()
    order = np.array([found.number(policy) for policy in policies], dtype=np.int64)
    return found.members, order


def _fingerprint(policy: Played) -> bytes:
    """The same for policies that act alike on every observation."""
    if isinstance(policy, DeterministicPolicy):
        return blake2b(policy.actions.tobytes()).digest()
    if isinstance(policy, ControlPolicy):
        return policy.fingerprint
    return blake2b(policy.table.tobytes() + policy.decoder.fingerprint).digest()
