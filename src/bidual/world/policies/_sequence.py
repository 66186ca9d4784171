"""The policies of all episodes in their order: a byte or two per episode, because the same few come again and again."""

from collections.abc import Iterable, Iterator, Sequence
from typing import final, overload

import numpy as np
from jaxtyping import UInt

from bidual.world.policies._mixture import DistinctPolicies, Played

_CHUNK = 4096  # entries that are converted at a time


class _Tail:
    """Distinct policies, and the number of each entry among them; shared by all sequences with the same beginning."""

    def __init__(self) -> None:
        self.found, self.count = DistinctPolicies(), 0
        self._numbers: UInt[np.ndarray, "capacity"] = np.zeros(64, dtype=np.uint8)

    def append(self, policy: Played, times: int) -> None:
        """Append a policy so many times. The count comes last: after an interrupt nothing was appended."""
        number, total, numbers = self.found.number(policy), self.count + times, self._numbers
        kind = np.promote_types(numbers.dtype, np.min_scalar_type(number))
        if total > numbers.size or kind != numbers.dtype:
            size = max(numbers.size, total + total // 4)
            numbers = np.zeros(size, dtype=kind)
            numbers[: self.count] = self.order(self.count)
        numbers[self.count : total] = number
        self._numbers = numbers
        self.count = total

    def order(self, count: int) -> UInt[np.ndarray, "count"]:
        """Return the numbers of the first entries."""
        return self._numbers[:count]

    def copy(self, count: int) -> "_Tail":
        """Return a tail of its own for a sequence of the first entries."""
        copied, order = _Tail(), self.order(count)
        for policy in self.found.members[: int(order.max()) + 1 if count else 0]:
            copied.found.number(policy)
        copied._numbers, copied.count = np.array(order), count
        return copied


@final
class PolicySequence(Sequence[Played]):
    """The policies of episodes, as a sequence that never changes; of equal policies only the first is kept.

    A longer one shares what it has in common with this one, so that appending copies nothing.
    """

    def __init__(self, policies: Iterable[Played] = ()) -> None:
        self._tail = _Tail()
        for policy in policies:
            self._tail.append(policy, 1)
        self._count = self._tail.count

    @classmethod
    def of(cls, policies: Sequence[Played]) -> "PolicySequence":
        """Return the sequence itself, or a compact one with the same policies."""
        return policies if isinstance(policies, cls) else cls(policies)

    def followed_by(self, policy: Played, times: int) -> "PolicySequence":
        """Return the sequence with a policy appended so many times."""
        tail = self._tail if self._tail.count == self._count else self._tail.copy(self._count)
        tail.append(policy, times)
        longer = object.__new__(PolicySequence)
        longer._tail, longer._count = tail, tail.count
        return longer

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Played: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Played, ...]: ...
    def __getitem__(self, index: int | slice) -> Played | tuple[Played, ...]:
        order, members = self._tail.order(self._count), self._tail.found.members
        if isinstance(index, slice):
            return tuple(members[number] for number in order[index].tolist())
        return members[order[index]]

    def __iter__(self) -> Iterator[Played]:
        for first in range(0, self._count, _CHUNK):
            yield from self[first : first + _CHUNK]

    def __repr__(self) -> str:
        distinct = len(set(self._tail.order(self._count).tolist()))
        return f"PolicySequence({self._count} episodes, {distinct} distinct policies)"
