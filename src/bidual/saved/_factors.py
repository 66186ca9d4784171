"""A class of low-rank laws as plain data: every list of candidates once, and which of them each step has."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bidual.models import Factors, check_laws, class_support
from bidual.models._support import Support
from bidual.saved._arrays import Stored, exactly


def stored_factors(factors: Sequence[Factors]) -> tuple[list[int], dict[str, np.ndarray]]:
    """The number of the list that each step has, and the lists."""
    found = list({id(one): one for one in factors}.values())
    places = {id(one): number for number, one in enumerate(found)}
    arrays = {}
    for i, one in enumerate(found):
        arrays |= {f"phis_{i}": one.phis, f"mus_{i}": one.mus}
    return [places[id(one)] for one in factors], arrays


def restored_factors(
    numbers: Any,  # noqa: ANN401 - JSON
    stored: Stored,
    shape: tuple[int, int, int],
    support: Support,
) -> tuple[Factors, ...]:
    """The candidates of every step, checked like those that a user gives."""
    H, S, A = shape
    numbers = [exactly(int, number) for number in numbers]
    if len(numbers) != H:
        raise ValueError("a class needs the number of a list of candidates for every step")
    lists = {}
    for number in set(numbers):
        phis = stored.numbers(f"phis_{number}", None, S, A, None)
        mus = stored.numbers(f"mus_{number}", None, None, S)
        lists[number] = Factors(phis, mus)
        check_laws(lists[number], support.allowed, "")
    factors = tuple(lists[number] for number in numbers)
    ends = np.flatnonzero(support.absorbing)
    if not np.array_equal(class_support(factors, ends, support.allowed).states, support.states):
        raise ValueError("the successors are not those that the candidates hold possible")
    return factors
