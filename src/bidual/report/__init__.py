"""Figures of solutions."""

from bidual.report._animation import control_animation as control_animation
from bidual.report._animation import control_is_animated as control_is_animated
from bidual.report._bounds import bounds_figure as bounds_figure
from bidual.report._candidates import candidates_figure as candidates_figure
from bidual.report._canvas import save_figure as save_figure
from bidual.report._control import control_figure as control_figure
from bidual.report._curve import curve_figure as curve_figure
from bidual.report._learning import learning_figure as learning_figure
from bidual.report._learning import regret_figure as regret_figure
from bidual.report._policy import policy_figure as policy_figure
from bidual.report._policy import policy_is_drawable as policy_is_drawable
from bidual.report._policy import visits_figure as visits_figure
from bidual.report._tradeoff import Trade as Trade
from bidual.report._tradeoff import tradeoff_figure as tradeoff_figure

__all__ = [
    "Trade",
    "bounds_figure",
    "candidates_figure",
    "control_animation",
    "control_figure",
    "curve_figure",
    "learning_figure",
    "policy_figure",
    "regret_figure",
    "save_figure",
    "tradeoff_figure",
    "visits_figure",
]
