"""Sweeps as other processes and what befalls their workers; and functions for workers, which must be in a module."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from bidual import RunError
from bidual.learning import runs

SPEC = """\
episodes = {episodes}
evaluation = 20
tasks = "riverswim"
seeds = {seeds}
[grid]
dual = ["corrective", "paper"]
[set]
states = 3
horizon = 5
budget = 2.5
"""


class Arena:
    """A folder for sweeps. Compiled code is kept for the next run, apart from that of others, as in `test_kills.py`."""

    def __init__(self, folder):
        self.folder = folder
        self.cache = {
            "JAX_COMPILATION_CACHE_DIR": os.environ["JAX_COMPILATION_CACHE_DIR"] + "-and-killed",
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
        }

    def spec(self, name, text):
        path = self.folder / f"{name}.toml"
        path.write_text(text)
        return path

    def start(self, *arguments, **environment):
        """``bidual ...`` as a process."""
        return subprocess.Popen(
            [sys.executable, "-m", "bidual", *map(str, arguments)],
            cwd=self.folder,
            env=os.environ | self.cache | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments, **environment):
        """Exit code, stdout and stderr."""
        return ended(self.start(*arguments, **environment))


def ended(process):
    """Exit code, stdout and stderr."""
    out, err = process.communicate(timeout=500)
    assert "Traceback" not in err, err
    return process.returncode, out, err


def workers(parent):
    """Numbers of the processes that work for another one."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            state, above = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            command = (entry / "cmdline").read_bytes()
        except OSError:  # it has ended meanwhile
            continue
        if int(above) == parent and state != "Z" and b"spawn_main" in command:
            found.append(int(entry.name))
    return sorted(found)


def running(folder):
    """The runs of a folder that somebody writes to now."""
    try:
        return [one for one in runs.listed(folder) if one.status == "running"]
    except RunError:
        return []


def writer(folder):
    """The process that writes to a run."""
    return int((folder / "lock").read_text())


def kill_workers(process, folder, count, rng):
    """Kill so many, at random moments, not before some run has begun; returns how many there were to kill."""
    kills = 0
    while kills < count and process.poll() is None:
        if not running(folder):
            time.sleep(0.1)
            continue
        time.sleep(rng.uniform(0.0, 1.5))
        alive = workers(process.pid)
        if alive and process.poll() is None:
            os.kill(int(rng.choice(alive)), signal.SIGKILL)
            kills += 1
            _wait(lambda: process.poll() is not None or running(folder))
    return kills


def _wait(condition, seconds=600.0):
    last = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < last, "nothing happens any more"
        time.sleep(0.05)


def told(folder):
    """All that must be the same however a sweep went: the bytes of the solutions, results and numbers of all runs."""
    table = runs.read(folder)
    found = {}
    for one in runs.listed(folder):
        assert one.status == "finished", one
        result = {key: value for key, value in one.result.items() if key != "seconds"}
        mine = table["run"] == one.name
        numbers = {key: values[mine].tobytes() for key, values in table.items() if key not in ("run", "seconds")}
        found[one.name] = (json.dumps(result), numbers, (one.folder / "solution.bidual").read_bytes())
    return found


# In workers


def square(number):
    return number * number


def nap(seconds):
    time.sleep(seconds)
    return os.getpid()


def die_once(marker):
    """Take the process along at the first time, then answer with its number."""
    if marker is not None and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def trouble(kind):
    match kind:
        case "fine":
            return "fine"
        case "run":
            raise RunError("the disk is full")
        case "exit":
            raise SystemExit(3)
    raise ZeroDivisionError("nothing by nothing")
