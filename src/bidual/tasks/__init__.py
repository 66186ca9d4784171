"""Built-in tasks, each with an exact optimum that the tests compute anew, where one is known."""

from bidual._errors import TaskError
from bidual.tasks._task import Entry as Entry
from bidual.tasks._task import Grid as Grid
from bidual.tasks._task import Picture as Picture
from bidual.tasks._task import Task as Task
from bidual.tasks.acrobot import EFFORT as _acrobot_effort
from bidual.tasks.acrobot import ENTRY as _acrobot
from bidual.tasks.box import ENTRY as _box
from bidual.tasks.cartpole import EFFORT as _cartpole_effort
from bidual.tasks.cartpole import ENTRY as _cartpole
from bidual.tasks.cliffwalking import ENTRY as _cliffwalking
from bidual.tasks.deep_sea_treasure import ENTRY as _deep_sea_treasure
from bidual.tasks.frozenlake import ENTRY as _frozenlake
from bidual.tasks.inventory import ENTRY as _inventory
from bidual.tasks.inverted_pendulum import EFFORT as _inverted_pendulum_effort
from bidual.tasks.inverted_pendulum import ENTRY as _inverted_pendulum
from bidual.tasks.lock import ENTRY as _lock
from bidual.tasks.lock import SPREAD as _lock_spread
from bidual.tasks.lock_discrete import DISCRETE as _lock_discrete
from bidual.tasks.lock_discrete import SPREAD as _lock_discrete_spread
from bidual.tasks.lqr import EFFORT as _lqr_effort
from bidual.tasks.lqr import ENTRY as _lqr
from bidual.tasks.lqr_match import ENTRY as _lqr_match
from bidual.tasks.media import ENTRY as _media
from bidual.tasks.mountain_car import EFFORT as _mountain_car_effort
from bidual.tasks.mountain_car import ENTRY as _mountain_car
from bidual.tasks.pendulum import EFFORT as _pendulum_effort
from bidual.tasks.pendulum import ENTRY as _pendulum
from bidual.tasks.pendulum_sparse import EFFORT as _pendulum_sparse_effort
from bidual.tasks.pendulum_sparse import ENTRY as _pendulum_sparse
from bidual.tasks.pendulum_spread import ENTRY as _pendulum_spread
from bidual.tasks.pendulum_spread import SPARSE_SPREAD as _pendulum_sparse_spread
from bidual.tasks.perturbation import ENTRY as _perturbation
from bidual.tasks.pointmass import ENTRY as _pointmass
from bidual.tasks.pointmass import MATCH as _pointmass_match
from bidual.tasks.riverswim import ENTRY as _riverswim
from bidual.tasks.rover import ENTRY as _rover
from bidual.tasks.rover_spread import ENTROPY as _rover_entropy
from bidual.tasks.rover_spread import MATCH as _rover_match
from bidual.tasks.rover_two import ENTRY as _rover_two
from bidual.tasks.taxi import ENTRY as _taxi

ENTRIES = (
    _rover,
    _rover_two,
    _rover_entropy,
    _rover_match,
    _box,
    _media,
    _riverswim,
    _inventory,
    _frozenlake,
    _cliffwalking,
    _taxi,
    _deep_sea_treasure,
    _lock_discrete,
    _lock_discrete_spread,
    _perturbation,
    _lock,
    _lock_spread,
    _inverted_pendulum,
    _inverted_pendulum_effort,
    _lqr,
    _lqr_effort,
    _lqr_match,
    _pendulum,
    _pendulum_effort,
    _pendulum_spread,
    _pendulum_sparse,
    _pendulum_sparse_effort,
    _pendulum_sparse_spread,
    _pointmass,
    _pointmass_match,
    _mountain_car,
    _mountain_car_effort,
    _cartpole,
    _cartpole_effort,
    _acrobot,
    _acrobot_effort,
)


def find(name: str) -> Entry:
    """The task called `name`."""
    for entry in ENTRIES:
        if entry.name == name:
            return entry
    names = ", ".join(entry.name for entry in ENTRIES)
    raise TaskError(f"there is no task {name!r}; there are {names} (or give a file name that ends in .py)")
