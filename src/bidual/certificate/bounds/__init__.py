"""Bounds on expectations from averages over episodes, each with its theorem and its assumptions."""

from bidual.certificate.bounds._betting import interval, lower, upper
from bidual.certificate.bounds._differences import bound_entropy_change, bound_lipschitz_change, jensen
from bidual.certificate.bounds._executed import Executed
from bidual.certificate.bounds._range import Range
from bidual.certificate.bounds._restarts import Restarts
from bidual.certificate.bounds._split import Alone, Split

__all__ = [
    "interval",
    "lower",
    "upper",
]

# Classes of stored states, by their names in files, which never change.
STORED = {
    "Executed": Executed,
    "Restarts": Restarts,
    "Range": Range,
}
