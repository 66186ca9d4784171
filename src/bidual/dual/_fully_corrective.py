"""The fully corrective dual player: keep every plan, solve for their best mixture, and plan for its multipliers.

The multipliers of the master problem (`_master`) are the next cost, but they are unstable while plans are few.
So the next plan is computed for a point between them and the multipliers with the best bound so far, by a
share that adapts itself (price smoothing: Wentges 1997; Pessoa, Sadykov, Uchoa and Vanderbeck 2018). With many
constraints that takes less than half of the plans (docs/architecture.md). In phase 1 the multipliers price the
constraints alone, and a positive bound there proves that no policy satisfies them all.

Plans that are known from another problem over the same model enter the master like any other. Their bounds are kept
where their cost is one of this problem too: then only the limits have changed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float

from bidual.dual._base import AbstractDual, Bound, Duals, Reply, check_smoothing, read_image
from bidual.dual._master import MasterSolution, WarmStart, solve_master
from bidual.dual._simplex import solve_by_highs, solve_by_simplex
from bidual.planners import Plan
from bidual.problem.convex import AffineProgram


class Plans(NamedTuple):
    """The images of all plans so far, the basis of the master, and the state of the choice of the next gamma."""

    f: Float[np.ndarray, "k"]
    g: Float[np.ndarray, "k m"]
    gamma: Float[np.ndarray, "m"]  # the multipliers of the next plan
    objective_weight: float  # 0 while only the violation is being minimised (phase 1)
    warm: WarmStart | None
    target: Float[np.ndarray, "m"]  # the master's own multipliers
    smoothing: float  # share of the best multipliers so far
    misses: int  # plans in a row that left the master unchanged
    smoothed: bool  # whether the next gamma differs from the target


@final
@dataclass(frozen=True)
class FullyCorrective(AbstractDual[AffineProgram, Plans]):
    """Column generation with an exact master.

    Args:
        smoothing: the share of the best multipliers so far in the next ones, to begin with; 0 turns it off.
        first: the multipliers of the first plan; None: 0, the objective alone.
    """

    smoothing: float = 0.3
    first: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        """Check the setting."""
        check_smoothing(self.smoothing)

    def init(self, program: AffineProgram) -> Duals[Plans]:
        """Return the state whose first plan is for the objective and the first multipliers."""
        m = program.limits.size
        nothing = np.zeros(m)
        gamma = nothing if self.first is None else np.array(self.first)
        return Duals(
            theta=program.theta(gamma, 1.0),
            soft=False,
            weights=np.zeros(0),
            feasible=False,
            f=np.inf,
            g=nothing,
            auxiliary=np.zeros(0),
            optimum=Bound(-np.inf, nothing),
            conflict=Bound(0.0, nothing),
            stalled=False,
            memory=Plans(np.zeros(0), np.zeros((0, m)), gamma, 1.0, None, gamma, self.smoothing, 0, False),
            gamma=gamma,
        )

    def restart(self, program: AffineProgram, known: Sequence[Reply]) -> Duals[Plans]:
        """Return the state at the best mixture of known plans, with the bounds that still hold."""
        afresh = self.init(program)
        images = [read_image(program, reply.plan) for reply in known]
        f = np.array([image[0] for image in images])
        g = np.array([image[1] for image in images]).reshape(f.size, program.limits.size)
        gammas, fits = list_origins(program, known)
        bounds = np.where(fits, f + np.sum(gammas * g, axis=1), -np.inf)
        best = int(np.argmax(bounds)) if fits.any() else None
        optimum = afresh.optimum if best is None else Bound(float(bounds[best]), gammas[best])
        return self.resume(program, f, g, optimum) or afresh

    def resume(
        self, program: AffineProgram, f: Float[np.ndarray, "k"], g: Float[np.ndarray, "k m"], optimum: Bound
    ) -> Duals[Plans] | None:
        """Return the state of plans with these images and of this bound; None without plans or a mixture of them."""
        answer = _solve_robustly(program, f, g, None, accept=program.resolution) if f.size else None
        return None if answer is None else self._request_plan(program, f, g, answer, optimum, self.init(program).memory)

    def step(self, program: AffineProgram, duals: Duals[Plans], plan: Plan) -> Duals[Plans]:
        """Add the plan to the master and solve it again."""
        memory = duals.memory
        f_new, g_new = read_image(program, plan)
        # The plan is the cheapest for theta, so its Lagrangian is the minimum: a dual bound.
        bound = Bound(memory.objective_weight * f_new + float(memory.gamma @ g_new), memory.gamma)
        in_phase_1 = memory.objective_weight == 0
        optimum = duals.optimum if in_phase_1 else max(duals.optimum, bound, key=_read_value)
        conflict = max(duals.conflict, bound, key=_read_value) if in_phase_1 else duals.conflict
        f, g = np.append(memory.f, f_new), np.vstack([memory.g, g_new])
        # Phase 1 goes on to the last digit, so that the policy does not profit from a violation within tolerance.
        answer = _solve_robustly(program, f, g, memory.warm, accept=program.resolution)
        learned = answer is not None and _does_change_master(memory, answer, f_new, g_new)
        if answer is not None and answer.objective_weight == 0 and not learned:
            # No mixture is more feasible: the rest of the tolerance leaves room for the certificate's slack, a quarter.
            answer = _solve_robustly(program, f, g, memory.warm, accept=0.7 * program.tolerances)
            learned = answer is not None and answer.objective_weight > 0
        if answer is None:
            # Keep bounds and mixture, without the new plan.
            weights = np.append(duals.weights, 0.0) if duals.weights.size else np.ones(1)
            duals = replace(duals, weights=weights, f=float(weights @ f), g=weights @ g)
            return replace(duals, optimum=optimum, conflict=conflict, stalled=True, memory=memory._replace(f=f, g=g))
        adapted = memory._replace(
            smoothing=self._adapt(memory, g_new, optimum), misses=0 if learned else memory.misses + 1
        )
        duals = self._request_plan(program, f, g, answer, optimum, adapted)
        return replace(duals, conflict=conflict, stalled=not learned and not memory.smoothed)

    def _request_plan(
        self,
        program: AffineProgram,
        f: Float[np.ndarray, "k"],
        g: Float[np.ndarray, "k m"],
        answer: MasterSolution,
        optimum: Bound,
        memory: Plans,
    ) -> Duals[Plans]:
        """Return the state after this master, with the cost of the next plan."""
        smoothing, misses, weight = memory.smoothing, memory.misses, answer.objective_weight
        share = self._share(answer, smoothing, misses) if np.isfinite(optimum.value) else 0.0
        gamma = share * optimum.gamma + (1 - share) * answer.gamma
        return Duals(
            theta=program.theta(gamma, weight),
            soft=False,
            weights=answer.weights,
            feasible=weight > 0,
            f=float(answer.weights @ f),
            g=answer.weights @ g,
            auxiliary=np.zeros(0),
            optimum=optimum,
            conflict=Bound(0.0, np.zeros(gamma.size)),
            stalled=False,
            memory=Plans(f, g, gamma, weight, answer.warm, answer.gamma, smoothing, misses, share > 0),
            gamma=gamma,
        )

    def _adapt(self, memory: Plans, g_new: Float[np.ndarray, "m"], optimum: Bound) -> float:
        """Reduce the smoothing where the new supergradient points towards the target, else increase it."""
        if not memory.smoothed:
            return memory.smoothing
        if g_new @ (memory.target - optimum.gamma) > 0:
            return max(0.0, memory.smoothing - 0.1)
        return memory.smoothing + 0.1 * (1 - memory.smoothing)

    def _share(self, answer: MasterSolution, smoothing: float, misses: int) -> float:
        """Compute the share of the best multipliers: less after each miss, until the target itself is tried."""
        if answer.objective_weight == 0 or self.smoothing == 0:
            return 0.0
        return max(0.0, 1 - (misses + 1) * (1 - smoothing))


def _does_change_master(memory: Plans, answer: MasterSolution, f_new: float, g_new: Float[np.ndarray, "m"]) -> bool:
    """Check whether the last plan changed the master. A known one cannot, even if a degenerate basis changes."""
    if np.any((memory.f == f_new) & np.all(memory.g == g_new, axis=1)):
        return False
    return memory.warm is None or answer.warm is None or set(answer.warm.basis) != set(memory.warm.basis)


def _solve_robustly(
    program: AffineProgram,
    f: Float[np.ndarray, "k"],
    g: Float[np.ndarray, "k m"],
    warm: WarmStart | None,
    *,
    accept: Float[np.ndarray, "m"],
) -> MasterSolution | None:
    """Solve the master: from the last basis, else from scratch, else by a general solver; None if all fail."""
    for start, lp in ((warm, solve_by_simplex), (None, solve_by_simplex), (None, solve_by_highs)):
        try:
            return solve_master(program, f, g, start, accept=accept, lp=lp)
        except np.linalg.LinAlgError:
            continue
    return None


def list_origins(
    program: AffineProgram, known: Sequence[Reply]
) -> tuple[Float[np.ndarray, "k m"], Bool[np.ndarray, "k"]]:
    """Return the multipliers of known plans, and whether their costs are costs of this program, which they bound."""
    m, size = program.limits.size, program.objective.size
    nothing = np.full(m, np.nan)
    gammas = np.array([nothing if r.gamma is None or r.gamma.size != m else r.gamma for r in known]).reshape(
        len(known), m
    )
    thetas = np.array([reply.theta for reply in known]).reshape(len(known), size)
    own_thetas = program.objective.reshape(size) + gammas @ program.rows.reshape(m, size)
    fits = np.abs(own_thetas - thetas).max(axis=1) <= 1e-12 * np.abs(thetas).max(axis=1)
    return np.where(fits[:, None], gammas, 0.0), fits


def read_weight(duals: Duals[Any]) -> float:
    """Return the weight of the objective in the next cost: 0 while the least violation is searched."""
    return duals.memory.objective_weight if isinstance(duals.memory, Plans) else 1.0


def _read_value(bound: Bound) -> float:
    return bound.value
