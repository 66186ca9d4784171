"""What is true of a learned policy, where the command knows the model that the learner was not told."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from bidual.constraints import ConstraintResult
    from bidual.learned import Learned
    from bidual.mdp import TabularMDP
    from bidual.problem import Problem
    from bidual.solution import Solution


@final
@dataclass(frozen=True, eq=False)
class Truth:
    """The policy in the true model, and the optimum there."""

    value: float
    constraints: "tuple[ConstraintResult, ...]"
    best: "Solution"

    @property
    def optimum(self) -> float | None:
        """None where no policy keeps the constraints, or none was found."""
        return self.best.value if self.best.status in ("optimal", "feasible") else None

    def __str__(self) -> str:
        limits = ", ".join(_words(constraint) for constraint in self.constraints)
        lines = [f"the policy reaches {self.value:.6g} there{' with ' if limits else ''}{limits}"]
        if self.optimum is None:
            lines.append(f"the problem is {self.best.status} there")
        else:
            lines.append(f"the optimum there is {self.optimum:.6g}")
        return "\n".join(f"  {'true model':<12} {line}" for line in lines)


def truth_of(solution: "Learned", problem: "Problem", mdp: "TabularMDP") -> Truth:
    """Evaluate the policy and solve the problem, both in the true model."""
    import numpy as np

    from bidual._search import measured, prepare
    from bidual._solve import solve
    from bidual.certificate import Evidence, Record, certify
    from bidual.constraints import constraint_results
    from bidual.convex import AffineProgram
    from bidual.policies import MarkovPolicy

    program, world = prepare(problem, mdp)
    program = measured(program, world)
    nothing = Record(np.zeros(program.equality.size if isinstance(program, AffineProgram) else 0), 1.0)
    assert isinstance(solution.policy, MarkovPolicy)  # over the states of the model that is simulated
    certificate = certify(Evidence(program, world.psi, mdp, solution.policy, nothing))
    value = -certificate.value if problem.maximises else certificate.value
    return Truth(value, constraint_results(problem.lines(), certificate, None), solve(problem, mdp))


def _words(c: "ConstraintResult") -> str:
    kept = c.violation_upper <= 1e-9 * max(1.0, abs(c.limit))
    return f"{c.name} {c.value:.6g} {c.sense} {c.limit:.6g} ({'holds' if kept else 'violated'})"
