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
from bidual.learning.outputs import fresh_episodes
from bidual.learning.runs._schedule import Schedule
from bidual.storage import digest_policy
from bidual.world.envs import AbstractEnvironment
from bidual.world.policies import AbstractPolicy

FILE = "evaluation.bidual"
_KIND = "evaluation"
_LOG = logging.getLogger("bidual.runs")


class _Part(NamedTuple):
    """An array of every episode: the kind of its numbers, how many more than steps it has, and its axes."""

    kind: str
    more: int = 0
    axes: int = 1


_ARRAYS = {
    "states": _Part("i", 1),
    "actions": _Part("i"),
    "observed": _Part("f", 0, 2),
    "observations": _Part("f", 1, 2),
    "controls": _Part("f", 0, 2),
}
_ENDS = {"length": "i", "broken": "b"}  # one of each per episode


@final
class StoredEvaluation:
    """The fresh episodes of one policy at a time, in a file of the run.

    Args:
        folder: the folder of the run.
        guard: translates errors of writing.
        missing: what has vanished of the run, which is reported at its end: nothing is written in its place.
    """

    def __init__(
        self, folder: Path, guard: Callable[[], AbstractContextManager[None]], missing: Callable[[], Path | None]
    ) -> None:
        self._path, self._guard, self._missing = folder / FILE, guard, missing

    def collect(
        self, env: AbstractEnvironment, policy: AbstractPolicy, seed: int, first: int, count: int, schedule: Schedule
    ) -> list[Episode]:
        """Run fresh episodes, or those that are not stored yet; whatever ends this, those that were run are stored."""
        label = {"policy": digest_policy(policy), "seed": seed, "first": first}
        if label["policy"] is None or env.simultaneous >= count:  # nothing tells it from others, or there is no need
            return fresh_episodes(env, policy, seed, first, count)
        episodes = self._read(label, env, count)
        stored = len(episodes)
        try:
            while len(episodes) < count:
                size = min(env.simultaneous, count - len(episodes))
                episodes += fresh_episodes(env, policy, seed, first + len(episodes), size)
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

    def _read(self, label: dict[str, Any], env: AbstractEnvironment, count: int) -> list[Episode]:
        """Return the stored episodes of this evaluation; none where the file is of another, or damaged."""
        if not self._path.exists():
            return []
        try:
            manifest, arrays = archive.read(self._path, _KIND)
            same = all(manifest.get(name) == value for name, value in label.items())
            return _unstack(arrays, env.shape, count) if same else []
        except (ArchiveError, KeyError, ValueError) as error:
            _LOG.warning("the stored episodes of an evaluation cannot be used and are run again: %s", error)
            return []


def _stack(episodes: Sequence[Episode]) -> dict[str, np.ndarray]:
    parts = {name: [getattr(episode, name) for episode in episodes] for name in _ARRAYS}
    arrays = {name: np.stack(part) for name, part in parts.items() if part[0] is not None}
    lengths = [-1 if episode.length is None else episode.length for episode in episodes]
    return arrays | {"length": np.array(lengths), "broken": np.array([episode.broken for episode in episodes])}


def _unstack(arrays: dict[str, np.ndarray], shape: tuple[int, int, int], count: int) -> list[Episode]:
    """Return the first episodes of stacked arrays, of this shape; raise where these are not what they should be."""
    _check_arrays(arrays, shape)
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


def _check_arrays(arrays: dict[str, np.ndarray], shape: tuple[int, int, int]) -> None:
    """Check the kinds of stacked arrays, their sizes, and that states, actions and lengths are such."""
    kinds = {name: part.kind for name, part in _ARRAYS.items()} | _ENDS
    if any(kinds.get(name) != array.dtype.kind or not array.ndim for name, array in arrays.items()):
        raise ValueError("its arrays are not those of episodes")
    if len({len(array) for array in arrays.values()}) != 1 or {"states", "actions", "observed", *_ENDS} - arrays.keys():
        raise ValueError("its arrays are not of the same episodes")
    steps, *most = shape
    for name, part in _ARRAYS.items():
        if name in arrays and (arrays[name].ndim, arrays[name].shape[1]) != (1 + part.axes, steps + part.more):
            raise ValueError(f"its episodes do not have {steps} steps")
    # Where actions are vectors, the shape counts variables and controls, and states and actions are 0.
    limits = {"states": (0, most[0] - 1), "actions": (0, most[1] - 1), "length": (-1, steps)}
    for name, (least, highest) in limits.items():
        if arrays[name].size and not (arrays[name].min() >= least and arrays[name].max() <= highest):
            raise ValueError(f"it has {name} outside {least} to {highest}")
    if any(arrays[name].ndim != 1 for name in _ENDS):
        raise ValueError("its episodes have several ends")
