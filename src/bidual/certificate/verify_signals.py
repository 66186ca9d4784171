"""What signals pay on arrival in the next state, for verify_laws.py.

Some are tables over (s, a, s'). Others only the environment shows, between declared ends: of these FILE holds, for
every listed transition, the sum of all values that were seen and their number n.

* A signal that is a function of the transition pays the sum divided by n.
* A noisy one has a mean. In units of its width, samples X in [0, 1] with mean p have at all times a likelihood ratio
  (u / p)^X ((1 - u) / (1 - p))^(1 - X) of mean at most 1 for every u, as X is its exponent. So what holds for the p of
  a coin holds for it, with sums in the place of counts: a quarter of the laws' part of delta is for that.
* Transitions that nobody saw pay anything between the ends, and so do all where chance may do anything (free).
* Some pay only where an episode terminates: on arrival in a state that is never left, from another.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, final

if TYPE_CHECKING or __package__:
    from bidual.certificate.verify import NINE_DIGITS, Arrays, Span, add, cut, span, times
    from bidual.certificate.verify_sets import coin
else:  # alone, beside these files
    from verify import NINE_DIGITS, Arrays, Span, add, cut, span, times
    from verify_sets import coin


class ObservedSignal(NamedTuple):
    """A signal that only the environment shows: its place among the features, its ends, and of which kind it is."""

    feature: int
    low: Fraction
    high: Fraction
    noisy: bool
    at_end: bool

    @staticmethod
    def of(feature: int, low: float, high: float, noisy: bool, at_end: bool) -> ObservedSignal:
        if not low <= high or not {noisy, at_end} <= {True, False}:
            raise ValueError(f"a signal lies between {low} and {high}")
        return ObservedSignal(feature, Fraction(low), Fraction(high), noisy, at_end)

    def mean(self, total: Fraction, n: int, share: Span) -> Span:
        """Enclose what a transition pays that was seen n times."""
        width, value = self.high - self.low, total / n
        room = NINE_DIGITS * max(abs(self.low), abs(self.high))
        if total and not self.low - room <= value <= self.high + room:
            raise ValueError("a signal was seen outside its ends")
        if not self.noisy or not width:
            return span(value)
        wins = min(max((total - self.low * n) / width, Fraction(0)), Fraction(n))
        p = coin(wins, n - wins, share)
        return add([span(self.low), times(span(width), p)])


@final
class ArrivalSignals:
    """All signals on arrival; K listed successors of every pair i = s A + a, with their counts at all steps."""

    def __init__(self, header: dict[str, Any], arrays: Arrays, shape: tuple[int, int, int]) -> None:
        (H, self.S, self.A), self.absorbing = shape, arrays["absorbing"][1]
        tables = [(arrays[f"arrival_{j}"], k) for j, k in enumerate(header["arrivals"])]
        self.tables = {k: cut(table, self.S * self.A * self.S) for (_, table), k in tables}
        self.observed = [ObservedSignal.of(*x) for x in header["observed"]]
        self.steady = arrays["steady"][1] if self.observed else []
        self.features = {*self.tables, *(one.feature for one in self.observed)}
        places = [*(k for _, k in tables), *(one.feature for one in self.observed)]
        fits = [x[1:] == (self.S, self.A, self.S) and x[0] in (1, H) for (x, _), _ in tables]
        fits += [len({*places} & {*range(arrays["stage"][0][1])}) == len(places) == len({*places})]
        if not all(fits) or len(self.steady) != len(self.observed):
            raise ValueError("features do not fit the policy")
        self.seen: list[dict[tuple[int, int], Span]] = [{} for _ in self.observed]

    @property
    def noisy(self) -> int:
        return sum(one.noisy for one in self.observed)

    def learn(self, arrays: Arrays, lists: list[list[int]], counts: list[list[int]], share: Span) -> None:
        """Enclose the means of all transitions that were seen; `share` is the logarithm of claims / delta of noise."""
        (*_, K), o = arrays["successors"][0], len(self.observed)
        if o and arrays["sums"][0] != (self.S, self.A, K, o):
            raise ValueError("sums of signals do not fit the policy")
        for place, total in enumerate(arrays["sums"][1] if o else []):
            (i, k), j = divmod(place // o, K), place % o
            if k < len(lists[i]) and counts[i][k]:
                self.seen[j][i, lists[i][k]] = self.observed[j].mean(Fraction(total), counts[i][k], share)

    def check(self) -> None:
        """Raise where a signal is neither noisy nor a function of the transition: its mean is not known."""
        if not all(steady is True or one.noisy for steady, one in zip(self.steady, self.observed, strict=True)):
            raise ValueError("a signal is no function of the transition")

    def least(self, h: int, i: int, s: int, costs: dict[int, Span], free: bool) -> int:
        """Return the least that a transition from pair i to s can cost at step h."""
        total, place = 0, i * self.S + s
        for k in self.tables.keys() & costs.keys():
            total += times(costs[k], span(self.tables[k][h % len(self.tables[k])][place]))[0]
        for one, seen in zip(self.observed, self.seen, strict=True):
            if one.feature in costs:
                total += times(costs[one.feature], self._enclose(one, seen, i, s, free))[0]
        return total

    def _enclose(self, one: ObservedSignal, seen: dict[tuple[int, int], Span], i: int, s: int, free: bool) -> Span:
        ended = self.absorbing[i // self.A]
        if one.at_end and (ended or not self.absorbing[s]):
            return 0, 0
        low, high = (span(one.low)[0], span(one.high)[1]) if free or (i, s) not in seen else seen[i, s]
        if ended and not one.low <= 0 <= one.high:  # signals are 0 after the end, whatever was declared
            return min(low, 0), max(high, 0)
        return low, high
