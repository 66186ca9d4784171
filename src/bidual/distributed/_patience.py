"""Waiting for a run that somebody else still writes to.

A worker that its cluster has given up may not know it yet, and goes on for a while; and whoever looks at a run to see
whether somebody writes to it holds its lock for a moment.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from bidual._errors import BusyError

T = TypeVar("T")

_PAUSE = 0.5  # seconds


def patiently(attempt: Callable[[], T], seconds: float) -> T:
    """Try until nobody else writes to the run, for so many seconds at most; other errors are raised at once."""
    last = time.monotonic() + seconds
    while True:
        try:
            return attempt()
        except BusyError:
            if time.monotonic() > last:
                raise
        time.sleep(_PAUSE)
