"""Gymnasium environments with vector observations, for policies that decode them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from jaxtyping import Bool, Float

from bidual._base.brief import describe_briefly
from bidual._base.errors import EnvError, PolicyError
from bidual._base.keys import Draw
from bidual._base.types import Episode
from bidual.problem.features import Observed
from bidual.world.envs._base import AbstractEnvironment, check_policy
from bidual.world.envs._calls import CallSite, Playable, call_reset, call_step
from bidual.world.envs._opening import check_count, number_actions, open_env
from bidual.world.envs._readings import Reading, Step, read_signature
from bidual.world.policies import AbstractPolicy, Actor, DecodedPolicy, Mixture

if TYPE_CHECKING:
    from gymnasium import Env


@final
@dataclass(frozen=True, eq=False)
class RichEnvironment(AbstractEnvironment):
    """A Gymnasium environment for H steps with D-dimensional observations; constructed by `rich_environment`.

    Its states are the latents of its policies, one more that nothing is ever decoded to, and at the end one where a
    terminated episode stays until the horizon, with action 0, every signal 0, and zeros as observations.
    """

    __repr__ = describe_briefly

    env: Playable
    horizon: int
    num_actions: int
    first_action: int
    num_states: int
    dimension: int
    symbols: int | None  # number of values of an entry, where it is one of finitely many
    readings: tuple[Reading, ...]

    @property
    def shape(self) -> tuple[int, int, int]:
        """(H, S, A), with the added states."""
        return self.horizon, self.num_states, self.num_actions

    @property
    def absorbing(self) -> Bool[np.ndarray, "S"]:
        """A mask of the last state."""
        return np.arange(self.num_states) == self.num_states - 1

    @property
    def allowed(self) -> Bool[np.ndarray, "S A"]:
        """All actions, but only action 0 after the end."""
        return ~self.absorbing[:, None] | (np.arange(self.num_actions) == 0)

    def with_signals(self, observed: Sequence[tuple[str, Observed]]) -> "RichEnvironment":
        """Return the same environment with other observed signals."""
        return replace(self, readings=tuple(read_signature(name, signal) for name, signal in observed))

    def collect(self, policy: AbstractPolicy, draw: Draw) -> Episode:
        """Run one episode; the environment and the policy get seeds of their own."""
        check_policy(policy, self.shape)
        _check_reads(policy, self.dimension)
        H, S, _ = self.shape
        states, actions = np.full(H + 1, S - 1, dtype=np.int32), np.zeros(H, dtype=np.int32)
        observed, observations = np.zeros((H, len(self.readings))), np.zeros((H + 1, self.dimension))
        seed, whim = draw.integers()
        actor, moment = policy.reset(whim), CallSite(0, H, draw.number)
        obs = call_reset(self.env, seed, moment)
        observations[0] = self._to_vector(obs, moment)
        states[0] = actor.state(observations[0])
        for h in range(H):
            moment = CallSite(h + 1, H, draw.number)
            action = self._choose_action(actor, int(states[h]), moment)
            answer = call_step(self.env, action + self.first_action, moment)
            actions[h] = action
            if not answer.terminated:
                observations[h + 1] = self._to_vector(answer.obs, moment)
                states[h + 1] = actor.state(observations[h + 1])
            raw, now, then = action + self.first_action, int(states[h]), int(states[h + 1])
            step = Step(obs, raw, answer.obs, answer.reward, answer.terminated, answer.info, now, then)
            observed[h] = [signal.read(step, moment) for signal in self.readings]
            if answer.terminated:
                break
            obs = answer.obs
        return Episode(states, actions, observed, observations=observations)

    def _choose_action(self, actor: Actor, state: int, moment: CallSite) -> int:
        action = actor.act_in(state)
        if not 0 <= action < self.num_actions:
            raise PolicyError(
                f"the policy takes action {action} at {moment}; actions are 0 to {self.num_actions - 1}: "
                "correct the policy's table"
            )
        return action

    def _to_vector(self, obs: object, moment: CallSite) -> Float[np.ndarray, "D"]:
        """Convert an observation to numbers; raise `EnvError` for others than the space declares."""
        try:
            vector = np.asarray(obs, dtype=np.float64).reshape(-1)
        except (TypeError, ValueError):
            raise EnvError(
                f"the environment gave the observation {obs!r:.80} at {moment}: it must be numbers"
            ) from None
        if vector.size != self.dimension or not np.isfinite(vector).all():
            raise EnvError(
                f"the environment gave the observation {obs!r:.80} at {moment}: it must be {self.dimension} finite "
                "numbers, as its observation space says; correct the environment"
            )
        if self.symbols is not None and not (
            np.all(vector % 1 == 0) and 0 <= vector.min() <= vector.max() < self.symbols
        ):
            raise EnvError(
                f"the environment gave the observation {obs!r:.80} at {moment}: its entries must be whole numbers from "
                f"0 to {self.symbols - 1}; correct the environment"
            )
        return vector

    def compute_signal(
        self, number: int, obs: Float[np.ndarray, "D"], action: int, next_obs: Float[np.ndarray, "D"] | None
    ) -> float:
        """Evaluate a signal at a step that was never made; NaN where it needs more than what is given."""
        nothing: Any = None  # what a function makes of it is no number
        step = Step(obs, action + self.first_action, next_obs, nothing, False, {}, nothing, nothing)
        try:
            return self.readings[number].read(step, CallSite(1, self.horizon, 0))
        except EnvError:
            return np.nan

    def close(self) -> None:
        """Close the environment, and its windows if it has any."""
        self.env.close()


def rich_environment(
    env: "Env[Any, Any] | str | Callable[[], Env[Any, Any]]",
    horizon: int,
    latents: int,
    observed: Sequence[tuple[str, Observed]] = (),
    *,
    discrete: bool = False,
    options: Mapping[str, object] | None = None,
) -> RichEnvironment:
    """Open an environment with vector observations, to learn from.

    Args:
        env: a Gymnasium environment with a Discrete action space, its name, or a function that makes it.
        horizon: the number of steps H of an episode.
        latents: the most hidden states that policies may distinguish.
        observed: signals that only the environment can compute, with their names.
        discrete: whether entries of an observation are symbols (MultiDiscrete, MultiBinary), and not numbers (Box).
        options: arguments of ``gymnasium.make`` for an environment given by name.
    """
    horizon, latents = check_count("horizon", horizon), check_count("latents", latents)
    opened = open_env(env, options or {})
    count, first = number_actions(opened)
    dimension, symbols = _read_symbols(opened) if discrete else (_read_box_size(opened), None)
    environment = RichEnvironment(opened, horizon, count, first, latents + 2, dimension, symbols, ())
    return environment.with_signals(observed)


def _read_box_size(env: Playable) -> int:
    """Return the number of entries of an observation, which must be a Box."""
    from gymnasium.spaces import Box

    space = getattr(env, "observation_space", None)
    if not isinstance(space, Box):
        raise EnvError(
            f"the observation space is {space}, not a Box of numbers: for MultiDiscrete or MultiBinary observations "
            'declare bd.models.Latent(emission="categorical"), for Discrete ones learn with bd.models.Tabular()'
        )
    return int(np.prod(space.shape))


def _read_symbols(env: Playable) -> tuple[int, int]:
    """Return how many symbols an observation has, and of how many kinds."""
    from gymnasium.spaces import MultiBinary, MultiDiscrete

    space = getattr(env, "observation_space", None)
    if isinstance(space, MultiBinary):
        return int(np.prod(space.shape)), 2
    if isinstance(space, MultiDiscrete):
        return int(space.nvec.size), int(space.nvec.max())
    raise EnvError(
        f"the observation space is {space}, not MultiDiscrete or MultiBinary: for numbers declare "
        'bd.models.Latent(emission="gaussian"); a single symbol (Discrete) says nothing but itself, learn it with '
        "bd.models.Tabular()"
    )


def _check_reads(policy: AbstractPolicy, dimension: int) -> None:
    """Check that a policy decodes observations of this size."""
    for member in policy.members if isinstance(policy, Mixture) else (policy,):
        if not isinstance(member, DecodedPolicy):
            raise PolicyError(
                f"the environment shows {dimension} numbers, but a {type(member).__name__} wants state numbers: run a "
                "policy that was learned with bd.models.Latent"
            )
        if member.decoder.dimension != dimension:
            raise PolicyError(
                f"the environment shows {dimension} numbers, the policy reads {member.decoder.dimension}: run it where "
                "it was learned"
            )
