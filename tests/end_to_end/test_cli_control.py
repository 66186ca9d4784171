"""Tasks with vectors and controls on the command line."""

import json
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

from tests.end_to_end.last_lines import check_last_lines

pytest.importorskip("gymnasium")


def test_a_controller_is_learned_and_drawn(bidual_here, tmp_path):
    """Six episodes are enough for the double integrator: doing nothing pays about 26, the optimum is 5.57.

    The mean of 40 episodes has a standard error of about 0.3.
    """
    process = bidual_here("learn", "lqr", "--episodes", "6", "--evaluation", "40", "--json", "--out", "results")
    assert process.returncode == 0, process.stderr
    told = json.loads(process.stdout)
    assert 0 <= told["lower"] <= 5.570863
    assert told["upper"] is None  # its costs have no end
    assert told["episodes"] == 6
    assert 4.0 <= told["value"] <= 8.0
    assert (tmp_path / "results" / "episodes.png").read_bytes().startswith(b"\x89PNG")
    assert not (tmp_path / "results" / "episode.gif").exists()  # there is nothing to see in motion
    assert json.loads((tmp_path / "results" / "solution.json").read_text())["value"] == told["value"]
    check_last_lines(process.stderr, np.zeros(2), bidual_here)
    assert "check passed" in bidual_here("check", "results").stdout


@pytest.mark.slow
def test_what_flies_is_shown_in_motion(bidual_here, tmp_path):
    words = ("learn", "pointmass", "--set", "horizon=6", "--episodes", "2", "--evaluation", "2", "--out", "here")
    process = bidual_here(*words)
    assert process.returncode == 0, process.stderr
    assert "wrote here/episode.gif" in process.stderr
    assert (tmp_path / "here" / "episode.gif").read_bytes().startswith(b"GIF89a")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("solve", "pendulum"), "bidual learn pendulum"),
        (("learn", "pendulum", "--explorer", "alternating"), "choose thompson, greedy, bonus, best-of, hallucinated"),
        (("learn", "pendulum-effort", "--set", "budget=inf"), "must be a finite number"),
    ],
)
def test_what_does_not_go_with_controls_is_refused_in_words(bidual_here, words, told):
    process = bidual_here(*words)
    assert process.returncode == 2
    assert told in process.stderr
    assert "Traceback" not in process.stderr


SWEEP = """\
episodes = 3
evaluation = 2
tasks = "lqr-effort"
[set]
horizon = 4
budget = [1.0, 2.0]
"""


@pytest.mark.slow
def test_budgets_of_controls_are_swept(bidual, tmp_path):
    """Two cells, each a run of its own that can be evaluated; done once, they are not done again."""
    (tmp_path / "budgets.toml").write_text(SWEEP)
    process = bidual("sweep", "budgets.toml", "--workers", "1", "--json")
    assert process.returncode == 0, process.stderr
    told = json.loads(process.stdout)
    cells = told["cells"]
    (curve,) = map(Path, told["curves"])
    assert curve.name == "lqr-effort-budget.png"
    assert matplotlib.image.imread(curve).std() > 0.05  # something is drawn
    names = [f"lqr-effort_budget={budget}_seed=0" for budget in ("1.0", "2.0")]
    assert [(cell["name"], cell["status"]) for cell in cells] == [(name, "finished") for name in names]
    assert [cell["result"]["constraints"][0]["limit"] for cell in cells] == [1.0, 2.0]
    again = bidual("sweep", "budgets.toml", "--workers", "1", "--json")
    assert "2 of 2 cells were finished before" in again.stderr
    found = bidual("evaluate", tmp_path / "runs" / "budgets" / names[0], "--episodes", "4", "--json")
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["task"] == "lqr-effort"
