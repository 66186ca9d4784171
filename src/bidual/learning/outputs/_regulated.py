"""The certainty-equivalent policy of controls: the problem solved in the estimated dynamics, by sampled plans.

As with counted models (`_certainty.py`) limits are then tightened by their uncertainty, and the problem is
solved again: a mixture that just keeps a limit in the estimate breaks it in about half of the worlds that may be true.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float

from bidual._base.deadline import NEVER, Deadline
from bidual._base.keys import Draw, Purpose
from bidual.certificate.rounding import with_sampled_resolution
from bidual.dual import Duals, Reply
from bidual.learning.outputs._certainty import ReturnedPolicy, tighten
from bidual.loop.primal_dual import run_corrective
from bidual.models import ControlKnowledge
from bidual.planners.control import AbstractExecution, AbstractSearch, Regulator, Thompson, embedding, law_of
from bidual.problem.convex import AbstractProgram
from bidual.problem.modelling import Problem
from bidual.world.policies import ControlPolicy, Mixture


class _Solved(NamedTuple):
    """The computed plans, the state of the dual player, and the members of its mixture."""

    replies: tuple[Reply, ...]
    duals: Duals[Any]
    members: tuple[ControlPolicy, ...]
    shares: Float[np.ndarray, "k"]
    expected: Float[np.ndarray, "H d"]


@final
@dataclass(frozen=True)
class Regulated:
    """Settings for computing the returned policy, where plans are sampled.

    Args:
        sampler: of sequences of controls.
        execution: the conversion of a sequence to a policy.
        rollouts: the number of paths of the model that an embedding averages.
        max_plans: after which the best mixture so far is taken; before that where a plan brings nothing new.
        deviations: by how many standard deviations limits are tightened: of the posterior and of rollouts together.
        most: the largest share of a limit's size that it is tightened by. A limit of 0 stays.
        draws: of dynamics from the posterior, to measure the deviations.
        deadline: the moment after which no further plan is made, and limits stay as they are.
    """

    sampler: AbstractSearch
    execution: AbstractExecution
    rollouts: int = 64
    max_plans: int = 20
    deviations: float = 1.5
    most: float = 0.15
    draws: int = 8
    deadline: Deadline = NEVER

    def __call__(self, problem: Problem, knowledge: ControlKnowledge, rng: np.random.Generator) -> ReturnedPolicy:
        """Solve in the estimate, estimate the uncertainty of the constraints, tighten them and solve again."""
        program = with_sampled_resolution(problem.program())
        draw = Draw(int(rng.integers(2**31)), Purpose.PLAN, 0)
        found = self._solve(program, knowledge, draw, ())
        plans = len(found.replies)
        tightened = problem.limits and not self.deadline.passed
        rooms = self._rooms(problem, program, knowledge, found, draw, rng) if tightened else np.zeros(0)
        if found.duals.feasible and rooms.any():
            strict = self._solve(tighten(problem, program, rooms), knowledge, draw, found.replies)
            plans = len(strict.replies)
            # Where no mixture keeps the tighter limits, the one that keeps those that were asked for is better.
            found = strict if strict.duals.feasible else found
        duals = found.duals
        return ReturnedPolicy(
            policy=found.members[0] if len(found.members) == 1 else Mixture(found.shares, found.members),
            mdp=None,
            embedding=found.expected,
            visits=np.zeros((knowledge.horizon, 0)),
            gamma=duals.gamma if program.is_linear and duals.feasible else None,
            plans=plans,
            auxiliary=duals.auxiliary,
        )

    def within(self, deadline: Deadline) -> "Regulated":
        """Return the same with a moment at which it ends; at least one plan is made."""
        return replace(self, deadline=deadline)

    def _solve(
        self,
        program: AbstractProgram,
        knowledge: ControlKnowledge,
        draw: Draw,
        known: Sequence[Reply],
    ) -> _Solved:
        """Compute the best mixture, of known plans and of new ones."""
        before = tuple(reply.plan for reply in known)
        regulator = Regulator(self.sampler, self.execution, self.rollouts, draw, before)
        model, stage = knowledge.world.dynamics(), knowledge.stage
        turns = run_corrective(program, stage, model, regulator, known, smoothing=0.0)
        replies, duals = list(known), None
        for turn in turns:
            duals = turn.duals
            replies += [] if turn.reply is None else [turn.reply]
            # Soft plans are requested where the master fails: sampling has none, so the mixture so far is taken.
            full = len(replies) >= len(known) + self.max_plans or self.deadline.passed
            if duals.soft or duals.stalled or full:
                break
        assert duals is not None  # the loop turns at least once
        return _mix(replies, duals)

    def _rooms(
        self,
        problem: Problem,
        program: AbstractProgram,
        knowledge: ControlKnowledge,
        found: _Solved,
        draw: Draw,
        rng: np.random.Generator,
    ) -> Float[np.ndarray, "m"]:
        """Compute by how much every row is tightened: its deviation over posterior dynamics, on paths of their own."""
        stage, laws = knowledge.stage, [law_of(member) for member in found.members]
        attained = []
        for number in range(1, self.draws + 1):
            (dynamics,) = Thompson()(knowledge.world, rng)
            seed_words = Draw(draw.seed, Purpose.PLAN, number).seed_words()
            seen = np.stack([embedding(law, dynamics, stage, self.rollouts, seed_words) for law in laws])
            attained.append(program.at(np.tensordot(found.shares, seen, axes=1), found.duals.auxiliary)[1])
        sizes = np.abs(np.concatenate([line.bounds for line in problem.lines()]))
        rooms = np.minimum(self.deviations * np.std(attained, axis=0, ddof=1), self.most * sizes)
        return np.where(program.equality | ~np.isfinite(rooms), 0.0, rooms)


def _mix(replies: Sequence[Reply], duals: Duals[Any]) -> _Solved:
    """Mix the plans that have weight, or take the last one where none has."""
    weights = np.where(duals.weights > 1e-6, duals.weights, 0.0)
    if not weights.any():
        weights = np.eye(len(replies))[-1]
    used = np.flatnonzero(weights)
    shares, plans = weights[used] / weights[used].sum(), [replies[i].plan for i in used.tolist()]
    members = tuple(plan.actions for plan in plans if isinstance(plan.actions, ControlPolicy))
    expected = np.tensordot(shares, np.stack([plan.embedding for plan in plans]), axes=1)
    return _Solved(tuple(replies), duals, members, shares, expected)
