"""The certainty-equivalent policy: optimal in the smoothed model, with every limit a little tighter.

In the raw frequencies an optimiser finds the rows whose risks were by chance never seen (a rover that falls into pits
four times as often as it may). One more sample of every possible successor takes that away; tightening each limit by
one and a half posterior standard deviations, but never by more than 15 percent, covers the remaining uncertainty.
"""

import time
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, final, runtime_checkable

import numpy as np
from jaxtyping import Float

from bidual._base.deadline import NEVER, Deadline
from bidual._base.names import UNNAMED, Names
from bidual.certificate import Record, read_multipliers
from bidual.certificate.rounding import with_rounding
from bidual.models import AbstractCounted, known
from bidual.planners import BackwardInduction
from bidual.problem.convex import AbstractProgram
from bidual.problem.modelling import Problem, tighten_limits
from bidual.solving.options import SolveOptions
from bidual.solving.result import build_mixture
from bidual.solving.search import CompiledProblem, Instance, Search, search
from bidual.world.mdp import TabularMDP
from bidual.world.observations import Numbering
from bidual.world.policies import ControlPolicy, DecodedPolicy, MarkovPolicy, Mixture, collapse
from bidual.world.policies import embedding as embedding_of
from bidual.world.policies import visits as visits_of

_HALVINGS = 4  # of the tightening, before it is given up
_LEAST = 1e-9  # seconds of a search, which makes a plan in any case
_STEEP = 4.0  # times the cost that the prices of the limits predict: caution may cost no more


class ReturnedPolicy(NamedTuple):
    """A policy, its embedding in the model it was computed for, and the multipliers there."""

    policy: MarkovPolicy | DecodedPolicy | ControlPolicy | Mixture  # the one to run
    mdp: TabularMDP | None  # the model it was computed in, where that has finitely many states
    embedding: Float[np.ndarray, "H d"]
    visits: Float[np.ndarray, "H S"]
    gamma: Float[np.ndarray, "m"] | None
    plans: int
    auxiliary: Float[np.ndarray, "a"]  # values of the problem's other variables

    def with_names(self, names: Names) -> "ReturnedPolicy":
        """Return the same with names of states and actions, where the policy is a table over them."""
        if names is UNNAMED or not isinstance(self.policy, MarkovPolicy):
            return self
        mdp = None if self.mdp is None else self.mdp.with_names(names.states, names.actions)
        return self._replace(policy=replace(self.policy, names=names), mdp=mdp)

    def with_numbering(self, numbering: Numbering | None) -> "ReturnedPolicy":
        """Return the same for observations that are numbered like this, where the policy is a table over states."""
        if numbering is None or not isinstance(self.policy, MarkovPolicy):
            return self
        return self._replace(policy=self.policy.with_numbering(numbering))


@runtime_checkable
class PolicySolver(Protocol):
    """The settings and the way to compute the returned policy."""

    def __call__(self, problem: Problem, knowledge: Any, rng: np.random.Generator) -> ReturnedPolicy:  # noqa: ANN401
        """Compute the policy from what is known."""
        ...

    def within(self, deadline: Deadline) -> "PolicySolver":
        """Return the same with a moment at which it ends."""
        ...


@final
@dataclass(frozen=True)
class CertaintyEquivalent:
    """Settings for computing the returned policy.

    Args:
        deviations: by how many posterior standard deviations limits are tightened.
        most: the largest share of a limit's size that it is tightened by; of the range of the plans' values, where
            the limit is 0.
        draws: of models from the posterior, to measure the deviations.
        gap: to which the problem in the smoothed model is solved.
        time_limit: seconds for each of the two solves.
        deadline: the moment at which the last of them ends.
    """

    deviations: float = 1.5
    most: float = 0.15
    draws: int = 32
    gap: float = 1e-5
    time_limit: float = 30.0
    deadline: Deadline = NEVER

    def __call__(self, problem: Problem, knowledge: AbstractCounted, rng: np.random.Generator) -> ReturnedPolicy:
        """Solve, estimate the uncertainty of the constraints, tighten them and solve again."""
        mdp = knowledge.smoothed_model()
        psi, model = knowledge.features(mdp), known(mdp)
        instance = Instance(mdp, psi, model, model.restrict(psi))
        program = with_rounding(problem.program(), psi, mdp)
        found = self._search(problem, program, instance)
        returned, table = _build_policy(program, instance, found, knowledge)
        if not problem.limits:
            return returned
        rooms = self._rooms(problem, program, knowledge, table, found, rng)
        for _ in range(_HALVINGS):
            if not rooms.any() or self.deadline.passed:
                break
            strict = self._search(problem, tighten(problem, program, rooms), instance)
            if strict.duals.feasible and _is_worth_it(found, strict, returned.gamma, rooms):
                return _build_policy(program, instance, strict, knowledge)[0]
            rooms = rooms / 2
        return returned

    def within(self, deadline: Deadline) -> "CertaintyEquivalent":
        """Return the same with a moment at which it ends; at least one plan is made."""
        return replace(self, deadline=deadline)

    def _search(self, problem: Problem, program: AbstractProgram, instance: Instance) -> Search:
        compiled = CompiledProblem(program, problem.lines(), problem.maximises, problem.embedding.total)
        seconds = max(self.deadline.within(self.time_limit).left, _LEAST)
        return search(compiled, instance, SolveOptions(self.gap, time_limit=seconds), (), time.perf_counter())

    def _rooms(
        self,
        problem: Problem,
        program: AbstractProgram,
        knowledge: AbstractCounted,
        table: MarkovPolicy,
        found: Search,
        rng: np.random.Generator,
    ) -> Float[np.ndarray, "m"]:
        """Compute by how much every row is tightened."""
        drawn = [
            program.at(embedding_of(law, knowledge.features(law), table), found.duals.auxiliary)[1]
            for law in knowledge.laws(rng, self.draws)
        ]
        sizes = np.abs(np.concatenate([line.bounds for line in problem.lines()]))
        seen = [reply.plan.embedding for reply in found.replies if reply is not None and reply.plan.embedding.size]
        if np.any(sizes == 0) and seen:
            attained = [program.at(one, found.duals.auxiliary)[1] for one in seen]
            sizes = np.where(sizes == 0, np.ptp(attained, axis=0), sizes)
        rooms = np.minimum(self.deviations * np.std(drawn, axis=0), self.most * sizes)
        return np.where(program.equality | ~np.isfinite(rooms), 0.0, rooms)


def _is_worth_it(
    found: Search, strict: Search, gamma: Float[np.ndarray, "m"] | None, rooms: Float[np.ndarray, "m"]
) -> bool:
    """Return whether tighter limits cost about as much as their prices predict, and leave the policy a purpose."""
    if gamma is None or not found.duals.feasible:
        return True
    return strict.duals.f - found.duals.f <= _STEEP * float(np.abs(gamma) @ rooms) + 1e-9 * abs(found.duals.f)


def tighten(problem: Problem, program: AbstractProgram, rooms: Float[np.ndarray, "m"]) -> AbstractProgram:
    """Return the program with its limits tightened by `rooms`."""
    return program.dispatch(lambda rows: replace(rows, limits=rows.limits - rooms), lambda _: _tighten(problem, rooms))


def _tighten(problem: Problem, rooms: Float[np.ndarray, "m"]) -> AbstractProgram:
    strict, parameters = tighten_limits(problem)
    start = 0
    for limit, line in zip(problem.limits, problem.lines(), strict=True):
        if limit.name in parameters:
            room = rooms[start : start + line.bounds.size]
            parameters[limit.name].value = room.reshape(limit.shape, order="F") if limit.shape else float(room[0])
        start += line.bounds.size
    return strict.program()


def _build_policy(
    program: AbstractProgram, instance: Instance, found: Search, knowledge: AbstractCounted
) -> tuple[ReturnedPolicy, MarkovPolicy]:
    """Return the policy, and the same as a table over the states of the model."""
    plans = [None if reply is None else reply.plan for reply in found.replies]
    table = collapse(build_mixture(instance, BackwardInduction(), plans, found.duals.weights), instance.mdp)
    returned = ReturnedPolicy(
        policy=knowledge.to_environment_policy(table),
        mdp=instance.mdp,
        embedding=embedding_of(instance.mdp, instance.psi, table),
        visits=visits_of(instance.mdp, table),
        gamma=_compute_multipliers(program, found),
        plans=found.plans,
        auxiliary=found.duals.auxiliary,
    )
    return returned, table


def _compute_multipliers(program: AbstractProgram, found: Search) -> Float[np.ndarray, "m"] | None:
    """Compute the multipliers of the constraints in the model, where there are any."""
    bound = found.duals.optimum
    if not np.isfinite(bound.value) or not found.duals.feasible:
        return None
    return read_multipliers(program, Record(bound.gamma, 1.0, bound.point))
