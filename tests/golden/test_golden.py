"""Files that earlier code wrote still load, check and go on, and commands still print the same numbers."""

import json
import shutil

import numpy as np
import pytest

import bidual as bd
from bidual.learning.runs import Store
from tests.golden.record import COMMANDS, FILES, command_output, machine_digest
from tests.killed import CASES, outcome

RECORDS = json.loads((FILES / "records.json").read_text())
SAME_MACHINE = machine_digest() == RECORDS["machine"]
RUNS = sorted(RECORDS["outcomes"])
DETAILS = {"outputs", "assumptions", "exploration", "evaluation_episodes", "suggestions"}  # added since the recording
# Sampled plans amplify the last bits; everything else stays within rounding of sums and of solvers' last steps.
CHAOTIC = ("controls", "receding", "learn-control", "latent", "learn-latent")


def compare(name, found, recorded):
    """Compare bits where they can be equal, and otherwise numbers, unless these are chaotic."""
    if SAME_MACHINE:
        assert found == recorded
    elif name not in CHAOTIC:
        found, recorded = numbers(found), numbers(recorded)
        assert found.keys() == recorded.keys()
        assert found == pytest.approx(recorded, rel=1e-4, abs=1e-6)


def slow_where(names, *slow):
    """Mark the cases that belong to the long runs."""
    return [pytest.param(name, marks=pytest.mark.slow) if name in slow else name for name in names]


def numbers(value, place=""):
    """All numbers of a JSON value by their places."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return {k: v for key, item in items for k, v in numbers(item, f"{place}/{key}").items()}
    return {place: value} if isinstance(value, int | float) else {}


@pytest.fixture
def runs(tmp_path):
    """A copy of the recorded runs with their database."""
    return shutil.copytree(FILES / "runs", tmp_path / "runs")


@pytest.mark.parametrize("name", ["linear", "convex", "corrective", "paper", "class", "controls", "receding"])
def test_solutions_check(name):
    claims = bd.check(FILES / f"{name}.bidual").claims
    if name in RECORDS["outcomes"]:
        recorded = RECORDS["outcomes"][name]["solution"]
        assert claims["value"] == recorded["value"]
        assert claims["lower"] == recorded["lower"]


@pytest.mark.parametrize("name", ["linear", "convex", "corrective", "paper", "class"])
def test_solutions_load(name):
    table = bd.load(FILES / f"{name}.bidual").table
    assert np.allclose(table.sum(axis=-1), 1.0, atol=1e-9)


@pytest.mark.parametrize("name", ["latent", "controls-policy"])
def test_policies_load_and_save_to_the_same_bytes(name, tmp_path):
    path = FILES / f"{name}.bidual"
    bd.load(path).save(tmp_path / "again.bidual")
    assert (tmp_path / "again.bidual").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("case", RUNS)
def test_runs_go_on_to_the_same_end(case, runs):
    stored = sorted((runs / case / "checkpoints").iterdir())[-1]
    with Store(runs) as store:
        assert store.entries()[RUNS.index(case)].episodes == int(stored.stem) == 16
    solution = CASES[case](bd.runs.Folder(runs / case, resume=True))
    compare(case, outcome(solution), RECORDS["outcomes"][case])


def test_the_store_is_read(runs):
    with Store(runs) as store:
        entries = store.entries()
        assert [entry.name for entry in entries] == RUNS
        for entry in entries:
            assert entry.status == "stopped"
            assert store.series(entry.name)["plans"].episodes.tolist() == list(range(1, 17))


@pytest.mark.parametrize("name", slow_where(COMMANDS, "learn-control"))
def test_commands_print_what_they_printed(name):
    found, recorded = command_output(COMMANDS[name]), RECORDS["commands"][name]
    details = found["output"].keys() - recorded["output"].keys()
    assert details == (DETAILS if name.startswith("learn") else set())
    found["output"] = {key: value for key, value in found["output"].items() if key not in details}
    compare(name, found, recorded)
