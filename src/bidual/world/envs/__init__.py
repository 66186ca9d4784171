"""Environments: the sources of episodes."""

from bidual._base.types import Episode
from bidual.world.envs._base import AbstractEnvironment
from bidual.world.envs._control import EXPLODED, ControlEnvironment, control_environment
from bidual.world.envs._gymnasium import GymnasiumEnvironment, gymnasium_environment
from bidual.world.envs._opening import check_count
from bidual.world.envs._parallel import Parallel, Submits, parallel
from bidual.world.envs._processes import processes
from bidual.world.envs._readings import Step
from bidual.world.envs._rich import RichEnvironment, rich_environment
from bidual.world.envs._simulator import Simulator
from bidual.world.envs._vector import VectorEnvironment, is_vector, vector_environment

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
    "VectorEnvironment",
    "control_environment",
    "gymnasium_environment",
    "parallel",
    "processes",
    "rich_environment",
    "vector_environment",
]
