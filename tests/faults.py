"""A system that fails at the n-th call: opening, reading, writing, syncing, renaming and removing files, and SQL.

Calls are counted that concern one folder, in this process. A failure comes instead of a call or after it (a call whose
answer is lost), once or from then on (a disk that is gone). Instead of an error anything else can happen.
"""

import errno
import io
import itertools
import os
import sqlite3

import pytest

READS = ("open", "stat", "scandir")  # of os, with a path
CHANGES = ("mkdir", "unlink", "replace", "rename")  # likewise
DESCRIPTORS = ("fsync", "ftruncate", "pwrite")  # of os, with a descriptor: nobody else uses them here
SQL = ("execute", "executemany", "backup")


class Faults:
    """Failures at the calls number `call` and, where they last, all later ones, of those that concern a folder.

    Args:
        folder: files and folders in it count.
        call: the number of the first call that fails.
        lasting: also fail later.
        late: do what was asked for before the failure.
        act: do this once, instead of any failure.
    """

    def __init__(self, folder, call, *, lasting=False, late=False, act=None):
        self.folder, self.call, self.lasting, self.late, self.act = str(folder), call, lasting, late, act
        self.count, self._busy = 0, False

    @property
    def hit(self):
        """Whether the call was reached."""
        return self.count >= self.call

    def around(self, function, error, concerns=lambda *_: True):
        """Return a function that fails when it is its turn."""

        def failing(*args, **kwargs):
            if self._busy or not concerns(*args) or not self._fails():
                return function(*args, **kwargs)
            if self.act is not None:
                self._busy = True
                self.act()
                self._busy = False
                return function(*args, **kwargs)
            if self.late:
                function(*args, **kwargs)
            raise error()

        return failing

    def _fails(self):
        self.count += 1
        return self.count == self.call or (self.lasting and self.hit)

    def _concerns(self, path, *_):
        return isinstance(path, str | os.PathLike) and os.path.abspath(path).startswith(self.folder)

    def install(self, patch):
        """Replace what programs call."""
        for name in CHANGES if self.late else READS + CHANGES:  # a late failure of what changes nothing is none
            patch.setattr(os, name, self.around(getattr(os, name), _error, self._concerns))
        for name in DESCRIPTORS:
            patch.setattr(os, name, self.around(getattr(os, name), _error))
        patch.setattr(io, "open", self._watch(io.open))
        patch.setattr(sqlite3, "connect", self._connect(sqlite3.connect))

    def _watch(self, function):
        """Return an `open` whose files fail too."""
        opened = function if self.late else self.around(function, _error, self._concerns)

        def watched(path, *args, **kwargs):
            file = opened(path, *args, **kwargs)
            return _File(file, self) if self._concerns(path) else file

        return watched

    def _connect(self, function):
        methods = {name: self._method(name) for name in SQL}
        connection = type("Connection", (sqlite3.Connection,), methods)
        opened = function if self.late else self.around(function, _sql_error)
        return lambda *args, **kwargs: opened(*args, **kwargs, factory=connection)

    def _method(self, name):
        return self.around(getattr(sqlite3.Connection, name), _sql_error)


class _File:
    """A file whose reads and writes fail when it is their turn."""

    def __init__(self, file, faults):
        self._file = file
        self.read, self.write = (faults.around(getattr(file, name), _error) for name in ("read", "write"))

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()


def _error():
    return OSError(errno.EIO, os.strerror(errno.EIO))


def _sql_error():
    return sqlite3.OperationalError("disk I/O error")


def each_failure(folder, first=1, step=1, **settings):
    """Yield a folder and its faults for every n-th call, until one is not reached; use them with `failing`."""
    for call in itertools.count(first, step):
        faults = Faults(folder / str(call), call, **settings)
        yield folder / str(call), faults
        if not faults.hit:
            return


class failing:
    """A context in which the system fails."""

    def __init__(self, faults):
        self._faults, self._patch = faults, pytest.MonkeyPatch()

    def __enter__(self):
        self._faults.install(self._patch)

    def __exit__(self, *_):
        self._patch.undo()
