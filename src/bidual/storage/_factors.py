"""A class of low-rank laws as plain data: every list of candidates once, and the number of the list of each step."""

from typing import Any

import numpy as np

from bidual.models import Factors, Support, check_laws, list_class_support
from bidual.storage._arrays import StoredArrays, require_type


def restore_factors(
    numbers: Any,  # noqa: ANN401 - JSON
    stored: StoredArrays,
    shape: tuple[int, int, int],
    support: Support,
) -> tuple[Factors, ...]:
    """Restore the candidates of every step, checked like those that a user gives."""
    H, S, A = shape
    numbers = [require_type(int, number) for number in numbers]
    if len(numbers) != H:
        raise ValueError("a class needs the number of a list of candidates for every step")
    lists = {}
    for number in set(numbers):
        phis = stored.numbers(f"phis_{number}", None, S, A, None)
        mus = stored.numbers(f"mus_{number}", None, None, S)
        if not (len(phis) and len(mus)):
            raise ValueError("a class needs at least one candidate for each factor")
        lists[number] = Factors(phis, mus)
        check_laws(lists[number], support.allowed, "")
    factors = tuple(lists[number] for number in numbers)
    ends = np.flatnonzero(support.absorbing)
    if not np.array_equal(list_class_support(factors, ends, support.allowed).states, support.states):
        raise ValueError("the successors are not those that the candidates hold possible")
    return factors
