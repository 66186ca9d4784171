"""Set-up of a run of `learn`: problem, environment and model brought together and checked."""

from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any, final

import numpy as np

from bidual._base.errors import ProblemError
from bidual.certificate.bounds import Split
from bidual.certificate.rounding import with_planner_resolution, with_sampled_resolution
from bidual.learning.defaults import choose_explorer, choose_model
from bidual.learning.outputs import (
    CertaintyEquivalent,
    Corners,
    Estimates,
    FinalBound,
    Functionals,
    PolicySolver,
    Regulated,
    collect_functionals,
    construct_corners,
)
from bidual.learning.states import check_unnumbered
from bidual.loop.explorers import AbstractExplorer, Controls, Riccati
from bidual.models import AbstractKnowledge, Declaration, EnvironmentFacts, Needs
from bidual.problem.convex import AbstractProgram
from bidual.problem.features import AbstractFeatures, Computed
from bidual.problem.modelling import Problem
from bidual.world.envs import (
    AbstractEnvironment,
    ControlEnvironment,
    GymnasiumEnvironment,
    Parallel,
    RichEnvironment,
    Simulator,
    VectorEnvironment,
    control_environment,
    gymnasium_environment,
    is_vector,
    rich_environment,
    vector_environment,
)
from bidual.world.mdp import TabularMDP

if TYPE_CHECKING:
    from gymnasium import Env

_OVER_GYMNASIUM = GymnasiumEnvironment | Parallel | VectorEnvironment  # to whose states one is added


@final
@dataclass(frozen=True, eq=False)
class LearnSetup:
    """All constants of a run."""

    problem: Problem
    program: AbstractProgram
    env: AbstractEnvironment
    explorer: AbstractExplorer[Any]
    knowledge: AbstractKnowledge  # before the first episode
    linear: Functionals
    corners: Corners | None  # of the functionals that are curved
    split: Split
    seed: int
    certainty: PolicySolver = field(default_factory=CertaintyEquivalent)
    final: FinalBound = field(default_factory=FinalBound)

    @property
    def sense(self) -> float:
        """1 minimising, -1 maximising."""
        return -1.0 if self.problem.maximises else 1.0

    def violation(self, estimates: Estimates) -> float | None:
        """Return the largest possible violation, None where a constraint is not bounded."""
        worst = float(np.max(self.over(estimates), initial=0.0))
        return worst if np.isfinite(worst) else None

    def over(self, estimates: Estimates) -> np.ndarray:
        """Return upper bounds on the violation of every row."""
        return estimates.over(self.program.equality)


def set_up(
    problem: Problem,
    env: "AbstractEnvironment | TabularMDP | Env[Any, Any] | str",
    model: Declaration | None,
    explorer: AbstractExplorer[Any] | None,
    *,
    delta: float,
    seed: int,
) -> LearnSetup:
    """Open the environment and compile the problem's features over it; raise where they do not belong together."""
    if not isinstance(problem, Problem):
        raise ProblemError(f"expected a bidual Problem, got {type(problem).__name__}: write bd.Problem(...)")
    if problem.embedding.criterion is not None:
        raise ProblemError(
            f"the problem is over an unbounded time ({problem.embedding.criterion}), and episodes have a number of "
            "steps: make the embedding over a horizon, with TabularMDP(..., horizon=100) or "
            "bd.features.signals(...).embedding(100). Over H steps a discount is a factor of the signals, discount**h"
        )
    split, model = Split(delta), choose_model(problem) if model is None else model
    if not isinstance(model, Declaration):
        raise ProblemError(f"expected a model such as bd.models.Tabular(), got {type(model).__name__}")
    needs = model.needs
    if needs.observes == "vectors":
        return _prepare_control(problem, env, model, explorer, split, seed)
    if isinstance(problem.embedding.features, Computed):
        raise ProblemError(
            "the problem's signals are computed from vectors: learn it with bd.models.KNR(...), or give signals of "
            "states, bd.features.signals(...)"
        )
    if needs.observes == "observations":
        world = _open_rich(env, problem, needs)
    else:
        world = _open_environment(env, problem, stationary=needs.one_law)
    if world.numbering is not None and world.numbering.grows:
        check_unnumbered(problem, model)
    if world.shape[0] != problem.embedding.horizon:
        raise ProblemError(
            f"the problem's horizon is {problem.embedding.horizon}, the environment's is {world.shape[0]}: "
            "make the embedding with the environment's horizon"
        )
    knowledge = model.start(collect_facts(world, problem, split.model)._replace(seed=seed))
    program = with_planner_resolution(problem.program(), knowledge.pieces)
    linear = collect_functionals(problem, program, knowledge)
    curved = construct_corners(program, knowledge)
    explorer = explorer or choose_explorer(problem, model)
    return LearnSetup(problem, program, world, explorer, knowledge, linear, curved, split, seed)


def _prepare_control(
    problem: Problem,
    env: "AbstractEnvironment | TabularMDP | Env[Any, Any] | str",
    model: Declaration,
    explorer: AbstractExplorer[Any] | None,
    split: Split,
    seed: int,
) -> LearnSetup:
    """Set up the same for vectors and controls."""
    features = problem.embedding.features
    if not isinstance(features, Computed):
        raise ProblemError(
            "a regulator plans with signals that it can compute: give them as functions written in JAX, "
            "bd.features.computed(cost=lambda obs, control, next_obs: ...)"
        )
    explorer = choose_explorer(problem, model) if explorer is None else explorer
    if not isinstance(explorer, Controls | Riccati):
        raise ProblemError(f"{type(explorer).__name__} explores finite models; give bd.explorers.Controls(...)")
    world = _open_control(env, problem, features)
    knowledge = model.start(collect_facts(world, problem, split.model))
    program = with_sampled_resolution(problem.program())
    sampled = explorer.otherwise if isinstance(explorer, Riccati) else explorer
    return LearnSetup(
        *(problem, program, world, explorer, knowledge),
        *(collect_functionals(problem, program, knowledge), construct_corners(program, knowledge), split, seed),
        # The returned policy is planned once, and with more care than those that only explore.
        certainty=Regulated(sampled.sampler, sampled.execution, 2 * sampled.rollouts),
    )


def _open_control(
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
    """Check that numbers of episodes are whole and the time limit is positive."""
    for name, number, least in (("episodes", episodes, 1), ("evaluation", evaluation, 0), ("batch", batch, 1)):
        whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
        if number is not None and not (whole and number >= least):
            raise ProblemError(f"{name} must be a whole number, at least {least}; got {number!r}")
    if time_limit is not None and not (isinstance(time_limit, Real) and time_limit > 0):
        raise ProblemError(f"the time limit must be positive seconds; got {time_limit!r}")


def _open_environment(
    env: "AbstractEnvironment | TabularMDP | Env[Any, Any] | str", problem: Problem, *, stationary: bool
) -> AbstractEnvironment:
    observed = problem.embedding.features.observed
    if isinstance(env, TabularMDP):
        env = Simulator(env)
    if stationary and isinstance(env, Simulator) and _is_time_varying(env.mdp):
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
    if isinstance(env, RichEnvironment):
        raise ProblemError(
            "the environment was opened for latents, and shows vectors, not state numbers: learn it with "
            "model = bd.models.Latent(latents=4); or give the environment itself, with "
            "bd.learn(problem, env, states=lambda obs: int(obs[0] > 0), ...)"
        )
    if isinstance(env, AbstractEnvironment) and not isinstance(env, _OVER_GYMNASIUM):
        return env
    opened = env if isinstance(env, AbstractEnvironment) else _open_gymnasium(env, problem.embedding.horizon)
    return opened.with_signals(features_over(opened, problem).observed)


def _open_gymnasium(env: Any, horizon: int) -> GymnasiumEnvironment | VectorEnvironment:  # noqa: ANN401 - any object
    return vector_environment(env, horizon) if is_vector(env) else gymnasium_environment(env, horizon)


def _open_rich(
    env: "AbstractEnvironment | TabularMDP | Env[Any, Any] | str", problem: Problem, needs: Needs
) -> RichEnvironment:
    features = problem.embedding.features
    if len(features.observed) < features.dimension:
        raise ProblemError(
            "latents have no numbers that an array could be about: give every signal as a function of what the "
            "environment shows, bd.features.observed(function, low, high), and no visits or occupancies"
        )
    if isinstance(env, RichEnvironment):
        if env.num_states != needs.latents + 2:
            raise ProblemError(
                f"the environment was opened for {env.num_states - 2} latents, the model has {needs.latents}: "
                "open it for as many"
            )
        return env.with_signals(features.observed)
    if isinstance(env, AbstractEnvironment | TabularMDP):
        raise ProblemError(
            f"latents are learned from observations, but a {type(env).__name__} shows state numbers: learn it with "
            "bd.models.Tabular()"
        )
    return rich_environment(env, problem.embedding.horizon, needs.latents, features.observed, discrete=needs.symbols)


def features_over(world: AbstractEnvironment, problem: Problem) -> AbstractFeatures:
    """Return the features of the problem over the states of an environment, the one that is added included."""
    features = problem.embedding.features
    if not isinstance(world, _OVER_GYMNASIUM):
        return features
    _, S, A = world.shape
    return features.with_end((problem.embedding.horizon, S, A))


def collect_facts(world: AbstractEnvironment, problem: Problem, delta: float) -> EnvironmentFacts:
    """Return what the environment itself declares, with the features of the problem over it."""
    features = features_over(world, problem)
    facts = EnvironmentFacts(
        *(features.pieces(world.shape), world.shape[0], world.allowed, delta, world.absorbing, world.initial),
        met=world.numbering is not None and world.numbering.grows,
    )
    if isinstance(world, RichEnvironment):
        return facts._replace(dimension=world.dimension, symbols=world.symbols, signal=world.compute_signal)
    if isinstance(world, ControlEnvironment) and isinstance(features, Computed):
        limits, space = (world.low, world.high), world.space
        return facts._replace(
            features=features, dimension=world.dimension, limits=limits, space=space, discrete=world.discrete
        )
    return facts


def _is_time_varying(mdp: TabularMDP) -> bool:
    lists = mdp.successors
    return max(lists.states.shape[0], lists.probabilities.shape[0]) > 1
