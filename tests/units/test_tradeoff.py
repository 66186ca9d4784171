"""What a parameter is worth, as a figure of runs, and which sweeps have one."""

import numpy as np
import pytest

import bidual as bd
from bidual.cli._options import Options
from bidual.cli.sweep._jobs import Job, JobRecord
from bidual.cli.sweep._summary import write_curves
from bidual.report import Trade, tradeoff_figure

RUNS = [
    Trade(2.0, 5.0, 4.0, 6.0, {"effort": (1.9, 2.0)}),
    Trade(1.0, 3.0, None, None, {"effort": (1.2, 1.0)}),
    Trade(1.0, 1.0, None, 2.0, {"effort": (0.8, 1.0)}),
    Trade(3.0, None),
]


def _lines(axes):
    return {line.get_label(): line for line in axes.get_lines()}


def test_means_dots_and_limits_are_those_of_the_runs():
    figure = tradeoff_figure(RUNS, "budget", "minimize", "words")
    top, bottom = figure.axes
    assert top.get_ylabel() == "objective (minimize)"
    assert bottom.get_ylabel() == "effort"
    assert bottom.get_xlabel() == "budget"
    mean = _lines(top)["mean of the runs"]
    assert mean.get_xdata().tolist() == [1.0, 2.0]
    assert mean.get_ydata().tolist() == [2.0, 5.0]
    assert np.nansum(_lines(top)["each policy returned"].get_ydata()) == 9.0
    assert _lines(bottom)["limit"].get_ydata().tolist() == [1.0, 2.0]
    (bars,) = top.collections  # of the one run with both bounds
    assert [segment.tolist() for segment in bars.get_segments()] == [[[2.0, 4.0], [2.0, 6.0]]]
    with pytest.raises(bd.ProblemError, match="at least one"):
        tradeoff_figure([], "budget")


def _record(folder, settings, seed=0, *, done=True, **options):
    told = Options("lqr-effort", settings, seed=seed, **options)
    name = "_".join([*settings, str(seed)])
    effort = {"name": "effort", "value": 1.0, "limit": 2.0}
    result = {"sense": "minimize", "value": 3.0, "lower": None, "upper": None, "constraints": [effort]}
    return JobRecord(Job(name, name, folder, told), result if done else None, None, 1)


def test_runs_that_differ_in_one_number_have_a_curve(tmp_path):
    swept = [_record(tmp_path, (f"budget={b}", "horizon=4"), seed) for b in (1, 2.5) for seed in range(2)]
    (file,) = write_curves(tmp_path, swept)
    assert file == tmp_path / "lqr-effort-budget.png"
    assert file.stat().st_size > 10_000


@pytest.mark.parametrize(
    "cells",
    [
        [(("budget=1",), {}), (("budget=1",), {"seed": 1})],  # only seeds differ
        [(("budget=1", "horizon=4"), {}), (("budget=2", "horizon=5"), {})],  # two numbers
        [(("budget=1",), {"dual": "paper"}), (("budget=2",), {"dual": "ftl"})],  # an option as well
        [(("budget=1",), {}), (("budget=2",), {"done": False})],  # one is left
    ],
)
def test_others_have_none(tmp_path, cells):
    assert write_curves(tmp_path, [_record(tmp_path, settings, **options) for settings, options in cells]) == []
    assert list(tmp_path.iterdir()) == []
