"""Where a run of `learn` stands: what the loop needs to go on, and what was gathered on the way."""

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from jaxtyping import Float

from bidual._prepare import Setting
from bidual._types import Episode
from bidual.bounds import Executed, Restarts
from bidual.learned import Look
from bidual.models import ControlKnowledge
from bidual.outputs import Shown, Sums
from bidual.policies import Played
from bidual.vpdpo import LoopState, first_state, resumed


@final
@dataclass(frozen=True, eq=False)
class Course:
    """A run that goes on from here ends exactly as if it had never stopped."""

    loop: LoopState
    executed: Executed  # what the episodes counted so far paid
    restarts: Restarts  # the same for their last half
    sums: Sums | None  # of their features, where a functional is curved
    pending: tuple[Episode, ...]  # executed but not counted yet
    policies: tuple[Played, ...]  # of every episode
    looks: tuple[Look, ...]
    shown: Shown | None
    plans: int
    rounds: int  # of evaluation, on the way to `stop_when`
    spent: int  # episodes on those
    seconds: float
    paid: Float[np.ndarray, "n rows"] | None = None  # by every counted episode, f and g; only where there are no bounds

    @property
    def episodes(self) -> int:
        """How many have been executed."""
        return self.loop.episodes


def first_course(setting: Setting) -> Course:
    """Before the first episode."""
    linear, program = setting.linear, setting.program
    return Course(
        loop=first_state(program, setting.explorer, setting.knowledge),
        executed=Executed.start(linear.low, linear.high),
        restarts=Restarts.start(linear.low, linear.high),
        sums=_no_sums(setting) if linear.numbers.size < 1 + program.equality.size else None,
        pending=(),
        policies=(),
        looks=(),
        shown=None,
        plans=0,
        rounds=0,
        spent=0,
        seconds=0.0,
        paid=np.zeros((0, 1 + program.equality.size)) if isinstance(setting.knowledge, ControlKnowledge) else None,
    )


def resumed_course(course: Course, setting: Setting) -> Course:
    """An earlier course to go on from, in a setting with its own probability of failure.

    What was shown on the way holds with the probability that was asked for then: with another one it is forgotten.
    """
    loop = resumed(course.loop, setting.knowledge)
    if loop.knowledge.delta == course.loop.knowledge.delta:
        return replace(course, loop=loop)
    return replace(course, loop=loop, looks=(), shown=None, rounds=0)


def _no_sums(setting: Setting) -> Sums:
    return Sums.start(setting.knowledge.horizon, setting.knowledge.pieces.psi.dimension)
