"""Price curves: the optimum and the price as functions of a constraint's limit."""

from bidual.solving.pricing._curve import Curve as Curve
from bidual.solving.pricing._price import price as price
