"""Every example runs, as a script and as a problem file, and says what is known of it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bidual.cli._target import load_unknown
from tests.helpers import keep_few

EXAMPLES = Path(__file__).parents[2] / "examples"
OPTIMA = {
    "frozenlake.py": 0.620873,
    "queue_limits.py": 41.3697552,
    "fair_beds.py": 2.263657,
    "imitate.py": 1.23661334,
}
DRAWS = ("problems.py",)  # writes pictures: tested with the page that shows them
LEARNS = ("frozenlake_learn.py",)
CONTROLS = {  # begins their last line
    "mountain_car.py": "an episode: ",
    "reacher.py": "  effort       2 episodes",
    "drone.py": "after 30 steps the drone is ",
}
STORED = ("warehouse.py",)  # is interrupted, and goes on
OWN = ("own_environment.py", "cartpole_learn.py", "parallel.py")  # environments made, cut into cells, or spread


def test_every_example_is_here():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {*OPTIMA, *DRAWS, *LEARNS, *OWN, *CONTROLS, *STORED}


@pytest.mark.parametrize("name", keep_few(OPTIMA, 1))
def test_an_example_solves(bidual_here, name):
    process = bidual_here("solve", EXAMPLES / name, "--json")
    assert process.returncode == 0, process.stderr
    result = json.loads(process.stdout)
    assert result["status"] == "optimal"
    assert abs(result["value"] - OPTIMA[name]) <= 2e-6


def test_an_example_takes_settings(bidual_here):
    process = bidual_here("solve", EXAMPLES / "frozenlake.py", "--set", "budget=0.1", "--json")
    assert abs(json.loads(process.stdout)["value"] - 0.640132) <= 2e-6


@pytest.mark.parametrize("name", OPTIMA)
def test_an_example_is_a_script(name, tmp_path):
    process = subprocess.run([sys.executable, EXAMPLES / name], cwd=tmp_path, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith("optimal")
    value = float(re.search(r"imize: (\S+) reached by the policy", process.stdout)[1])
    assert abs(value - OPTIMA[name]) <= 2e-6


@pytest.mark.parametrize("name", keep_few(OWN, 1))
def test_an_environment_of_ones_own_is_learned(name, tmp_path):
    """With few episodes: all that is said is said, and nothing is certain yet."""
    command = [sys.executable, EXAMPLES / name, "20"]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert "objective    maximize" in process.stdout
    assert "20 episodes of learning and 50 of evaluation" in process.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", CONTROLS)
def test_controls_of_gymnasium_are_learned(name, tmp_path):
    """With two episodes, of which one is at random: all is said, and no bound on others is claimed."""
    if name == "reacher.py":
        pytest.importorskip("mujoco")
    command = [sys.executable, EXAMPLES / name, "2"]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert "objective    minimize" in process.stdout
    assert "no bound on what other policies can reach is claimed" in process.stdout
    assert process.stdout.splitlines()[-1].startswith(CONTROLS[name])


@pytest.mark.parametrize("name", STORED)
def test_an_example_is_interrupted_and_goes_on(name, tmp_path):
    command = [sys.executable, EXAMPLES / name, "40", "run"]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith("interrupted; going on from run\n")
    assert "40 episodes of learning and 50 of evaluation" in process.stdout
    assert re.search(r"after ten days of the loaded policy \d boxes are left$", process.stdout.strip())


@pytest.mark.parametrize("name", LEARNS)
def test_an_example_learns(name, tmp_path):
    """With few episodes; what is best does not depend on them."""
    command = [sys.executable, EXAMPLES / name, "30"]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert process.stdout.endswith("the best policy reaches the goal with probability 0.464\n")
    target = load_unknown(str(EXAMPLES / name), [], None)
    assert (target.env, target.truth) == ("FrozenLake-v1", None)
