"""What is computed from an object once and kept with it, such as a model's layout for the planner."""

from collections.abc import Callable
from typing import Any, TypeVar, final

T = TypeVar("T")


@final
class Memory:
    """Values that follow from the object they are kept with. They are computed again in another process."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def get(self, name: str, compute: Callable[[], T]) -> T:
        """Return the value of this name, which is computed at the first request."""
        if name not in self._values:
            self._values[name] = compute()
        return self._values[name]

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def forget(self, name: str) -> None:
        """Drop a value that is not needed any more."""
        self._values.pop(name, None)

    def __reduce__(self) -> tuple[type["Memory"], tuple[()]]:
        """Copy and store none of the values."""
        return Memory, ()
