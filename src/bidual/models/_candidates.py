"""How far a finite class of laws has been narrowed down."""

from dataclasses import dataclass
from typing import final

_SHOWN = 12  # steps that are told one by one


@final
@dataclass(frozen=True)
class Candidates:
    """How many candidates of every step may still be true, and of how many."""

    left: tuple[int, ...]
    of: tuple[int, ...]

    @property
    def most(self) -> int:
        """How many are left at the step that has most of them."""
        return max(self.left)

    @property
    def worst(self) -> str:
        """That step in words."""
        return f"{self.most}/{self.of[self.left.index(self.most)]} at the worst step"

    def __str__(self) -> str:
        if len(self.left) > _SHOWN:
            return f"{self.worst}, and a single one at {self.left.count(1)} of {len(self.left)} steps"
        if len(set(self.of)) > 1:
            return " ".join(f"{left}/{of}" for left, of in zip(self.left, self.of, strict=True)) + " at the steps"
        return f"{' '.join(map(str, self.left))} of {self.of[0]} at the steps"

    def to_dict(self) -> dict[str, list[int]]:
        """As JSON values."""
        return {"left": list(self.left), "of": list(self.of)}
