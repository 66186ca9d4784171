"""A command in a terminal of its own, and somebody who types Ctrl-C there."""

import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

_PATIENCE = 900.0  # seconds until a command that goes on after Ctrl-C is taken to ignore it
_COLOURS = re.compile(r"\x1b\[[^a-zA-Z]*[a-zA-Z]")


# The terminal is that of the process, so that what is typed there becomes a signal.
_START = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "bidual", *sys.argv[1:]])
"""


def type_ctrl_c(
    arguments: list[str], folder: Path, is_due: Callable[[], bool], environment: dict[str, str]
) -> tuple[int, str]:
    """Run ``bidual ...`` in a terminal, type Ctrl-C once that is due, and return exit code and what was shown."""
    screen, its_end = os.openpty()
    child = subprocess.Popen(
        [sys.executable, "-S", "-c", _START, *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        **dict.fromkeys(("stdin", "stdout", "stderr"), its_end),
        start_new_session=True,
    )
    os.close(its_end)
    shown, typed, last = b"", False, time.monotonic() + _PATIENCE
    while time.monotonic() < last:
        if select.select([screen], [], [], 0.002)[0]:
            try:
                shown += os.read(screen, 1 << 16)
            except OSError:  # the other end is closed
                break
        if not typed and is_due():
            os.write(screen, b"\x03")
            typed = True
    os.close(screen)  # which ends a command that is still there
    code = child.wait(timeout=_PATIENCE)
    assert typed, f"the command ended before Ctrl-C: {shown.decode()}"
    return code, _COLOURS.sub("", shown.decode()).replace("\r\n", "\n")
