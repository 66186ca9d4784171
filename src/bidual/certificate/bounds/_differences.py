"""Upper bounds on f(E Psi) for convex f, from the average of n episodes.

f is not linear, so bounds on the parts of Psi do not add up to one on f. But f(E Psi) <= E f(average) (Jensen), and
f(average) depends on n independent episodes, none of which moves it by more than `change`. McDiarmid's inequality of
bounded differences:

    P( f(average) <= E f(average) - r ) <= exp(-2 r^2 / (n change^2)).

Assumes: n i.i.d. episodes, n fixed, of one policy that was fixed before; f convex; `change` bounds the difference that
replacing one episode can make. There is no bound from below. For a concave function to be maximised take its negative.
"""

import math

import numpy as np

from bidual._base.errors import ProblemError
from bidual.certificate.bounds._range import EPS
from bidual.certificate.bounds._split import check_delta


def jensen(value_at_average: float, n: int, change: float, delta: float) -> float:
    """Bound f(E Psi) with probability at least 1 - delta: f(average) + change sqrt(n/2 log(1/delta))."""
    check_delta("delta", delta)
    _check_count("n", n)
    _check_size("change", change)
    if not np.isfinite(value_at_average):
        raise ProblemError(
            f"f at the average must be a finite number; got {value_at_average!r}: this bound is for functions that are "
            "finite at every average"
        )
    radius = change * math.sqrt(n / 2 * -math.log(delta))
    return value_at_average + radius + 4 * EPS * (abs(value_at_average) + radius)


def bound_lipschitz_change(lipschitz: float, diameter: float, n: int) -> float:
    """Bound the change from one of n episodes: two episodes differ by at most `diameter`, so averages by 1/n of it.

    Both numbers must be in the same norm.
    """
    _check_count("n", n)
    _check_size("lipschitz", lipschitz)
    _check_size("diameter", diameter)
    return lipschitz * diameter / n


def bound_entropy_change(num_cells: int, n: int) -> float:
    """Bound the change from one of n episodes in the Shannon entropy, in nats, of their averaged distribution.

    Each episode is a distribution over `num_cells` cells; replacing one moves the average by at most t = 1/n in total
    variation. The inequality of Fannes and Audenaert (2007), sharp for every t, bounds the change by
    t log(num_cells - 1) + h(t) with the binary entropy h. It grows up to t = 1 - 1/num_cells, where it is
    log(num_cells). The entropy is not Lipschitz: the change falls like log(n) / n.
    """
    _check_count("n", n)
    _check_count("num_cells", num_cells)
    t = min(1 / n, 1 - 1 / num_cells)
    if t == 0:
        return 0.0  # one cell: the entropy is always 0
    return t * math.log(num_cells - 1) - t * math.log(t) - (1 - t) * math.log1p(-t)


def _check_count(name: str, count: int) -> None:
    if count < 1:
        raise ProblemError(f"{name} must be at least 1; got {count!r}")


def _check_size(name: str, size: float) -> None:
    if not (np.isfinite(size) and size >= 0):
        raise ProblemError(f"{name} must be a finite number of at least 0; got {size!r}: without it no bound holds")
