"""Ways of exploring by their names on the command line."""

from typing import TYPE_CHECKING, Any

from bidual._errors import ProblemError

if TYPE_CHECKING:
    from bidual.explorers import AbstractExplorer

EXPLORERS = ("alternating", "optimistic", "thompson", "greedy", "epsilon-greedy", "bonus")
DUALS = ("corrective", "paper", "paper-literal", "ftl")


def explorer_named(name: str | None, dual: str | None) -> "AbstractExplorer[Any] | None":
    """What was asked for; None where nothing was."""
    from bidual import explorers
    from bidual.dual import FollowTheLeader, GradientAscent

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
    return None if name is None else kinds[name]()
