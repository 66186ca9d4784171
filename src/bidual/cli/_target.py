"""From the user's argument (a task's name or a Python file) to a problem and its model, or its environment."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, final

from bidual._base.errors import TaskError
from bidual.cli._script import run_script, set_parameter
from bidual.cli.new import VECTORS

if TYPE_CHECKING:
    from bidual.loop.explorers import AbstractExplorer
    from bidual.models import Declaration, Tabular
    from bidual.problem.modelling import Problem
    from bidual.tasks import Picture, Task
    from bidual.world.mdp import Grid, TabularMDP


@final
@dataclass(frozen=True, eq=False)
class Target:
    """A problem over a known model."""

    name: str
    problem: "Problem"
    mdp: "TabularMDP"
    grid: "Grid | None" = None


@final
@dataclass(frozen=True, eq=False)
class Unknown:
    """A problem in an environment, with its declarations; `truth` is the model that is simulated, if any."""

    name: str
    problem: "Problem"
    env: Any  # any environment that `learn` takes
    model: "Declaration | None"
    truth: "TabularMDP | None"
    grid: "Grid | None"
    explorer: "AbstractExplorer[Any] | None" = None  # the task's own, unless another is requested
    picture: "Picture | None" = None


def load_target(text: str, settings: list[str]) -> Target:
    """Load the task called `text`, or the problem that the file `text` defines, with ``name=value`` settings."""
    if not text.endswith(".py"):
        return _load_task(text, settings)
    path = Path(text)
    file = _read(path, settings)
    if file.mdp is None and file.env is not None:
        raise TaskError(
            f"{path} defines 'env' but no 'mdp', and this command needs a known model: define mdp, a "
            f"bidual.TabularMDP, or learn from the environment with 'bidual learn {path}'"
        )
    if file.problem is None or file.mdp is None:
        raise _describe_missing(path, "'problem' and 'mdp'", problem=file.problem, mdp=file.mdp)
    return Target(path.name, file.problem, file.mdp, file.grid)


def load_unknown(text: str, settings: list[str], support: str | None) -> Unknown:
    """Load the same to be learned; `support` is "declared" or "unknown" for a simulated model, None for the default."""
    if text in VECTORS:
        _refuse_support(f"{text}", support, "an environment: what can follow in it is not known here")
        return _load_by_name(text, settings)
    if not text.endswith(".py"):
        task = _build_task(text, settings)
        if task.env is not None:
            _refuse_support(f"task {text!r}", support, "an environment: what can follow in it is not known here")
            return Unknown(text, task.problem, task.env, task.model, None, None, task.explorer, task.picture)
        if task.model is not None:
            _refuse_support(f"task {text!r}", support, "a class of laws, which says what can follow")
        model = task.model or _declare_model(task.mdp, support)
        return Unknown(text, task.problem, task.mdp, model, task.mdp, task.grid)
    path = Path(text)
    file = _read(path, settings)
    if file.problem is None or (file.mdp is None and file.env is None):
        env = file.env if file.mdp is None else file.mdp
        raise _describe_missing(path, "'problem' and 'env' (or 'mdp')", problem=file.problem, env=env)
    if file.mdp is None or file.env is not None:
        _refuse_support(f"{path}", support, "'env': what can follow in it is not known here")
        return Unknown(path.name, file.problem, _number_states(file), file.model, None, file.grid, file.explorer)
    if file.model is not None:
        _refuse_support(f"{path}", support, "'model', which says what can follow")
    model = file.model or _declare_model(file.mdp, support)
    return Unknown(path.name, file.problem, file.mdp, model, file.mdp, file.grid, file.explorer)


def _load_by_name(name: str, settings: list[str]) -> Unknown:
    """Load one of Gymnasium's environments with vectors, with the signal and the horizon that 'bidual new' writes."""
    import cvxpy as cp

    from bidual.problem.features import computed, signal
    from bidual.problem.modelling import Problem

    if settings:
        raise TaskError(f"{name} has no settings: 'bidual new --vectors {name} FILE.py' writes a file to change")
    example = VECTORS[name]
    x = computed(**{example.name: signal(example.text, *example.bounds)}).embedding(example.horizon, total=True)
    objective = getattr(cp, example.sense)(getattr(x, example.name))
    return Unknown(name, Problem(objective), name, None, None, None)


def _refuse_support(where: str, support: str | None, what: str) -> None:
    if support is not None:
        raise TaskError(
            f"--support {support} is for tasks and simulated models, but {where} defines {what}. Leave --support out "
            "and declare successors, if they are known, with model = bd.models.Tabular(support=...) in a file"
        )


def _declare_model(mdp: "TabularMDP", support: str | None) -> "Tabular":
    """Declare what a learner may know of a simulated model: the possible successors, or only the absorbing states."""
    import numpy as np

    from bidual.models import Tabular

    if support == "unknown":
        return Tabular(absorbing=np.flatnonzero(mdp.absorbing))
    return Tabular(support=mdp)


def _load_task(name: str, settings: list[str]) -> Target:
    task = _build_task(name, settings)
    if task.env is not None:
        raise TaskError(
            f"{name} is a problem over what an environment shows, and this command needs a known model: learn it with "
            f"'bidual learn {name}'"
        )
    return Target(name, task.problem, task.mdp, task.grid)


def _build_task(name: str, settings: list[str]) -> "Task":
    values = _parse_settings(settings)
    from bidual import tasks

    return tasks.find(name).with_settings(values)


class _File(NamedTuple):
    """The definitions of a file that are used."""

    problem: "Problem | None"
    mdp: "TabularMDP | None"
    env: Any
    model: "Declaration | None"
    explorer: "AbstractExplorer[Any] | None"
    grid: "Grid | None"  # the map of the states, for figures
    states: Any
    states_limit: Any


def _number_states(file: _File) -> Any:  # noqa: ANN401 - any environment that `learn` takes
    """Return the environment with the numbering of a file that defines one, unless it has numbers already.

    A `states` that is no function is something else of the file's own.
    """
    from bidual.learning.states import number_states
    from bidual.world.envs import AbstractEnvironment

    states, limit = file.states if callable(file.states) else None, file.states_limit
    if isinstance(file.env, AbstractEnvironment) or file.problem is None:
        return file.env
    return number_states(file.env, file.problem, states, limit)


def _read(path: Path, settings: list[str]) -> _File:
    from bidual.loop.explorers import AbstractExplorer
    from bidual.models import Declaration
    from bidual.problem.modelling import Problem
    from bidual.world.mdp import Grid, TabularMDP

    values = _parse_settings(settings)
    namespace = run_script(path)
    kinds = {
        "problem": (Problem, "Problem"),
        "mdp": (TabularMDP, "TabularMDP"),
        "model": (Declaration, "models.Tabular, LinearMDP, LowRank, Latent or KNR"),
        "grid": (Grid, "Grid"),
        "explorer": (AbstractExplorer, "explorers.Controls, Alternating, ..."),
    }
    for name, (kind, called) in kinds.items():
        if not isinstance(namespace.get(name), kind | None):
            raise TaskError(f"{path}: {name!r} must be a bidual.{called}; got {type(namespace[name]).__name__}")
    file = _File(*(namespace.get(name) for name in _File._fields))
    if file.problem is not None:
        for name, text in values.items():
            set_parameter(path, file.problem, name, text)
    return file


def _describe_missing(path: Path, wanted: str, **found: object) -> TaskError:
    missing = " and ".join(name for name, value in found.items() if value is None)
    return TaskError(
        f"{path} must define {wanted} at its top level; it does not define {missing} "
        "('bidual new my_problem.py' writes an example)"
    )


def _parse_settings(settings: list[str]) -> dict[str, str]:
    values = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not (name and equals and value):
            raise TaskError(f"--set {setting!r}: write it as NAME=VALUE, for example --set budget=0.2")
        values[name] = value
    return values
