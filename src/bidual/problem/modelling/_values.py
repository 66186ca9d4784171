"""Values of the CVXPY variables of a problem, so that users read results off their own expressions."""

import cvxpy as cp
import numpy as np
from jaxtyping import Float

from bidual.problem.features.embedding import Embedding
from bidual.problem.modelling._functions import split_numbers
from bidual.problem.modelling._problem import Problem


def assign_values(problem: Problem, embedding: Float[np.ndarray, "..."], auxiliary: Float[np.ndarray, "a"]) -> None:
    """Set the embedding and the auxiliary variables of a problem to these values."""
    problem.embedding.value = embedding
    variables = _find_auxiliary(problem)
    if auxiliary.size != sum(variable.size for variable in variables):
        auxiliary = np.full(sum(variable.size for variable in variables), np.nan)  # not known
    for variable, value in split_numbers(variables, auxiliary):
        # Declared signs and bounds are kept within a tolerance only; CVXPY accepts no value beyond them.
        variable.project_and_assign(value)


def _find_auxiliary(problem: Problem) -> tuple[cp.Variable, ...]:
    """Return the auxiliary variables in the order of their numbers, which is that of `lift`."""
    parts = (problem.objective, *problem.constraints.values())
    found = {variable.id: variable for part in parts for variable in part.variables()}
    return tuple(variable for variable in found.values() if not isinstance(variable, Embedding))
