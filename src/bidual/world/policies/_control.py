"""Policies from state vectors to controls: a controller, and limits that clip its controls."""

import abc
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from jaxtyping import Float

from bidual._base.brief import describe_briefly
from bidual._base.errors import PolicyError
from bidual._base.frames import build_frame
from bidual.world.policies._base import AbstractPolicy, Actor

if TYPE_CHECKING:
    from pandas import DataFrame


class StoredController(NamedTuple):
    """A part of a policy in a file: a JSON header, and arrays by name."""

    header: dict[str, Any]
    arrays: dict[str, np.ndarray]


class AbstractController(abc.ABC):
    """A map from the state at a step to a control; its memory within an episode is passed back to it."""

    @property
    @abc.abstractmethod
    def sizes(self) -> tuple[int, int, int]:
        """(H, n, m): the numbers of steps, of state variables and of controls."""

    @property
    @abc.abstractmethod
    def fingerprint(self) -> bytes:
        """A digest, equal for controllers with the same action on every observation."""

    @property
    @abc.abstractmethod
    def stored(self) -> StoredController:
        """The header and arrays for `bidual.control.read_controller`; functions are not stored."""

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of the signals that it plans with and that are functions, which no file stores; often none."""
        return ()

    def with_texts(self, texts: Mapping[str, str]) -> "AbstractController":
        """Return the controller with texts in the place of such functions."""
        del texts
        return self

    @abc.abstractmethod
    def start(self, rng: np.random.Generator) -> Any:  # noqa: ANN401 - each its own memory
        """Return the memory at the beginning of an episode; all randomness comes from `rng`."""

    @abc.abstractmethod
    def act(self, memory: Any, h: int, s: Float[np.ndarray, "n"]) -> tuple[Float[np.ndarray, "m"], Any]:  # noqa: ANN401
        """Return the control at step h, from 0, in state s, and the memory after it."""


@final
@dataclass(frozen=True, eq=False)
class AffineFeedback(AbstractController):
    """u = u_h + K_h (s - s_h): controls along a nominal path, and gains against deviations from it."""

    __repr__ = describe_briefly

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
        """A digest of its arrays."""
        return blake2b(b"".join(part.tobytes() for part in (self.controls, self.states, self.gains))).digest()

    @property
    def stored(self) -> StoredController:
        """Its arrays."""
        return StoredController(
            {"name": "affine"}, {"controls": self.controls, "states": self.states, "gains": self.gains}
        )

    def start(self, rng: np.random.Generator) -> None:
        """Return None: there is no memory."""
        del rng

    def act(self, memory: None, h: int, s: Float[np.ndarray, "n"]) -> tuple[Float[np.ndarray, "m"], None]:
        """Evaluate the affine law of the step."""
        return self.controls[h] + self.gains[h] @ (s - self.states[h]), memory


@final
@dataclass(frozen=True, eq=False)
class RandomControls(AbstractController):
    """Random controls around the middle of their limits, correlated between neighbouring steps, for first episodes.

    Independent noise would cancel out within a few steps and explore nothing.
    """

    __repr__ = describe_briefly

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
        """A digest of its settings."""
        settings = np.array([self.horizon, self.dimension, self.deviation, self.colour])
        return blake2b(b"random" + settings.tobytes() + self.low.tobytes() + self.high.tobytes()).digest()

    @property
    def stored(self) -> StoredController:
        """Its settings."""
        settings = {"horizon": self.horizon, "dimension": self.dimension}
        shape = {"deviation": float(self.deviation), "colour": float(self.colour)}
        return StoredController({"name": "random"} | settings | shape, {"low": self.low, "high": self.high})

    def start(self, rng: np.random.Generator) -> Float[np.ndarray, "H m"]:
        """Draw all controls of the episode: first-order autoregressive noise of constant variance."""
        noise = rng.standard_normal((self.horizon, self.low.size))
        noise[1:] *= np.sqrt(1 - self.colour**2)
        for h in range(1, self.horizon):
            noise[h] += self.colour * noise[h - 1]
        return (self.low + self.high) / 2 + self.deviation * (self.high - self.low) / 2 * noise

    def act(
        self, memory: Float[np.ndarray, "H m"], h: int, s: Float[np.ndarray, "n"]
    ) -> tuple[Float[np.ndarray, "m"], Float[np.ndarray, "H m"]]:
        """Return the control of the step, whatever the state."""
        del s
        return memory[h], memory


@final
@dataclass(frozen=True, eq=False)
class ControlPolicy(AbstractPolicy):
    """A controller with its controls clipped to limits.

    With `discrete` an action is a number from 0 on: that of the largest control.
    """

    controller: AbstractController
    low: Float[np.ndarray, "m"]
    high: Float[np.ndarray, "m"]
    discrete: bool = False

    @property
    def shape(self) -> tuple[int, int, int]:
        """(H, n, m): steps, state variables, controls."""
        return self.controller.sizes

    @cached_property
    def fingerprint(self) -> bytes:
        """A digest, equal for policies with the same action on every observation."""
        limits = self.low.tobytes() + self.high.tobytes() + bytes([self.discrete])
        return blake2b(self.controller.fingerprint + limits).digest()

    def reset(self, rng: np.random.Generator | int | None = None) -> Actor:
        """Start an episode; its actor takes vectors."""
        H, n, _ = self.shape

        def choose(h: int, s: Float[np.ndarray, "n"], memory: Any) -> tuple[Any, Any]:  # noqa: ANN401
            control, memory = self.controller.act(memory, h, s)
            return int(np.argmax(control)) if self.discrete else np.clip(control, self.low, self.high), memory

        memory = self.controller.start(np.random.default_rng(rng))
        return Actor(choose, memory, H, n, lambda _, observation: self._to_vector(observation))

    @property
    def observation_size(self) -> int:
        """The number of entries of an observation."""
        return self.shape[1]

    def most_likely(self) -> "ControlPolicy":
        """Return the policy itself: a controller that samples its plans has no likeliest one, and a seed repeats it."""
        return self

    def to_frame(self) -> "DataFrame":
        """Return a frame of pandas with a row for every step and control of an affine law.

        The control is ``nominal`` plus the sum over i of ``gain_i`` times (entry i of the observation less ``at_i``).
        """
        law = self.controller
        if not isinstance(law, AffineFeedback):
            raise PolicyError(
                f"a {type(law).__name__} finds its controls as it goes, and is no table: learn with "
                "execution=bd.control.Feedback() for one"
            )
        steps, controls = (index.ravel() for index in np.indices(law.controls.shape))
        columns = {"step": steps, "control": controls, "nominal": law.controls.ravel()}
        columns |= {f"at_{i}": law.states[steps, i] for i in range(law.states.shape[1])}
        columns |= {f"gain_{i}": law.gains[steps, controls, i] for i in range(law.states.shape[1])}
        return build_frame(columns)

    def save(self, path: str | os.PathLike[str], signals: Mapping[str, str] | None = None) -> None:
        """Write controller and limits to one file, for `bd.load`.

        Args:
            path: the file.
            signals: the signals that it plans with and that are functions, which no file stores, by name: each as text
                of the same values. Those left out of ``{}`` or another dictionary have to be given to `bd.load`.
        """
        from bidual.world.policies._stored_controls import store_as_texts, write_controls

        write_controls(store_as_texts((self,), signals), np.ones(1), path)

    def _to_vector(self, observation: Any) -> Float[np.ndarray, "n"]:  # noqa: ANN401 - any observation
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
