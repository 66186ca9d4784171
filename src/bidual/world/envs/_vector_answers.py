"""Answers of vectors of environments to a step, taken apart: what one copy showed, and its info."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from bidual._base.errors import EnvError
from bidual.world.envs._calls import CallResult, CallSite, read_step


class BatchAnswers(NamedTuple):
    """The batch that a step of all copies returns."""

    observations: Any
    rewards: Any
    terminated: Any
    truncated: Any
    infos: dict[str, Any]
    same_step: bool

    def at(self, i: int, action: int, moment: CallSite) -> CallResult:
        """Return the checked answer of copy i: where it began anew at once, what it showed before."""
        info, obs = _info_at(self.infos, i), self.observations[i]
        over = bool(self.terminated[i]) or bool(self.truncated[i])
        if self.same_step and over:
            obs, info = info["final_obs"], info.get("final_info", {})
        return read_step((obs, self.rewards[i], self.terminated[i], self.truncated[i], info), action, moment)


class _Info(dict[str, Any]):
    """The info of one copy. Whole numbers are refused when they are read.

    Gymnasium merges the entries of all copies into an array of the type that the first copy has: where that is int, as
    after a reset, it drops the digits of the others.
    """

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401
        value = super().__getitem__(key)
        if isinstance(value, np.integer):
            raise EnvError(
                f"info[{key!r}] is a whole number, and a vector of environments drops the digits of others when one "
                "copy gives a whole number: let the environment give float(...) at every reset and step, or learn in "
                "a single environment"
            )
        return value

    def get(self, key: str, default: object = None) -> Any:  # noqa: ANN401
        return self[key] if key in self else default  # noqa: SIM401 - it would call itself


def _info_at(infos: Mapping[str, Any], i: int) -> _Info:
    """Return the info of copy i: an entry is one of those that a mask of the same name with an underscore marks."""
    found = _Info()
    for key, values in infos.items():
        mask = infos.get(f"_{key}")
        if mask is None or not np.asarray(mask)[i]:
            continue
        found[key] = _info_at(values, i) if isinstance(values, Mapping) else values[i]
    return found
