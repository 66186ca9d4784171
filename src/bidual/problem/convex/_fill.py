"""The nearest point of a simplex: one multiplier of the sum, found exactly among the breakpoints.

Given the multiplier tau, the entries of argmax move.x - d(x)^2 / 2 over x >= 0 with sum x = mass are free of each
other: x_i = max(0, upper_i + move_i - tau) where move_i > tau, max(0, lower_i + move_i - tau) where move_i < tau, and
anything between where they are equal. Their sum falls with tau, linearly between breakpoints and with jumps at
tau = move_i; a search among the sorted breakpoints finds the piece, and the piece gives tau without iteration.
"""

import math

import numpy as np
from jaxtyping import Bool, Float

_UNSURE = 1e-12  # sums closer to 0 than this share of their terms are done again without rounding


def lift(
    move: Float[np.ndarray, "n"],
    lower: Float[np.ndarray, "n"],
    upper: Float[np.ndarray, "n"],
    least: Float[np.ndarray, "n"],
    most: Float[np.ndarray, "n"],
) -> Float[np.ndarray, "n"]:
    """Return x - clip(x, lower, upper) for the best x in [least, most]: `move`, as far as the bounds allow."""
    over = np.clip(move, least - upper, most - upper)
    under = np.clip(move, least - lower, most - lower)
    return np.maximum(over, 0.0) + np.minimum(under, 0.0)


def fill(
    mass: float, move: Float[np.ndarray, "n"], lower: Float[np.ndarray, "n"], upper: Float[np.ndarray, "n"]
) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
    """Return the maximiser over the simplex, and its excess over the box [lower, upper]."""
    breaks = np.unique(np.concatenate([move, move + lower, move + upper]))
    k = _find_last_above(mass, breaks, move, lower, upper)
    if k >= 0:
        tau = float(breaks[k])
        low, high = (_compute_surplus(mass, tau, move, lower, upper, above) for above in (move > tau, move >= tau))
        if low <= 0:
            # The mass lies within the jump: the tied entries share it.
            share = min(1.0, -low / max(high - low, np.finfo(np.float64).tiny))
            least, most = (_fill_entries(tau, move, lower, upper, above) for above in (move > tau, move >= tau))
            return least + share * (most - least), _solve_beyond(move - tau, lower, upper)
    return _solve_on_piece(mass, float(breaks[k + 1]), move, lower, upper)


def _find_last_above(
    mass: float,
    breaks: Float[np.ndarray, "b"],
    move: Float[np.ndarray, "n"],
    lower: Float[np.ndarray, "n"],
    upper: Float[np.ndarray, "n"],
) -> int:
    """Return the last breakpoint that the sum reaches from the left with at least `mass`; -1 where none does."""
    low, high = -1, len(breaks) - 1  # at the last breakpoint nothing but tied entries is left
    while low < high:
        k = (low + high + 1) // 2
        tau = float(breaks[k])
        if _compute_surplus(mass, tau, move, lower, upper, move >= tau) >= 0:
            low = k
        else:
            high = k - 1
    # Beyond the last breakpoint the sum is 0, so where it is the last the mass lies in its jump.
    return low


def _compute_surplus(
    mass: float,
    tau: float,
    move: Float[np.ndarray, "n"],
    lower: Float[np.ndarray, "n"],
    upper: Float[np.ndarray, "n"],
    above: Bool[np.ndarray, "n"],
) -> float:
    """Return the sum of the entries minus the mass, with its true sign: moves may be below the last digit."""
    anchor, ahead = np.where(above, upper, lower), move - tau
    positive = anchor + ahead > 0
    anchor, ahead = anchor[positive], ahead[positive]
    rough = float(anchor.sum() + ahead.sum() - mass)
    size = float(np.abs(anchor).sum() + np.abs(ahead).sum() + mass)
    return rough if abs(rough) > _UNSURE * size else math.fsum([*anchor, *ahead, -mass])


def _fill_entries(
    tau: float,
    move: Float[np.ndarray, "n"],
    lower: Float[np.ndarray, "n"],
    upper: Float[np.ndarray, "n"],
    above: Bool[np.ndarray, "n"],
) -> Float[np.ndarray, "n"]:
    return np.maximum(np.where(above, upper, lower) + (move - tau), 0.0)


def _solve_on_piece(
    mass: float,
    end: float,
    move: Float[np.ndarray, "n"],
    lower: Float[np.ndarray, "n"],
    upper: Float[np.ndarray, "n"],
) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
    """Return the solution where tau lies on the open piece that ends with the breakpoint `end`."""
    above = move >= end
    anchor = np.where(above, upper, lower)
    # The same sums as in the breakpoints, so that the comparison is exact.
    positive = move + anchor >= end
    # Anchors may cancel against the mass to the last digit, and moves be far smaller than they.
    tau = math.fsum([*anchor[positive], *move[positive], -mass]) / int(positive.sum())
    x, excess = _fill_entries(tau, move, lower, upper, above), _solve_beyond(move - tau, lower, upper)
    # With large moves tau has few digits after the point: the missing part of the sum is distributed once more.
    missing = (mass - math.fsum(x)) / int(positive.sum())
    moved = np.where(positive & (x + missing > 0), missing, 0.0)
    outside = (excess != 0) & (excess + moved != 0)
    return x + moved, excess + np.where(outside, moved, 0.0)


def _solve_beyond(
    move: Float[np.ndarray, "n"], lower: Float[np.ndarray, "n"], upper: Float[np.ndarray, "n"]
) -> Float[np.ndarray, "n"]:
    nothing, everything = np.zeros_like(move), np.full_like(move, np.inf)
    return lift(move, lower, upper, nothing, everything)
