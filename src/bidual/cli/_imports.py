"""CVXPY without half a second of imports that commands have no use for."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

_STATISTICS = "scipy.stats"


def import_cvxpy() -> None:
    """Import CVXPY, and leave `scipy.stats` to the first call of the one function that CVXPY takes from it."""
    if "cvxpy" in sys.modules or _STATISTICS in sys.modules:
        return
    with _postponed_statistics():
        import_module("cvxpy")


@contextmanager
def _postponed_statistics() -> Iterator[None]:
    """Have a module in the place of `scipy.stats` for a while, that of a process which has one thread so far."""
    scipy = import_module("scipy")
    sys.modules[_STATISTICS] = _Postponed(_STATISTICS)
    try:
        yield
    finally:
        sys.modules.pop(_STATISTICS, None)
        vars(scipy).pop("stats", None)


class _Postponed(ModuleType):
    """A module whose functions are imported when they are called; whatever else is asked for is imported at once."""

    def __getattr__(self, name: str) -> object:
        if name == "entropy":
            return _compute_entropy
        if name.startswith("__"):  # what Python itself asks every module for
            raise AttributeError(name)
        sys.modules.pop(_STATISTICS, None)
        return getattr(import_module(_STATISTICS), name)


def _compute_entropy(*arguments: object, **named: object) -> object:
    """Compute what `scipy.stats.entropy` does."""
    return import_module(_STATISTICS).entropy(*arguments, **named)
