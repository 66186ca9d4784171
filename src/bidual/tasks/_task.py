"""The parts of a built-in task: a problem over a model, and the facts known about it."""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from jaxtyping import Float

from bidual._base.brief import describe_briefly
from bidual._base.errors import TaskError
from bidual._base.spelling import list_possible
from bidual.models import Declaration
from bidual.problem.modelling import Problem
from bidual.world.mdp import Grid, TabularMDP

if TYPE_CHECKING:
    import cvxpy as cp

    from bidual.loop.explorers import AbstractExplorer


@final
@dataclass(frozen=True)
class Picture:
    """The drawing of an observation of vectors.

    Args:
        names: of the numbers of an observation, one each.
        controls: names of the controls.
        angle: the two numbers that are cosine and sine of an angle, drawn as that angle; 0 is upright.
        turns: further angles, each with its name and its two numbers.
        plane: the two numbers that are a place in the plane, drawn as a path.
        goal: the place to go to.
        discs: (x, y, radius) of regions to keep out of.
        joints: from the numbers of an observation, each an array over time, to (x, y) of joints that rods connect.
        ground: (x, y) of points of a line that they stand or hang on.
        seconds: how long a step lasts.
    """

    __repr__ = describe_briefly

    names: tuple[str, ...]
    controls: tuple[str, ...]
    angle: tuple[int, int] | None = None
    turns: tuple[tuple[str, int, int], ...] = ()
    plane: tuple[int, int] | None = None
    goal: tuple[float, float] | None = None
    discs: tuple[tuple[float, float, float], ...] = ()
    joints: Callable[[Float[np.ndarray, "n k"]], Float[np.ndarray, "j 2 k"]] | None = None
    ground: tuple[tuple[float, float], ...] = ()
    seconds: float = 1.0


@final
@dataclass(frozen=True, eq=False)
class Task:
    """A problem, its model and, where there are, its map and the declarations for a learner.

    Where the problem is over observations of an environment, `env` is that environment and `mdp` its hidden model: such
    a task can be learned and not solved.
    """

    __repr__ = describe_briefly

    problem: Problem
    finite: TabularMDP | None  # None where states are vectors
    grid: Grid | None = None
    model: Declaration | None = None  # None: a learner knows which states can follow
    env: Any = None  # whatever `learn` takes
    explorer: "AbstractExplorer[Any] | None" = None  # the task's own; None: the model's default
    picture: Picture | None = None  # where controls lead, for figures

    @property
    def mdp(self) -> TabularMDP:
        """The model, where it has finitely many states."""
        if self.finite is None:
            raise TaskError("the states of this task are vectors: it can be learned, and has no finite model to solve")
        return self.finite


@final
@dataclass(frozen=True)
class Entry:
    """A line of the list of tasks. `build` takes the parameters by name and needs none of them.

    Families say what a learner is told: "tabular", of counted states; "class", a class of laws; "latent", states that
    are hidden in vectors; "control", vectors that move under controls.
    """

    __repr__ = describe_briefly

    name: str
    summary: str
    source: str
    objective: str
    limits: tuple[str, ...]  # such as "pits <= budget", where `budget` is a parameter
    optimum: float | None  # of the default parameters, in the task's own sense; None: unknown
    build: Callable[..., Task]
    episodes: int = 1000  # that are worth learning from, unless another number is asked for
    family: str = "tabular"

    @property
    def constraints(self) -> tuple[str, ...]:
        """The names of the constraints."""
        return tuple(limit.split()[0] for limit in self.limits)

    @property
    def parameters(self) -> dict[str, float | int]:
        """The parameters and their defaults."""
        return {name: p.default for name, p in inspect.signature(self.build).parameters.items()}

    def with_settings(self, settings: dict[str, str]) -> Task:
        """Build the task with some parameters given as text."""
        return self.build(**{name: self._parse(name, text) for name, text in settings.items()})

    def _parse(self, name: str, text: str) -> float | int:
        if name not in self.parameters:
            raise TaskError(f"task {self.name!r} has no parameter {name!r}{list_possible(name, self.parameters)}")
        kind = type(self.parameters[name])
        word = "a whole number, at least 1" if kind is int else "a number"
        try:
            value = kind(text)
        except ValueError:
            raise TaskError(f"{name}={text}: {name} must be {word}") from None
        if kind is int and value < 1:
            raise TaskError(f"{name}={text}: {name} must be {word}")
        return value


def open_limit(name: str, value: float) -> "cp.Parameter":
    """Return a limit as a parameter that `resolve` can change."""
    import cvxpy as cp

    if not math.isfinite(value):
        raise TaskError(f"{name}={value} has the limit {value}: a limit must be a finite number (0 is fine)")
    return cp.Parameter(name=name, value=value)
