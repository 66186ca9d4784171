"""States as users number them: a function or a limit for an environment, and what cannot be declared of its numbers."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bidual._base.errors import ProblemError
from bidual.models import Declaration
from bidual.problem.modelling import Problem
from bidual.world.envs import AbstractEnvironment, gymnasium_environment
from bidual.world.mdp import TabularMDP

if TYPE_CHECKING:
    from gymnasium import Env


def number_states(
    env: "AbstractEnvironment | TabularMDP | Env[Any, Any] | str",
    problem: Problem,
    states: Callable[[Any], Any] | None,
    states_limit: int | None,
) -> "AbstractEnvironment | TabularMDP | Env[Any, Any] | str":
    """Open an environment with a user's numbering of its observations, where one is given."""
    if (states is None and states_limit is None) or not isinstance(problem, Problem):
        return env
    if isinstance(env, AbstractEnvironment | TabularMDP):
        raise ProblemError(
            f"states and states_limit number observations, but a {type(env).__name__} has numbers already: "
            "leave them out, or give the Gymnasium environment itself"
        )
    return gymnasium_environment(env, problem.embedding.horizon, states=states, states_limit=states_limit)


def check_unnumbered(problem: Problem, model: Declaration) -> None:
    """Raise where something is declared of numbers that states only get as they are met."""
    features = problem.embedding.features
    names = [name for name, _ in features.observed]
    arrays = [part.name for part in features.parts if part.name not in names]
    why = "observations are numbered as they are met, so their numbers are not known beforehand"
    remedy = "with states=function and num_states=N in bd.envs.gymnasium_environment numbers are yours"
    if arrays:
        raise ProblemError(
            f"{arrays[0]!r} is about numbers of states, but {why}: give a function of a step, such as lambda t: t.obs; "
            f"{remedy}"
        )
    if model.about_states:
        raise ProblemError(f"the model declares something of single states, but {why}: leave it out; {remedy}")
