"""Bounds from episodes: what averages say about expectations, each with its theorem and its assumptions."""

from bidual.bounds._betting import interval as interval
from bidual.bounds._betting import lower as lower
from bidual.bounds._betting import upper as upper
from bidual.bounds._differences import entropy_change as entropy_change
from bidual.bounds._differences import jensen as jensen
from bidual.bounds._differences import lipschitz_change as lipschitz_change
from bidual.bounds._executed import Executed as Executed
from bidual.bounds._restarts import Restarts as Restarts
from bidual.bounds._split import Alone as Alone
from bidual.bounds._split import Split as Split
