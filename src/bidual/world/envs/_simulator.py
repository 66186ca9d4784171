"""`Simulator`: episodes of a known model that is hidden from the learner."""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import final

import jax
import numpy as np
from jaxtyping import Bool, Float, Int, UInt

from bidual._base.errors import EnvError, PolicyError
from bidual._base.keys import Draw
from bidual._base.names import Names
from bidual._base.types import Episode, float64
from bidual.world.envs._ahead import BLOCK, Prefetch
from bidual.world.envs._base import AbstractEnvironment, check_policy
from bidual.world.envs._compiled import TransitionTables, episode, episodes, member, members
from bidual.world.mdp import TabularMDP
from bidual.world.policies import AbstractPolicy, DeterministicPolicy, MarkovPolicy, Mixture


@final
@dataclass(frozen=True, eq=False)
class Simulator(AbstractEnvironment):
    """A built-in environment with the law of `mdp`: the learner gets nothing of it but the start law.

    Args:
        mdp: the true model.
        hidden_start: hide the start law as well.
    """

    mdp: TabularMDP
    _: KW_ONLY
    hidden_start: bool = False
    names: Names = field(init=False, repr=False)  # the model's own
    _world: TransitionTables = field(init=False, repr=False)
    _ahead: Prefetch = field(init=False, repr=False, default_factory=Prefetch)

    def __post_init__(self) -> None:
        if self.mdp.criterion is not None:
            raise EnvError(
                f"episodes have a number of steps, and this model has none ({self.mdp.criterion}): to learn or to "
                "simulate, make it and its embedding with a horizon, TabularMDP(..., horizon=100)"
            )
        object.__setattr__(self, "names", self.mdp.names)
        object.__setattr__(self, "_world", _place_tables(self.mdp))

    @property
    def shape(self) -> tuple[int, int, int]:
        """(H, S, A)."""
        return self.mdp.successors.shape

    @property
    def initial(self) -> Float[np.ndarray, "S"] | None:
        """The law of the first state, unless it is hidden."""
        return None if self.hidden_start else self.mdp.initial

    @property
    def allowed(self) -> Bool[np.ndarray, "S A"]:
        """The model's own mask."""
        return self.mdp.actions

    def collect(self, policy: AbstractPolicy, draw: Draw) -> Episode:
        """Run one episode, from a compiled call for several; a mixture takes another call, for its member."""
        check_policy(policy, self.shape)
        if isinstance(policy, Mixture):
            return self.collect(policy.members[_draw_member(policy, draw)], draw)
        return self._unpack(self._ahead.take(policy, draw, self._simulate), draw)

    @property
    def simultaneous(self) -> int:
        """Many compiled calls, each of which takes hardly more than an episode."""
        return 64 * BLOCK

    @float64
    def collect_many(self, policy: AbstractPolicy, draws: Sequence[Draw]) -> list[Episode]:
        """Run several episodes, with one compiled call per batch and per member of a mixture."""
        check_policy(policy, self.shape)
        if isinstance(policy, Mixture):
            return self._collect_mixture(policy, draws)
        return [self._unpack(row, draw) for row, draw in zip(self._simulate(policy, draws), draws, strict=True)]

    @float64
    def _simulate(self, policy: AbstractPolicy, draws: Sequence[Draw]) -> Int[np.ndarray, "n packed"]:
        rule = _read_rule(policy)
        if len(draws) == 1:
            return np.asarray(episode(self._world, rule, draws[0].seed_words()))[None]
        batches = [
            np.asarray(episodes(self._world, rule, seed_words))[:size] for seed_words, size in _split_batches(draws)
        ]
        return np.concatenate(batches) if batches else np.zeros((0, 0), dtype=np.int32)

    def _collect_mixture(self, mixture: Mixture, draws: Sequence[Draw]) -> list[Episode]:
        """Simulate episodes of a mixture: draw the members first, then run those of each together."""
        sums = _pad_cumulative_weights(mixture.weights)
        played = [
            i
            for seed_words, size in _split_batches(draws)
            for i in np.asarray(members(sums, seed_words))[:size].tolist()
        ]
        groups: dict[int, list[Draw]] = {}
        for i, draw in zip(played, draws, strict=True):
            groups.setdefault(i, []).append(draw)
        simulated = {i: iter(self.collect_many(mixture.members[i], group)) for i, group in groups.items()}
        return [next(simulated[i]) for i in played]

    def _unpack(self, packed: Int[np.ndarray, "packed"], draw: Draw) -> Episode:
        """Return a simulated episode; raise `PolicyError` for an action that its state does not allow."""
        H = self.mdp.horizon
        wrong = int(packed[-1])
        if wrong < H:
            state, action = int(packed[wrong]), int(packed[H + 1 + wrong])
            raise PolicyError(
                f"the policy takes action {action} in state {state} at step {wrong + 1} of {H}, episode {draw.number}; "
                f"that state allows {np.flatnonzero(self.allowed[state]).tolist()}: correct the policy's table"
            )
        return Episode(packed[: H + 1], packed[H + 1 : -1], np.zeros((H, 0)))


@float64
def _draw_member(mixture: Mixture, draw: Draw) -> int:
    return int(np.asarray(member(_pad_cumulative_weights(mixture.weights), draw.seed_words())))


@float64
def _place_tables(mdp: TabularMDP) -> TransitionTables:
    """Place the model on the device. Sums are computed here, from left to right: no entry of 0 can raise them."""
    lists = mdp.successors
    starts = np.flatnonzero(mdp.initial)
    arrays = (
        starts.astype(np.int32),
        np.cumsum(mdp.initial[starts]),
        lists.states.astype(np.int32),
        np.cumsum(lists.probabilities, axis=-1),
        lists.allowed,
    )
    return TransitionTables(*jax.device_put(arrays))


def _read_rule(policy: AbstractPolicy) -> Int[np.ndarray, "H S"] | Float[np.ndarray, "H S A"]:
    """Return the policy as a NumPy array, small enough to be passed with every call."""
    if isinstance(policy, DeterministicPolicy):
        return policy.actions
    if isinstance(policy, MarkovPolicy):
        return policy.table.astype(np.float64, copy=False)
    raise PolicyError(
        f"the simulator runs DeterministicPolicy, MarkovPolicy and mixtures of them; got a {type(policy).__name__}"
    )


def _pad_cumulative_weights(weights: Float[np.ndarray, "k"]) -> Float[np.ndarray, "padded"]:
    """Compute cumulative weights, padded to a power of two: a mixture that grows must not compile again."""
    sums = np.cumsum(weights, dtype=np.float64)
    return np.concatenate([sums, np.full(_round_to_power_of_two(sums.size) - sums.size, sums[-1])])


def _split_batches(draws: Sequence[Draw]) -> Iterator[tuple[UInt[np.ndarray, "padded 3"], int]]:
    """Yield blocks of seed words, padded because every size compiles anew, and their numbers of draws."""
    seed_words = np.array([draw.seed_words() for draw in draws]).reshape(-1, 3)
    for first in range(0, len(seed_words), BLOCK):
        batch = seed_words[first : first + BLOCK]
        padding = np.repeat(batch[-1:], BLOCK - len(batch), axis=0)
        yield np.concatenate([batch, padding]), len(batch)


def _round_to_power_of_two(count: int) -> int:
    return 1 << (count - 1).bit_length()
