"""Explorers by their names on the command line."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bidual._base.errors import ProblemError

if TYPE_CHECKING:
    from bidual.loop.explorers import AbstractExplorer, Controls, Riccati
    from bidual.planners.control import AbstractOptimism

_STATES = ("alternating", "optimistic", "thompson", "greedy", "epsilon-greedy", "bonus")
_CONTROLS = (
    "thompson",
    "greedy",
    "bonus",
    "best-of",
    "hallucinated",
    "optimistic",
)  # of vectors
EXPLORERS = tuple(dict.fromkeys(_STATES + _CONTROLS))
DUALS = ("corrective", "paper", "paper-literal", "ftl")


def find_explorer(name: str | None, dual: str | None) -> "AbstractExplorer[Any] | None":
    """Return the requested explorer for counted states; None where none was requested."""
    from bidual.dual import FollowTheLeader, GradientAscent
    from bidual.loop import explorers

    if name is not None and dual not in (None, "corrective"):
        raise ProblemError(f"--dual {dual} is a way of exploring by itself: leave out --explorer {name}")
    match dual:
        case "paper":
            return explorers.PrimalDual(GradientAscent(), canonical=True)
        case "paper-literal":
            return explorers.PrimalDual(GradientAscent(literal=True), canonical=True)
        case "ftl":
            return explorers.PrimalDual(FollowTheLeader())
    kinds = {
        "alternating": explorers.Alternating,
        "optimistic": explorers.Optimistic,
        "thompson": explorers.Thompson,
        "greedy": explorers.Greedy,
        "epsilon-greedy": explorers.EpsilonGreedy,
        "bonus": explorers.Hoeffding,
    }
    _check_name(name, _STATES, "this model moves between states")
    return None if name is None else kinds[name]()


def find_controls_explorer(name: str | None, dual: str | None, suited: "Controls | Riccati") -> "Controls | Riccati":
    """Return the requested explorer for vectors under controls, with the planner that suits the task.

    An optimism and the dual player of primal-dual steps are two things here, so both may be asked for.
    """
    from bidual.dual import FollowTheLeader, GradientAscent
    from bidual.loop.explorers import Riccati

    _check_name(name, _CONTROLS, "this model moves vectors under controls")
    if isinstance(suited, Riccati):
        if name is None and dual in (None, "corrective"):
            return suited
        suited = suited.otherwise
    players = {
        "paper": GradientAscent(steps="adaptive", floor=3e-3),  # controls are never free
        "paper-literal": GradientAscent(literal=True),
        "ftl": FollowTheLeader(),
    }
    suited = replace(suited, dual=players.get(dual or "corrective"))
    return suited if name is None else replace(suited, optimism=_choose_optimism(name, suited.optimism))


def _choose_optimism(name: str, suited: "AbstractOptimism") -> "AbstractOptimism":
    """Return the kind of optimism of that name: the task's own where it is of this kind."""
    from bidual.planners import control

    kinds = {
        "thompson": control.Thompson(),
        "greedy": control.Mean(),
        "bonus": control.Bonus(1.0),
        "best-of": control.BestOf(),
        "hallucinated": control.Hallucinated(),
        "optimistic": control.Hallucinated(share=1.0),  # over the certified set, as in the paper
    }
    if name == "optimistic":
        return kinds[name]
    # A task that explores in this way has numbers for it that suit it better.
    return suited if type(suited) is type(kinds[name]) else kinds[name]


def _check_name(name: str | None, known: tuple[str, ...], why: str) -> None:
    if name is not None and name not in known:
        raise ProblemError(f"--explorer {name} does not go with this model: {why}; choose {', '.join(known)}")
