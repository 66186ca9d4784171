"""Batches of observations, as vectors of environments give them: one observation for each along the first axis."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bidual._base.errors import PolicyError


def split_batch(observation: Any, count: int) -> list[Any]:  # noqa: ANN401 - whatever a policy reads
    """Split a batch into as many observations as there are environments; dictionaries and tuples entry by entry."""
    if isinstance(observation, Mapping):
        entries = {key: split_batch(part, count) for key, part in observation.items()}
        return [{key: parts[i] for key, parts in entries.items()} for i in range(count)]
    if isinstance(observation, tuple):
        columns = [split_batch(part, count) for part in observation]
        return list(zip(*columns, strict=True))
    length = len(observation) if np.ndim(observation) else None
    if length != count:
        got = "a single one" if length is None else f"one for {length}"
        raise PolicyError(
            f"expected a batch of observations for {count} environments, one along the first axis for each; got {got}: "
            "give observation, state and episode_start of the same environments"
        )
    return [observation[i] for i in range(count)]


def count_batch(observation: Any, size: int | None) -> int | None:  # noqa: ANN401
    """Return the number of observations in a batch, None for a single one, where nothing else tells.

    `size` is the number of entries of an observation that is a vector; None where it is a single number.
    """
    if isinstance(observation, Mapping | tuple):
        return None
    shape = np.shape(observation)
    if not shape:
        return None
    if size is None:
        return shape[0]
    return shape[0] if len(shape) > 1 and shape[0] * size == int(np.prod(shape)) else None
