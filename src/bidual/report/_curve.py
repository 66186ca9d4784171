"""The value of a limit: the optimum against the limit, and its slope, the price."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from jaxtyping import Float

from bidual.report._canvas import BLUE, SHADE, VERMILLION, create_figure, set_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Vector: TypeAlias = np.ndarray | Sequence[float | int]

_DOTTED = 60  # limits up to which each has a dot of its own
_TANGENTS = 30  # at most so many strokes, or they would run into each other


def curve_figure(
    *,
    limits: Vector,
    lower: Vector,
    upper: Vector,
    prices: Vector,
    achievable: tuple[float, float] | None = None,
    constraint: str = "constraint",
    relation: str = "<=",
    sense: str = "maximize",
    title: str = "",
) -> "Figure":
    """Draw the optimum against the limit of one constraint with its price as tangents, and below it the price.

    Args:
        limits: the limits that were solved, strictly increasing.
        lower: lower bounds on the optimum at those limits; NaN where there is none.
        upper: upper bounds on the optimum; NaN where there is none.
        prices: gain of the optimum per unit of relaxation, as `ConstraintResult.price` has it; NaN where unknown.
        achievable: least and most that a policy can make of the constraint's left side. Limits that no policy keeps
            are shaded, and where the limit stops mattering there is a line.
        constraint: its name.
        relation: "<=", ">=" or "==" between the left side and the limit.
        sense: "maximize" or "minimize".
        title: instead of one in standard words.

    Raises:
        ValueError: where the arrays do not belong together, with the one that is wrong.
    """
    check_choices(relation, sense)
    if achievable is not None and not achievable[0] <= achievable[1]:
        raise ValueError(f"achievable must be the least and most that a policy can reach; got {achievable}")
    x, low, high, price = read_vectors(limits=limits, lower=lower, upper=upper, prices=prices)
    _check_order(x, low, high)
    figure = create_figure(8.4, 5.4)
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    margin = 0.04 * float(np.ptp(x)) or 0.5 * max(1.0, abs(float(x[0])))
    bottom.set_xlim(x[0] - margin, x[-1] + margin)
    _draw_optimum(top, x, low, high)
    _draw_tangents(
        top, x, (low + high) / 2, _to_slopes(price, relation, sense), _find_achievable_limits(achievable, relation)
    )
    bottom.plot(x, price, color=VERMILLION, linewidth=1.6, **_choose_dots(x))
    top.set_ylabel("largest objective" if sense == "maximize" else "smallest objective")
    bottom.set_ylabel(f"price: gain per unit\nof {'limit' if relation == '==' else 'relaxation'}")
    bottom.set_xlabel(f"limit ('{constraint}' {relation} limit)")
    for axes in (top, bottom):
        _draw_achievable(axes, achievable, relation)
        axes.grid(alpha=0.25)
    if np.isnan(low + high).all():
        _mark_unknown(top, bottom)
    top.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0, frameon=False, fontsize=9)
    set_title(top, title or f"what the limit of '{constraint}' is worth", figure.get_figwidth())
    return figure


def check_choices(relation: str, sense: str) -> None:
    """Check the relation of a constraint and the sense of an objective."""
    for name, value, allowed in (
        ("relation", relation, ("<=", ">=", "==")),
        ("sense", sense, ("maximize", "minimize")),
    ):
        if value not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}; got {value!r}")


def read_vectors(**arrays: Vector) -> list[Float[np.ndarray, "n"]]:
    """Return the arrays as vectors of one length, the limits finite and increasing."""
    vectors = {name: np.asarray(array, dtype=float) for name, array in arrays.items()}
    limits = vectors["limits"]
    if limits.ndim != 1 or limits.size == 0:
        raise ValueError(f"limits must be a vector with at least one entry; its shape is {limits.shape}")
    for name, vector in vectors.items():
        if vector.shape != limits.shape:
            raise ValueError(f"{name} must have one entry per limit, shape {limits.shape}; its shape is {vector.shape}")
    if not np.isfinite(limits).all() or (np.diff(limits) <= 0).any():
        raise ValueError(f"limits must be finite and strictly increasing; got {limits}")
    return list(vectors.values())


def _check_order(limits: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    crossed = np.flatnonzero(low > high)
    if crossed.size:
        raise ValueError(f"lower is above upper at limit {limits[crossed[0]]:g}; are they exchanged?")


def _to_slopes(prices: Float[np.ndarray, "n"], relation: str, sense: str) -> Float[np.ndarray, "n"]:
    """Return the derivative of the optimum in the limit: a price is a gain, and relaxing ">=" lowers the limit."""
    return prices * (1.0 if sense == "maximize" else -1.0) * (-1.0 if relation == ">=" else 1.0)


def _find_achievable_limits(achievable: tuple[float, float] | None, relation: str) -> tuple[float, float]:
    """Return the range of limits that some policy keeps."""
    least, most = achievable or (-np.inf, np.inf)
    return -np.inf if relation == ">=" else least, np.inf if relation == "<=" else most


def _draw_optimum(axes: "Axes", x: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    axes.fill_between(x, low, high, color=BLUE, alpha=0.2, linewidth=0)
    axes.vlines(x, low, high, color=BLUE, linewidth=1.4, alpha=0.6)
    axes.plot(
        x, (low + high) / 2, color=BLUE, linewidth=1.4, label="optimum, within its bounds", zorder=3, **_choose_dots(x)
    )


def _draw_tangents(
    axes: "Axes", x: np.ndarray, optimum: np.ndarray, slopes: np.ndarray, kept: tuple[float, float]
) -> None:
    """Draw a pale stroke at each point, a little less than half way to its neighbours and within achievable limits."""
    from matplotlib.collections import LineCollection

    known = np.flatnonzero(np.isfinite(optimum) & np.isfinite(slopes))
    some = known[:: 1 + len(known) // _TANGENTS]
    if not some.size:
        return
    x, optimum, slopes = x[some], optimum[some], slopes[some]
    reach = 0.4 * (np.gradient(x) if len(x) > 1 else np.maximum(1.0, np.abs(x)))
    # Rounding may leave a limit just outside of what can be kept; its stroke still starts at its point.
    start, end = np.maximum(x - reach, np.minimum(kept[0], x)), np.minimum(x + reach, np.maximum(kept[1], x))
    segments = [
        [(a, y + slope * (a - at)), (b, y + slope * (b - at))]
        for a, b, at, y, slope in zip(start, end, x, optimum, slopes, strict=True)
    ]
    style: dict[str, Any] = {"colors": VERMILLION, "linewidths": 5.0, "alpha": 0.45, "capstyle": "butt", "zorder": 2}
    axes.add_collection(LineCollection(segments, label="slope: the price", **style))
    axes.autoscale_view()


def _draw_achievable(axes: "Axes", achievable: tuple[float, float] | None, relation: str) -> None:
    """Shade the limits that no policy keeps; draw a line where every policy keeps the limit."""
    left, right = axes.get_xlim()
    first, last = _find_achievable_limits(achievable, relation)
    shade: dict[str, Any] = {"color": SHADE, "zorder": 0}
    label = "no policy keeps the limit"
    if left < first:
        axes.axvspan(left, min(first, right), label=label, **shade)
        label = "_already said"
    if last < right:
        axes.axvspan(max(last, left), right, label=label, **shade)
    idle = {"<=": achievable[1], ">=": achievable[0]}.get(relation) if achievable else None
    if idle is not None and left < idle < right:
        side = "above" if relation == "<=" else "below"
        line: dict[str, Any] = {"color": "0.4", "linestyle": ":", "linewidth": 1.4}
        axes.axvline(idle, label=f"every policy keeps\nthe limits {side} this", **line)
    axes.set_xlim(left, right)


def _mark_unknown(top: "Axes", bottom: "Axes") -> None:
    for axes in (top, bottom):
        axes.set_yticks([])
    top.text(0.5, 0.5, "no optimum is known at these limits", ha="center", va="center", transform=top.transAxes)


def _choose_dots(x: np.ndarray) -> dict[str, Any]:
    return {"marker": "o", "markersize": 4} if len(x) <= _DOTTED else {}
