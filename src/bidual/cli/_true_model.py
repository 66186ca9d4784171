"""The true values of a learned policy, where the command knows the model that was hidden from the learner."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from bidual.certificate.constraints import ConstraintResult
    from bidual.learning.learned import Learned
    from bidual.problem.modelling import Problem
    from bidual.solving.solution import Solution
    from bidual.world.mdp import TabularMDP


@final
@dataclass(frozen=True, eq=False)
class TrueModel:
    """The policy in the true model, and the optimum there."""

    value: float
    constraints: "tuple[ConstraintResult, ...]"
    best: "Solution"

    @property
    def optimum(self) -> float | None:
        """The optimum; None where no policy keeps the constraints, or none was found."""
        return self.best.value if self.best.status in ("optimal", "feasible") else None

    def __str__(self) -> str:
        limits = ", ".join(_describe_constraint(constraint) for constraint in self.constraints)
        lines = [f"the policy reaches {self.value:.6g} there{' with ' if limits else ''}{limits}"]
        if self.optimum is None:
            lines.append(f"the problem is {self.best.status} there")
        else:
            lines.append(f"the optimum there is {self.optimum:.6g}")
        return "\n".join(f"  {'true model':<12} {line}" for line in lines)


def evaluate_in_true_model(solution: "Learned", problem: "Problem", mdp: "TabularMDP") -> TrueModel:
    """Evaluate the policy and solve the problem, both in the true model."""
    import numpy as np

    from bidual.certificate import Evidence, Record, certify
    from bidual.certificate.constraints import list_constraint_results
    from bidual.solving.search import prepare
    from bidual.solving.solve import solve
    from bidual.world.policies import MarkovPolicy

    program, instance = prepare(problem, mdp)
    nothing = Record(np.zeros(program.equality.size if program.is_linear else 0), 1.0)
    assert isinstance(solution.policy, MarkovPolicy)  # over the states of the model that is simulated
    certificate = certify(Evidence(program, instance.psi, mdp, solution.policy, nothing))
    value = -certificate.value if problem.maximises else certificate.value
    return TrueModel(value, list_constraint_results(problem.lines(), certificate, None), solve(problem, mdp))


def _describe_constraint(c: "ConstraintResult") -> str:
    kept = c.violation_upper <= 1e-9 * max(1.0, abs(c.limit))
    return f"{c.name} {c.value:.6g} {c.sense} {c.limit:.6g} ({'holds' if kept else 'violated'})"
