"""docs/problems.md is run, not believed: its Python blocks in order, its outputs, and the script of its pictures."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "problems.md").read_text()
LARGEST = 60_000  # bytes of a picture


def _run(*arguments, cwd):
    command = [sys.executable, "-W", "error", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300)


def test_the_python_blocks_run_and_print_what_is_shown(tmp_path):
    script = tmp_path / "page.py"
    script.write_text("\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)))
    process = _run(script, cwd=tmp_path)
    assert process.returncode == 0, process.stderr
    assert process.stdout == "".join(re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL))


def test_the_page_has_a_section_for_every_ready_problem():
    for name in ("constrained", "multi_objective", "apprenticeship", "feasibility", "max_entropy", "fair"):
        assert f"= bd.problems.{name}(" in PAGE, name


def test_the_script_draws_the_pictures_of_the_page(tmp_path):
    process = _run(ROOT / "examples" / "problems.py", tmp_path, cwd=tmp_path)
    assert process.returncode == 0, process.stderr
    shown = re.findall(r"\]\(images/(.*?)\)", PAGE)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(shown)
    assert len(shown) == 6
    for name in shown:
        assert (tmp_path / name).stat().st_size <= LARGEST, name
        assert (ROOT / "docs" / "images" / name).stat().st_size <= LARGEST, name
