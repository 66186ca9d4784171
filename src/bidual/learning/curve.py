"""`LearnedCurve`: what episodes say of the limit of one constraint: bounds for all policies, and an estimate."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, final

import numpy as np
from jaxtyping import Float

from bidual._base.brief import describe_briefly
from bidual._base.frames import build_frame
from bidual._base.status import Status
from bidual._base.version import __version__
from bidual.solving.pricing import AbstractCurve, format_or_dash

Limits: TypeAlias = Sequence[float | int] | np.ndarray

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


@final
@dataclass(frozen=True, eq=False)
class LearnedCurve(AbstractCurve):
    """Bounds and estimates of a learned problem against the limit of one constraint, everything else left as it is.

    No policy that keeps the limit beats `bounds`: at all limits at once, and together with all bounds of the result,
    with probability 1 - delta, for the set of laws that may be true is one for all limits. `estimates` are the optima
    of the estimated model and `prices` their slopes, without any certificate. `reached` is the certified value of the
    policy of the result where that is proved to keep the limit. NaN: not known.

    `statuses` are INFEASIBLE where it is proved that no policy keeps the limit, FEASIBLE where `reached` is known, and
    UNDECIDED elsewhere: no policy is guaranteed to keep the limit, and none is excluded.
    """

    __repr__ = describe_briefly

    header = ("limit", "bound", "estimate", "price", "status")
    layout = "  {:>12} {:>12} {:>12} {:>10}  {}"

    constraint: str
    relation: str
    sense: str
    limits: Float[np.ndarray, "n"]
    bounds: Float[np.ndarray, "n"]
    estimates: Float[np.ndarray, "n"]
    prices: Float[np.ndarray, "n"]
    reached: Float[np.ndarray, "n"]
    statuses: tuple[Status, ...]
    delta: float
    assumptions: tuple[str, ...]
    episodes: int
    plans: int
    seconds: float
    task: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the curve as plain JSON values; unknown values are None."""
        return self._identity() | {
            "points": [self._point(i) for i in range(len(self.limits))],
            "delta": float(self.delta),
            "assumptions": list(self.assumptions),
            "episodes": self.episodes,
            "plans": self.plans,
            "seconds": self.seconds,
            "version": __version__,
        }

    def to_frame(self) -> "DataFrame":
        """Return a frame of pandas with a row for every limit; what is not known is NaN."""
        arrays = {name: getattr(self, attribute) for name, attribute in self._columns().items()}
        return build_frame(arrays | {"status": list(map(str, self.statuses))})

    def figure(self) -> "Figure":
        """Draw bounds, estimates and what is certified of the policy; see `bd.report.learned_curve_figure`."""
        from bidual.report import learned_curve_figure

        return learned_curve_figure(
            limits=self.limits,
            bounds=self.bounds,
            estimates=self.estimates,
            reached=self.reached,
            infeasible=np.array([status is Status.INFEASIBLE for status in self.statuses]),
            constraint=self.constraint,
            relation=self.relation,
            sense=self.sense,
            title=f"{self._headline()}, from {self.episodes} episodes",
        )

    @staticmethod
    def _columns() -> dict[str, str]:
        """Return the names of numbers in files and frames, with the attributes that hold them."""
        return {"limit": "limits", "bound": "bounds", "estimate": "estimates", "price": "prices", "reached": "reached"}

    def _point(self, i: int) -> dict[str, Any]:
        numbers = {name: float(getattr(self, attribute)[i]) for name, attribute in self._columns().items()}
        known = {name: None if math.isnan(number) else number for name, number in numbers.items()}
        return known | {"status": str(self.statuses[i])}

    def _cells(self, i: int) -> Sequence[str]:
        numbers = (self.bounds[i], self.estimates[i], self.prices[i])
        texts = (format_or_dash(number, digits) for number, digits in zip(numbers, (".6g", ".6g", ".3g"), strict=True))
        return f"{self.limits[i]:.6g}", *texts, str(self.statuses[i])

    def _list_facts(self) -> list[tuple[str, str]]:
        certainty, side = f"{1 - self.delta:.6g}", "above" if self.sense == "maximize" else "below"
        facts = [("bound", "none on what other policies can reach is claimed")]
        if np.isfinite(self.bounds).any() or Status.INFEASIBLE in self.statuses:
            facts = [
                ("bound", f"no policy that keeps the limit is {side}: at all limits at once, confidence {certainty}")
            ]
        facts.append(("estimate", "the optimum of the estimated model and its slope, the price: no certificate"))
        known = np.flatnonzero(np.isfinite(self.reached))
        if known.size:
            value = f"{self.reached[known[0]]:.6g}"
            facts.append(("feasible", f"the policy of the result keeps the limit, and reaches {value} or better"))
        if Status.UNDECIDED in self.statuses:
            facts.append(
                ("undecided", "no policy is guaranteed to keep the limit, and it is not excluded that one does")
            )
        if Status.INFEASIBLE in self.statuses:
            facts.append(("infeasible", f"it is proved that no policy keeps the limit, confidence {certainty}"))
        conditions = len(self.assumptions)
        facts.append(("assumes", f"{conditions} condition{'' if conditions == 1 else 's'}, those of the result"))
        return [*facts, ("effort", f"{self.episodes} episodes, {self.plans} plans for the curve, {self.seconds:.2f} s")]
