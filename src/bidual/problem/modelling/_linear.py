"""Problems that are linear in the embedding: rows over it, which an exact small master takes directly."""

from collections.abc import Mapping

import cvxpy as cp
import numpy as np

from bidual._base.errors import ProblemError
from bidual.problem.convex import AffineProgram, read_affine_program
from bidual.problem.features.embedding import Embedding
from bidual.problem.modelling._compile import reduce_to_cones


class LinearProblem:
    """A linear problem, compiled once; `program` fills in the parameters."""

    def __init__(
        self, objective: cp.Minimize | cp.Maximize, named: Mapping[str, cp.Constraint], embedding: Embedding
    ) -> None:
        self._constraints = dict(named)
        self._embedding = embedding
        self._cone = reduce_to_cones(cp.Problem(objective, list(named.values())))

    @property
    def is_plain(self) -> bool:
        """Whether CVXPY's reduction added no variables of its own, as it does for a cumulative sum."""
        return self._cone.x.size == self._embedding.size

    def program(self) -> AffineProgram:
        """Return the program at the parameters' present values."""
        program = read_affine_program(
            self._cone,
            [constraint.id for constraint in self._constraints.values()],
            [constraint.size for constraint in self._constraints.values()],
            horizon=self._embedding.horizon,
            total=self._embedding.total,
        )
        self._check_finite(program)
        return program

    def _check_finite(self, program: AffineProgram) -> None:
        advice = "contains NaN or infinity: every coefficient must be finite"
        if not (np.isfinite(program.offset) and np.all(np.isfinite(program.objective))):
            raise ProblemError(f"the objective {advice}")
        finite = np.isfinite(program.limits) & np.all(np.isfinite(program.rows), axis=(1, 2))
        owners = np.repeat(list(self._constraints), [constraint.size for constraint in self._constraints.values()])
        if not finite.all():
            raise ProblemError(f"constraint {str(owners[~finite][0])!r} {advice}")
