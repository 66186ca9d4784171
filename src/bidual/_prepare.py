"""What a run of `learn` rests on: problem, environment and model brought together and checked."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any, final

import numpy as np

from bidual._errors import ProblemError
from bidual._types import Episode
from bidual.bounds import Executed, Restarts, Split
from bidual.convex import AffineProgram, ConvexProgram
from bidual.envs import AbstractEnvironment, GymnasiumEnvironment, Simulator, gymnasium_environment
from bidual.explorers import AbstractExplorer, Alternating
from bidual.features import Pieces
from bidual.mdp import TabularMDP
from bidual.models import Knowledge, Tabular
from bidual.outputs import (
    CertaintyEquivalent,
    Corners,
    Estimates,
    FinalBound,
    Functionals,
    corners,
    executed,
    functionals,
)
from bidual.problem import Problem
from bidual.rounding import with_resolution

if TYPE_CHECKING:
    from gymnasium import Env

_PRECISION = 1e-12


@final
@dataclass(frozen=True, eq=False)
class Setting:
    """Everything that does not change during a run."""

    problem: Problem
    program: AffineProgram | ConvexProgram
    env: AbstractEnvironment
    explorer: AbstractExplorer[Any]
    knowledge: Knowledge  # before the first episode
    linear: Functionals
    corners: Corners | None  # of the functionals that are curved
    split: Split
    seed: int
    certainty: CertaintyEquivalent = field(default_factory=CertaintyEquivalent)
    final: FinalBound = field(default_factory=FinalBound)

    @property
    def sense(self) -> float:
        """1 minimising, -1 maximising."""
        return -1.0 if self.problem.maximises else 1.0

    def violation(self, estimates: Estimates) -> float | None:
        """The largest violation that is possible, None where a constraint is not bounded."""
        worst = float(np.max(self.over(estimates), initial=0.0))
        return worst if np.isfinite(worst) else None

    def over(self, estimates: Estimates) -> np.ndarray:
        """How far every row may be from holding."""
        g_low, g_high = estimates.lower[1:], estimates.upper[1:]
        return np.where(self.program.equality, np.maximum(np.abs(g_low), np.abs(g_high)), np.maximum(g_high, 0.0))

    def executed(self, process: Executed | Restarts, episodes: Sequence[Episode], delta: float) -> Estimates:
        """What the episodes themselves say about the mixture of their policies."""
        return executed(self.program, self.linear, process, episodes, delta)


def prepare_learning(
    problem: Problem,
    env: "AbstractEnvironment | TabularMDP | Env[Any, Any] | str",
    model: Tabular | None,
    explorer: AbstractExplorer[Any] | None,
    *,
    delta: float,
    seed: int,
) -> Setting:
    """Open the environment and bring the problem's features over it; raises where they do not belong together."""
    if not isinstance(problem, Problem):
        raise ProblemError(f"expected a bidual Problem, got {type(problem).__name__}")
    split, model = Split(delta), Tabular() if model is None else model
    if not isinstance(model, Tabular):
        raise ProblemError(f"expected a model such as bd.models.Tabular(), got {type(model).__name__}")
    world = _opened(env, problem, stationary=model.stationary)
    if world.shape[0] != problem.embedding.horizon:
        raise ProblemError(
            f"the problem's horizon is {problem.embedding.horizon}, the environment's is {world.shape[0]}: "
            "make the embedding with the environment's horizon"
        )
    pieces = problem.embedding.features.pieces(world.shape)
    knowledge = model.start(
        pieces, world.shape[0], world.allowed, split.model, absorbing=world.absorbing, initial=world.initial
    )
    program = _measured(problem.program(), pieces)
    linear = functionals(problem, program, knowledge)
    curved = corners(program, knowledge)
    return Setting(problem, program, world, explorer or Alternating(), knowledge, linear, curved, split, seed)


def check_counts(episodes: int, evaluation: int | None, time_limit: float | None) -> None:
    """Whole numbers of episodes and a positive time."""
    for name, number, least in (("episodes", episodes, 1), ("evaluation", evaluation, 0)):
        whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
        if number is not None and not (whole and number >= least):
            raise ProblemError(f"{name} must be a whole number, at least {least}; got {number!r}")
    if time_limit is not None and not (isinstance(time_limit, Real) and time_limit > 0):
        raise ProblemError(f"the time limit must be positive seconds; got {time_limit!r}")


def _measured(program: AffineProgram | ConvexProgram, pieces: Pieces) -> AffineProgram | ConvexProgram:
    """The program with what the optimistic planner can resolve: its rows meet to 1e-12 of what they can pay."""
    if not isinstance(program, AffineProgram):
        return program
    largest = np.sum(np.abs(program.rows) * pieces.peaks(), axis=(1, 2))
    return with_resolution(program, _PRECISION * np.maximum(largest, np.abs(program.limits)))


def _opened(
    env: "AbstractEnvironment | TabularMDP | Env[Any, Any] | str", problem: Problem, *, stationary: bool
) -> AbstractEnvironment:
    observed = problem.embedding.features.observed
    if isinstance(env, TabularMDP):
        env = Simulator(env)
    if stationary and isinstance(env, Simulator) and _changes(env.mdp):
        raise ProblemError(
            "the law of this model changes with the step, but learning counts all steps together and its bounds rest "
            "on one law: declare bd.models.Tabular(stationary=False), --per-step on the command line, or give a model "
            "with one law"
        )
    if isinstance(env, Simulator) and observed:
        raise ProblemError(
            f"signal {observed[0][0]!r} is a function of what an environment shows, but a simulated model shows only "
            "states and actions: give it as an array"
        )
    if isinstance(env, GymnasiumEnvironment):
        return env.with_signals(observed)
    if isinstance(env, AbstractEnvironment):
        return env
    return gymnasium_environment(env, problem.embedding.horizon, observed)


def _changes(mdp: TabularMDP) -> bool:
    lists = mdp.successors
    return max(lists.states.shape[0], lists.probabilities.shape[0]) > 1
