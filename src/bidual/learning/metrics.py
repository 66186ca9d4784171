"""Numbers of every episode under the user's names, senses and units, for stored runs and for figures."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from bidual._base.types import Episode
from bidual.certificate import evaluate_at
from bidual.learning.learned import EpisodeValues, LearnProgress
from bidual.learning.outputs import Sums, average_embedding
from bidual.learning.setup import LearnSetup
from bidual.problem.modelling import slice_rows

PROGRESS_METRICS = ("bound", "reached", "violation_at_most", "gap", "seconds")  # known where bounds are computed only
CANDIDATES = "candidates_left"  # likewise, at the worst step of a finite class
PLANNED = "planned "  # prefix of the values that a plan expected, where one was made for the episode
_MOST_ENTRIES = 8  # of a vector constraint; a longer one has no numbers per episode


class Metric(NamedTuple):
    """One number: its name, the episode it belongs to, its value."""

    name: str
    episode: int
    value: float


class _Column(NamedTuple):
    """The objective or one entry of a constraint: row of (f, g), and its value as bound + sign * row."""

    name: str
    row: int
    bound: float
    sign: float

    def to_user_units(self, rows: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """Return values in the user's sense and units from values of the minimising form."""
        return self.bound + self.sign * rows


class MetricLog:
    """A log of numbers that is filled during a run and emptied by whoever stores them."""

    def __init__(self, setup: LearnSetup) -> None:
        self._columns = _place_columns(setup)
        self._gathered: list[Metric] = []

    def record_plans(self, episode: int, count: int) -> None:
        """Log the number of plans that chose the policy of an episode."""
        self._gathered.append(Metric("plans", episode, float(count)))

    def record_values(self, first: int, values_per_episode: Float[np.ndarray, "n r"]) -> None:
        """Log objective and linear constraints of consecutive episodes, of which `first` is the number of the first."""
        for column, place in self._columns:
            values = column.to_user_units(values_per_episode[:, place]).tolist()
            self._gathered += [Metric(column.name, first + i, value) for i, value in enumerate(values)]

    def record_expected(self, episode: int, expected: Float[np.ndarray, "r"]) -> None:
        """Log the values that the plan of an episode expected, in the dynamics it was made in."""
        for column, place in self._columns:
            value = float(column.to_user_units(expected[place : place + 1])[0])
            self._gathered.append(Metric(PLANNED + column.name, episode, value))

    def record_progress(self, progress: LearnProgress) -> None:
        """Log the bounds after an episode; unknown ones are left out."""
        left = None if progress.candidates is None else progress.candidates.most
        numbers = (progress.bound, progress.reached, progress.violation, progress.gap, progress.seconds, left)
        for name, number in zip((*PROGRESS_METRICS, CANDIDATES), numbers, strict=True):
            if number is not None:
                self._gathered.append(Metric(name, progress.episodes, float(number)))

    @property
    def waiting(self) -> int:
        """The number of numbers that were not taken yet."""
        return len(self._gathered)

    def take(self) -> list[Metric]:
        """Return the numbers since the last call, and forget them."""
        gathered, self._gathered = self._gathered, []
        return gathered


def compute_episode_values(
    setup: LearnSetup, before: Sums | None, episodes: Sequence[Episode]
) -> Float[np.ndarray, "k rows"]:
    """Compute (f, g) after each of some episodes: nonlinear rows at the running mean, `before` included."""
    program, pieces = setup.program, setup.knowledge.pieces
    each = np.stack([average_embedding(pieces, [episode]) for episode in episodes])
    if program.is_linear:
        return np.array([evaluate_at(program, one) for one in each])
    values = np.zeros((len(episodes), 1 + program.equality.size))
    if before is not None:
        counts = before.count + np.arange(1, len(episodes) + 1)
        means = (before.whole + np.cumsum(each, axis=0)) / counts[:, None, None]
        values[:] = [evaluate_at(program, mean) for mean in means]
    values[:, setup.linear.numbers] = setup.linear.payments(episodes)
    return values


def name_values(setup: LearnSetup, episodes: Sequence[Episode]) -> dict[str, Float[np.ndarray, "n"]]:
    """Compute objective and linear constraints of every episode, by name, in the user's sense and units."""
    payments = setup.linear.payments(episodes)
    return {column.name: column.to_user_units(payments[:, place]) for column, place in _place_columns(setup)}


def to_user_units(setup: LearnSetup, values: Float[np.ndarray, "n rows"]) -> EpisodeValues:
    """Name the values of every episode and convert them to the user's sense and units."""
    columns = _list_columns(setup)
    straight = set(setup.linear.numbers.tolist())
    if setup.program.is_linear:  # rows without bounds included
        straight = set(range(values.shape[1]))
    averaged = tuple(column.name for column in columns if column.row not in straight)
    return EpisodeValues({column.name: column.to_user_units(values[:, column.row]) for column in columns}, averaged)


def _place_columns(setup: LearnSetup) -> list[tuple[_Column, int]]:
    """List the columns that are linear, with their places among the linear functionals."""
    places = {int(row): place for place, row in enumerate(setup.linear.numbers)}
    return [(column, places[column.row]) for column in _list_columns(setup) if column.row in places]


def _list_columns(setup: LearnSetup) -> list[_Column]:
    """List the objective and the entries of all constraints that have few."""
    columns = [_Column("objective", 0, 0.0, setup.sense)]
    for line, rows in slice_rows(setup.problem.lines()):
        size = line.bounds.size
        for entry in range(size if size <= _MOST_ENTRIES else 0):
            name = line.name if size == 1 else f"{line.name}[{entry}]"
            name = f"{name} (constraint)" if _is_reserved(name) else name
            columns.append(_Column(name, 1 + rows.start + entry, float(line.bounds[entry]), line.sign))
    return columns


def _is_reserved(name: str) -> bool:
    """Tell whether a number of another kind may have this name."""
    return name in ("run", "episode", "objective", "plans", *PROGRESS_METRICS, CANDIDATES) or name.startswith(PLANNED)
