"""Convex problems with auxiliary variables while exploring: the corrective loop with its cone master, to a rough gap.

Epigraphs, slack variables and nearest points of sets are minimised over together with the policy, in every master;
nothing is linearised. The loop that derives the final bound is the same.
"""

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from bidual.dual import ConicCorrective
from bidual.loop.explorers._base import AbstractInner, PlanMixture
from bidual.loop.primal_dual import primal_dual
from bidual.models import AbstractModel, Layout, Stage
from bidual.planners import AbstractPlanner
from bidual.problem.convex import ConvexProgram

_NOTHING = 1e-9  # of a range: a gap of so much is closed


@final
@dataclass(frozen=True)
class Conic(AbstractInner[ConvexProgram, tuple[float, ...] | None]):
    """Column generation with a cone program as master, from the last multipliers.

    Args:
        gap: gap of the mixture, relative to the range of the objective over the mixtures so far. None: until a plan
            brings nothing new, for heuristic planners, whose plans prove no bound.
        max_plans: number of plans after which the best mixture so far is returned.
    """

    gap: float | None = 1e-2
    max_plans: int = 30

    def init(self, program: ConvexProgram) -> tuple[float, ...] | None:
        """Return None: there are no multipliers yet."""
        del program

    def __call__(
        self,
        program: ConvexProgram,
        model: AbstractModel,
        psi: Layout | Stage,
        planner: AbstractPlanner[Any],
        warm: tuple[float, ...] | None,
    ) -> tuple[PlanMixture, tuple[float, ...] | None]:
        """Plan until the gap is closed; if no mixture is feasible, return the one of least violation."""
        dual = ConicCorrective(0.3 if self.gap is not None else 0.0, warm)
        plans, values, duals = [], [], dual.init(program)
        for turn in primal_dual(program, psi, model, planner, dual):
            duals = turn.duals
            plans.append(turn.plan)
            values += [duals.f] if np.isfinite(duals.f) else []
            goal = (self.gap or 0.0) * max(float(np.ptp(values or [0.0])), _NOTHING)
            closed = self.gap is not None and duals.feasible and duals.f - duals.optimum.value <= goal
            # A master that fails asks for the uniform policy: the mixture so far will do.
            if closed or duals.stalled or duals.soft or len(plans) >= self.max_plans:
                break
        used = np.flatnonzero(duals.weights)
        expected = tuple(plans[i].embedding for i in used)
        mixed = PlanMixture(
            tuple(model.policy(plans[i].actions) for i in used), duals.weights[used], len(plans), expected
        )
        found = duals.optimum
        gamma = found.gamma if np.isfinite(found.value) else None
        if self.gap is None and duals.gamma is not None and duals.gamma.size == program.main.h.size:
            gamma = duals.gamma  # of the master: the best bound may be a failure of the planner
        return mixed, None if gamma is None else tuple(gamma.tolist())
