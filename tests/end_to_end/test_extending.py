"""The skeletons of docs/extending.md, each added to a copy of the package by one file and one line, and used."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import bidual

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "extending.md").read_text()
FILES = re.findall(r"```python\n# src/(bidual/\S+)\n(.*?)```", GUIDE, re.DOTALL)
LINES = re.findall(r"The line, in (?:`_FILES` of )?`src/(\S+)`:\n\n```(?:python|text)\n(.*?)```", GUIDE, re.DOTALL)
KINDS = ("problem/features", "tasks", "planners", "dual", "models", "models")


def _add_line(path, line):
    """Add an import before the first one, or a name at the end of the list of files."""
    text = path.read_text()
    anchor = "_FILES = (\n" if "_FILES = (\n" in text else "\n\n"
    place = text.index(anchor) + len(anchor)
    path.write_text(text[:place] + line + text[place:])


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy of the package with all skeletons."""
    folder = tmp_path_factory.mktemp("extended")
    shutil.copytree(Path(bidual.__file__).parent, folder / "bidual", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in FILES:
        assert not (folder / name).exists()
        (folder / name).write_text(text)
    for name, line in LINES:
        assert line.count("\n") == 1
        _add_line(folder / name, line)
    return folder


def test_every_kind_is_one_file_and_one_line():
    homes = sorted(str(Path(name).parent).removeprefix("bidual/") for name, _ in LINES)
    assert homes == sorted(KINDS)
    assert len(FILES) == len(KINDS)


def test_the_skeletons_work(package):
    script = re.search(r"```python\n# use.py\n(.*?)```", GUIDE, re.DOTALL)
    assert script is not None
    (package / "use.py").write_text(script[1])
    environment = os.environ | {"PYTHONPATH": str(package)}
    command = [sys.executable, "-W", "error", "use.py"]
    process = subprocess.run(command, cwd=package, env=environment, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr
    assert re.search(r"^subgradient: \w+ and no policy is above \d", process.stdout, re.MULTILINE), process.stdout
    assert re.search(r"^learned: (feasible|undecided|optimal) from 60 episodes$", process.stdout, re.MULTILINE)


def test_the_task_is_listed(package):
    environment = os.environ | {"PYTHONPATH": str(package)}
    command = [sys.executable, "-m", "bidual", "solve", "crossing", "--json"]
    process = subprocess.run(command, cwd=package, env=environment, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr
    assert '"status": "optimal"' in process.stdout
