"""Exploration of linear dynamics with quadratic costs: exact optimistic plans in turns with plans in the estimate.

Algorithm 2 of the paper with its oracle: `RiccatiOptimist` minimises over policies and over all laws of the certified
set together, up to its relaxation. What it prefers is what is not known, which is what the final bound needs. Alone it
pays for that long after little is left to learn, so that it takes turns with the optimal law of the estimate.

Before anything is known of the controls the best price of the relaxation is at the edge where its minimum exists, and
the minimiser there, controls of 0, is a mean of +u and -u: run alone it never moves again. By complementary slackness
the displacements of an optimum use up what the set allows. Where they exceed it, the missing part is the variance of
the controls that was averaged out, and random controls of that variance are added.
"""

from dataclasses import dataclass, field, replace
from typing import final

import numpy as np
from jaxtyping import Float

from bidual._base.errors import ProblemError
from bidual._base.keys import Draw
from bidual.loop.explorers._base import AbstractExplorer, Choice, Corrective
from bidual.loop.explorers._controls import ControlPlans, Controls, choose_member, draw_controls
from bidual.models import ControlKnowledge
from bidual.planners.control import RiccatiOptimist, find_dither
from bidual.problem.convex import AbstractProgram, AffineProgram
from bidual.world.policies import AffineFeedback, ControlPolicy, Played


@final
@dataclass(frozen=True)
class Riccati(AbstractExplorer[ControlPlans]):
    """An explorer of linear dynamics with quadratic costs, for models that declare noise, bound and first state.

    Other problems are explored by `otherwise`, which also plans the policy that is returned.

    Args:
        every: the number of episodes of which one is optimistic; the others run the optimal law of the estimate.
        first: the number of first episodes that are all optimistic.
        otherwise: the explorer of problems that have no exact plans.
        max_plans: of one solve, where limits have to be met by prices.
    """

    every: int = 4
    first: int = 10
    otherwise: Controls = field(default_factory=Controls)
    max_plans: int = 12

    def __post_init__(self) -> None:
        for name, least in (("every", 1), ("first", 0), ("max_plans", 1)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ProblemError(f"Riccati({name}=...) must be a whole number of at least {least}; got {value!r}")

    @property
    def guarantee(self) -> str:
        """The optimism of the paper, with an oracle that is exact up to a relaxation; no rate is proved."""
        return (
            f"by exact plans for linear laws, of {self.every} episodes one over the certified set: optimal up to a "
            "relaxation, no rate is proved"
        )

    def init(self, program: AbstractProgram, knowledge: ControlKnowledge) -> ControlPlans:
        """Return a memory without plans."""
        rows = _find_rows(program, knowledge)
        return self.otherwise.init(program, knowledge) if rows is None else ControlPlans(None)

    def __call__(
        self, program: AbstractProgram, memory: ControlPlans, knowledge: ControlKnowledge, draw: Draw
    ) -> tuple[Choice, ControlPlans]:
        """Return random controls first, then plan over the set or in the estimate."""
        laws, rows = knowledge.laws, _find_rows(program, knowledge)
        if laws is None or rows is None:
            return self.otherwise(program, memory, knowledge, draw)
        if knowledge.episodes < self.otherwise.warmup:
            return Choice(draw_controls(knowledge, self.otherwise.push), 0), memory
        optimistic = knowledge.episodes <= self.first or knowledge.episodes % self.every == 0
        if not optimistic:
            laws = replace(laws, W=knowledge.posterior.mean, radius=0.0, evidence=None)
        inner = Corrective(max_plans=self.max_plans)
        mixed, _, gamma = inner.solve(rows, laws, knowledge.stage, RiccatiOptimist(), memory.warm)
        place, turn_state = choose_member(program, mixed, memory.turn_state)
        policy = mixed.policies[place]
        if optimistic:
            policy = _add_dither(policy, find_dither(laws, rows.theta(np.array(gamma), 1.0)), draw)
        return Choice(policy, mixed.plans, mixed.expected[place]), ControlPlans(gamma, turn_state=turn_state)


def _find_rows(program: AbstractProgram, knowledge: ControlKnowledge) -> AffineProgram | None:
    """Return the linear problem, where all its signals are quadratic and the laws are linear."""
    if program.linear is None or knowledge.missing is not None or knowledge.laws is None:
        return None
    rows = program.linear
    signed = np.concatenate([rows.objective[None], rows.rows, -rows.rows[rows.equality]])
    return rows if all(knowledge.laws.underestimates(row) for row in signed) else None


def _add_dither(policy: Played, deviations: Float[np.ndarray, "m"], draw: Draw) -> Played:
    """Add controls that are drawn once, for this episode."""
    if not (isinstance(policy, ControlPolicy) and isinstance(policy.controller, AffineFeedback) and deviations.any()):
        return policy
    law, most = policy.controller, (policy.high - policy.low) / 4
    noise = draw.generator().standard_normal(law.controls.shape) * np.minimum(deviations, most)
    return replace(policy, controller=replace(law, controls=law.controls + noise))
