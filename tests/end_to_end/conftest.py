"""Run the command line as a user does, in another process and folder, without test hooks; or here, where that does."""

import os
import subprocess
import sys
from typing import NamedTuple

import pytest

from bidual import cli


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


class Finished(NamedTuple):
    """What is left of a command that ran in this process."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def bidual_here(tmp_path, monkeypatch, capsys):
    """The same in this process, which need not import everything again: for what a command says and refuses."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        try:
            code = cli.main([str(argument) for argument in arguments])
        except SystemExit as end:  # of the parser of arguments
            code = end.code
        told = capsys.readouterr()
        assert "Traceback" not in told.err
        return Finished(code, told.out, told.err)

    return run
