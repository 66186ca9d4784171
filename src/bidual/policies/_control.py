"""Policies that read vectors and answer with controls: a controller, and the limits it is held to."""

import abc
import os
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float

from bidual._errors import PolicyError
from bidual.policies._base import AbstractPolicy, Actor


class Stored(NamedTuple):
    """A part of a policy in a file: JSON values, and arrays by name."""

    words: dict[str, Any]
    arrays: dict[str, np.ndarray]


class AbstractController(abc.ABC):
    """From the state at a step to a control; what it remembers within an episode is handed back to it."""

    @property
    @abc.abstractmethod
    def sizes(self) -> tuple[int, int, int]:
        """(H, n, m): how many steps, numbers to read and controls to set."""

    @property
    @abc.abstractmethod
    def fingerprint(self) -> bytes:
        """The same for controllers that act alike on every observation."""

    @property
    @abc.abstractmethod
    def stored(self) -> Stored:
        """What `bidual.control.read_controller` makes it of again; functions are not stored."""

    @abc.abstractmethod
    def start(self, rng: np.random.Generator) -> Any:  # noqa: ANN401 - each its own memory
        """The memory at the beginning of an episode; all randomness comes from `rng`."""

    @abc.abstractmethod
    def act(self, memory: Any, h: int, s: Float[np.ndarray, "n"]) -> tuple[Float[np.ndarray, "m"], Any]:  # noqa: ANN401
        """The control at step h, from 0, in state s, and the memory after it."""


@final
@dataclass(frozen=True, eq=False)
class AffineFeedback(AbstractController):
    """u = u_h + K_h (s - s_h): controls along a nominal path, and gains against what leads away from it."""

    controls: Float[np.ndarray, "H m"]
    states: Float[np.ndarray, "H n"]
    gains: Float[np.ndarray, "H m n"]

    @property
    def sizes(self) -> tuple[int, int, int]:
        """(H, n, m)."""
        H, m, n = self.gains.shape
        return H, n, m

    @property
    def fingerprint(self) -> bytes:
        """Of its numbers."""
        return blake2b(b"".join(part.tobytes() for part in (self.controls, self.states, self.gains))).digest()

    @property
    def stored(self) -> Stored:
        """All of it."""
        return Stored({"name": "affine"}, {"controls": self.controls, "states": self.states, "gains": self.gains})

    def start(self, rng: np.random.Generator) -> None:
        """Nothing to remember."""
        del rng

    def act(self, memory: None, h: int, s: Float[np.ndarray, "n"]) -> tuple[Float[np.ndarray, "m"], None]:
        """The affine law of the step."""
        return self.controls[h] + self.gains[h] @ (s - self.states[h]), memory


@final
@dataclass(frozen=True, eq=False)
class RandomControls(AbstractController):
    """Controls at random around the middle of their limits, alike at neighbouring steps: to begin with.

    Independent noise would cancel itself out within a few steps and lead nowhere.
    """

    horizon: int
    dimension: int
    low: Float[np.ndarray, "m"]
    high: Float[np.ndarray, "m"]
    deviation: float = 0.5  # in halves of the range
    colour: float = 0.9  # the correlation of neighbouring steps

    @property
    def sizes(self) -> tuple[int, int, int]:
        """(H, n, m)."""
        return self.horizon, self.dimension, self.low.size

    @property
    def fingerprint(self) -> bytes:
        """Of its settings."""
        settings = np.array([self.horizon, self.dimension, self.deviation, self.colour])
        return blake2b(b"random" + settings.tobytes() + self.low.tobytes() + self.high.tobytes()).digest()

    @property
    def stored(self) -> Stored:
        """Its settings."""
        settings = {"horizon": self.horizon, "dimension": self.dimension}
        shape = {"deviation": float(self.deviation), "colour": float(self.colour)}
        return Stored({"name": "random"} | settings | shape, {"low": self.low, "high": self.high})

    def start(self, rng: np.random.Generator) -> Float[np.ndarray, "H m"]:
        """All controls of the episode: first-order autoregressive noise of constant variance."""
        noise = rng.standard_normal((self.horizon, self.low.size))
        noise[1:] *= np.sqrt(1 - self.colour**2)
        for h in range(1, self.horizon):
            noise[h] += self.colour * noise[h - 1]
        return (self.low + self.high) / 2 + self.deviation * (self.high - self.low) / 2 * noise

    def act(
        self, memory: Float[np.ndarray, "H m"], h: int, s: Float[np.ndarray, "n"]
    ) -> tuple[Float[np.ndarray, "m"], Float[np.ndarray, "H m"]]:
        """That of the step, whatever the state."""
        del s
        return memory[h], memory


@final
@dataclass(frozen=True, eq=False)
class ControlPolicy(AbstractPolicy):
    """A controller whose controls are kept within limits.

    With `discrete` an action is a number from 0 on: that of the largest control.
    """

    controller: AbstractController
    low: Float[np.ndarray, "m"]
    high: Float[np.ndarray, "m"]
    discrete: bool = False

    @property
    def shape(self) -> tuple[int, int, int]:
        """(H, n, m): steps, numbers to read, controls."""
        return self.controller.sizes

    @cached_property
    def fingerprint(self) -> bytes:
        """The same for policies that act alike on every observation."""
        limits = self.low.tobytes() + self.high.tobytes() + bytes([self.discrete])
        return blake2b(self.controller.fingerprint + limits).digest()

    def reset(self, rng: np.random.Generator | int | None = None) -> Actor:
        """Start an episode; its actor takes vectors."""
        H, n, _ = self.shape
        memory = self.controller.start(np.random.default_rng(rng))

        def choose(h: int, s: Float[np.ndarray, "n"]) -> Any:  # noqa: ANN401
            nonlocal memory
            control, memory = self.controller.act(memory, h, s)
            return int(np.argmax(control)) if self.discrete else np.clip(control, self.low, self.high)

        return Actor(choose, H, n, lambda _, observation: self._vector(observation))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write controller and limits to one file, for `bd.load`; signals that it plans with are named, not stored."""
        from bidual.policies._control_files import write_controls

        write_controls((self,), np.ones(1), path)

    def _vector(self, observation: Any) -> Float[np.ndarray, "n"]:  # noqa: ANN401 - whatever an environment shows
        try:
            vector = np.asarray(observation, dtype=np.float64).reshape(-1)
        except (TypeError, ValueError):
            raise PolicyError(f"observation {observation!r:.80} is no vector of numbers") from None
        if vector.size != self.shape[1]:
            raise PolicyError(f"an observation has {vector.size} numbers, the policy reads {self.shape[1]}")
        return vector

    def __repr__(self) -> str:
        H, n, m = self.shape
        kind = type(self.controller).__name__
        return f"ControlPolicy({kind}: {H} steps, {n} numbers to read, {m} controls)"
