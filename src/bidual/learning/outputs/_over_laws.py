"""What an affine law pays under every linear law that may be true: certified without ranges and without episodes."""

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from jaxtyping import Float

from bidual._base.errors import ProblemError
from bidual.certificate import AffineControls, bound_cost, bound_touched
from bidual.models import ControlKnowledge, LinearLaws
from bidual.planners.control import RiccatiOptimist
from bidual.problem.convex import AbstractProgram, AffineProgram
from bidual.storage import collect_linear_rows
from bidual.world.policies import AbstractPolicy, AffineFeedback, ControlPolicy, Mixture

_HALVINGS = 10  # of the factor of a price, whose logarithm is searched


@final
@dataclass(frozen=True, eq=False)
class PolicyBounds:
    """Bounds on what an affine policy pays, under every law that may be true, were its controls not limited.

    With a probability of at most `touched` a control of an episode goes beyond its limits; an episode in which none
    does is the same with them. All of it holds with the probability of the confidence set.
    """

    lower: float  # of the objective, in the problem's own sense
    upper: float
    excess: Float[np.ndarray, "m"]  # at most so much is every constraint exceeded, row by row; below 0: room
    touched: float

    @property
    def keeps(self) -> bool:
        """Whether every constraint is kept under every law that may be true."""
        return bool(np.all(self.excess <= 0))

    def __str__(self) -> str:
        kept = "" if not self.excess.size else f", {'every' if self.keeps else 'not every'} limit kept"
        return (
            f"between {self.lower:.6g} and {self.upper:.6g} under every law that may be true{kept}; a control reaches "
            f"its limits in at most {100 * self.touched:.2g} % of episodes"
        )


def bound_policy(
    policy: AbstractPolicy, knowledge: ControlKnowledge, program: AbstractProgram, sense: float
) -> PolicyBounds:
    """Bound what a policy pays; refused where laws, costs or the policy are of another kind."""
    laws, rows, members = _require_laws(knowledge), collect_linear_rows(_require_linear(program)), _list_laws(policy)
    shares = policy.weights if isinstance(policy, Mixture) else np.ones(1)
    ends = np.array(
        [
            [bound_cost(laws, law, row, size, rows.terms) for row, size in zip(rows.rows, rows.magnitudes, strict=True)]
            for law in members
        ]
    )
    low, high = np.tensordot(shares, ends, axes=1).T
    low, high = low + rows.constants, high + rows.constants
    equality = _require_linear(program).equality
    excess = np.where(equality, np.maximum(np.abs(low[1:]), np.abs(high[1:])), high[1:])
    objective = sorted((sense * float(low[0]), sense * float(high[0])))
    touched = float(shares @ [bound_touched(laws, law) for law in members])
    return PolicyBounds(objective[0], objective[1], excess, touched)


def find_cautious_policy(knowledge: ControlKnowledge, program: AbstractProgram) -> ControlPolicy:
    """Find the cheapest law, along dearer and dearer constraints, that keeps them under every law that may be true."""
    laws, rows = _require_laws(knowledge), _require_linear(program)
    if rows.equality.any():
        raise ProblemError("an equality cannot be kept under every law that may be true: give inequalities")
    estimate = replace(laws, W=knowledge.posterior.mean, radius=0.0, evidence=None)
    each, planner = collect_linear_rows(program), RiccatiOptimist()

    def plan(exponent: float) -> ControlPolicy:
        prices = np.full(rows.limits.size, 10.0**exponent) / rows.units
        policy = planner(estimate, knowledge.stage, rows.theta(prices, 1.0)).actions
        assert isinstance(policy, ControlPolicy)  # of affine laws
        return policy

    def keeps(policy: ControlPolicy) -> bool:
        (law,) = _list_laws(policy)
        functionals = zip(each.rows[1:], each.magnitudes[1:], each.constants[1:], strict=True)
        return all(bound_cost(laws, law, row, size, each.terms)[1] + c <= 0 for row, size, c in functionals)

    exponents = [exponent for exponent in np.arange(-4.0, 9.0) if keeps(plan(exponent))]
    if not exponents:
        raise ProblemError(
            "no law was found that keeps every constraint under all laws that may be true: learn longer, or give more "
            "room"
        )
    high = float(exponents[0])
    low = high - 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if keeps(plan(middle)) else (middle, high)
    return plan(high)


def _require_laws(knowledge: ControlKnowledge) -> LinearLaws:
    if knowledge.laws is None:
        raise ProblemError(f"nothing is proved of a policy without episodes of it: {knowledge.missing}")
    return knowledge.laws


def _require_linear(program: AbstractProgram) -> AffineProgram:
    if program.linear is None:
        raise ProblemError("bounds over linear laws are for objectives and limits that are linear in the signals")
    return program.linear


def _list_laws(policy: AbstractPolicy) -> tuple[AffineControls, ...]:
    """Return the affine laws of a policy or of the members of a mixture."""
    members = policy.members if isinstance(policy, Mixture) else (policy,)
    laws = []
    for member in members:
        law = member.controller if isinstance(member, ControlPolicy) else None
        if not isinstance(law, AffineFeedback):
            raise ProblemError("bounds over linear laws are for affine policies: learn with bd.control.Feedback()")
        laws.append(AffineControls(law.gains, law.controls - np.einsum("hmn,hn->hm", law.gains, law.states)))
    return tuple(laws)
