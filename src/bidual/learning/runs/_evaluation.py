"""The evaluation of a policy, stored on the way: for slow environments it is a quarter of a run, or more."""

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from bidual._base import archive
from bidual._base.errors import ArchiveError, RunError
from bidual._base.types import Episode
from bidual.learning.folder import EVALUATION
from bidual.learning.outputs import run_fresh_episodes
from bidual.learning.runs._checkpoints import Schedule
from bidual.learning.runs._episodes import check_actions, check_episodes
from bidual.models import AbstractKnowledge
from bidual.storage import digest_policy
from bidual.world.envs import AbstractEnvironment
from bidual.world.policies import AbstractPolicy

_KIND = "evaluation"
_LOG = logging.getLogger("bidual.runs")


class _Part(NamedTuple):
    """An array of every episode, stacked: the kind of its numbers, and its axes."""

    kind: str
    axes: int


_ARRAYS = {
    "states": _Part("i", 2),
    "actions": _Part("i", 2),
    "observed": _Part("f", 3),
    "observations": _Part("f", 3),
    "controls": _Part("f", 3),
}
_ENDS = {"length": "i", "broken": "b"}  # one of each per episode


@final
class StoredEvaluation:
    """The fresh episodes of one policy at a time, in a file of the run.

    Args:
        folder: the folder of the run.
        guard: translates errors of writing.
        missing: what has vanished of the run, which is reported at its end: nothing is written in its place.
        beginning: what was known before the first episode, which stored ones must not contradict.
    """

    def __init__(
        self,
        folder: Path,
        guard: Callable[[], AbstractContextManager[None]],
        missing: Callable[[], Path | None],
        beginning: AbstractKnowledge,
    ) -> None:
        self._path, self._guard, self._missing, self._beginning = folder / EVALUATION, guard, missing, beginning

    def collect(
        self, env: AbstractEnvironment, policy: AbstractPolicy, seed: int, first: int, count: int, schedule: Schedule
    ) -> list[Episode]:
        """Run fresh episodes, or those that are not stored yet; whatever ends this, those that were run are stored."""
        label = {"policy": digest_policy(policy), "seed": seed, "first": first}
        grows = env.numbering is not None and env.numbering.grows  # numbers are given in the order of episodes
        if label["policy"] is None or grows or env.simultaneous >= count:  # others look like it, or there is no need
            return run_fresh_episodes(env, policy, seed, first, count)
        episodes = self._read(label, policy, count)
        stored = len(episodes)
        try:
            while len(episodes) < count:
                size = min(env.simultaneous, count - len(episodes))
                episodes += run_fresh_episodes(env, policy, seed, first + len(episodes), size)
                if schedule.due(len(episodes)):
                    stored = self._write(label, episodes, schedule)
        except RunError:  # that of writing: trying it again helps nobody
            raise
        except BaseException:
            if len(episodes) > stored:
                self._write_last(label, episodes, schedule)
            raise
        return episodes

    def remove(self) -> None:
        """Remove the file: the solution holds what it was for."""
        self._path.unlink(missing_ok=True)

    def _write(self, label: dict[str, Any], episodes: Sequence[Episode], schedule: Schedule) -> int:
        started = time.perf_counter()
        with self._guard():
            if self._missing() is None:
                archive.write(self._path, _KIND, label, _stack(episodes))
        schedule.record(started, len(episodes))
        return len(episodes)

    def _write_last(self, label: dict[str, Any], episodes: Sequence[Episode], schedule: Schedule) -> None:
        """Write what there is at an end, which stays what it was where that fails."""
        try:
            self._write(label, episodes, schedule)
        except RunError as error:
            _LOG.warning("the last episodes of an evaluation are lost, and will be run again: %s", error)

    def _read(self, label: dict[str, Any], policy: AbstractPolicy, count: int) -> list[Episode]:
        """Return the stored episodes of this evaluation; none where the file is of another, or damaged."""
        try:
            if not self._path.exists():
                return []
            manifest, arrays = archive.read(self._path, _KIND)
            if not all(manifest.get(name) == value for name, value in label.items()):
                return []
            episodes = _unstack(arrays, count)
            check_episodes(episodes, self._beginning)
            check_actions(episodes, policy)
            return episodes
        except (ArchiveError, OSError, ValueError) as error:
            _LOG.warning("the stored episodes of an evaluation cannot be used and are run again: %s", error)
            return []


def _stack(episodes: Sequence[Episode]) -> dict[str, np.ndarray]:
    parts = {name: [getattr(episode, name) for episode in episodes] for name in _ARRAYS}
    arrays = {name: np.stack(part) for name, part in parts.items() if part[0] is not None}
    lengths = [-1 if episode.length is None else episode.length for episode in episodes]
    return arrays | {"length": np.array(lengths), "broken": np.array([episode.broken for episode in episodes])}


def _unstack(arrays: dict[str, np.ndarray], count: int) -> list[Episode]:
    """Return the first episodes of stacked arrays; raise `ValueError` where these are none."""
    _check_arrays(arrays)
    arrays = {name: array[:count] for name, array in arrays.items()}  # a small file may hold a million short ones
    ends = zip(arrays["length"].tolist(), arrays["broken"].tolist(), strict=True)
    return [
        Episode(
            **{name: arrays[name][number] for name in _ARRAYS if name in arrays},
            length=None if length < 0 else length,
            broken=broken,
        )
        for number, (length, broken) in enumerate(ends)
    ]


def _check_arrays(arrays: dict[str, np.ndarray]) -> None:
    """Check that stacked arrays are those of the same episodes, before these are taken apart."""
    axes = {name: part.axes for name, part in _ARRAYS.items()} | dict.fromkeys(_ENDS, 1)
    kinds = {name: part.kind for name, part in _ARRAYS.items()} | _ENDS
    if any((kinds.get(name), axes.get(name)) != (array.dtype.kind, array.ndim) for name, array in arrays.items()):
        raise ValueError("its arrays are not those of episodes")
    if len({len(array) for array in arrays.values()}) != 1 or {"states", "actions", "observed", *_ENDS} - arrays.keys():
        raise ValueError("its arrays are not of the same episodes")
