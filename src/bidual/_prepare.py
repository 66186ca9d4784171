"""What a run of `learn` rests on: problem, environment and model brought together and checked."""

from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any, final

import numpy as np

from bidual._errors import ProblemError
from bidual.bounds import Split
from bidual.convex import AffineProgram, ConvexProgram
from bidual.envs import (
    AbstractEnvironment,
    ControlEnvironment,
    GymnasiumEnvironment,
    Parallel,
    RichEnvironment,
    Simulator,
    control_environment,
    gymnasium_environment,
    rich_environment,
)
from bidual.explorers import AbstractExplorer, Alternating, Controls, Optimistic
from bidual.features import Computed, Pieces
from bidual.mdp import TabularMDP
from bidual.models import KNR, AbstractKnowledge, Declaration, Latent, LinearMDP, LowRank, Tabular
from bidual.outputs import (
    CertaintyEquivalent,
    Corners,
    Estimates,
    FinalBound,
    Functionals,
    Made,
    Regulated,
    corners,
    functionals,
)
from bidual.problem import Problem
from bidual.rounding import with_planner_resolution, with_sampled_resolution

if TYPE_CHECKING:
    from gymnasium import Env


@final
@dataclass(frozen=True, eq=False)
class Setting:
    """Everything that does not change during a run."""

    problem: Problem
    program: AffineProgram | ConvexProgram
    env: AbstractEnvironment
    explorer: AbstractExplorer[Any]
    knowledge: AbstractKnowledge  # before the first episode
    linear: Functionals
    corners: Corners | None  # of the functionals that are curved
    split: Split
    seed: int
    certainty: Callable[[Problem, Any, np.random.Generator], Made] = field(default_factory=CertaintyEquivalent)
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
        return estimates.over(self.program.equality)


def prepare_learning(
    problem: Problem,
    env: "AbstractEnvironment | TabularMDP | Env[Any, Any] | str",
    model: Declaration | None,
    explorer: AbstractExplorer[Any] | None,
    *,
    delta: float,
    seed: int,
) -> Setting:
    """Open the environment and bring the problem's features over it; raises where they do not belong together."""
    if not isinstance(problem, Problem):
        raise ProblemError(f"expected a bidual Problem, got {type(problem).__name__}")
    split, model = Split(delta), Tabular() if model is None else model
    if not isinstance(model, Declaration):
        raise ProblemError(f"expected a model such as bd.models.Tabular(), got {type(model).__name__}")
    if isinstance(model, KNR):
        return _prepare_control(problem, env, model, explorer, split, seed)
    if isinstance(problem.embedding.features, Computed):
        raise ProblemError(
            "the problem's signals are computed from vectors: learn it with bd.models.KNR(...), or give signals of "
            "states, bd.features.signals(...)"
        )
    if isinstance(model, Latent):
        world = _opened_rich(env, problem, model)
    else:
        world = _opened(env, problem, stationary=_one_law(model))
    if world.shape[0] != problem.embedding.horizon:
        raise ProblemError(
            f"the problem's horizon is {problem.embedding.horizon}, the environment's is {world.shape[0]}: "
            "make the embedding with the environment's horizon"
        )
    pieces = problem.embedding.features.pieces(world.shape)
    knowledge = _started(model, pieces, world, split)
    program = problem.program()
    program = with_planner_resolution(program, pieces) if isinstance(program, AffineProgram) else program
    linear = functionals(problem, program, knowledge)
    curved = corners(program, knowledge)
    explorer = explorer or (Optimistic() if isinstance(model, Latent) else Alternating())
    return Setting(problem, program, world, explorer, knowledge, linear, curved, split, seed)


def _prepare_control(
    problem: Problem,
    env: "AbstractEnvironment | TabularMDP | Env[Any, Any] | str",
    model: KNR,
    explorer: AbstractExplorer[Any] | None,
    split: Split,
    seed: int,
) -> Setting:
    """The same for vectors and controls."""
    features = problem.embedding.features
    if not isinstance(features, Computed):
        raise ProblemError(
            "a regulator plans with signals that it can compute: give them as functions written in JAX, "
            "bd.features.computed(cost=lambda obs, control, next_obs: ...)"
        )
    explorer = Controls() if explorer is None else explorer
    if not isinstance(explorer, Controls):
        raise ProblemError(f"{type(explorer).__name__} explores finite models; give bd.explorers.Controls(...)")
    world = _opened_control(env, problem, features)
    knowledge = model.start(
        features,
        problem.embedding.horizon,
        split.model,
        dimension=world.dimension,
        limits=(world.low, world.high),
        space=world.space,
        discrete=world.discrete,
    )
    program = with_sampled_resolution(problem.program())
    return Setting(
        *(problem, program, world, explorer, knowledge),
        *(functionals(problem, program, knowledge), corners(program, knowledge), split, seed),
        # What is returned is planned once, and with more care than what is only tried.
        certainty=Regulated(explorer.sampler, explorer.execution, 2 * explorer.rollouts),
    )


def _opened_control(
    env: "AbstractEnvironment | TabularMDP | Env[Any, Any] | str", problem: Problem, features: Computed
) -> ControlEnvironment:
    horizon = problem.embedding.horizon
    if isinstance(env, ControlEnvironment):
        if env.horizon != horizon:
            raise ProblemError(
                f"the problem's horizon is {horizon}, the environment's is {env.horizon}: make the embedding with the "
                "environment's horizon"
            )
        return env.with_features(features)
    if isinstance(env, AbstractEnvironment | TabularMDP):
        raise ProblemError(
            f"a {type(env).__name__} has numbered states: learn it with bd.models.Tabular(), or give an environment "
            "that shows vectors"
        )
    return control_environment(env, horizon, features)


def check_counts(episodes: int, evaluation: int | None, time_limit: float | None, batch: int) -> None:
    """Whole numbers of episodes and a positive time."""
    for name, number, least in (("episodes", episodes, 1), ("evaluation", evaluation, 0), ("batch", batch, 1)):
        whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
        if number is not None and not (whole and number >= least):
            raise ProblemError(f"{name} must be a whole number, at least {least}; got {number!r}")
    if time_limit is not None and not (isinstance(time_limit, Real) and time_limit > 0):
        raise ProblemError(f"the time limit must be positive seconds; got {time_limit!r}")


def _one_law(model: Tabular | LinearMDP | LowRank) -> bool:
    """Whether a model declares that what follows is alike at every step."""
    if isinstance(model, Tabular):
        return model.stationary
    return isinstance(model, LinearMDP) and model.one_law


def _opened(
    env: "AbstractEnvironment | TabularMDP | Env[Any, Any] | str", problem: Problem, *, stationary: bool
) -> AbstractEnvironment:
    observed = problem.embedding.features.observed
    if isinstance(env, TabularMDP):
        env = Simulator(env)
    if stationary and isinstance(env, Simulator) and _changes(env.mdp):
        raise ProblemError(
            "the law of this model changes with the step, but learning counts all steps together and its bounds rest "
            "on one law: declare stationary=False, as in bd.models.Tabular(stationary=False) or with --per-step on the "
            "command line, or give a model with one law"
        )
    if isinstance(env, Simulator) and observed:
        raise ProblemError(
            f"signal {observed[0][0]!r} is a function of what an environment shows, but a simulated model shows only "
            "states and actions: give it as an array"
        )
    if isinstance(env, GymnasiumEnvironment | Parallel):
        return env.with_signals(observed)
    if isinstance(env, RichEnvironment):
        raise ProblemError(
            "the environment shows vectors, not state numbers: learn it with bd.models.Latent(latents=...)"
        )
    if isinstance(env, AbstractEnvironment):
        return env
    return gymnasium_environment(env, problem.embedding.horizon, observed)


def _opened_rich(
    env: "AbstractEnvironment | TabularMDP | Env[Any, Any] | str", problem: Problem, model: Latent
) -> RichEnvironment:
    features = problem.embedding.features
    if len(features.observed) < features.dimension:
        raise ProblemError(
            "latents have no numbers that an array could be about: give every signal as a function of what the "
            "environment shows, bd.features.observed(function, low, high), and no visits or occupancies"
        )
    if isinstance(env, RichEnvironment):
        if env.num_states != model.latents + 2:
            raise ProblemError(
                f"the environment was opened for {env.num_states - 2} latents, the model has {model.latents}: "
                "open it for as many"
            )
        return env.with_signals(features.observed)
    if isinstance(env, AbstractEnvironment | TabularMDP):
        raise ProblemError(
            f"latents are learned from observations, but a {type(env).__name__} shows state numbers: learn it with "
            "bd.models.Tabular()"
        )
    discrete = model.emission == "categorical"
    return rich_environment(env, problem.embedding.horizon, model.latents, features.observed, discrete=discrete)


def _started(model: Declaration, pieces: Pieces, world: AbstractEnvironment, split: Split) -> AbstractKnowledge:
    """What is known before the first episode."""
    assert not isinstance(model, KNR)  # which has a beginning of its own
    common = pieces, world.shape[0], world.allowed, split.model
    if isinstance(model, Latent):
        assert isinstance(world, RichEnvironment)  # it was opened for latents
        return model.start(*common, dimension=world.dimension, symbols=world.symbols)
    return model.start(*common, absorbing=world.absorbing, initial=world.initial)


def _changes(mdp: TabularMDP) -> bool:
    lists = mdp.successors
    return max(lists.states.shape[0], lists.probabilities.shape[0]) > 1
