"""The value of a limit where the model was learned: the bound that no policy beats, and the estimate below it."""

from typing import TYPE_CHECKING, Any

import numpy as np

from bidual.report._canvas import BLUE, GREEN, SHADE, VERMILLION, create_figure, set_title
from bidual.report._curve import Vector, check_choices, read_vectors

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def learned_curve_figure(
    *,
    limits: Vector,
    bounds: Vector,
    estimates: Vector,
    reached: Vector,
    infeasible: Vector,
    constraint: str = "constraint",
    relation: str = "<=",
    sense: str = "maximize",
    title: str = "",
) -> "Figure":
    """Draw what no policy can beat against the limit of one constraint, and what the estimated model promises.

    Args:
        limits: the limits, strictly increasing.
        bounds: what no policy that keeps them can beat; NaN where nothing is claimed.
        estimates: the optimum of the estimated model, without a certificate; NaN where it has none.
        reached: the certified value of a policy that is proved to keep the limit; NaN elsewhere.
        infeasible: whether it is proved that no policy keeps the limit.
        constraint: its name.
        relation: "<=", ">=" or "==" between the left side and the limit.
        sense: "maximize" or "minimize".
        title: instead of one in standard words.

    Raises:
        ValueError: where the arrays do not belong together, with the one that is wrong.
    """
    check_choices(relation, sense)
    x, bound, estimate, value, none = read_vectors(
        limits=limits, bounds=bounds, estimates=estimates, reached=reached, infeasible=infeasible
    )
    figure = create_figure(8.4, 4.4)
    axes = figure.subplots()
    marks: dict[str, Any] = {"marker": "o", "markersize": 4, "linewidth": 1.6}
    # Between limits holds what holds at the looser of two: steps are certified there, and a line would not be.
    steps: dict[str, Any] = {
        "<=": {"drawstyle": "steps-pre"},
        ">=": {"drawstyle": "steps-post"},
        "==": {"linestyle": "none"},
    }[relation]
    axes.plot(x, bound, color=BLUE, label="no policy beats this\n(certified)", **(marks | steps))
    axes.plot(x, estimate, color=VERMILLION, linestyle="--", label="estimate\n(no certificate)", **marks)
    if np.isfinite(value).any():
        axes.plot(x, value, color=GREEN, label="the policy reaches this\n(certified)", **marks)
    _shade_infeasible(axes, x, x[none > 0], relation)
    axes.set_xlabel(f"limit ('{constraint}' {relation} limit)")
    axes.set_ylabel("largest objective" if sense == "maximize" else "smallest objective")
    axes.grid(alpha=0.25)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0, frameon=False, fontsize=9)
    set_title(axes, title or f"what the limit of '{constraint}' is worth", figure.get_figwidth())
    return figure


def _shade_infeasible(axes: "Axes", x: np.ndarray, none: np.ndarray, relation: str) -> None:
    """Shade the limits that are proved to be kept by no policy: those proved, and all that are tighter."""
    margin = 0.04 * float(np.ptp(x)) or 0.5 * max(1.0, abs(float(x[0])))
    left, right = float(x[0]) - margin, float(x[-1]) + margin
    style: dict[str, Any] = {"color": SHADE, "zorder": 0, "label": "no policy keeps the limit\n(certified)"}
    if none.size and relation == "<=":
        axes.axvspan(left, none.max(), **style)
    elif none.size and relation == ">=":
        axes.axvspan(none.min(), right, **style)
    elif none.size:
        axes.vlines(none, 0, 1, transform=axes.get_xaxis_transform(), linewidth=4, **style)
    axes.set_xlim(left, right)
