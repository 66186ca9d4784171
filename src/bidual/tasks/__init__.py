"""Built-in tasks, each with an exact optimum that the tests compute anew, where one is known."""

from importlib import import_module

from bidual._base.errors import TaskError
from bidual._base.spelling import list_possible
from bidual.tasks._task import Entry, Picture, Task
from bidual.world.mdp import Grid

# One file each, in the order of `bidual tasks`; a file defines ENTRIES.
_FILES = (
    "rover",
    "rover_two",
    "rover_spread",
    "box",
    "media",
    "riverswim",
    "inventory",
    "frozenlake",
    "cliffwalking",
    "taxi",
    "deep_sea_treasure",
    "lock_discrete",
    "perturbation",
    "lock",
    "inverted_pendulum",
    "lqr",
    "lqr_match",
    "pendulum",
    "pendulum_spread",
    "pendulum_sparse",
    "pointmass",
    "mountain_car",
    "cartpole",
    "acrobot",
)

__all__ = [
    "ENTRIES",
    "Entry",
    "Grid",
    "Picture",
    "Task",
    "find",
]

ENTRIES = tuple(entry for name in _FILES for entry in import_module(f"bidual.tasks.{name}").ENTRIES)


def find(name: str) -> Entry:
    """Return the task called `name`."""
    for entry in ENTRIES:
        if entry.name == name:
            return entry
    possible = list_possible(name, [entry.name for entry in ENTRIES])
    raise TaskError(f"there is no task {name!r}{possible} (or give a file name that ends in .py)")
