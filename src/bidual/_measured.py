"""Numbers of every episode under the names that the user knows, for whoever stores or draws them."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from bidual._prepare import Setting
from bidual.learned import Look

LOOKS = ("bound", "reached", "violation_at_most", "gap", "seconds")  # what is known at looks only
CANDIDATES = "candidates_left"  # likewise, at the worst step of a finite class
PLANNED = "planned "  # before the name of a number: what the plan expected, where one was made for the episode
_ENTRIES = 8  # of a vector constraint that are told apart; of longer ones nothing is


class Measurement(NamedTuple):
    """One number: what it is, after which episode, and how much."""

    name: str
    episode: int
    value: float


class _Column(NamedTuple):
    """How one linear functional of an episode is told: bound + sign * number."""

    name: str
    place: int
    bound: float
    sign: float


class Measured:
    """Gathers numbers until they are taken."""

    def __init__(self, setting: Setting) -> None:
        self._columns = _columns(setting)
        self._gathered: list[Measurement] = []

    def plans(self, episode: int, count: int) -> None:
        """How many plans it took to choose the policy of an episode."""
        self._gathered.append(Measurement("plans", episode, float(count)))

    def paid(self, first: int, paid: Float[np.ndarray, "n r"]) -> None:
        """What episodes from number `first` on paid: objective and constraints, in the user's sense and units."""
        for column in self._columns:
            told = (column.bound + column.sign * paid[:, column.place]).tolist()
            self._gathered += [Measurement(column.name, first + i, value) for i, value in enumerate(told)]

    def planned(self, episode: int, expected: Float[np.ndarray, "r"]) -> None:
        """What the plan that was run in an episode expected to pay, in the dynamics that it was made in."""
        told = [(PLANNED + one.name, one.bound + one.sign * float(expected[one.place])) for one in self._columns]
        self._gathered += [Measurement(name, episode, value) for name, value in told]

    def look(self, look: Look) -> None:
        """Bounds after an episode; what is not known is left out."""
        left = None if look.candidates is None else look.candidates.most
        numbers = (look.bound, look.reached, look.violation, look.gap, look.seconds, left)
        told = [
            (name, number) for name, number in zip((*LOOKS, CANDIDATES), numbers, strict=True) if number is not None
        ]
        self._gathered += [Measurement(name, look.episodes, float(number)) for name, number in told]

    def take(self) -> list[Measurement]:
        """What was gathered since the last time."""
        gathered, self._gathered = self._gathered, []
        return gathered


def _columns(setting: Setting) -> list[_Column]:
    """The objective and every constraint that is linear, and so paid by single episodes."""
    places = {int(number): place for place, number in enumerate(setting.linear.numbers)}
    columns = [_Column("objective", places[0], 0.0, setting.sense)] if 0 in places else []
    start = 1
    for line in setting.problem.lines():
        size = line.bounds.size
        for entry in range(size if size <= _ENTRIES else 0):
            name = line.name if size == 1 else f"{line.name}[{entry}]"
            name = f"{name} (constraint)" if _taken(name) else name
            if start + entry in places:
                columns.append(_Column(name, places[start + entry], float(line.bounds[entry]), line.sign))
        start += size
    return columns


def _taken(name: str) -> bool:
    """Whether a number of another kind may have this name."""
    return name in ("run", "episode", "objective", "plans", *LOOKS, CANDIDATES) or name.startswith(PLANNED)
