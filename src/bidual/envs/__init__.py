"""Where episodes come from."""

from bidual.envs._base import AbstractEnvironment as AbstractEnvironment
from bidual.envs._gymnasium import GymnasiumEnvironment as GymnasiumEnvironment
from bidual.envs._gymnasium import gymnasium_environment as gymnasium_environment
from bidual.envs._readings import Step as Step
from bidual.envs._simulator import Simulator as Simulator
