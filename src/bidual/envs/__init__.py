"""Where episodes come from."""

from bidual.envs._base import AbstractEnvironment as AbstractEnvironment
from bidual.envs._control import ControlEnvironment as ControlEnvironment
from bidual.envs._control import control_environment as control_environment
from bidual.envs._gymnasium import GymnasiumEnvironment as GymnasiumEnvironment
from bidual.envs._gymnasium import gymnasium_environment as gymnasium_environment
from bidual.envs._parallel import Parallel as Parallel
from bidual.envs._parallel import parallel as parallel
from bidual.envs._processes import processes as processes
from bidual.envs._readings import Step as Step
from bidual.envs._rich import RichEnvironment as RichEnvironment
from bidual.envs._rich import rich_environment as rich_environment
from bidual.envs._simulator import Simulator as Simulator
