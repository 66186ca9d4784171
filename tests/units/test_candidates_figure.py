"""The figure of a class that is narrowed down: what it draws, and what it refuses."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import bidual as bd
from bidual.learning.learned import LearnProgress
from bidual.models import Candidates, LowRank
from bidual.tasks.riverswim import riverswim
from tests.classes import around

RIVER = riverswim(budget=2.5, states=3, horizon=5)


@cache
def _learned(candidates=6):
    model = LowRank(*around(RIVER.mdp, candidates))
    return bd.learn(RIVER.problem, RIVER.mdp, model, episodes=40, evaluation=0)


def _steps(axes):
    """Lines of steps: the other one marks a single candidate."""
    return [line for line in axes.lines if line.get_marker() == "o"]


def test_every_step_has_a_line_from_all_candidates_to_those_left():
    found = _learned()
    (axes,) = bd.report.candidates_figure(found).axes
    lines = _steps(axes)
    assert [line.get_label() for line in lines] == [f"step {h}" for h in range(1, 6)]
    for h, line in enumerate(lines):
        assert line.get_xdata().tolist() == [0, 16, 32, 40]
        assert line.get_ydata().tolist() == [6, *(look.candidates.left[h] for look in found.history)]
    assert axes.get_yscale() == "log"
    assert axes.get_ylim()[0] < 1 <= 6 < axes.get_ylim()[1]
    assert axes.get_yticks().tolist() == [1, 6]
    assert "candidates left" in axes.get_title()


def test_steps_differ_by_shade_and_by_width():
    lines = _steps(bd.report.candidates_figure(_learned()).axes[0])
    assert len({tuple(line.get_color()) for line in lines}) == 5
    assert np.all(np.diff([line.get_linewidth() for line in lines]) < 0)


def test_many_steps_are_not_all_in_the_legend(monkeypatch):
    one = _learned()
    looks = tuple(
        LearnProgress(16 * 2**k, None, None, None, 1, 1.0, Candidates((50,) * 30, (576,) * 30)) for k in range(3)
    )
    monkeypatch.setattr(type(one), "candidates", Candidates((50,) * 30, (576,) * 30))
    (axes,) = bd.report.candidates_figure(replace(one, history=looks)).axes
    assert len(_steps(axes)) == 30
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [f"step {h}" for h in (1, 8, 15, 23, 30)]
    assert axes.get_yticks().tolist() == [1, 10, 100, 576]


def test_a_class_of_one_candidate_and_a_title(tmp_path):
    figure = bd.report.candidates_figure(_learned(1), title="mine")
    assert figure.axes[0].get_title() == "mine"
    bd.report.save_figure(figure, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_ticks_that_would_run_into_each_other_are_left_out():
    assert bd.report.candidates_figure(_learned()).axes[0].get_xticks().tolist() == [0, 16, 40]


def test_without_a_class_there_is_nothing_to_draw():
    found = bd.learn(RIVER.problem, RIVER.mdp, episodes=4, evaluation=0)
    with pytest.raises(bd.ProblemError, match=r"learned without a class of laws.*bd\.models\.LowRank"):
        bd.report.candidates_figure(found)
