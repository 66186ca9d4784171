"""Environments: the sources of episodes."""

from bidual._base.types import Episode as Episode
from bidual.world.envs._base import AbstractEnvironment as AbstractEnvironment
from bidual.world.envs._control import EXPLODED as EXPLODED
from bidual.world.envs._control import ControlEnvironment as ControlEnvironment
from bidual.world.envs._control import control_environment as control_environment
from bidual.world.envs._gymnasium import GymnasiumEnvironment as GymnasiumEnvironment
from bidual.world.envs._gymnasium import gymnasium_environment as gymnasium_environment
from bidual.world.envs._opening import check_count as check_count
from bidual.world.envs._parallel import Parallel as Parallel
from bidual.world.envs._parallel import Submits as Submits
from bidual.world.envs._parallel import parallel as parallel
from bidual.world.envs._processes import processes as processes
from bidual.world.envs._readings import Step as Step
from bidual.world.envs._rich import RichEnvironment as RichEnvironment
from bidual.world.envs._rich import rich_environment as rich_environment
from bidual.world.envs._simulator import Simulator as Simulator

__all__ = [
    "AbstractEnvironment",
    "ControlEnvironment",
    "Episode",
    "GymnasiumEnvironment",
    "Parallel",
    "RichEnvironment",
    "Simulator",
    "Step",
    "Submits",
    "control_environment",
    "gymnasium_environment",
    "parallel",
    "processes",
    "rich_environment",
]
