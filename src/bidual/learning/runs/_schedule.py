"""When to write the next checkpoint: by the clock, so that what may be lost and what it costs are both small."""

import time
from collections import deque
from typing import final

_LEAST, _MOST = 2.0, 300.0  # seconds between checkpoints
_SHARE = 0.02  # of the time so far, which may be lost
_WRITES = 20  # so many times what a checkpoint takes pass before the next one
_RECENT = 2  # checkpoints whose cost counts: by the cheaper of them, because one may have waited for the disk


@final
class Schedule:
    """The times of checkpoints: from `every` on after so many episodes, by default by the clock."""

    def __init__(self, seconds: float, episodes: int, every: int | None) -> None:
        """Begin a run, or resume one that has taken so many seconds for so many episodes."""
        self._every, self._saved = every, episodes
        self._began = time.perf_counter() - seconds
        self._costs = deque([0.0], maxlen=_RECENT)
        self._next = time.perf_counter() + _LEAST

    def again(self) -> "Schedule":
        """Return a schedule for the episodes that are counted from 0 on now, in the same run."""
        return Schedule(time.perf_counter() - self._began, 0, self._every)

    def due(self, episodes: int) -> bool:
        """Return whether a checkpoint is due after so many episodes."""
        if self._every is not None:
            return episodes - self._saved >= self._every
        return time.perf_counter() >= self._next

    def record(self, started: float, episodes: int) -> None:
        """Record a checkpoint after so many episodes, whose writing started then and ends now."""
        now, self._saved = time.perf_counter(), episodes
        self._costs.append(now - started)
        self._next = now + min(max(_LEAST, _SHARE * (now - self._began), _WRITES * min(self._costs)), _MOST)
