"""What has to be right for `bidual check` to be right: the modules that it imports."""

import subprocess
import sys
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[1] / "golden" / "files"
SCRIPT = """
import sys
from bidual.cli import main
code = main(["check", sys.argv[1]])
print(*sorted(name for name in sys.modules if name.startswith("bidual.")), sep="\\n")
sys.exit(code)
"""
BEYOND = ("planners", "dual", "loop", "solving", "learning", "report", "tasks")


@pytest.mark.parametrize("name", ["linear", "convex", "corrective"])
def test_a_check_imports_neither_players_nor_searches(name):
    arguments = [sys.executable, "-c", SCRIPT, str(GOLDEN / f"{name}.bidual")]
    process = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert process.stdout.startswith("check passed")
    rooms = {line.split(".")[1] for line in process.stdout.splitlines() if line.startswith("bidual.")}
    assert rooms == {"_base", "certificate", "cli", "models", "problem", "storage", "world"}
    assert not rooms & set(BEYOND)
