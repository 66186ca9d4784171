"""`Curve`: the value of the limit of one constraint, as numbers, text and a figure."""

import abc
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, final

import numpy as np
from jaxtyping import Float, Int

from bidual._base.brief import describe_briefly
from bidual._base.frames import build_frame
from bidual._base.html import format_html_table
from bidual._base.status import Status
from bidual._base.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


class Enclosure(NamedTuple):
    """A number that is certified to lie between two others."""

    lower: float
    upper: float

    def to_dict(self) -> dict[str, float]:
        """Return the JSON form."""
        return self._asdict()


class AbstractCurve(abc.ABC):
    """What is known of a problem at several limits of one constraint, everything else left as it is."""

    header: ClassVar[tuple[str, ...]]
    layout: ClassVar[str]  # of a row of text

    constraint: str
    relation: str
    sense: str
    limits: Float[np.ndarray, "n"]
    statuses: tuple[Status, ...]
    seconds: float
    task: str | None

    @abc.abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the curve as plain JSON values; unknown values are None."""

    @abc.abstractmethod
    def to_frame(self) -> "DataFrame":
        """Return a frame of pandas with a row for every limit."""

    @abc.abstractmethod
    def figure(self) -> "Figure":
        """Draw the curve."""

    @abc.abstractmethod
    def _cells(self, i: int) -> Sequence[str]:
        """Return the texts of a row, in the order of the header."""

    @abc.abstractmethod
    def _list_facts(self) -> list[tuple[str, str]]:
        """Describe in labelled lines what belongs to no single limit."""

    def __str__(self) -> str:
        lines = [self._write_title(), self.layout.format(*self.header)]
        lines += [self.layout.format(*self._cells(i)) for i in range(len(self.limits))]
        lines += [f"  {label:<12} {text}" for label, text in self._list_facts()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [self._cells(i) for i in range(len(self.limits))]
        return format_html_table(self._write_title(), [*rows, *self._list_facts()], self.header)

    def _write_title(self) -> str:
        relation = f"{self.sense} with {self.constraint!r} {self.relation} limit"
        return f"what the limit of {self.constraint!r} is worth: {relation}"

    def _headline(self) -> str:
        """Return the title of a figure."""
        return f"{f'{self.task}: ' if self.task else ''}what the limit of '{self.constraint}' is worth"

    def _identity(self) -> dict[str, Any]:
        """Return the first JSON values."""
        named = {"task": self.task, "constraint": self.constraint, "relation": self.relation, "sense": self.sense}
        return dict(named)


@final
@dataclass(frozen=True, eq=False)
class Curve(AbstractCurve):
    """The optimum and the price against the limit of one constraint, everything else left as it is.

    `lower` and `upper` enclose the optimum at each of `limits`; `prices` are its gain per unit of relaxation, signed
    for ``==``. Unproved values are NaN: both bounds where no policy keeps the limit, the price where the gap is open.
    `least` and `most` are the ends of the range of the left side over policies that keep the other constraints; `free`
    is its value at an optimum without the limit, so that limits beyond it cost nothing. Each is None where it is not
    known: the far end of a function that is not linear, or all of them where the other constraints clash.
    """

    __repr__ = describe_briefly

    header = ("limit", "optimum", "price", "status", "plans")
    layout = "  {:>12} {:>12} {:>10}  {:<10} {:>5}"

    constraint: str
    relation: str
    sense: str
    limits: Float[np.ndarray, "n"]
    lower: Float[np.ndarray, "n"]
    upper: Float[np.ndarray, "n"]
    prices: Float[np.ndarray, "n"]
    statuses: tuple[Status, ...]
    plans: Int[np.ndarray, "n"]  # new ones at each limit
    least: Enclosure | None
    most: Enclosure | None
    free: float | None
    free_optimum: Enclosure | None
    total_plans: int
    seconds: float
    task: str | None = None

    @property
    def values(self) -> Float[np.ndarray, "n"]:
        """The guaranteed value of a policy at each limit; NaN where none is proved to keep it."""
        return self.lower if self.sense == "maximize" else self.upper

    def to_dict(self) -> dict[str, Any]:
        """Return the curve as plain JSON values; unknown values are None."""
        return self._identity() | {
            "least": None if self.least is None else self.least.to_dict(),
            "most": None if self.most is None else self.most.to_dict(),
            "free": self.free,
            "free_optimum": None if self.free_optimum is None else self.free_optimum.to_dict(),
            "points": [self._list_numbers(i) for i in range(len(self.limits))],
            "plans": self.total_plans,
            "seconds": self.seconds,
            "version": __version__,
        }

    def figure(self) -> "Figure":
        """Draw the curve with the price as its slope, and the price below it; see `bd.report.curve_figure`."""
        from bidual.report import curve_figure

        least = -np.inf if self.least is None else self.least.lower
        most = np.inf if self.most is None else self.most.upper
        return curve_figure(
            limits=self.limits,
            lower=self.lower,
            upper=self.upper,
            prices=self.prices,
            achievable=(least, most),
            constraint=self.constraint,
            relation=self.relation,
            sense=self.sense,
            title=self._headline(),
        )

    def to_frame(self) -> "DataFrame":
        """Return a frame of pandas with a row for every limit; what is not proved is NaN."""
        arrays = {"limit": self.limits, "lower": self.lower, "upper": self.upper, "price": self.prices}
        return build_frame(arrays | {"status": list(map(str, self.statuses)), "plans": self.plans})

    def _list_numbers(self, i: int) -> dict[str, Any]:
        arrays = {"limit": self.limits, "lower": self.lower, "upper": self.upper, "price": self.prices}
        numbers = {name: None if math.isnan(array[i]) else float(array[i]) for name, array in arrays.items()}
        return numbers | {"status": str(self.statuses[i]), "plans": int(self.plans[i])}

    def _cells(self, i: int) -> Sequence[str]:
        optimum, price = format_or_dash(self.values[i], ".7g"), format_or_dash(self.prices[i], ".5g")
        return f"{self.limits[i]:.6g}", optimum, price, str(self.statuses[i]), str(self.plans[i])

    def _list_facts(self) -> list[tuple[str, str]]:
        """List the lines below the title: the range, the free optimum, and the gaps."""
        facts = [("achievable", self._describe_range())]
        if self.free is not None and self.free_optimum is not None:
            reached = self.free_optimum.lower if self.sense == "maximize" else self.free_optimum.upper
            side = {"<=": "from this limit on", ">=": "up to this limit"}.get(self.relation, "at this limit")
            text = f"the optimum is {reached:.7g} at {_format_tidy(self.free)}: {side} the constraint costs nothing"
            facts.append(("without it", text))
        gaps = (self.upper - self.lower)[np.isfinite(self.upper - self.lower)]
        if gaps.size:
            facts.append(("certificate", f"every optimum is within {gaps.max():.2g} of what is shown, or closer"))
        s = "" if self.total_plans == 1 else "s"
        return [*facts, ("effort", f"{self.total_plans} plan{s} in all, {self.seconds:.2f} s")]

    def _describe_range(self) -> str:
        least = None if self.least is None else _format_tidy(self.least.upper)
        most = None if self.most is None else _format_tidy(self.most.lower)
        if least and most:
            return f"from {least} to {most}"
        if least or most:
            return f"not below {least}" if least else f"not above {most}"
        return "not known"


def _format_tidy(number: float) -> str:
    """Format with six digits, without rounding errors below 1e-10."""
    return f"{round(number, 10) + 0.0:.6g}"


def format_or_dash(number: float, digits: str) -> str:
    """Format a number, or a dash where it is not known."""
    return "-" if math.isnan(number) else f"{number + 0.0:{digits}}"
