"""Algorithm 1 of the paper while a model is being learned: one optimistic plan, one episode, one step of the dual.

The dual player steps by the embedding of the plan under its optimistic law, not by the observed signals (spec
section 4): the episode serves the model. The paper returns the uniform mixture of all policies that were run.

In the paper's tabular canonical embedding Psi is the occupancy of every step, state and action. K is a simplex for
every step, alpha has as many entries as there are steps, states and actions, and a linear function w . Psi has the
Lipschitz constant |w|. Everywhere else dual variables are kept for what a function really depends on, which for a
linear one is a single number.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, final

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from bidual._base.keys import Draw
from bidual.dual import AbstractDual, Duals, FollowTheLeader, GradientAscent
from bidual.loop.explorers._base import AbstractExplorer, Choice
from bidual.models import AbstractCounted
from bidual.planners import BackwardInduction, ExtendedValueIteration, Plan, choose_optimistic_planner
from bidual.problem.convex import (
    AbstractProgram,
    Affine,
    Image,
    Product,
    Simplex,
    Term,
    VariationalProgram,
)
from bidual.problem.features import Pieces
from bidual.problem.modelling import make_variational
from bidual.world.policies import Played

_PRICES = (0.25, 1.0, 4.0, 16.0)  # of the constraints, in units of the slope of the objective


class DualSteps(NamedTuple):
    """The problem with conjugates, its features, the dual player with its Gamma, and its state."""

    program: VariationalProgram
    pieces: Pieces
    dual: AbstractDual[VariationalProgram, Any]
    duals: Duals[Any]


@final
@dataclass(frozen=True)
class PrimalDual(AbstractExplorer[DualSteps]):
    """The explorer of the paper's loop; with `lift_to_occupancies` and literal gradient ascent to the letter.

    Args:
        dual: `GradientAscent`, with ``literal=True`` for gradient steps of linear functions too, or
            `FollowTheLeader`. Without a Gamma it starts from the Gamma of a Slater point under the most favourable
            law, and doubles it.
        canonical: dual variables for every step, state and action, as in the paper's tabular case, where the problem is
            linear and its signals depend on state and action; otherwise for the arguments of its functions.
    """

    dual: GradientAscent | FollowTheLeader = field(default_factory=GradientAscent)
    canonical: bool = False

    @property
    def guarantee(self) -> str:
        """The guarantee of the paper."""
        return "by primal-dual steps: regret and violation of the mixture of order sqrt(episodes)"

    def init(self, program: AbstractProgram, knowledge: AbstractCounted) -> DualSteps:
        """Return the state before the first plan; the compact sets contain the values of any episode under any law."""
        pieces, dual = knowledge.pieces, self.dual
        psi = None if pieces.arrivals or pieces.observed else pieces.psi
        functions = make_variational(program, psi, _build_least(knowledge))
        if dual.Gamma is None:
            dual = replace(dual, Gamma=compute_first_Gamma(functions), doubling=True)
        lifted = lift_to_occupancies(program, pieces) if self.canonical else None
        functions, pieces = lifted or (functions, pieces)
        return DualSteps(functions, pieces, dual, dual.init(functions))

    def __call__(
        self, program: AbstractProgram, memory: DualSteps, knowledge: AbstractCounted, draw: Draw
    ) -> tuple[Choice, DualSteps]:
        """Plan for the present cost, and take a step. Plans for bounds and for the start are not run."""
        functions, pieces, dual, duals = memory
        if duals.soft and knowledge.initial is None and not knowledge.counts.episodes:
            # Start states are unknown yet, so no average can begin: run any policy to observe one.
            return Choice(_to_policy(knowledge, _plan_optimistically(knowledge, pieces, duals.theta)), 1), memory
        aside = 0
        while duals.soft or duals.memory.bounding:
            duals = dual.step(functions, duals, _plan_aside(knowledge, pieces, duals))
            aside += 1
        plan = _plan_optimistically(knowledge, pieces, duals.theta)
        return Choice(_to_policy(knowledge, plan), aside + 1), memory._replace(duals=dual.step(functions, duals, plan))


def _plan_optimistically(knowledge: AbstractCounted, pieces: Pieces, theta: Float[np.ndarray, "H d"]) -> Plan:
    layout = knowledge.layout if pieces is knowledge.pieces else knowledge.confidence_set.restrict(pieces)
    return choose_optimistic_planner(knowledge.confidence_set)(knowledge.confidence_set, layout, theta)


def _to_policy(knowledge: AbstractCounted, plan: Plan) -> Played:
    assert plan.actions is not None  # only soft plans have none
    return knowledge.to_environment_policy(knowledge.confidence_set.policy(plan.actions))


def _plan_aside(knowledge: AbstractCounted, pieces: Pieces, duals: Duals[Any]) -> Plan:
    """Plan at the averages, or where an average begins return the uniform policy, in the smoothed model."""
    if not duals.soft:
        return _plan_optimistically(knowledge, pieces, duals.theta)
    model, psi = knowledge.estimate
    psi = psi if pieces is knowledge.pieces else pieces.psi
    return BackwardInduction().soft(model, model.restrict(psi), duals.theta)


def _build_least(knowledge: AbstractCounted) -> Callable[[Float[np.ndarray, "H d"]], float]:
    """Return the function of theta that minimises the cost of an episode over laws within the declared support."""
    model = knowledge.all_supported_laws
    if model is None:  # only the bounds of signals are known
        return lambda theta: float(knowledge.pieces.span(theta[None])[0][0])
    layout = model.restrict(knowledge.pieces)
    return lambda theta: ExtendedValueIteration()(model, layout, theta).lower


def compute_first_Gamma(functions: VariationalProgram) -> float:
    """Compute 2 (f at a Slater point - the least f) / room, with the most room and the least f over all laws.

    A true Slater point has less room: then Gamma doubles.
    """
    f = functions.f.function
    width = float(np.ptp(_find_ends(f))) if isinstance(f, Affine) else 2 * functions.f.size
    rooms = [-_find_ends(g.function).min() if isinstance(g.function, Affine) else g.size for g in functions.g]
    room = min([room for room in rooms if room > 0], default=1.0)
    return float(max(2 * width / room, 1e-3))


def search_Gamma(
    functions: VariationalProgram, plan_for: Callable[[Float[np.ndarray, "H d"]], Plan], first: Plan
) -> tuple[float, int]:
    """Search for a Slater point along prices; return 2 (f there - the least f) / room, and the number of plans.

    The paper's linear search, in one model: plans for the slope of f at the first plan and for a price on every
    constraint, and for the constraints alone. The smallest Gamma of a point with room is taken; where there is none,
    infinity. The model is an estimate and the least f that of these plans, so that doubling has to stay.
    """
    image = functions.image
    y = image(first.embedding)
    slopes = [term.function.gradient(term.part(y)) for term in functions.g]
    rows = ~functions.equality
    alpha = functions.f.function.gradient(functions.f.part(y))
    sizes = [float(np.linalg.norm(slope)) for slope in slopes]
    if not rows.any() or not all(sizes):
        return np.inf, 0
    unit = max(float(np.linalg.norm(alpha)) / min(sizes), 1e-12)
    thetas = [functions.slope(alpha, [unit * price * slope for slope in slopes]) for price in _PRICES]
    thetas.append(functions.slope(0 * alpha, slopes))
    seen = [y, *(image(plan_for(image.adjoint(theta)).embedding) for theta in thetas)]
    values = [functions.values(point) for point in seen]
    least, rooms = min(f for f, _ in values), [-g[rows].max() for _, g in values]
    found = [2 * (f - least) / room for (f, _), room in zip(values, rooms, strict=True) if room > 0 and f > least]
    return (max(min(found), 1e-6), len(thetas)) if found else (np.inf, len(thetas))


def _find_ends(function: Affine) -> Float[np.ndarray, "2"]:
    """Compute the least and the largest value of a linear function on its set."""
    least, largest = (function.value(function.K.maximiser(sign * function.weights)) for sign in (-1.0, 1.0))
    return np.array([least, largest])


def lift_to_occupancies(program: AbstractProgram, pieces: Pieces) -> tuple[VariationalProgram, Pieces] | None:
    """Lift a linear problem to occupancies, with these as features; None where they do not determine its values."""
    linear = program.linear
    if linear is None or pieces.arrivals or pieces.observed:
        return None
    H, (S, A) = program.horizon, pieces.stage.shape[2:]
    n = H * S * A
    K = Product((Simplex(S * A, 1.0),) * H)
    terms = [
        Term(Affine(_lift(row, pieces), float(constant), K), np.arange(n), np.zeros(n))
        for row, constant in zip(*linear.functionals(), strict=True)
    ]
    image = Image(sp.csr_array(sp.eye_array(n)), np.zeros(n), H, total=False)
    functions = VariationalProgram(image, terms[0], tuple(terms[1:]), program.equality, program.units)
    return functions, Pieces(np.zeros((1, 0, S, A)), occupancy=True)


def _lift(row: Float[np.ndarray, "H d"], pieces: Pieces) -> Float[np.ndarray, "n"]:
    """Compute the signal of every step, state and action under a linear function."""
    return np.concatenate([pieces.psi.pay(theta, h).ravel() for h, theta in enumerate(row)])
