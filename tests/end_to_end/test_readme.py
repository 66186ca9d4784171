"""The README is run, not believed: its Python blocks in order, and its outputs compared."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import bidual as bd
from tests.outputs import LEARNED, find_difference, split_line

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
TEXT = re.findall(r"```text\n(.*?)```", README, re.DOTALL)


def test_the_python_blocks_run_and_print_what_is_shown(tmp_path):
    """As a reader would: pasted into a file, one block after the other."""
    assert len(PYTHON) == 3
    marker = "--- next block ---"
    script = tmp_path / "readme.py"
    script.write_text(f"\nprint({marker!r})\n".join(PYTHON))
    process = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    first, second, third = process.stdout.split(marker)
    assert find_difference(TEXT[0], first) is None
    assert second.split("\n")[1] == "(8, 5, 2)"
    assert bd.load(tmp_path / "courier.bidual").shape == (8, 5, 2)
    lower, upper, violation = map(float, third.split())
    assert 0.9 <= lower <= 0.978348 <= upper <= 1.0 + 1e-6
    assert 0 <= violation <= 0.02


def test_the_console_lines_work(bidual_here):
    lines = re.findall(r"^\$ bidual (.*)$", README, re.MULTILINE)
    assert len(lines) >= 6
    for line in lines:
        if line.startswith(("learn", "finish", "sweep")):
            continue  # run below, and by the tests of runs and sweeps
        process = bidual_here(*line.split("#")[0].split())
        assert process.returncode == (3 if "budget=0" in line and "budget=0." not in line else 0), (
            line,
            process.stderr,
        )


def _curve(text):
    """Limits, optima and prices of a printed curve."""
    return np.array([line.split()[:3] for line in text.splitlines() if line.split()[3:4] == ["optimal"]], dtype=float)


def _check_curve(text):
    """Optima are certified to 1e-6. Prices are slopes of a concave curve: at a kink any between its sides is one."""
    shown, (limits, optima, prices) = _curve(TEXT[3]), (printed := _curve(text)).T
    words, expected = ([split_line(line)[0] for line in one.strip().splitlines()] for one in (text, TEXT[3]))
    assert words == expected
    np.testing.assert_allclose(printed[:, :2], shown[:, :2], rtol=0, atol=2e-6)
    slopes, rounding = np.diff(optima) / np.diff(limits), 2e-6 / np.diff(limits).min() + 1e-5
    assert np.all(prices[:-1] >= slopes - rounding)
    assert np.all(prices[1:] <= slopes + rounding)


def test_the_rover_and_the_conflict_print_what_is_shown(bidual_here):
    assert find_difference(TEXT[1], bidual_here("solve", "rover").stdout) is None
    _check_curve(bidual_here("price", "rover").stdout)
    shown = re.search(r"\$ bidual solve rover --set budget=0\n(.*?)```", README, re.DOTALL)
    assert shown is not None
    printed = bidual_here("solve", "rover", "--set", "budget=0").stdout.splitlines(keepends=True)
    assert find_difference(shown.group(1), "".join(printed[: shown.group(1).count("\n")])) is None


def test_the_learned_rover_prints_what_is_shown(bidual_here):
    process = bidual_here("learn", "rover", "--episodes", "1000", "--seed", "0")
    assert process.returncode == 0, process.stderr
    assert find_difference(TEXT[2], process.stdout, LEARNED) is None


def test_every_linked_file_exists():
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
            assert target.startswith("http") or (document.parent / target).exists(), f"{document.name}: {target}"


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_make_targets_that_are_named_exist(document):
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"`?make ([a-z-]+)", (ROOT / document).read_text())
    assert targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_folders_of_tests_are_those_in_the_table():
    """CONTRIBUTING says of every folder of tests what is in it."""
    table = set(re.findall(r"^\| `(\w+)/` \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE))
    assert table == {path.parent.name for path in (ROOT / "tests").glob("*/test_*.py")}


def test_the_makefile_explains_a_python_without_ensurepip(tmp_path):
    """A stand-in for Debian's python3 without python3-venv: it has the right version but cannot import ensurepip."""
    fake = tmp_path / "python3"
    fake.write_text(f'#!/bin/sh\ncase "$2" in *ensurepip*) exit 1;; esac\nexec {sys.executable} "$@"\n')
    fake.chmod(0o755)
    command = ["make", "-f", ROOT / "Makefile", "venv", f"PYTHON={fake}"]
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).touch()
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "MAKEFLAGS": ""})
    assert process.returncode != 0
    assert "apt install python3-venv" in process.stdout
    assert not (tmp_path / ".venv").exists()


def test_paths_named_for_developers_exist():
    """In CONTRIBUTING and docs: files and folders in backticks, and tests by name."""
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    for document in (ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        text = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
        for name in re.findall(r"`([\w/]+\.py)`", text):
            places = [ROOT / name, ROOT / "src" / name, ROOT / "src" / "bidual" / name, ROOT / "tests" / name]
            assert any(place.exists() for place in places), f"{document.name}: {name}"
        for name in re.findall(r"`(test_\w+)`", text):
            assert f"def {name}(" in tests, f"{document.name}: {name}"


def test_paths_of_the_architecture_page_exist():
    """Folders and files, diagrams included, from the root of the project or of the package, or folders of tests."""
    package = ROOT / "src" / "bidual"
    for page in (ROOT / "docs" / "architecture.md", ROOT / "CONTRIBUTING.md"):
        text = page.read_text()
        named = re.findall(r"`([\w/]+/|[\w/]+\.\w+|\.\w+/\w+)`", text)
        for diagram in re.findall(r"```\n(.*?)```", text, re.DOTALL):
            named += re.findall(r"(?<![\w/])(?:[a-z_]+/)+[\w.]*\w?", diagram)
        assert len(named) > 20 or page.name == "CONTRIBUTING.md"
        for name in named:
            if "/" in name or name.endswith((".py", ".md")):
                places = (ROOT / name, package / name, ROOT / "tests" / name)
                assert any(place.exists() for place in places), f"{page.name}: {name}"
