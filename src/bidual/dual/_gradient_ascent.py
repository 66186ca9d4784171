"""The dual player of the paper: one projected gradient step of (alpha, beta, gamma) per plan (Algorithm 1, lines 2-6).

    alpha         <-  ball( alpha + eta_f (y - x) ),                       x = argmax over K of alpha.x - f(x)
    (beta, gamma) <-  cone( beta + eta_g (y - x), gamma + eta_g g(x) ),    x = argmax over K of beta.x - gamma g(x)
    theta = alpha + sum_i beta_i

with the supergradients of spec section 2: the printed line 4 has g in place of its conjugate. At gamma = 0 every
x of K is a maximiser, and x = y gives the plain Lagrangian step (0, g(y)). The averages of the dual variables prove
the better bound, so some plans are computed for them, ever more rarely.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float

from bidual._base.errors import ProblemError
from bidual.dual._averages import (
    Averages,
    count_plan,
    mix_plans,
    outgrows_Gamma,
    record_bound,
    restart_with_double_Gamma,
    start_averaging,
)
from bidual.dual._base import AbstractDual, Bound, Duals, Reply
from bidual.dual.projections import Pair, project_onto_ball, project_onto_cone
from bidual.planners import Plan
from bidual.problem.convex import Affine, Term, VariationalProgram


class Variables(NamedTuple):
    """A point of the dual: alpha of the objective, (beta, gamma) of every constraint."""

    alpha: Float[np.ndarray, "n"]
    pairs: tuple[Pair, ...]


class Ascent(NamedTuple):
    """The dual variables of this iteration and their averages over all."""

    now: Variables
    mean: Variables
    squares: tuple[float, ...] | None = None  # sums of squared gradients of every constraint, where steps follow them


@final
@dataclass(frozen=True, repr=False)
class GradientAscent(AbstractDual[VariationalProgram, Averages[Ascent]]):
    """Projected gradient ascent with steps of order 1 / sqrt t.

    Args:
        Gamma: no optimal multiplier is larger; at least twice the largest is best. By default `solve` starts from an
            eighth of the Gamma that `bd.slater` finds, with `doubling`.
        literal: take gradient steps for linear functions too. Their conjugate is the indicator of one point, so
            that by default alpha = w and beta = gamma w are known and only gamma is searched.
        doubling: start again with twice the Gamma when an average multiplier exceeds half of it.
        growth: growth factor of the time from one bound at the averages to the next.
        steps: "ranges", of the size that the compact sets allow; or "adaptive", those of (beta, gamma) of a constraint
            D / sqrt(2 sum |gradient|^2) over the gradients so far, with D the diameter of its cone. Their regret is at
            most sqrt(2) D times the root of that sum, and so of order sqrt(t) as well; one bad plan in an early model
            does not set the scale for long.
        floor: the least multiplier of an inequality, as a share of Gamma. A plan that is free to use up a limit uses
            hundreds of times of it where controls cost nothing else; a floor costs at most itself times the range of g.
    """

    Gamma: float | None = None
    literal: bool = False
    doubling: bool = False
    growth: float = 1.25
    steps: str = "ranges"
    floor: float = 0.0

    def __post_init__(self) -> None:
        """Check the settings."""
        check_settings(self.Gamma, self.growth)
        if self.steps not in ("ranges", "adaptive"):
            raise ProblemError(f"steps are by 'ranges' or 'adaptive'; got {self.steps!r}")
        if not 0 <= self.floor < 1:
            raise ProblemError(
                f"the floor of multipliers is a share of Gamma, from 0 to less than 1; got {self.floor!r}"
            )

    def __repr__(self) -> str:
        """Return the settings as stored runs name them: those that came later only where they are others."""
        names = ["Gamma", "literal", "doubling", "growth"]
        names += [name for name, value in (("steps", "ranges"), ("floor", 0.0)) if getattr(self, name) != value]
        return f"GradientAscent({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    def init(self, program: VariationalProgram) -> Duals[Averages[Ascent]]:
        """Return the state at alpha = 0 (or its known value), without multipliers."""
        return self.restart(program, ())

    def restart(self, program: VariationalProgram, known: Sequence[Reply]) -> Duals[Averages[Ascent]]:
        """Return the same state; known plans serve only for the Slater point."""
        _check_lipschitz(program)
        images = np.array([program.image(reply.plan.embedding) for reply in known])
        Gamma = require_Gamma(self.Gamma)
        start = self._start(program, Gamma)
        duals = start_averaging(program, start, images.reshape(len(known), program.image.size), Gamma)
        return self._ask(program, duals, start.now)

    def step(self, program: VariationalProgram, duals: Duals[Averages[Ascent]], plan: Plan) -> Duals[Averages[Ascent]]:
        """Take the gradient step of the plan, or record the bound that it proves."""
        y = program.image(plan.embedding)
        memory = duals.memory
        if memory.bounding:
            duals = record_bound(duals, _bound(program, memory.state.mean, y), self.growth)
            if self.doubling and outgrows_Gamma(memory, [pair.gamma for pair in memory.state.mean.pairs]):
                duals = restart_with_double_Gamma(duals, self._start(program, 2 * memory.Gamma))
            return self._ask(program, duals, duals.memory.state.now)
        now = memory.state.now
        duals = count_plan(duals, y)
        t = duals.memory.t
        mean = _update_mean(memory.state.mean, now, t)
        if self.steps == "adaptive":
            after, squares = self._step_adaptively(program, memory.state, y, t, memory.Gamma)
            ascent = Ascent(after, mean, squares)
        else:
            ascent = Ascent(self._step_variables(program, now, y, t, memory.Gamma), mean)
        duals = replace(duals, memory=replace(duals.memory, state=ascent))
        if t < duals.memory.next_bound:
            return self._ask(program, duals, ascent.now)
        duals = mix_plans(program, duals)
        duals = replace(duals, memory=replace(duals.memory, bounding=True))
        return self._ask(program, duals, ascent.mean)

    def _start(self, program: VariationalProgram, Gamma: float) -> Ascent:
        alpha = self._find_fixed_slope(program.f, 1.0)
        pairs = []
        for term, equal in zip(program.g, program.equality, strict=True):
            gamma = 0.0 if equal else self.floor * Gamma
            beta = self._find_fixed_slope(term, gamma) if gamma else None
            pairs.append(Pair(np.zeros(term.rows.size), gamma) if beta is None else Pair(beta, gamma))
        start = Variables(np.zeros(program.f.rows.size) if alpha is None else alpha, tuple(pairs))
        return Ascent(start, start, (0.0,) * len(pairs) if self.steps == "adaptive" else None)

    def _step_variables(
        self, program: VariationalProgram, now: Variables, y: Float[np.ndarray, "n"], t: int, Gamma: float
    ) -> Variables:
        """Run lines 2 to 5 of Algorithm 1."""
        pairs = [
            self._step_constraint(
                term, pair, term.part(y), Gamma / math.sqrt(t), -Gamma if equal else self.floor * Gamma, Gamma
            )
            for term, pair, equal in zip(program.g, now.pairs, program.equality, strict=True)
        ]
        return Variables(self._step_objective(program.f, now.alpha, program.f.part(y), t), tuple(pairs))

    def _step_objective(
        self, term: Term, alpha: Float[np.ndarray, "n"], y: Float[np.ndarray, "n"], t: int
    ) -> Float[np.ndarray, "n"]:
        fixed, f = self._find_fixed_slope(term, 1.0), term.function
        if fixed is not None:
            return fixed
        eta = 2 * f.lipschitz / (max(f.K.diameter, 1e-300) * math.sqrt(t))
        return project_onto_ball(alpha + eta * (y - f.conjugate_argmax(alpha, 1.0, y)), f.lipschitz)

    def _step_constraint(
        self, term: Term, pair: Pair, y: Float[np.ndarray, "n"], length: float, low: float, high: float
    ) -> Pair:
        """Step (beta, gamma), or gamma alone in [low, high] where beta follows from it."""
        g, (beta, gamma) = term.function, pair
        largest = max(g.largest, 1e-300)
        if low < 0 or self._find_fixed_slope(term, gamma) is not None:
            gamma = float(np.clip(gamma + length / largest * g.value(y), low, high))
            return Pair(gamma * g.gradient(y), gamma)
        L, D = g.lipschitz, g.K.diameter
        eta = length * max(2 * L, math.hypot(1, L)) / math.hypot(D, largest)
        x = g.conjugate_argmax(beta, gamma, y)
        return project_onto_cone(beta + eta * (y - x), gamma + eta * g.value(x), L, high)

    def _step_adaptively(
        self, program: VariationalProgram, state: Ascent, y: Float[np.ndarray, "n"], t: int, Gamma: float
    ) -> tuple[Variables, tuple[float, ...]]:
        """Run lines 2 to 5 with steps of the multipliers of the length that their gradients so far ask for."""
        squares, pairs, before = [], [], state.squares or ()
        for term, pair, equal, seen in zip(program.g, state.now.pairs, program.equality, before, strict=True):
            g, z = term.function, term.part(y)
            if equal or self._find_fixed_slope(term, pair.gamma) is not None:
                squares.append(seen + g.value(z) ** 2)
                low = -Gamma if equal else self.floor * Gamma
                gamma = float(np.clip(pair.gamma + _measure_step(Gamma - low, squares[-1]) * g.value(z), low, Gamma))
                pairs.append(Pair(gamma * g.gradient(z), gamma))
                continue
            x, L = g.conjugate_argmax(pair.beta, pair.gamma, z), g.lipschitz
            squares.append(seen + float((z - x) @ (z - x)) + g.value(x) ** 2)
            eta = _measure_step(Gamma * max(2 * L, math.hypot(1, L)), squares[-1])
            moved = project_onto_cone(pair.beta + eta * (z - x), pair.gamma + eta * g.value(x), L, Gamma)
            pairs.append(Pair(moved.beta, max(moved.gamma, self.floor * Gamma)))
        alpha = self._step_objective(program.f, state.now.alpha, program.f.part(y), t)
        return Variables(alpha, tuple(pairs)), tuple(squares)

    def _find_fixed_slope(self, term: Term, gamma: float) -> Float[np.ndarray, "n"] | None:
        """Return the known dual variable of a linear function; None where it is searched."""
        function = term.function
        return gamma * function.weights if isinstance(function, Affine) and not self.literal else None

    def _ask(
        self, program: VariationalProgram, duals: Duals[Averages[Ascent]], at: Variables
    ) -> Duals[Averages[Ascent]]:
        theta = program.image.adjoint(program.slope(at.alpha, [pair.beta for pair in at.pairs]))
        return replace(duals, theta=theta)


def _measure_step(diameter: float, squares: float) -> float:
    """Return the step D / sqrt(2 sum |gradient|^2) of AdaGrad for one block; 0 before any gradient."""
    return diameter / math.sqrt(2 * squares) if squares > 0 else 0.0


def check_settings(Gamma: float | None, growth: float) -> None:
    """Check that the bound on multipliers is positive, and that bounds are taken ever more rarely."""
    if Gamma is not None and not (math.isfinite(Gamma) and Gamma > 0):
        raise ProblemError(
            f"Gamma, the bound on the multipliers, must be a positive number; got {Gamma!r}. bd.slater finds one"
        )
    if not growth > 1:
        raise ProblemError(f"growth must be more than 1; got {growth!r}")


def require_Gamma(Gamma: float | None) -> float:
    """Return the bound on the multipliers; refused if None, because the loop does not find one by itself."""
    if Gamma is None:
        raise ProblemError("the loop needs Gamma, a bound on the multipliers: bd.slater finds one, bd.solve asks it")
    return Gamma


def _check_lipschitz(program: VariationalProgram) -> None:
    """Raise `ProblemError` for a function without a bound on its slope."""
    for what, term in (("the objective", program.f), *((f"constraint {i}", g) for i, g in enumerate(program.g))):
        try:
            if math.isfinite(term.function.lipschitz):
                continue
            reason = "an entropy has no bound on its slope near 0"
        except ProblemError as error:
            reason = str(error)
        raise ProblemError(
            f"{what} has no Lipschitz constant ({reason}), so its dual variables have no bound: use FollowTheLeader"
        )


def _update_mean(mean: Variables, now: Variables, t: int) -> Variables:
    pairs = [
        Pair(old.beta + (new.beta - old.beta) / t, old.gamma + (new.gamma - old.gamma) / t)
        for old, new in zip(mean.pairs, now.pairs, strict=True)
    ]
    return Variables(mean.alpha + (now.alpha - mean.alpha) / t, tuple(pairs))


def _bound(program: VariationalProgram, at: Variables, y: Float[np.ndarray, "n"]) -> Bound:
    """Compute the dual function at a point where the cheapest policy for its cost has the image y."""
    slope = program.slope(at.alpha, [pair.beta for pair in at.pairs])
    value = float(at.alpha @ program.f.part(y)) - program.f.function.conjugate(at.alpha, 1.0)
    for term, pair, equal in zip(program.g, at.pairs, program.equality, strict=True):
        # An equality is affine: its multiplier adds gamma g(y), whatever its sign.
        conjugate = -pair.gamma * _read_constant(term) if equal else term.function.conjugate(pair.beta, pair.gamma)
        value += float(pair.beta @ term.part(y)) - conjugate
    return Bound(value, np.array([pair.gamma for pair in at.pairs]), slope=slope)


def _read_constant(term: Term) -> float:
    assert isinstance(term.function, Affine)  # equalities are
    return term.function.constant
