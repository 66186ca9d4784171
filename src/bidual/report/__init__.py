"""Figures of solutions."""

from bidual.report._animation import can_animate, control_animation
from bidual.report._bounds import bounds_figure
from bidual.report._candidates import candidates_figure
from bidual.report._canvas import save_figure
from bidual.report._control import control_figure
from bidual.report._curve import curve_figure
from bidual.report._learned_curve import learned_curve_figure
from bidual.report._learning import learning_figure, regret_figure
from bidual.report._policy import can_draw_policy, policy_figure, visits_figure
from bidual.report._tradeoff import Trade, tradeoff_figure

__all__ = [
    "Trade",
    "bounds_figure",
    "candidates_figure",
    "control_animation",
    "control_figure",
    "curve_figure",
    "learned_curve_figure",
    "learning_figure",
    "policy_figure",
    "regret_figure",
    "save_figure",
    "tradeoff_figure",
    "visits_figure",
]
