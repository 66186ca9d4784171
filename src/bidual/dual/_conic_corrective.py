"""The fully corrective dual player for convex problems: the same idea as `FullyCorrective`, over a cone master.

It goes through up to three stages, each a master problem over the plans found so far:

* violation: the least worst violation; a positive bound proves that the constraints clash;
* margin: inside the equalities, a point that keeps the inequalities with room to spare (a Slater point);
* optimum: the problem itself. Its mixture is repaired with a little of a point inside where the cone solver's last
  digits leave a constraint violated (`_polish`).

The bounds come from the master's own multipliers lam, which are dual-feasible on their own: mixing two such vectors
keeps them so, and price smoothing works on them as on the multipliers of a linear program.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float

from bidual.dual._base import AbstractDual, Bound, Duals, Reply, check_smoothing
from bidual.dual._conic_master import solve_conic_master
from bidual.dual._equations import sharpen
from bidual.dual._mixture_point import MixturePoint, keep_better, mix_in
from bidual.dual._polish import settle
from bidual.planners import Plan
from bidual.problem.convex import TOLERANCE, ConicForm, ConvexProgram

_PATIENCE = 40  # number of plans without progress after which more will not help
_PROGRESS = 1e-3  # share of the gap that counts as progress
_SLATER_PLANS = 12  # plans spent on a better Slater point once there is one


class ConicStage(Enum):
    """The stages, by the master problem being solved."""

    VIOLATION = "violation"
    MARGIN = "margin"
    OPTIMUM = "optimum"


class ConicColumns(NamedTuple):
    """The images of all plans, the stage, and the state of the choice of the next multipliers."""

    Y: Float[np.ndarray, "k n"]
    stage: ConicStage
    asked: Float[np.ndarray, "r"] | None  # the multipliers of the next plan; None for the first
    target: Float[np.ndarray, "r"] | None  # the master's own
    best: Bound | None  # of this stage
    slater: MixturePoint | None
    entered: int  # the number of plans when this stage began; negative if known plans must suffice for a Slater point
    smoothing: float
    smoothed: bool
    idle: int  # plans since the gap of this stage last shrank
    gap: float  # of this stage, when it last did
    uniform: bool = False  # whether the uniform policy is among the plans


@final
@dataclass(frozen=True)
class ConicCorrective(AbstractDual[ConvexProgram, ConicColumns]):
    """Column generation with a cone program as master.

    Args:
        smoothing: the share of the best multipliers so far in the next ones, to begin with; 0 turns it off.
        first: multipliers of the cone form whose cost the first plan minimises; by default it is any plan.
    """

    smoothing: float = 0.3
    first: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        """Check the setting."""
        check_smoothing(self.smoothing)

    def init(self, program: ConvexProgram) -> Duals[ConicColumns]:
        """Return the state before the first plan: there are no multipliers before the first master but those given."""
        m, n, first = program.units.size, program.image.size, self.first
        stage = ConicStage.OPTIMUM if program.violation is None else ConicStage.VIOLATION
        memory = ConicColumns(np.zeros((0, n)), stage, None, None, None, None, 0, self.smoothing, False, 0, np.inf)
        return Duals(
            theta=program.image.adjoint(np.zeros(n) if first is None else program.main.slope(np.array(first))),
            soft=False,
            weights=np.zeros(0),
            feasible=False,
            f=np.inf,
            g=np.full(m, np.inf),
            auxiliary=np.zeros(program.num_auxiliary),
            optimum=Bound(-np.inf, np.zeros(program.main.h.size)),
            conflict=Bound(0.0, np.zeros(0)),
            stalled=False,
            memory=memory,
        )

    def restart(self, program: ConvexProgram, known: Sequence[Reply]) -> Duals[ConicColumns]:
        """Go through the stages with the known plans alone, and keep the bounds that still hold."""
        afresh = self.init(program)
        if not known:
            return afresh
        Y = np.array([program.image(reply.plan.embedding) for reply in known])
        duals = self.resume(program, Y)
        if duals is None or duals.memory.stage is not ConicStage.OPTIMUM:
            return duals or afresh
        bounds = [_bound_known_plan(program, reply, y) for reply, y in zip(known, Y, strict=True)]
        best = max([bound for bound in bounds if bound is not None], key=lambda bound: bound.value, default=None)
        if best is None:
            return duals
        return replace(duals, optimum=best, memory=duals.memory._replace(best=best))

    def resume(self, program: ConvexProgram, Y: Float[np.ndarray, "k n"]) -> Duals[ConicColumns] | None:
        """Return the state of columns with these images; None where their master cannot be solved."""
        afresh = self.init(program)
        memory = afresh.memory._replace(Y=Y, entered=-_SLATER_PLANS)
        try:
            return self._solve_master(program, replace(afresh, memory=memory))
        except np.linalg.LinAlgError:
            return None

    def step(self, program: ConvexProgram, duals: Duals[ConicColumns], plan: Plan) -> Duals[ConicColumns]:
        """Add the plan to the master and solve it again, stage after stage."""
        y = program.image(plan.embedding)
        duals = self._take_bound(program, duals, y)
        known = bool(np.any(np.all(y == duals.memory.Y, axis=1)))
        memory = duals.memory._replace(Y=np.vstack([duals.memory.Y, y]))
        if known and not memory.smoothed:
            # This master is solved; only another stage could still change anything.
            memory = memory._replace(idle=_PATIENCE)
        try:
            return self._solve_master(program, replace(duals, memory=memory))
        except np.linalg.LinAlgError:
            weights = np.append(duals.weights, 0.0) if duals.weights.size else np.ones(1)
            duals = replace(duals, weights=weights, stalled=memory.uniform, memory=memory._replace(uniform=True))
            # Plans at the edge of a domain (the logarithm of a visit that is 0) defeat the master; the uniform policy
            # is inside.
            return replace(duals, theta=np.zeros_like(duals.theta), soft=True)

    def _take_bound(
        self, program: ConvexProgram, duals: Duals[ConicColumns], y: Float[np.ndarray, "n"]
    ) -> Duals[ConicColumns]:
        """Record the bound that the plan proves, and adapt the smoothing to the direction of its supergradient."""
        memory = duals.memory
        if memory.asked is None or duals.soft:
            return duals  # the first plan and the uniform policy prove nothing
        form = _form_stage(program, memory.stage)
        bound = Bound(form.constant(memory.asked) + float(form.slope(memory.asked) @ y), memory.asked)
        best = bound if memory.best is None or bound.value > memory.best.value else memory.best
        smoothing = memory.smoothing
        if memory.smoothed and memory.target is not None and memory.best is not None:
            # The supergradient at the plan points on towards the target: smooth less; back: more.
            ahead = float((form.G_y @ y - form.h) @ (memory.target - memory.best.gamma))
            smoothing = max(0.0, smoothing - 0.1) if ahead > 0 else smoothing + 0.1 * (1 - smoothing)
        duals = replace(duals, memory=memory._replace(best=best, smoothing=smoothing))
        if memory.stage is ConicStage.OPTIMUM:
            return replace(duals, optimum=best)
        return replace(duals, conflict=best) if memory.stage is ConicStage.VIOLATION and best.value > 0 else duals

    def _solve_master(self, program: ConvexProgram, duals: Duals[ConicColumns]) -> Duals[ConicColumns]:
        """Solve the master of the stage; enter the next stage where this one is done."""
        memory = duals.memory
        mixed = solve_conic_master(_form_stage(program, memory.stage), memory.Y)
        if memory.stage is ConicStage.OPTIMUM:
            mixed = sharpen(program.main, memory.Y, mixed)
        # In the relaxed forms, too, the user's variables come first among the others.
        auxiliary = mixed.others[: program.num_auxiliary]
        point, settled = settle(program, memory.Y, mixed.weights, auxiliary)
        if memory.stage is ConicStage.OPTIMUM:
            point = keep_better(program, duals, mix_in(program, memory.Y, point, settled, memory.slater))
            return self._request_plan(program, duals, memory, mixed.lam, point, gap=point.f - duals.optimum.value)
        point = point if settled is None else settled
        worst = float(np.max(_compute_stage_values(program, memory.stage, point.g) / program.units))
        following = _choose_next_stage(program, memory, point, worst)
        if following is not memory.stage:
            slater = point if worst < -10 * TOLERANCE else memory.slater
            entered = len(memory.Y) if memory.entered >= 0 else memory.entered
            memory = memory._replace(
                stage=following, asked=None, best=None, slater=slater, entered=entered, gap=np.inf, idle=0
            )
            return self._solve_master(program, replace(duals, memory=memory))
        lower = -np.inf if memory.best is None else memory.best.value
        return self._request_plan(program, duals, memory, mixed.lam, point, gap=worst - lower)

    def _request_plan(
        self,
        program: ConvexProgram,
        duals: Duals[ConicColumns],
        memory: ConicColumns,
        lam: Float[np.ndarray, "r"],
        point: MixturePoint,
        *,
        gap: float,
    ) -> Duals[ConicColumns]:
        """Return the state after this master, with the cost of the next plan, and whether the player has stalled."""
        # A cone solver's bound may pass the value by rounding: such a gap is closed, and closed is not progress.
        shrunk = max(gap, 0.0) < memory.gap * (1 - _PROGRESS) and memory.idle < _PATIENCE
        idle = 0 if shrunk else memory.idle + 1
        share = 0.0 if memory.best is None or self.smoothing == 0 or idle > _PATIENCE // 2 else memory.smoothing
        asked = lam if share == 0 or memory.best is None else share * memory.best.gamma + (1 - share) * lam
        form = _form_stage(program, memory.stage)
        return replace(
            duals,
            theta=program.image.adjoint(form.slope(asked)),
            soft=False,
            weights=point.weights,
            feasible=bool(np.all(program.violations(point.g) <= program.tolerances)),
            f=point.f,
            g=point.g,
            auxiliary=point.auxiliary,
            stalled=idle > _PATIENCE,  # also where the plan was known: then shrunk is false
            memory=memory._replace(
                asked=asked, target=lam, smoothed=share > 0, idle=idle, gap=max(gap, 0.0) if shrunk else memory.gap
            ),
            gamma=asked,
        )


def _bound_known_plan(program: ConvexProgram, reply: Reply, y: Float[np.ndarray, "n"]) -> Bound | None:
    """Compute the bound that a known plan proves, if its multipliers give the same cost in this program."""
    form, lam = program.main, reply.gamma
    if lam is None or lam.shape != form.h.shape:
        return None
    same = np.array_equal(program.image.adjoint(form.slope(lam)), reply.theta)
    # The master's own multipliers solve these equations to some nine digits.
    size = np.abs(form.c_u) + abs(form.G_u).T @ np.abs(lam)
    if not same or np.any(np.abs(form.residual(lam)) > 1e-6 * (1 + size)):
        return None
    return Bound(form.constant(lam) + float(form.slope(lam) @ y), lam)


def _form_stage(program: ConvexProgram, stage: ConicStage) -> ConicForm:
    form = {
        ConicStage.VIOLATION: program.violation,
        ConicStage.MARGIN: program.margin,
        ConicStage.OPTIMUM: program.main,
    }[stage]
    assert form is not None  # a stage is only entered where its form exists
    return form


def _compute_stage_values(
    program: ConvexProgram, stage: ConicStage, g: Float[np.ndarray, "m"]
) -> Float[np.ndarray, "m"]:
    """Return the values that the stage minimises: a margin may be negative, an equality has none."""
    hard = -np.inf if stage is ConicStage.MARGIN else np.abs(g)
    return np.where(program.equality, hard, g)


def _choose_next_stage(program: ConvexProgram, memory: ConicColumns, point: MixturePoint, worst: float) -> ConicStage:
    """Return the stage after this master."""
    lower = -np.inf if memory.best is None else memory.best.value
    stuck = memory.idle >= _PATIENCE // 2
    if memory.stage is ConicStage.VIOLATION and program.equality.any():
        ready = worst <= 0.1 * TOLERANCE or (stuck and worst <= 1e-6)
        return (ConicStage.OPTIMUM if program.margin is None else ConicStage.MARGIN) if ready else memory.stage
    if memory.stage is ConicStage.MARGIN and lower > TOLERANCE:
        return ConicStage.VIOLATION  # a clash, to be proved in the units of all constraints
    long = len(memory.Y) - memory.entered >= _SLATER_PLANS
    roomy = worst < 0 and (worst <= 0.5 * lower or (long and worst < -1e-7))
    # Without room the feasible set is a face: continue with a point that satisfies the constraints to the tolerance.
    return ConicStage.OPTIMUM if roomy or (stuck and worst <= 0.7 * TOLERANCE) else memory.stage
