"""Convex problems while exploring: one Frank-Wolfe step per plan, on the problem linearised at the average so far.

The minimum over policies of the linearised objective under the linearised constraints is a linear problem, and the
corrective loop solves it with its own multipliers: no step size for them, no bound Gamma. The average of the solutions
approaches the optimum as 1/t in a fixed model, which suffices for exploration: the policies returned at the end come
from a full solve.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float

from bidual._base.errors import ProblemError
from bidual.loop.explorers._base import AbstractInner, Corrective, PlanMixture
from bidual.loop.explorers._conic import Conic
from bidual.models import AbstractModel, Layout, Stage
from bidual.planners import AbstractPlanner
from bidual.problem.convex import AbstractProgram, AffineProgram, ConvexProgram


class Average(NamedTuple):
    """The average image so far, the number of solutions in it, and the multipliers of the last."""

    image: Float[np.ndarray, "n"] | None
    answers: int
    warm: tuple[float, ...] | None


@final
@dataclass(frozen=True)
class Linearised(AbstractInner[ConvexProgram, Average]):
    """The Frank-Wolfe method with constraints.

    Args:
        linear: the solver of the linearised problems.
        memory: number of solutions after which the step stays constant, because the model changes.
    """

    linear: Corrective = field(default_factory=Corrective)
    memory: int = 50

    def init(self, program: ConvexProgram) -> Average:
        """Return an empty average; refuse auxiliary variables."""
        if program.num_auxiliary:
            raise ProblemError(
                "this problem minimises over other variables besides the embedding, which Linearised cannot: leave out "
                "the inner solver, or give bd.explorers.Conic()"
            )
        return Average(None, 0, None)

    def __call__(
        self,
        program: ConvexProgram,
        model: AbstractModel,
        psi: Layout | Stage,
        planner: AbstractPlanner[Any],
        warm: Average,
    ) -> tuple[PlanMixture, Average]:
        """Linearise at the average, solve, and move the average towards the solution."""
        y = (
            program.image(planner(model, psi, self._make_zero_cost(program)).embedding)
            if warm.image is None
            else warm.image
        )
        straight = _linearise(program, y)
        mixed, embedding, gamma = self.linear.solve(straight, model, psi, planner, warm.warm)
        step = 2 / (min(warm.answers, self.memory) + 2)
        return mixed, Average(y + step * (program.image(embedding) - y), warm.answers + 1, gamma)

    def _make_zero_cost(self, program: ConvexProgram) -> Float[np.ndarray, "H d"]:
        return program.image.adjoint(np.zeros(program.image.size))


def choose_inner(
    inner: AbstractInner[Any, Any] | None, program: AbstractProgram, linear: Corrective | None = None
) -> AbstractInner[Any, Any]:
    """Return the inner solver that was given, or the one for this kind of program; `linear` solves linear ones."""
    linear = linear or Corrective()
    return inner or program.dispatch(lambda _: linear, lambda cones: _choose_for_cones(cones, linear))


def _choose_for_cones(program: ConvexProgram, linear: Corrective) -> AbstractInner[Any, Any]:
    if program.num_auxiliary:
        return Conic() if linear.gap is not None else Conic(None, linear.max_plans)
    return Linearised(linear)


def _linearise(program: ConvexProgram, y: Float[np.ndarray, "n"]) -> AffineProgram:
    """Replace f and g by their tangents at y."""
    values, slopes = _compute_tangents(program, y)
    image = program.image
    rows = np.array([image.adjoint(slope) for slope in slopes])
    # f(y) + slope . (B Psi + b - y)
    constants = values + slopes @ (image.offset - y)
    return AffineProgram(
        objective=rows[0],
        offset=float(constants[0]),
        rows=rows[1:],
        limits=-constants[1:],
        equality=program.equality,
        units=program.units,
        resolution=1e-12 * program.units,
    )


def _compute_tangents(
    program: ConvexProgram, y: Float[np.ndarray, "n"]
) -> tuple[Float[np.ndarray, "rows"], Float[np.ndarray, "rows n"]]:
    """Compute values and slopes of the objective and every constraint at an image."""
    if program.smooth is not None:
        values, slopes = program.smooth.gradients(y)
        return np.asarray(values), np.asarray(slopes)
    f, g = program.functions.values(y, np.zeros(0))
    rows = np.eye(g.size)
    slopes = [program.functions.slope(y, np.zeros(g.size), 1.0)]
    slopes += [program.functions.slope(y, row, 0.0) for row in rows]
    found = [np.zeros_like(y) if slope is None else np.nan_to_num(slope) for slope in slopes]
    return np.append(f, g), np.stack(found)
