"""Problems as users declare them, and their compilation to programs."""

from bidual.problem.modelling._compile import affine_rows as affine_rows
from bidual.problem.modelling._curved import Forms as Forms
from bidual.problem.modelling._functions import Functions as Functions
from bidual.problem.modelling._limits import Limit as Limit
from bidual.problem.modelling._limits import Line as Line
from bidual.problem.modelling._limits import describe_lines as describe_lines
from bidual.problem.modelling._limits import slice_rows as slice_rows
from bidual.problem.modelling._parameters import Value as Value
from bidual.problem.modelling._problem import Problem as Problem
from bidual.problem.modelling._terms import variational as variational
from bidual.problem.modelling._trees import read_functions as read_functions
from bidual.problem.modelling._trees import write_functions as write_functions
from bidual.problem.modelling._values import assign_values as assign_values
from bidual.problem.modelling._variants import drop_limit as drop_limit
from bidual.problem.modelling._variants import linear_part as linear_part
from bidual.problem.modelling._variants import open_limit as open_limit
from bidual.problem.modelling._variants import optimise_limit as optimise_limit
from bidual.problem.modelling._variants import tighten_limits as tighten_limits
