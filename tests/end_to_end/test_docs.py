"""Pages of docs/ are run, not believed: their Python blocks in order, their outputs, the scripts of their pictures."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.outputs import CERTIFIED, LEARNED, find_difference_of_blocks

ROOT = Path(__file__).parents[2]
RULES = {
    "problems.md": CERTIFIED,
    "learning.md": LEARNED,
    "runs.md": LEARNED,
    "control.md": CERTIFIED,
    "ecosystem.md": LEARNED,
    "endless.md": CERTIFIED,
}
PAGES = {name: (ROOT / "docs" / name).read_text() for name in RULES}
LARGEST = 60_000  # bytes of a picture of a ready problem


def _run(*arguments, cwd):
    command = [sys.executable, "-W", "error", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize(("name", "rule"), RULES.items())
def test_the_python_blocks_run_and_print_what_is_shown(name, rule, tmp_path):
    script = tmp_path / "page.py"
    script.write_text("\n".join(re.findall(r"```python\n(.*?)```", PAGES[name], re.DOTALL)))
    process = _run(script, cwd=tmp_path)
    assert process.returncode == 0, process.stderr
    blocks = re.findall(r"```text\n(.*?)```", PAGES[name], re.DOTALL)
    assert find_difference_of_blocks(blocks, process.stdout, rule) is None


def test_the_page_has_a_section_for_every_ready_problem():
    for name in ("constrained", "multi_objective", "apprenticeship", "feasibility", "max_entropy", "fair"):
        assert f"= bd.problems.{name}(" in PAGES["problems.md"], name


def test_the_script_draws_the_pictures_of_the_page(tmp_path):
    process = _run(ROOT / "examples" / "problems.py", tmp_path, cwd=tmp_path)
    assert process.returncode == 0, process.stderr
    shown = re.findall(r"\]\(images/(.*?)\)", PAGES["problems.md"])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(shown)
    assert len(shown) == 6
    for name in shown:
        assert (tmp_path / name).stat().st_size <= LARGEST, name
        assert (ROOT / "docs" / "images" / name).stat().st_size <= LARGEST, name


def test_pictures_are_light():
    for path in (ROOT / "docs" / "images").iterdir():
        assert path.stat().st_size <= 100_000, path.name
