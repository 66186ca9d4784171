"""Bounds on expectations from averages over episodes, each with its theorem and its assumptions."""

from bidual.certificate.bounds._betting import interval as interval
from bidual.certificate.bounds._betting import lower as lower
from bidual.certificate.bounds._betting import upper as upper
from bidual.certificate.bounds._differences import entropy_change as entropy_change
from bidual.certificate.bounds._differences import jensen as jensen
from bidual.certificate.bounds._differences import lipschitz_change as lipschitz_change
from bidual.certificate.bounds._executed import Executed as Executed
from bidual.certificate.bounds._range import Range as Range
from bidual.certificate.bounds._restarts import Restarts as Restarts
from bidual.certificate.bounds._split import Alone as Alone
from bidual.certificate.bounds._split import Split as Split

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
