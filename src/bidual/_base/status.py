"""The outcome of a solve: an enumeration whose members carry their message."""

from enum import StrEnum


class Status(StrEnum):
    """The outcome of a solve. Compares equal to its name: ``solution.status == "optimal"``."""

    message: str

    def __new__(cls, name: str, message: str) -> "Status":
        """Attach the message to the member."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.message = message
        return member

    OPTIMAL = "optimal", "the policy keeps every constraint and no policy is better by more than the gap"
    FEASIBLE = "feasible", "the policy keeps every constraint; the gap says how much better another might be"
    UNDECIDED = "undecided", "neither a feasible policy nor a proof that there is none was found"
    INFEASIBLE = "infeasible", "no policy keeps all constraints at once"
