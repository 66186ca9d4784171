"""Figures of solutions."""

from bidual.report._canvas import save_figure as save_figure
from bidual.report._visits import visits_figure as visits_figure
