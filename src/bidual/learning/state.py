"""The state of a run of `learn`: all that the loop needs to go on, and all that was gathered on the way."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from jaxtyping import Float

from bidual._base.brief import describe_briefly
from bidual._base.types import Episode
from bidual.certificate.bounds import Executed, Restarts
from bidual.learning.identity import check_identity, write_identity
from bidual.learning.learned import LearnProgress
from bidual.learning.metrics import compute_episode_values
from bidual.learning.outputs import DualBound, Sums
from bidual.learning.setup import LearnSetup
from bidual.loop.vpdpo import BatchIteration, LoopState, resume, start_state
from bidual.world.observations import Numbering
from bidual.world.policies import Played, PolicySequence


@final
@dataclass(frozen=True, eq=False)
class LearnState:
    """A state of a run; a run that resumes from it ends exactly as if it had never stopped."""

    __repr__ = describe_briefly

    loop: LoopState
    executed: Executed  # values of the episodes counted so far
    restarts: Restarts  # the same for their last half
    sums: Sums | None  # of their features, where a functional is curved
    pending: tuple[Episode, ...]  # executed but not counted yet
    policies: Sequence[Played]  # of every episode
    history: tuple[LearnProgress, ...]
    dual_bound: DualBound | None
    plans: int
    rounds: int  # of evaluation, on the way to `stop_when`
    spent: int  # episodes on those
    seconds: float
    values_per_episode: Float[np.ndarray, "n rows"] | None = (
        None  # by every counted episode, f and g; only where there are no bounds
    )
    identity: str | None = None  # of problem, environment and model (`identity`); None in files of earlier versions
    met: tuple[str, ...] = ()  # the observations so far, where they are numbered as they are met

    @property
    def episodes(self) -> int:
        """The number of executed episodes."""
        return self.loop.episodes


def start_learn_state(setup: LearnSetup) -> LearnState:
    """Return the state before the first episode."""
    linear, program = setup.linear, setup.program
    return LearnState(
        loop=start_state(program, setup.explorer, setup.knowledge),
        executed=Executed.start(linear.low, linear.high),
        restarts=Restarts.start(linear.low, linear.high),
        sums=_start_sums(setup) if linear.numbers.size < 1 + program.equality.size else None,
        pending=(),
        policies=PolicySequence(),
        history=(),
        dual_bound=None,
        plans=0,
        rounds=0,
        spent=0,
        seconds=0.0,
        values_per_episode=np.zeros((0, 1 + program.equality.size)) if setup.knowledge.counted is None else None,
        identity=write_identity(setup),
    )


def advance(learn_state: LearnState, turn: BatchIteration, numbering: Numbering | None) -> LearnState:
    """Return the state after one turn of the loop; its episodes are counted later, in blocks."""
    return replace(
        learn_state,
        loop=turn.state,
        pending=learn_state.pending + tuple(turn.episodes),
        policies=PolicySequence.of(learn_state.policies).followed_by(turn.choice.policy, len(turn.episodes)),
        plans=learn_state.plans + turn.choice.plans,
        met=() if numbering is None else numbering.keys,
    )


def count_pending(setup: LearnSetup, learn_state: LearnState) -> LearnState:
    """Return the state with the sums and boundaries of all executed episodes brought up to date."""
    episodes = learn_state.pending
    if not episodes:
        return learn_state
    payments, values = setup.linear.payments(episodes), learn_state.values_per_episode
    if values is not None:
        values = np.concatenate([values, compute_episode_values(setup, learn_state.sums, episodes)])
    return replace(
        learn_state,
        executed=learn_state.executed.add_batch(payments),
        restarts=learn_state.restarts.add_batch(payments),
        sums=None if learn_state.sums is None else learn_state.sums.add(setup.knowledge.pieces, episodes),
        pending=(),
        values_per_episode=values,
    )


def resume_learn_state(learn_state: LearnState, setup: LearnSetup) -> LearnState:
    """Return an earlier state to resume from, in a set-up with its own probability of failure.

    Bounds on the way hold with the probability of the earlier call: with another one they are dropped. Raises
    `ProblemError` where the state is about another problem, environment or model.
    """
    loop = resume(learn_state.loop, setup.knowledge)
    check_identity(learn_state.identity, setup)
    if loop.knowledge.delta == learn_state.loop.knowledge.delta:
        return replace(learn_state, loop=loop)
    return replace(learn_state, loop=loop, history=(), dual_bound=None, rounds=0)


def _start_sums(setup: LearnSetup) -> Sums:
    return Sums.start(setup.knowledge.horizon, setup.knowledge.pieces.psi.dimension)
