"""The fully corrective dual player: keep every plan, mix them as well as possible, ask where the mix is weak.

The multipliers of the master problem (`_master`) say where the mix is weak, but they jump about while plans are few.
So the next plan is made for a point between them and the multipliers with the best bound so far, by a
share that adapts itself (price smoothing: Wentges 1997; Pessoa, Sadykov, Uchoa and Vanderbeck 2018). With many
constraints that takes less than half of the plans (docs/architecture.md). In phase 1 the multipliers price the
constraints alone, and a positive bound there proves that no policy satisfies them all.

Plans that are known from another problem over the same model enter the master like any other. Their bounds are kept
where the cost they were made for is one of this problem too: then only the limits have changed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float

from bidual.convex import AffineProgram
from bidual.dual._base import AbstractDual, Bound, Duals, Reply, check_smoothing
from bidual.dual._master import Answer, Warm, solve_master
from bidual.dual._simplex import highs, simplex
from bidual.planners import Plan


class Plans(NamedTuple):
    """The images of all plans so far, where the master problem stood, and how the next gamma was chosen."""

    f: Float[np.ndarray, "k"]
    g: Float[np.ndarray, "k m"]
    gamma: Float[np.ndarray, "m"]  # the multipliers the next plan is made for
    objective_weight: float  # 0 while only the violation is being minimised (phase 1)
    warm: Warm | None
    target: Float[np.ndarray, "m"]  # the master's own multipliers
    smoothing: float  # share of the best multipliers so far, when a plan was learned from
    misses: int  # plans in a row that the master had no use for
    smoothed: bool  # whether the next gamma differs from the target


@final
@dataclass(frozen=True)
class FullyCorrective(AbstractDual[AffineProgram, Plans]):
    """Column generation with an exact master.

    Args:
        smoothing: the share of the best multipliers so far in the next ones, to begin with; 0 turns it off.
        first: the multipliers that the first plan is made for; None: 0, the objective alone.
    """

    smoothing: float = 0.3
    first: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        """Check the setting."""
        check_smoothing(self.smoothing)

    def init(self, program: AffineProgram) -> Duals[Plans]:
        """Start from the objective and the first multipliers."""
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
        """Start from the best mixture of known plans, with the bounds that still hold."""
        afresh = self.init(program)
        images = [program.values(reply.plan.embedding) for reply in known]
        f = np.array([image[0] for image in images])
        g = np.array([image[1] for image in images]).reshape(f.size, program.limits.size)
        gammas, fits = origins(program, known)
        bounds = np.where(fits, f + np.sum(gammas * g, axis=1), -np.inf)
        best = int(np.argmax(bounds)) if fits.any() else None
        optimum = afresh.optimum if best is None else Bound(float(bounds[best]), gammas[best])
        return self.resume(program, f, g, optimum) or afresh

    def resume(
        self, program: AffineProgram, f: Float[np.ndarray, "k"], g: Float[np.ndarray, "k m"], optimum: Bound
    ) -> Duals[Plans] | None:
        """Start from plans with these images and from this bound; None where there is no plan or no mixture."""
        answer = _robust_master(program, f, g, None, accept=program.resolution) if f.size else None
        return None if answer is None else self._asked(program, f, g, answer, optimum, self.init(program).memory)

    def step(self, program: AffineProgram, duals: Duals[Plans], plan: Plan) -> Duals[Plans]:
        """Add the plan to the master and solve it again."""
        memory = duals.memory
        f_new, g_new = program.values(plan.embedding)
        # The plan is the cheapest for theta, so its Lagrangian is the minimum: a dual bound.
        bound = Bound(memory.objective_weight * f_new + float(memory.gamma @ g_new), memory.gamma)
        in_phase_1 = memory.objective_weight == 0
        optimum = duals.optimum if in_phase_1 else max(duals.optimum, bound, key=_value)
        conflict = max(duals.conflict, bound, key=_value) if in_phase_1 else duals.conflict
        f, g = np.append(memory.f, f_new), np.vstack([memory.g, g_new])
        # Phase 1 goes on to the last digit, so that the policy does not profit from a violation within tolerance.
        answer = _robust_master(program, f, g, memory.warm, accept=program.resolution)
        learned = answer is not None and _learned(memory, answer, f_new, g_new)
        if answer is not None and answer.objective_weight == 0 and not learned:
            # As feasible as it gets: the rest of the tolerance leaves the certificate room for its slack, a quarter.
            answer = _robust_master(program, f, g, memory.warm, accept=0.7 * program.tolerances)
            learned = answer is not None and answer.objective_weight > 0
        if answer is None:
            # Keep what is known: the bounds stand, the mixture does not use the new plan.
            weights = np.append(duals.weights, 0.0) if duals.weights.size else np.ones(1)
            duals = replace(duals, weights=weights, f=float(weights @ f), g=weights @ g)
            return replace(duals, optimum=optimum, conflict=conflict, stalled=True, memory=memory._replace(f=f, g=g))
        adapted = memory._replace(
            smoothing=self._adapt(memory, g_new, optimum), misses=0 if learned else memory.misses + 1
        )
        duals = self._asked(program, f, g, answer, optimum, adapted)
        return replace(duals, conflict=conflict, stalled=not learned and not memory.smoothed)

    def _asked(
        self,
        program: AffineProgram,
        f: Float[np.ndarray, "k"],
        g: Float[np.ndarray, "k m"],
        answer: Answer,
        optimum: Bound,
        memory: Plans,
    ) -> Duals[Plans]:
        """The state after this master: where the next plan is wanted."""
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
        """Smooth less where the new supergradient points on towards the target, more where it points back."""
        if not memory.smoothed:
            return memory.smoothing
        if g_new @ (memory.target - optimum.gamma) > 0:
            return max(0.0, memory.smoothing - 0.1)
        return memory.smoothing + 0.1 * (1 - memory.smoothing)

    def _share(self, answer: Answer, smoothing: float, misses: int) -> float:
        """How much of the best multipliers to keep: less after each miss, until the target itself is tried."""
        if answer.objective_weight == 0 or self.smoothing == 0:
            return 0.0
        return max(0.0, 1 - (misses + 1) * (1 - smoothing))


def _learned(memory: Plans, answer: Answer, f_new: float, g_new: Float[np.ndarray, "m"]) -> bool:
    """Whether the last plan changed the master. One seen before cannot, whatever a degenerate basis does."""
    if np.any((memory.f == f_new) & np.all(memory.g == g_new, axis=1)):
        return False
    return memory.warm is None or answer.warm is None or set(answer.warm.basis) != set(memory.warm.basis)


def _robust_master(
    program: AffineProgram,
    f: Float[np.ndarray, "k"],
    g: Float[np.ndarray, "k m"],
    warm: Warm | None,
    *,
    accept: Float[np.ndarray, "m"],
) -> Answer | None:
    """Solve the master: from where it stood, else from scratch, else by a general solver; None if all fail."""
    for start, lp in ((warm, simplex), (None, simplex), (None, highs)):
        try:
            return solve_master(program, f, g, start, accept=accept, lp=lp)
        except np.linalg.LinAlgError:
            continue
    return None


def origins(program: AffineProgram, known: Sequence[Reply]) -> tuple[Float[np.ndarray, "k m"], Bool[np.ndarray, "k"]]:
    """The multipliers of known plans, and which of their costs are costs of this program too: these bound it."""
    m, size = program.limits.size, program.objective.size
    nothing = np.full(m, np.nan)
    gammas = np.array([nothing if r.gamma is None or r.gamma.size != m else r.gamma for r in known]).reshape(
        len(known), m
    )
    thetas = np.array([reply.theta for reply in known]).reshape(len(known), size)
    made = program.objective.reshape(size) + gammas @ program.rows.reshape(m, size)
    fits = np.abs(made - thetas).max(axis=1) <= 1e-12 * np.abs(thetas).max(axis=1)
    return np.where(fits[:, None], gammas, 0.0), fits


def _value(bound: Bound) -> float:
    return bound.value
