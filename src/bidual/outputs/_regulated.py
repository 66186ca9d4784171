"""The certainty-equivalent policy of controls: the problem solved in the estimated dynamics, by sampled plans."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from bidual._keys import Draw, Purpose
from bidual.control import AbstractExecution, Regulator, Sampling
from bidual.convex import AffineProgram, ConvexProgram
from bidual.dual import ConicCorrective, FullyCorrective
from bidual.models import ControlKnowledge
from bidual.outputs._certainty import Made
from bidual.planners import Plan
from bidual.policies import ControlPolicy, Mixture
from bidual.primal_dual import Iteration, primal_dual
from bidual.problem import Problem
from bidual.rounding import with_sampled_resolution


@final
@dataclass(frozen=True)
class Regulated:
    """How the output policy is made, where plans are sampled.

    Args:
        sampler: of sequences of controls.
        execution: how a sequence becomes a policy.
        rollouts: how many paths of the model an embedding is an average of.
        max_plans: after which the best mixture so far is taken; before that where a plan brings nothing new.
    """

    sampler: Sampling
    execution: AbstractExecution
    rollouts: int = 64
    max_plans: int = 20

    def __call__(self, problem: Problem, knowledge: ControlKnowledge, rng: np.random.Generator) -> Made:
        """Solve in the estimate, and mix the plans that are used."""
        program = with_sampled_resolution(problem.program())
        draw = Draw(int(rng.integers(2**31)), Purpose.PLAN, 0)
        plans: list[Plan] = []
        duals = None
        for turn in self._loop(program, knowledge, draw):
            duals = turn.duals
            plans.append(turn.plan)
            # Soft plans are asked for where the master fails: sampling has none, and what was mixed so far is taken.
            if duals.soft or duals.stalled or len(plans) >= self.max_plans:
                break
        assert duals is not None  # the loop turns at least once
        weights = np.where(duals.weights > 1e-6, duals.weights, 0.0)
        if not weights.any():
            weights = np.eye(len(plans))[-1]
        used = np.flatnonzero(weights)
        members = [plan.actions for plan in (plans[i] for i in used) if isinstance(plan.actions, ControlPolicy)]
        shares = weights[used] / weights[used].sum()
        embedding = np.tensordot(shares, np.stack([plans[i].embedding for i in used]), axes=1)
        return Made(
            policy=members[0] if len(members) == 1 else Mixture(shares, tuple(members)),
            mdp=None,
            embedding=embedding,
            visits=np.zeros((knowledge.horizon, 0)),
            gamma=duals.gamma if isinstance(program, AffineProgram) and duals.feasible else None,
            plans=len(plans),
        )

    def _loop(
        self, program: AffineProgram | ConvexProgram, knowledge: ControlKnowledge, draw: Draw
    ) -> Iterator[Iteration[Any]]:
        regulator = Regulator(self.sampler, self.execution, self.rollouts, draw)
        model, stage = knowledge.world.dynamics(), knowledge.stage
        if isinstance(program, AffineProgram):
            return primal_dual(program, stage, model, regulator, FullyCorrective(smoothing=0.0))
        return primal_dual(program, stage, model, regulator, ConicCorrective(smoothing=0.0))
