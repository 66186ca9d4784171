"""The last two lines of ``bidual learn --out``: what a user copies from them works."""

import json
import shlex

import bidual as bd


def check_last_lines(told, observation, run):
    """Execute the line of Python, with an observation, and run the command with three episodes."""
    in_python, command = told.splitlines()[-2:]
    exec(in_python.removeprefix("load it in Python: "), {"bd": bd, "observation": observation})
    process = run(*shlex.split(command.removeprefix("run episodes of it: bidual ")), "--episodes", "3", "--json")
    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout)["episodes"] == 3
