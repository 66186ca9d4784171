"""Stored episodes against what is declared: a file may hold what no environment of its run can give."""

from collections.abc import Sequence

import numpy as np

from bidual._base.errors import EnvError
from bidual._base.types import Episode
from bidual.models import AbstractKnowledge
from bidual.world.envs import EXPLODED
from bidual.world.policies import AbstractPolicy, MarkovPolicy

_LARGEST = 1e100  # so that no square overflows
_WHOLE = (np.int32, np.int64)  # narrower numbers would overflow where they are places in a table


def check_episodes(episodes: Sequence[Episode], knowledge: AbstractKnowledge) -> None:
    """Check episodes by what is known before the first; raise `ValueError` where they are none of that run."""
    for episode in episodes:
        _check_steps(episode, knowledge)
        _check_vectors(episode, knowledge)
        _check_signals(episode, knowledge)
    if not episodes or (knowledge.counted is not None and knowledge.observation_size is not None):
        return  # decoders would be fitted, and latents are declared to follow each other in any order
    try:
        knowledge.update(*episodes)
    except EnvError as error:
        raise ValueError(f"an episode contradicts what was declared: {error}") from error


def check_actions(episodes: Sequence[Episode], policy: AbstractPolicy) -> None:
    """Check that a policy whose actions are drawn from a table takes those of episodes; raise `ValueError` if not."""
    if isinstance(policy, MarkovPolicy):
        steps = np.arange(len(policy.table))
        for episode in episodes:
            if not np.all(policy.table[steps, episode.states[:-1], episode.actions] > 0):
                raise ValueError("it has actions that its policy does not take")


def _check_steps(episode: Episode, knowledge: AbstractKnowledge) -> None:
    """Check states and actions, which are 0 where states are vectors, and the one step to learn from."""
    H, S, A = (knowledge.shape[0], 1, 1) if knowledge.controlled is not None else knowledge.shape
    for name, numbers, count, most in (("states", episode.states, H + 1, S), ("actions", episode.actions, H, A)):
        if not (numbers.dtype in _WHOLE and numbers.shape == (count,) and 0 <= numbers.min() <= numbers.max() < most):
            raise ValueError(f"its {name} are not {count} numbers from 0 to {most - 1}")
    if knowledge.counted is not None and not np.all(
        knowledge.counted.counts.support.allowed[episode.states[:-1], episode.actions]
    ):
        raise ValueError("it has actions that its states do not allow")
    if episode.only is not None and not 0 <= episode.only < H:
        raise ValueError(f"it is to be learned from at step {episode.only}")


def _check_vectors(episode: Episode, knowledge: AbstractKnowledge) -> None:
    """Check observations, controls and the end."""
    (H, _, m), size = knowledge.shape, knowledge.observation_size
    controls = m if knowledge.controlled is not None else None
    for name, vectors, count, length in (
        ("observations", episode.observations, H + 1, size),
        ("controls", episode.controls, H, controls),
    ):
        if (vectors is None) != (length is None):
            raise ValueError(f"it has {name}, or has none, unlike others of its run")
        if vectors is not None and not (vectors.shape == (count, length) and _is_finite(vectors)):
            raise ValueError(f"its {name} are not {count} vectors of {length} finite numbers")
        most = EXPLODED if name == "observations" and controls is not None else _LARGEST
        if vectors is not None and not np.all(np.abs(vectors) < most):
            raise ValueError(f"its {name} are not below {most:g}, where episodes end")
    symbols = knowledge.symbols
    if symbols is not None and episode.observations is not None:
        entries = episode.observations
        if not np.all((entries >= 0) & (entries < symbols) & (entries % 1 == 0)):
            raise ValueError(f"its observations are not symbols from 0 to {symbols - 1}")
    if episode.length is not None and not (controls is not None and 0 <= episode.length <= H):
        raise ValueError(f"it ends after {episode.length} of {H} steps")


def _check_signals(episode: Episode, knowledge: AbstractKnowledge) -> None:
    """Check observed signals by their bounds; after the end of an episode they are 0."""
    signals, declared = episode.observed, [one for _, one in knowledge.pieces.observed]
    if not (signals.shape == (knowledge.shape[0], len(declared)) and _is_finite(signals)):
        raise ValueError(f"its signals are not {len(declared)} finite numbers for each of {knowledge.shape[0]} steps")
    low, high = (np.array([getattr(one, end) for one in declared]) for end in ("low", "high"))
    if not np.all((signals == 0) | ((signals >= low) & (signals <= high))):
        raise ValueError("it has a signal outside its bounds")


def _is_finite(array: np.ndarray) -> bool:
    return array.dtype == np.float64 and bool(np.isfinite(array).all())
