"""Observations as numbers of states: by their space, by a function of the user, or in the order they are met."""

from bidual.world.observations._book import Book, StatePlace
from bidual.world.observations._canonical import format_value
from bidual.world.observations._numbering import NotNumbered, Numbering, read_numbering
from bidual.world.observations._numbers import FiniteSpace, Met, NumberRange
from bidual.world.observations._spaces import find_unnumbered, list_leaves

STATES_LIMIT = 1000  # different observations that are numbered, unless the user says otherwise

__all__ = [
    "STATES_LIMIT",
    "Book",
    "FiniteSpace",
    "Met",
    "NotNumbered",
    "NumberRange",
    "Numbering",
    "StatePlace",
    "find_unnumbered",
    "format_value",
    "list_leaves",
    "read_numbering",
]
