"""Algorithm 1 of the paper while a model is being learned: one optimistic plan, one episode, one step of the dual.

The dual player moves by the embedding of the plan under its optimistic law, not by what the episode showed (spec
section 4): the episode serves the model. The paper's answer is the uniform mixture of all policies that were run.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float

from bidual._keys import Draw
from bidual.convex import Affine, AffineProgram, ConvexProgram, VariationalProgram
from bidual.dual import AbstractDual, Duals, FollowTheLeader, GradientAscent
from bidual.explorers._base import AbstractExplorer, Choice
from bidual.explorers._canonical import canonical
from bidual.features import Pieces
from bidual.models import AbstractCounted
from bidual.planners import BackwardInduction, ExtendedValueIteration, Plan, optimist
from bidual.policies import Played
from bidual.problem import variational


class Steps(NamedTuple):
    """The problem with conjugates, its features, the dual player with its Gamma, and what it knows."""

    program: VariationalProgram
    pieces: Pieces
    dual: AbstractDual[VariationalProgram, Any]
    duals: Duals[Any]


@final
@dataclass(frozen=True)
class PrimalDual(AbstractExplorer[Steps]):
    """The paper's loop; with `canonical` and literal gradient ascent to the letter.

    Args:
        dual: `GradientAscent`, with ``literal=True`` for gradient steps of linear functions too, or
            `FollowTheLeader`. Where it has no Gamma the search starts from what a Slater point gives in the most
            favourable world, and doubles.
        canonical: dual variables for every step, state and action, as in the paper's tabular case, where the problem is
            linear and its signals depend on state and action; otherwise for what its functions depend on.
    """

    dual: GradientAscent | FollowTheLeader = field(default_factory=GradientAscent)
    canonical: bool = False

    @property
    def guarantee(self) -> str:
        """That of the paper."""
        return "by primal-dual steps: regret and violation of the mixture of order sqrt(episodes)"

    def init(self, program: AffineProgram | ConvexProgram, knowledge: AbstractCounted) -> Steps:
        """Before the first plan; the compact sets hold whatever an episode can pay under any law."""
        pieces, dual = knowledge.pieces, self.dual
        psi = None if pieces.arrivals or pieces.observed else pieces.psi
        functions = variational(program, psi, _least(knowledge))
        if dual.Gamma is None:
            dual = replace(dual, Gamma=first_Gamma(functions), doubling=True)
        lifted = canonical(program, pieces) if self.canonical else None
        functions, pieces = lifted or (functions, pieces)
        return Steps(functions, pieces, dual, dual.init(functions))

    def __call__(
        self, program: AffineProgram | ConvexProgram, memory: Steps, knowledge: AbstractCounted, draw: Draw
    ) -> tuple[Choice, Steps]:
        """Plan for the present cost, and step. Plans for bounds and for the start are not run."""
        functions, pieces, dual, duals = memory
        if duals.soft and knowledge.initial is None and not knowledge.counts.episodes:
            # Nobody knows yet where episodes start, so no average can begin: run anything, to see.
            return Choice(_policy(knowledge, _optimistic(knowledge, pieces, duals.theta)), 1), memory
        aside = 0
        while duals.soft or duals.memory.looking:
            duals = dual.step(functions, duals, _aside(knowledge, pieces, duals))
            aside += 1
        plan = _optimistic(knowledge, pieces, duals.theta)
        return Choice(_policy(knowledge, plan), aside + 1), memory._replace(duals=dual.step(functions, duals, plan))


def _optimistic(knowledge: AbstractCounted, pieces: Pieces, theta: Float[np.ndarray, "H d"]) -> Plan:
    layout = knowledge.layout if pieces is knowledge.pieces else knowledge.optimistic.restrict(pieces)
    return optimist(knowledge.optimistic)(knowledge.optimistic, layout, theta)


def _policy(knowledge: AbstractCounted, plan: Plan) -> Played:
    assert plan.actions is not None  # only soft plans have none
    return knowledge.playable(knowledge.optimistic.policy(plan.actions))


def _aside(knowledge: AbstractCounted, pieces: Pieces, duals: Duals[Any]) -> Plan:
    """A plan at the averages, or where an average begins: all policies alike, in the smoothed model."""
    if not duals.soft:
        return _optimistic(knowledge, pieces, duals.theta)
    model, psi = knowledge.estimate
    psi = psi if pieces is knowledge.pieces else pieces.psi
    return BackwardInduction().soft(model, model.restrict(psi), duals.theta)


def _least(knowledge: AbstractCounted) -> Callable[[Float[np.ndarray, "H d"]], float]:
    """The least that an episode can pay under any law within the declared support."""
    model = knowledge.anything
    layout = model.restrict(knowledge.pieces)
    return lambda theta: ExtendedValueIteration()(model, layout, theta).lower


def first_Gamma(functions: VariationalProgram) -> float:
    """2 (f at a Slater point - the least f) / room, in a world that grants the most room and the least f.

    A true Slater point has less room: then Gamma doubles.
    """
    f = functions.f.function
    width = float(np.ptp(_ends(f))) if isinstance(f, Affine) else 2 * functions.f.size
    rooms = [-_ends(g.function).min() if isinstance(g.function, Affine) else g.size for g in functions.g]
    room = min([room for room in rooms if room > 0], default=1.0)
    return float(max(2 * width / room, 1e-3))


def _ends(function: Affine) -> Float[np.ndarray, "2"]:
    """The least and the largest value of a linear function on its set."""
    least, largest = (function.value(function.K.maximiser(sign * function.weights)) for sign in (-1.0, 1.0))
    return np.array([least, largest])
