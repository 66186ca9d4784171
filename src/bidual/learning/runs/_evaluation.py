"""The evaluation of a policy, stored on the way: for slow environments it is a quarter of a run, or more."""

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, final

import numpy as np

from bidual._base import archive
from bidual._base.errors import ArchiveError
from bidual._base.types import Episode
from bidual.learning.outputs import fresh_episodes
from bidual.learning.runs._schedule import Schedule
from bidual.storage import digest_policy
from bidual.world.envs import AbstractEnvironment
from bidual.world.policies import AbstractPolicy

FILE = "evaluation.bidual"
_KIND = "evaluation"
_ARRAYS = {"states": "i", "actions": "i", "observed": "f", "observations": "f", "controls": "f"}  # kinds of numbers
_LOG = logging.getLogger("bidual")


@final
class StoredEvaluation:
    """The fresh episodes of one policy at a time, in a file of the run; `guard` translates errors of writing."""

    def __init__(self, folder: Path, guard: Callable[[], AbstractContextManager[None]]) -> None:
        self._path, self._guard = folder / FILE, guard

    def collect(
        self, env: AbstractEnvironment, policy: AbstractPolicy, seed: int, first: int, count: int, schedule: Schedule
    ) -> list[Episode]:
        """Run fresh episodes, or those that are not stored yet; whatever ends this, those that were run are stored."""
        label = {"policy": digest_policy(policy), "seed": seed, "first": first}
        if label["policy"] is None or env.simultaneous >= count:  # nothing tells it from others, or there is no need
            return fresh_episodes(env, policy, seed, first, count)
        episodes = self._read(label, env.shape[0])[:count]
        stored = len(episodes)
        try:
            while len(episodes) < count:
                size = min(env.simultaneous, count - len(episodes))
                episodes += fresh_episodes(env, policy, seed, first + len(episodes), size)
                if schedule.due(len(episodes)):
                    stored = self._write(label, episodes, schedule)
        except BaseException:
            if len(episodes) > stored:
                self._write(label, episodes, schedule)
            raise
        return episodes

    def remove(self) -> None:
        """Remove the file: the solution holds what it was for."""
        self._path.unlink(missing_ok=True)

    def _write(self, label: dict[str, Any], episodes: Sequence[Episode], schedule: Schedule) -> int:
        started = time.perf_counter()
        with self._guard():
            archive.write(self._path, _KIND, label, _stack(episodes))
        schedule.record(started, len(episodes))
        return len(episodes)

    def _read(self, label: dict[str, Any], steps: int) -> list[Episode]:
        """Return the stored episodes of this evaluation; none where the file is of another, or damaged."""
        if not self._path.exists():
            return []
        try:
            manifest, arrays = archive.read(self._path, _KIND)
            same = all(manifest.get(name) == value for name, value in label.items())
            return _unstack(arrays, steps) if same else []
        except (ArchiveError, KeyError, ValueError) as error:
            _LOG.warning("the stored episodes of an evaluation cannot be used and are run again: %s", error)
            return []


def _stack(episodes: Sequence[Episode]) -> dict[str, np.ndarray]:
    parts = {name: [getattr(episode, name) for episode in episodes] for name in _ARRAYS}
    arrays = {name: np.stack(part) for name, part in parts.items() if part[0] is not None}
    lengths = [-1 if episode.length is None else episode.length for episode in episodes]
    return arrays | {"length": np.array(lengths), "broken": np.array([episode.broken for episode in episodes])}


def _unstack(arrays: dict[str, np.ndarray], steps: int) -> list[Episode]:
    """Return the episodes of stacked arrays, of so many steps each; raise where these are not what they should be."""
    known = _ARRAYS | {"length": "i", "broken": "b"}
    if any(name not in known or array.dtype.kind != known[name] for name, array in arrays.items()):
        raise ValueError("its arrays are not those of episodes")
    if len({len(array) for array in arrays.values()}) != 1 or {"states", "actions", "observed"} - arrays.keys():
        raise ValueError("its arrays are not of the same episodes")
    if arrays["states"].shape[1:] != (steps + 1,) or arrays["actions"].shape[1:] != (steps,):
        raise ValueError(f"its episodes do not have {steps} steps")
    ends = zip(arrays["length"].tolist(), arrays["broken"].tolist(), strict=True)
    return [
        Episode(
            **{name: arrays[name][number] for name in _ARRAYS if name in arrays},
            length=None if length < 0 else length,
            broken=broken,
        )
        for number, (length, broken) in enumerate(ends)
    ]
