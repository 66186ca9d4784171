"""What a user declares."""

from bidual.problem._curved import Forms as Forms
from bidual.problem._functions import Functions as Functions
from bidual.problem._limits import Limit as Limit
from bidual.problem._limits import Line as Line
from bidual.problem._limits import lines_of as lines_of
from bidual.problem._parameters import Value as Value
from bidual.problem._problem import Problem as Problem
from bidual.problem._terms import ranges as ranges
from bidual.problem._terms import variational as variational
from bidual.problem._trees import read_functions as read_functions
from bidual.problem._trees import write_functions as write_functions
from bidual.problem._variants import dropped as dropped
from bidual.problem._variants import linear_part as linear_part
from bidual.problem._variants import opened as opened
from bidual.problem._variants import pushed as pushed
from bidual.problem._variants import tightened as tightened
