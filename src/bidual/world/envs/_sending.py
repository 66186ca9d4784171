"""Serialisation for another process: objects must be picklable, and an error names the one that is not.

It is for processes that we have started ourselves; nothing here reads a file.
"""

from multiprocessing.reduction import ForkingPickler
from typing import TypeVar

from bidual._base.errors import EnvError, ModelError

T = TypeVar("T")

_REMEDY = "define it at the top level of a module (no lambda, no function inside a function, nothing of a notebook)"


def pack(name: str, thing: object) -> bytes:
    """Serialise an object; `name` is its name for the user."""
    try:
        return bytes(ForkingPickler.dumps(thing))
    except Exception as error:  # pickling runs code of any class
        raise ModelError(
            f"{name} must be sent to another process, and cannot be: {type(error).__name__}: {error}. Give what can be "
            f"pickled; a function can if you {_REMEDY}"
        ) from error


def unpack(name: str, data: bytes, kind: type[T]) -> T:
    """Restore an object in the other process."""
    try:
        thing = ForkingPickler.loads(data)  # pyright: ignore[reportAttributeAccessIssue]: it is pickle's own function
    except Exception as error:  # it imports what it needs, and that may raise anything
        raise EnvError(
            f"{name} cannot be read in another process: {type(error).__name__}: {error}. What it needs must be "
            f"importable there; for a function, {_REMEDY}"
        ) from error
    assert isinstance(thing, kind)
    return thing
