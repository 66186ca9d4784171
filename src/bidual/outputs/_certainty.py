"""The certainty-equivalent policy: optimal in the smoothed model, with every limit a little tighter.

In the raw frequencies an optimiser finds the rows whose risks were by chance never seen (a rover that falls into pits
four times as often as it may). One more sample of every possible successor takes that away; tightening each limit by
one and a half posterior standard deviations, but never by more than 15 percent, pays for what is still unknown.
"""

import time
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float

from bidual._conclude import mixture_of
from bidual._effort import Effort
from bidual._search import Search, Stated, World, search
from bidual.certificate import Record, multipliers
from bidual.convex import AffineProgram, ConvexProgram
from bidual.mdp import TabularMDP
from bidual.models import AbstractCounted, known
from bidual.planners import BackwardInduction
from bidual.policies import ControlPolicy, DecodedPolicy, MarkovPolicy, Mixture, collapse
from bidual.policies import embedding as embedding_of
from bidual.policies import visits as visits_of
from bidual.problem import Problem, tightened
from bidual.rounding import with_rounding

_HALVINGS = 4  # of the tightening, before it is given up
_STEEP = 4.0  # times what the prices of the limits say: more than that is not paid for caution


class Made(NamedTuple):
    """A policy, what it pays in the model it was made for, and the multipliers there."""

    policy: MarkovPolicy | DecodedPolicy | ControlPolicy | Mixture  # what is run
    mdp: TabularMDP | None  # the model it was made in, where that has finitely many states
    embedding: Float[np.ndarray, "H d"]
    visits: Float[np.ndarray, "H S"]
    gamma: Float[np.ndarray, "m"] | None
    plans: int


@final
@dataclass(frozen=True)
class CertaintyEquivalent:
    """How the output policy is made.

    Args:
        deviations: by how many posterior standard deviations limits are tightened.
        most: the largest share of a limit's size that it is tightened by; of the range of what the plans paid, where
            the limit is 0.
        draws: of models from the posterior, to measure the deviations.
        gap: to which the problem in the smoothed model is solved.
        time_limit: seconds for each of the two solves.
    """

    deviations: float = 1.5
    most: float = 0.15
    draws: int = 32
    gap: float = 1e-5
    time_limit: float = 30.0

    def __call__(self, problem: Problem, knowledge: AbstractCounted, rng: np.random.Generator) -> Made:
        """Solve, see how uncertain the constraints are, tighten them and solve again."""
        mdp = knowledge.smoothed()
        psi, model = knowledge.features(mdp), known(mdp)
        world = World(mdp, psi, model, model.restrict(psi))
        program = problem.program()
        program = with_rounding(program, psi, mdp) if isinstance(program, AffineProgram) else program
        found = self._search(problem, program, world)
        made, table = _made(program, world, found, knowledge)
        if not problem.limits:
            return made
        rooms = self._rooms(problem, program, knowledge, table, found, rng)
        for _ in range(_HALVINGS):
            if not rooms.any():
                break
            strict = self._search(problem, tighter(problem, program, rooms), world)
            if strict.duals.feasible and _worth_it(found, strict, made.gamma, rooms):
                return _made(program, world, strict, knowledge)[0]
            rooms = rooms / 2
        return made

    def _search(self, problem: Problem, program: AffineProgram | ConvexProgram, world: World) -> Search:
        stated = Stated(program, problem.lines(), problem.maximises, problem.embedding.total)
        return search(stated, world, Effort(self.gap, time_limit=self.time_limit), (), time.perf_counter())

    def _rooms(
        self,
        problem: Problem,
        program: AffineProgram | ConvexProgram,
        knowledge: AbstractCounted,
        table: MarkovPolicy,
        found: Search,
        rng: np.random.Generator,
    ) -> Float[np.ndarray, "m"]:
        """By how much every row is tightened."""
        drawn = [
            constraints_of(program, embedding_of(law, knowledge.features(law), table), found.duals.auxiliary)
            for law in knowledge.laws(rng, self.draws)
        ]
        sizes = np.abs(np.concatenate([line.bounds for line in problem.lines()]))
        seen = [reply.plan.embedding for reply in found.replies if reply is not None and reply.plan.embedding.size]
        if np.any(sizes == 0) and seen:
            paid = [constraints_of(program, one, found.duals.auxiliary) for one in seen]
            sizes = np.where(sizes == 0, np.ptp(paid, axis=0), sizes)
        rooms = np.minimum(self.deviations * np.std(drawn, axis=0), self.most * sizes)
        return np.where(program.equality | ~np.isfinite(rooms), 0.0, rooms)


def constraints_of(
    program: AffineProgram | ConvexProgram, embedding: Float[np.ndarray, "H d"], auxiliary: Float[np.ndarray, "a"]
) -> Float[np.ndarray, "m"]:
    """The constraints at an embedding."""
    return values_of(program, embedding, auxiliary)[1]


def values_of(
    program: AffineProgram | ConvexProgram, embedding: Float[np.ndarray, "H d"], auxiliary: Float[np.ndarray, "a"]
) -> tuple[float, Float[np.ndarray, "m"]]:
    """F and g of an embedding."""
    if isinstance(program, AffineProgram):
        return program.values(embedding)
    return program.functions.values(program.image(embedding), auxiliary)


def _worth_it(
    found: Search, strict: Search, gamma: Float[np.ndarray, "m"] | None, rooms: Float[np.ndarray, "m"]
) -> bool:
    """Whether tighter limits cost about what their prices say, and not the whole purpose of the policy."""
    if gamma is None or not found.duals.feasible:
        return True
    return strict.duals.f - found.duals.f <= _STEEP * float(np.abs(gamma) @ rooms) + 1e-9 * abs(found.duals.f)


def tighter(
    problem: Problem, program: AffineProgram | ConvexProgram, rooms: Float[np.ndarray, "m"]
) -> AffineProgram | ConvexProgram:
    """The program with so much room in every row."""
    if isinstance(program, AffineProgram):
        return replace(program, limits=program.limits - rooms)
    strict, parameters = tightened(problem)
    start = 0
    for limit, line in zip(problem.limits, problem.lines(), strict=True):
        if limit.name in parameters:
            room = rooms[start : start + line.bounds.size]
            parameters[limit.name].value = room.reshape(limit.shape, order="F") if limit.shape else float(room[0])
        start += line.bounds.size
    return strict.program()


def _made(
    program: AffineProgram | ConvexProgram, world: World, found: Search, knowledge: AbstractCounted
) -> tuple[Made, MarkovPolicy]:
    """The policy, and the same as a table over the states of the model."""
    plans = [None if reply is None else reply.plan for reply in found.replies]
    table = collapse(mixture_of(world, BackwardInduction(), plans, found.duals.weights), world.mdp)
    made = Made(
        policy=knowledge.playable(table),
        mdp=world.mdp,
        embedding=embedding_of(world.mdp, world.psi, table),
        visits=visits_of(world.mdp, table),
        gamma=_multipliers(program, found),
        plans=found.plans,
    )
    return made, table


def _multipliers(program: AffineProgram | ConvexProgram, found: Search) -> Float[np.ndarray, "m"] | None:
    """The multipliers of the constraints in the model, where there are any."""
    bound = found.duals.optimum
    if not np.isfinite(bound.value) or not found.duals.feasible:
        return None
    return multipliers(program, Record(bound.gamma, 1.0, bound.point))
