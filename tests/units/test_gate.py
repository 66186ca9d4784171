"""Reports of CPU time name the right tests, and the list of expensive tests names tests that exist."""

import ast
import os
import subprocess
import sys

import pytest

from tests import gate

PLUGIN = """\
import tests.gate

tests.gate.SECONDS = -1.0


def pytest_configure(config):
    config.pluginmanager.register(tests.gate.CpuTimes())
"""


@pytest.mark.parametrize(("path", "function"), gate.EXPENSIVE)
def test_expensive_tests_exist(path, function):
    tree = ast.parse((gate.TESTS / path).read_text())
    assert function in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_offenders_are_those_above_the_limit_without_a_reason():
    (path, function), *_ = gate.EXPENSIVE
    seconds = {
        f"tests/{path}::{function}[linear]": 99.0,
        "tests/units/test_a.py::test_cheap": 4.9,
        "tests/units/test_a.py::test_dear": 5.1,
        "tests/units/test_b.py::test_dear[1-2]": 7.0,
    }
    assert gate.find_offenders(seconds) == [
        (7.0, "tests/units/test_b.py::test_dear[1-2]"),
        (5.1, "tests/units/test_a.py::test_dear"),
    ]


def test_workers_report_to_one_summary(tmp_path):
    (tmp_path / "conftest.py").write_text(PLUGIN)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow: long\n")
    (tmp_path / "test_two.py").write_text("def test_one(): pass\n\n\ndef test_other(): pass\n")
    command = [sys.executable, "-m", "pytest", "-n", "2", "-m", "not slow"]
    environment = os.environ | {"PYTHONPATH": str(gate.TESTS.parent), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    process = subprocess.run([*command, "-p", "xdist"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout
    assert process.stdout.count("test_two.py::test_one: above -1 s") == 1
    assert process.stdout.count(" minutes in 2 tests, ") == 1
