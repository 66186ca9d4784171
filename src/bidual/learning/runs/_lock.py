"""One process per run: a file lock, which the system releases when the process ends, however it ends.

Files that are open may no longer be where they were opened: deleted, renamed or replaced.
"""

import os
import time
from pathlib import Path

from bidual._base.errors import BusyError
from bidual.learning.folder import LOCK

_PATIENCE = 0.5  # seconds: a process that only tests the lock holds it for a moment


class RunLock:
    """A lock held from its construction to `release`."""

    def __init__(self, folder: Path) -> None:
        nofollow = getattr(os, "O_NOFOLLOW", 0)  # a link could lead to any file of the user, which would be written to
        self._descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | nofollow, 0o644)
        try:
            self._take(folder)
        except BaseException:
            self.release()
            raise

    def _take(self, folder: Path) -> None:
        """Wait for the lock for a moment, and write who holds it; raise `BusyError` where another process does."""
        last = time.monotonic() + _PATIENCE
        while not _try_lock(self._descriptor):
            if time.monotonic() > last:
                owner = os.read(self._descriptor, 32).decode(errors="replace").strip() or "unknown"
                raise BusyError(
                    f"another process (number {owner}) is writing to {folder}: wait for it, stop it, or use another "
                    "folder"
                )
            time.sleep(0.01)
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, str(os.getpid()).encode(), 0)

    def is_in(self, folder: Path) -> bool:
        """Return whether the lock is in a folder: not if that was deleted, renamed or replaced since it was taken."""
        return leads_to(folder / LOCK, os.fstat(self._descriptor))

    def release(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)


def is_held(folder: Path) -> bool:
    """Return whether some process holds the lock of a run."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY)
    except OSError:
        return False
    try:
        return not _try_lock(descriptor, alone=False)
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int, *, alone: bool = True) -> bool:
    """Try to take the lock, without waiting; a shared one where `alone` is False."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # pyright: ignore[reportAttributeAccessIssue]
        except OSError:
            return False
        return True
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def leads_to(path: Path, opened: os.stat_result) -> bool:
    """Return whether a path leads to an open file, from what the system says of that."""
    try:
        return os.path.samestat(path.stat(), opened)
    except (FileNotFoundError, NotADirectoryError):
        return False
