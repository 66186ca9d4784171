"""Price curves: the optimum and the price as functions of a constraint's limit."""

from bidual.solving.pricing._curve import AbstractCurve, Curve, format_or_dash
from bidual.solving.pricing._price import choose_limit, price, price_in
