"""Price curves: the optimum and the price as functions of a constraint's limit."""

from bidual.solving.pricing._curve import AbstractCurve as AbstractCurve
from bidual.solving.pricing._curve import Curve as Curve
from bidual.solving.pricing._curve import format_or_dash as format_or_dash
from bidual.solving.pricing._price import choose_limit as choose_limit
from bidual.solving.pricing._price import price as price
from bidual.solving.pricing._price import price_in as price_in
