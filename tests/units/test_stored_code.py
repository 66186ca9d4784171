"""Stored runs execute nothing: a Python file is executed only where the user names it in the call."""

import json
import shlex

import pytest

from bidual._base.checksum import compute_checksum
from bidual.cli import main
from bidual.cli._options import Options
from bidual.learning.folder import read_manifest, write_manifest

RIVER = ("--set", "states=3", "--set", "horizon=5", "--set", "budget=2.5", "--evaluation", "5")
FILE = """
import cvxpy as cp, bidual as bd
from pathlib import Path
with Path("executed").open("a") as marks:
    marks.write("x")
task = bd.tasks.find("riverswim").build(states=3, horizon=5, budget=2.5)
problem, mdp = task.problem, task.mdp
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _executions(folder):
    return len((folder / "executed").read_text()) if (folder / "executed").exists() else 0


def _command(err):
    """Return the words of the command that a refusal ends with."""
    words = shlex.split(err.strip().rpartition("name it yourself: ")[2])
    assert words[0] == "bidual"
    return words[1:]


def test_a_run_of_a_file_is_executed_only_where_the_file_is_named(here, capsys):
    (here / "my river.py").write_text(FILE)
    assert main(["learn", "my river.py", "--episodes", "12", "--evaluation", "5", "--run", "runs/a"]) == 0
    assert _executions(here) == 1
    capsys.readouterr()
    for count, command in enumerate(
        (["evaluate", "runs/a"], ["learn", "--run", "runs/a", "--resume", "--episodes", "16"]), start=1
    ):
        assert main(command) == 5
        err = capsys.readouterr().err
        assert "no file is executed that only a stored run names" in err
        assert _executions(here) == count
        assert main(_command(err)) == 0  # the same, with the file named
        assert _executions(here) == count + 1
        capsys.readouterr()
    assert json.loads((here / "runs" / "a" / "run.json").read_text())["options"]["episodes"] == 16


def test_a_forged_manifest_executes_nothing(here, capsys):
    """Its checksum is right: anyone can compute it."""
    assert main(["learn", "riverswim", *RIVER, "--episodes", "12", "--run", "runs/a"]) == 0
    (here / "evil.py").write_text(FILE)
    manifest = read_manifest(here / "runs" / "a")
    manifest["options"] = manifest["options"] | {"target": "evil.py"}
    write_manifest(here / "runs" / "a", manifest)
    assert json.loads((here / "runs" / "a" / "run.json").read_text())["sha256"] == compute_checksum(manifest)
    for command in (["evaluate", "runs/a"], ["learn", "--run", "runs/a", "--resume"], ["check", "runs/a"], ["runs"]):
        main(command)
    assert main(["export", "runs/a"]) == 0
    assert not (here / "executed").exists()
    assert capsys.readouterr().err.count("no file is executed") == 2


@pytest.mark.parametrize(
    "change",
    [
        {"target": 3},
        {"target": None},
        {"settings": "states=3"},
        {"settings": {"a": 1}},
        {"episodes": "12"},
        {"episodes": True},
        {"delta": "0.05"},
        {"explorer": ["greedy"]},
        {"per_step": 1},
        {"more": 1},
    ],
)
def test_forged_options_are_refused_in_words(here, capsys, change):
    options = Options("riverswim").to_dict() | change
    write_manifest(here, {"format": 1, "kind": "run", "facts": {}, "versions": {}, "options": options})
    assert main(["evaluate", str(here)]) == 5
    assert "its task and options are not known here" in capsys.readouterr().err


def test_options_survive_a_command_line():
    options = Options("f.py", ("a=1", "b=x y"), 7, 3, 0.1, "unknown", 9, 0.5, "greedy", "ftl", "box", True, 4)
    assert Options("f.py").to_arguments() == ["f.py"]
    words = options.to_arguments()
    assert words[:5] == ["f.py", "--set", "a=1", "--set", "b=x y"]
    from bidual.cli import _build_parser
    from bidual.cli.learn import _read_options

    assert _read_options(_build_parser().parse_args(["learn", *words])) == options
