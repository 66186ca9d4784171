"""Run the command line as a user does: another process, another folder, no test hooks."""

import os
import subprocess
import sys

import pytest


@pytest.fixture
def bidual(tmp_path):
    """A function that runs ``bidual ...`` in an empty folder and returns the finished process."""

    def run(*arguments, env=None):
        return subprocess.run(
            [sys.executable, "-m", "bidual", *map(str, arguments)],
            cwd=tmp_path,
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            timeout=300,
        )

    return run
