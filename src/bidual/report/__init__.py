"""Figures of solutions."""

from bidual.report._figures import save_figure as save_figure
from bidual.report._figures import visits_figure as visits_figure
