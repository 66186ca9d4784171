"""States without a place, and places that end the episode, on the map."""

from collections import defaultdict

import numpy as np
import pytest

import bidual as bd


def _words(figure):
    """What is written in each cell (row, column)."""
    words = defaultdict(list)
    for text in figure.axes[0].texts:
        column, row = text.get_position()
        if text.get_text():
            words[round(row), round(column)].append(text.get_text())
    return words


@pytest.fixture(scope="module")
def lake():
    task = bd.tasks.find("frozenlake").build(budget=0.1, size=4, horizon=50)
    return task, bd.solve(task.problem, task.mdp)


def test_cells_that_end_the_episode_have_a_word_but_no_number(lake):
    task, solution = lake
    words = _words(bd.report.visits_figure(solution, task.grid))
    assert words[1, 1] == words[3, 0] == ["hole"]
    assert words[3, 3] == ["goal"]
    start = solution.visits.sum(axis=0)[0]
    assert sorted(words[0, 0]) == sorted(["start", f"{start:.2g}" if start < 10 else f"{start:.0f}"])


def test_time_after_the_end_is_not_drawn(lake):
    """The added state has most of the 50 steps, but no cell: the coloured cells add up to the rest."""
    task, solution = lake
    figure = bd.report.visits_figure(solution, task.grid)
    drawn = figure.axes[0].images[0].get_array()
    assert np.ma.sum(drawn**2) == pytest.approx(50 - solution.visits[:, -1].sum())
    assert drawn.mask.sum() == 5
