"""A process that writes to stored runs as it is asked to: ``python -m tests.run_writers``, a JSON list per line.

It stands for another run on the same machine. It says its number when it is ready, and "done" after every line.
"""

import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType


def _without_the_rest():
    """Neighbours of the database import JAX and more, which takes two seconds for each of eight processes."""
    package = importlib.util.find_spec("bidual")
    assert package is not None
    assert package.origin is not None
    for name, contents in (
        ("bidual.learning.runs", {"__path__": [str(Path(package.origin).parent / "learning" / "runs")]}),
        ("bidual.learning.setup", {"LearnSetup": object}),
        ("bidual.learning.learned", {"LearnProgress": object, "EpisodeValues": object}),
        ("bidual.learning.outputs", {"Sums": object, "average_embedding": None}),
        ("bidual.certificate", {"evaluate_at": None}),
        ("bidual.problem.convex", {}),
        ("bidual.problem.modelling", {"slice_rows": None}),
    ):
        sys.modules[name] = ModuleType(name)
        vars(sys.modules[name]).update(contents)


_without_the_rest()

from bidual.learning.metrics import Metric  # noqa: E402
from bidual.learning.runs._lock import RunLock  # noqa: E402
from bidual.learning.runs._store import Store  # noqa: E402

_HELD = []


def touch(*folders):
    """Open the databases of these folders, and make those that are not there yet."""
    for folder in folders:
        Store(Path(folder)).close()


def write(folder, run, series, first, stop, step):
    """One transaction per episode, each with one number."""
    with Store(Path(folder)) as store:
        store.register(run, {})
        for episode in range(first, stop, step):
            store.update(run, "running", episode, [Metric(series, episode, episode / 8)])


def begin(folder):
    """A run that is registered, and held until this process ends."""
    _HELD.append(RunLock(Path(folder)))
    with Store(Path(folder).parent) as store:
        store.register(Path(folder).name, {"task": "other"})


_KNOWN = {function.__name__: function for function in (touch, write, begin)}

if __name__ == "__main__":
    print(os.getpid(), flush=True)
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        _KNOWN[name](*arguments)
        print("done", flush=True)
