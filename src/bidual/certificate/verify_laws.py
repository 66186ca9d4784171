"""The laws that counts leave possible, for verify_learned.py: what no policy beats under any of them.

Every row of transitions that has to be learned, and the start, has a set of laws (verify_sets.py), and every signal on
arrival its ends (verify_signals.py). Backward induction with the least of each gives a number below the cost of every
policy under all laws that are left, chosen anew for every row and step; with chance free to do anything declared, a
number below that of every episode.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from operator import mul
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING or __package__:
    from bidual.certificate.verify import ONE, Arrays, Form, NotDecidedError, Span, cut, distribution, span, times
    from bidual.certificate.verify_numbers import ln
    from bidual.certificate.verify_sets import Row, read_row
    from bidual.certificate.verify_signals import ArrivalSignals
else:  # alone, beside these files
    from verify import ONE, Arrays, Form, NotDecidedError, Span, cut, distribution, span, times
    from verify_numbers import ln
    from verify_sets import Row, read_row
    from verify_signals import ArrivalSignals

SETS = ("ball", "l1", "box", "bernstein")  # the last two bound every probability on its own
NOISE = Fraction(1, 4)  # of delta, for the means of noisy signals


Costs = list[list[dict[int, Span]]]  # for every step and feature, what the pairs i = s A + a pay themselves


def read_costs(header: dict[str, Any], arrays: Arrays, shape: tuple[int, int, int]) -> Costs:
    """Read the features of every step: signals, then indicators of states and of pairs."""
    (H, S, A), ((steps, d, *rest), stage) = shape, arrays["stage"]
    if rest != [S, A] or steps not in (1, H):
        raise ValueError("features do not fit the policy")
    visits, occupancy = (flag is True for flag in header["features"])
    indicators = [{s * A + a: (ONE, ONE) for a in range(A)} for s in range(S)] if visits else []
    indicators += [{i: (ONE, ONE)} for i in range(S * A)] if occupancy else []
    pays = [{i: span(x) for i, x in enumerate(row) if x} for row in cut(stage, S * A)]
    return [[*pays[h % steps * d : (h % steps + 1) * d], *indicators] for h in range(H)]


@final
class Laws:
    """What was declared and what was counted."""

    def __init__(self, manifest: dict[str, Any], arrays: Arrays) -> None:
        header, ((H, S, A), _) = manifest["model"], arrays["policy"]
        unknown = {
            "a class of laws": "class" in header,
            "known features": "linear" in header,
            f"the set {header['set']!r}": header["set"] not in SETS,
        }
        for what in (what for what, there in unknown.items() if there):
            raise NotDecidedError(f"{what}: not known to this program")
        ((*_, K), lists), ((laws, *_), counts) = arrays["successors"], arrays["transitions"]
        shapes = {"successors": (S, A, K), "transitions": (laws, S, A, K), "starts": (S,), "allowed": (S, A)}
        self.S, self.A, self.starts = S, A, [int(x) for x in arrays["starts"][1]]
        self.start = distribution(arrays["initial"][1]) if "initial" in arrays else None
        self.actions = [[i for i in range(s * A, s * A + A) if arrays["allowed"][1][i]] for s in range(S)]
        self.next = [[s for s in row if s >= 0] for row in cut(lists, K)]
        self.ends, self.open = arrays["absorbing"][1], header["open"] is not False  # where any state may follow
        self.counts = cut([list(map(int, row)) for row in cut(counts, K)], S * A)
        self.delta = Fraction(manifest["claims"]["delta"])
        if not 0 < self.delta < 1:
            raise ValueError(f"delta is {self.delta}")
        self.costs, self.episodes = read_costs(header, arrays, (H, S, A)), sum(self.starts)
        self.kind, self.signals = header["set"], ArrivalSignals(header, arrays, (H, S, A))
        fits = [arrays[name][0] == shape for name, shape in shapes.items()]
        fits += [all(x >= 0 and x == int(x) for x in [*counts, *arrays["starts"][1]]), laws in (1, H)]
        fits += [sum(map(sum, step)) * laws == self.episodes * H for step in self.counts]
        fits += [row == to + [-1] * (K - len(to)) for row, to in zip(cut(lists, K), self.next, strict=True)]
        fits += [len({*to}) == len(to) and all(s < S for s in to) for to in self.next]
        fits += [not sum(row[len(to) :]) for step in self.counts for row, to in zip(step, self.next, strict=True)]
        fits += [self.next[i] != [] or self.open for actions in self.actions for i in actions]
        fits += [self.next[i] == [i // A] for i in range(S * A) if self.ends[i // A]] + [len(self.ends) == S]
        fits += [not self.starts[s] for s in range(S) if self.start and not self.start[0][s]]
        if not all(fits):
            raise ValueError("declarations, counts and policy do not fit each other")
        pooled = [[sum(row) for row in zip(*rows, strict=True)] for rows in zip(*self.counts, strict=True)]
        entries = sum(self._possible(i) for actions in self.actions for i in actions) * self.signals.noisy
        share = ln(span(max(entries, 1) * 2 / (NOISE * self.delta)))
        self.signals.learn(arrays, self.next, pooled, share)

    def _possible(self, i: int) -> int:
        return self.S if self.open and not self.ends[i // self.A] else len(self.next[i])

    @cached_property
    def rows(self) -> list[dict[int, Row]]:
        """The set of every row that has to be learned, by law and pair, and that of the start under -1."""
        unsure = {i: self._possible(i) for actions in self.actions for i in actions if not self.ends[i // self.A]}
        unsure = {i: K for i, K in unsure.items() if self.open or K > 1}
        claims = sum(unsure.values()) if self.kind in SETS[2:] else len(unsure)
        number = max(len(self.counts) * claims + (self.start is None), 1)
        part = (1 - NOISE if self.signals.noisy else 1) * self.delta / 2  # half of delta is for the laws
        share = ln(span(number / part))
        start = read_row("ball", self.starts, self.S, share)
        return [
            {-1: start, **{i: read_row(self.kind, step[i][: len(self.next[i])], K, share) for i, K in unsure.items()}}
            for step in self.counts
        ]

    def least(self, theta: Form, free: bool = False) -> int:
        """Return a number below theta . Psi of every policy and law, or below theta . psi of every episode (free)."""
        if not free:
            self.signals.check()
        V = [0] * self.S
        for h in reversed(range(len(self.costs))):
            costs, law = {k: span(c) for (step, k), c in theta.items() if step == h}, h % len(self.counts)
            Q = dict.fromkeys((i for actions in self.actions for i in actions), 0)
            for k, c in costs.items():
                Q.update((i, Q[i] + times(c, x)[0]) for i, x in self.costs[h][k].items() if i in Q)
            late = self.signals.features & costs.keys()
            for i, pay in Q.items():
                to, anywhere = self.next[i], self.open and not self.ends[i // self.A]
                W = {s: V[s] for s in (range(self.S) if anywhere else to)}
                if late:
                    W = {s: w + self.signals.least(h, i, s, costs, free) for s, w in W.items()}
                ways = [W.pop(s) for s in to]
                if W:  # all states that are not listed are one more successor, the cheapest of them
                    ways.append(min(W.values()))
                Q[i] = pay + (min(ways) if free or i not in self.rows[law] else self.rows[law][i].minimum(ways))
            V = [min(Q[i] for i in actions) for actions in self.actions]
        if self.start is None:
            return min(V) if free else self.rows[0][-1].minimum(V)
        parts, total = self.start
        return min(v for v, p in zip(V, parts, strict=True) if p) if free else sum(map(mul, parts, V)) // total
