"""Problems as users declare them, and their compilation to programs."""

from bidual.problem.modelling._compile import extract_affine_rows
from bidual.problem.modelling._curved import Forms
from bidual.problem.modelling._functions import Functions
from bidual.problem.modelling._limits import Limit, Line, describe_lines, slice_rows
from bidual.problem.modelling._parameters import Value
from bidual.problem.modelling._problem import Problem
from bidual.problem.modelling._terms import make_variational
from bidual.problem.modelling._trees import read_functions, write_functions
from bidual.problem.modelling._values import assign_values
from bidual.problem.modelling._variants import (
    drop_limit,
    extract_linear_part,
    open_limit,
    optimise_limit,
    tighten_limits,
)
