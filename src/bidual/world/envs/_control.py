"""Gymnasium environments with vector observations and controls, for policies that are controllers.

An episode has H steps in any case. After its end (terminated, or stopped because a number was not finite) every signal
is 0, the state is constant, and no step is learned from.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, final

import jax
import numpy as np
from jaxtyping import Array, Float

from bidual._base.brief import describe_briefly
from bidual._base.errors import EnvError, PolicyError
from bidual._base.keys import Draw
from bidual._base.types import DeviceArray, Episode, float64
from bidual.problem.features import Computed
from bidual.world.envs._base import AbstractEnvironment, check_policy
from bidual.world.envs._calls import CallSite, Playable, call_reset, call_step
from bidual.world.envs._opening import check_count, open_env
from bidual.world.policies import AbstractPolicy, ControlPolicy, Mixture

if TYPE_CHECKING:
    from gymnasium import Env

EXPLODED = 1e8  # limit of observations: an episode is stopped before it overflows


@final
@dataclass(frozen=True, eq=False)
class ControlEnvironment(AbstractEnvironment):
    """A Gymnasium environment for H steps; constructed by `control_environment`.

    With `discrete` actions there are as many controls as actions: that of the action taken is 1, the others are 0.
    """

    __repr__ = describe_briefly

    env: Playable
    horizon: int
    space: tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]  # the limits of observations
    low: Float[np.ndarray, "m"]
    high: Float[np.ndarray, "m"]
    discrete: bool
    first_action: int
    features: Computed | None

    @property
    def dimension(self) -> int:
        """The length of an observation."""
        return self.space[0].size

    @property
    def shape(self) -> tuple[int, int, int]:
        """(H, n, m): steps, state variables, controls."""
        return self.horizon, self.dimension, self.low.size

    def with_features(self, features: Computed) -> "ControlEnvironment":
        """Return the same environment with other signals."""
        return replace(self, features=features)

    def collect(self, policy: AbstractPolicy, draw: Draw) -> Episode:
        """Run one episode; the environment and the policy get seeds of their own."""
        check_policy(policy, self.shape)
        _check_controls(policy)
        H, n, m = self.shape
        observations, controls = np.zeros((H + 1, n)), np.zeros((H, m))
        seed, whim = draw.integers()
        actor, moment = policy.reset(whim), CallSite(0, H, draw.number)
        start = self._to_vector(call_reset(self.env, seed, moment), moment)
        if start is None:
            raise EnvError(f"the environment began with numbers that are not finite at {moment}: correct it")
        observations[0], length, broken = start, H, False
        for h in range(H):
            moment = CallSite(h + 1, H, draw.number)
            action = actor.act_in(observations[h])
            controls[h] = np.eye(m)[action] if self.discrete else action
            answer = call_step(self.env, self._to_raw(action), moment)
            arrived = self._to_vector(answer.obs, moment)
            observations[h + 1] = observations[h] if arrived is None else arrived
            if arrived is None or answer.terminated:
                # A step without a finite next state is not part of the episode.
                length, broken = h + (arrived is not None), arrived is None
                observations[h + 2 :] = observations[h + 1]
                break
        return self._make_episode(observations, controls, length, broken)

    def _make_episode(
        self,
        observations: Float[np.ndarray, "arrivals n"],
        controls: Float[np.ndarray, "H m"],
        length: int,
        broken: bool,
    ) -> Episode:
        """Build the episode with the signals of its transitions, 0 after its end."""
        H = len(controls)
        signals = np.zeros((H, 0))
        if self.features is not None:
            signals = np.array(_compute_signals(self.features, observations, controls))
            signals[length:] = 0.0
            self._check_signals(signals)
        nowhere = np.zeros(H + 1, dtype=np.int32)  # there are no states to count
        return Episode(
            nowhere, nowhere[1:], signals, observations=observations, controls=controls, length=length, broken=broken
        )

    def _check_signals(self, signals: Float[np.ndarray, "H p"]) -> None:
        for h, i in np.argwhere(~np.isfinite(signals))[:1]:
            assert self.features is not None
            name = next(one.name for one in reversed(self.features.parts) if one.position <= i)
            raise EnvError(
                f"signal {name!r} is {signals[h, i]} at step {h + 1}, where all numbers it is a function of are "
                "finite: correct the function"
            )

    def _to_raw(self, action: Any) -> Any:  # noqa: ANN401 - an action of the environment
        if self.discrete:
            return int(action) + self.first_action
        space = self.env.action_space  # pyright: ignore[reportAttributeAccessIssue]: checked when it was opened
        return np.asarray(action, dtype=space.dtype).reshape(space.shape)

    def _to_vector(self, obs: object, moment: CallSite) -> Float[np.ndarray, "n"] | None:
        """Convert an observation to a vector; return None where it is not finite, or too large."""
        try:
            vector = np.asarray(obs, dtype=np.float64).reshape(-1)
        except (TypeError, ValueError):
            raise EnvError(f"the environment gave {obs!r:.80} at {moment}: it must be numbers") from None
        if vector.size != self.dimension:
            raise EnvError(
                f"the environment gave {vector.size} numbers at {moment}: its observation space says "
                f"{self.dimension}; correct the environment"
            )
        return vector if np.all(np.abs(vector) < EXPLODED) else None  # NaN is not below anything

    def close(self) -> None:
        """Close the environment, and its windows if it has any."""
        self.env.close()


def control_environment(
    env: "Env[Any, Any] | str | Callable[[], Env[Any, Any]]",
    horizon: int,
    features: Computed | None = None,
    *,
    options: Mapping[str, object] | None = None,
) -> ControlEnvironment:
    """Open an environment with vector observations and controls, to learn from.

    Args:
        env: a Gymnasium environment with Box observations and a Box or Discrete action space, its name, or a function
            that makes it.
        horizon: the number of steps H of an episode.
        features: the signals of every step.
        options: arguments of ``gymnasium.make`` for an environment given by name.
    """
    horizon, opened = check_count("horizon", horizon), open_env(env, options or {})
    low, high, discrete, first = _read_controls(opened)
    return ControlEnvironment(opened, horizon, _read_space(opened), low, high, discrete, first, features)


def _read_space(env: Playable) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
    """Read the bounds of the observations, which must be a Box of numbers."""
    from gymnasium.spaces import Box

    space = getattr(env, "observation_space", None)
    if not isinstance(space, Box):
        raise EnvError(
            f"the observation space is {space}, not a Box of numbers: wrap it "
            "(gymnasium.wrappers.FlattenObservation), or learn Discrete observations with bd.models.Tabular()"
        )
    low, high = (np.asarray(end, dtype=np.float64).reshape(-1) for end in (space.low, space.high))
    # Some environments declare the largest float where they mean that there is no limit.
    return np.where(low > -EXPLODED, low, -np.inf), np.where(high < EXPLODED, high, np.inf)


def _read_controls(env: Playable) -> tuple[Float[np.ndarray, "m"], Float[np.ndarray, "m"], bool, int]:
    """Read the limits of every control, whether they stand for numbered actions, and the first of these."""
    from gymnasium.spaces import Box, Discrete

    space = getattr(env, "action_space", None)
    if isinstance(space, Discrete):
        return np.zeros(int(space.n)), np.ones(int(space.n)), True, int(space.start)
    if not isinstance(space, Box):
        raise EnvError(f"the action space must be a Box or Discrete; it is {space}: wrap the environment")
    low, high = (np.asarray(end, dtype=np.float64).reshape(-1) for end in (space.low, space.high))
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise EnvError(
            f"the action space {space} has no bounds: controls are sampled between them; declare some, for example "
            "with gymnasium.wrappers.RescaleAction"
        )
    return low, high, False, 0


def _check_controls(policy: AbstractPolicy) -> None:
    for member in policy.members if isinstance(policy, Mixture) else (policy,):
        if not isinstance(member, ControlPolicy):
            raise PolicyError(
                f"the environment takes controls, but a {type(member).__name__} chooses among numbered actions: run a "
                "policy that was learned with bd.models.KNR"
            )


@float64
def _compute_signals(
    features: Computed, observations: Float[np.ndarray, "arrivals n"], controls: Float[np.ndarray, "H m"]
) -> Float[np.ndarray, "H p"]:
    return np.asarray(_map_signals(features, observations[:-1], controls, observations[1:]))


@partial(jax.jit, static_argnums=0)
def _map_signals(
    features: Computed, s: Float[DeviceArray, "H n"], u: Float[DeviceArray, "H m"], then: Float[DeviceArray, "H n"]
) -> Float[Array, "H p"]:
    """Compute the signals of all steps at once; compiled once for every problem."""
    return jax.vmap(features.values)(s, u, then)
