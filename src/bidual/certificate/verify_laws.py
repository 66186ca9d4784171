"""The laws that counts leave possible, for verify_learned.py: what no policy beats under any of them.

* A row of transitions with n samples, counts c_k and K possible successors has at all times, for all rows at once,

      n KL(c / n || P) <= log (rows / d) + log (largest likelihood / mixture likelihood)

  with probability 1 - d (Ville's inequality), where the mixture is Dirichlet (1/K, ..., 1/K). The right side is the
  logarithm of a rational number, and is enclosed.
* For numbers W = m + D with D >= 0, q = c / n, KL(q || P) <= r, and any y > 0 (Jensen's inequality)

      P . W >= m + (exp (sum_k q_k log (1 + y D_k) - r) - 1) / y.

  A good y is found in floating-point numbers. What it proves is enclosed, so that any y proves something true.
* Backward induction with these bounds gives a number below the cost of every policy under every such law, chosen anew
  for every row and step; with chance free to do anything declared, a number below that of every episode.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from operator import mul
from typing import TYPE_CHECKING, Any, NamedTuple, final

if TYPE_CHECKING or __package__:
    from bidual.certificate.verify import ONE, Arrays, Form, NotDecidedError, Span, add, cut, distribution, span, times
    from bidual.certificate.verify_numbers import exp, ln, minus
else:  # alone, beside these files
    from verify import ONE, Arrays, Form, NotDecidedError, Span, add, cut, distribution, span, times
    from verify_numbers import exp, ln, minus

MOST = 10**8  # samples of a row, for which a minute is needed


def log(x: int) -> Span:
    return ln((x * ONE, x * ONE))


def log_product(factors: range) -> Span:
    return add(log(math.prod(factors[i : i + 256])) for i in range(0, len(factors), 256))


def scale(c: int, x: Span) -> Span:
    return c * x[0], c * x[1]


def divergence(counts: list[int], K: int, share: Span) -> int | None:
    """Bound KL(counts / n || P) from above, where `share` encloses log (rows / d); None where nothing was seen."""
    n, seen = sum(counts), [c for c in counts if c]
    if not n:
        return None
    if n > MOST:
        raise NotDecidedError(f"a row with {n} samples would take long")
    above = [share, log_product(range(1, n + 1)), scale(n, log(K)), *(scale(c, log(c)) for c in seen)]
    below = [scale(n, log(n)), *(log_product(range(1, 1 + c * K, K)) for c in seen)]
    return -(-minus(add(above), add(below))[1] // n)


def row_minimum(counts: list[int], r: int | None, W: list[int]) -> int:
    """Return a number below P . W for every P with KL(counts / n || P) <= r."""
    least, n = min(W), sum(counts)
    seen = [(c, w - least) for c, w in zip(counts, W, strict=True) if c]
    if r is None or not any(d for _, d in seen):
        return least
    p, q = find_dual(seen, n, r / ONE).as_integer_ratio()
    mean = sum(c * ln((ONE + d * p // q, ONE + d * p // q))[0] for c, d in seen) // n
    return least + max(0, (exp((mean - r, mean - r))[0] - ONE) * q // p)


def find_dual(seen: list[tuple[int, int]], n: int, r: float) -> float:
    """Return a good y: where q . log u + log (q . 1 / u) is r, for u = 1 + y D."""
    most = max(d for _, d in seen) / ONE
    weights, low, high = [(c / n, d / ONE / most) for c, d in seen], -25.0, 30.0
    for _ in range(50):
        y = math.exp((low + high) / 2)
        reached = sum(q * math.log1p(y * d) for q, d in weights) + math.log(sum(q / (1 + y * d) for q, d in weights))
        low, high = (low, (low + high) / 2) if reached > r else ((low + high) / 2, high)
    return math.exp(low) / most


class Costs(NamedTuple):
    """What every feature pays, at one step: for pairs i = s A + a, and for arrivals in s' at i S + s'."""

    pairs: list[dict[int, Span]]
    arrivals: dict[int, list[float]]


def read_costs(header: dict[str, Any], arrays: Arrays, shape: tuple[int, int, int]) -> list[Costs]:
    """Read the features of every step: signals, then indicators of states and of pairs."""
    (H, S, A), ((steps, d, *rest), stage) = shape, arrays["stage"]
    tables = [(arrays[f"arrival_{j}"], k) for j, k in enumerate(header["arrivals"])]
    fits = [rest == [S, A], steps in (1, H), len({k for _, k in tables} & {*range(d)}) == len(tables)]
    fits += [x[1:] == (S, A, S) and x[0] in (1, H) for (x, _), _ in tables]
    if not all(fits):
        raise ValueError("features do not fit the policy")
    visits, occupancy = (flag is True for flag in header["features"])
    indicators = [{s * A + a: (ONE, ONE) for a in range(A)} for s in range(S)] if visits else []
    indicators += [{i: (ONE, ONE)} for i in range(S * A)] if occupancy else []
    pays = [{i: span(x) for i, x in enumerate(row) if x} for row in cut(stage, S * A)]
    late = [(k, cut(table, S * A * S)) for (_, table), k in tables]
    return [
        Costs([*pays[h % steps * d : (h % steps + 1) * d], *indicators], {k: t[h % len(t)] for k, t in late})
        for h in range(H)
    ]


@final
class Laws:
    """What was declared and what was counted."""

    def __init__(self, manifest: dict[str, Any], arrays: Arrays) -> None:
        header, ((H, S, A), _) = manifest["model"], arrays["policy"]
        unknown = {
            "a class of laws": "class" in header,
            "known features": "linear" in header,
            f"the set {header['set']!r}": header["set"] != "ball",
            "signals that only the environment shows": header["observed"],
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

    @cached_property
    def radii(self) -> list[dict[int, int | None]]:
        """The divergence of every row that has to be learned, by law and pair, and that of the start under -1."""
        rows = [i for actions, end in zip(self.actions, self.ends, strict=True) for i in actions if not end]
        unsure = {i: self.S if self.open else len(self.next[i]) for i in rows if self.open or len(self.next[i]) > 1}
        number = len(self.counts) * len(unsure) + (self.start is None)
        share = ln(span(max(number, 1) * 2 / self.delta))  # half of delta is for the laws
        found = [{i: divergence(step[i], K, share) for i, K in unsure.items()} for step in self.counts]
        return [{**radii, -1: divergence(self.starts, self.S, share)} for radii in found]

    def least(self, theta: Form, free: bool = False) -> int:
        """Return a number below theta . Psi of every policy and law, or below theta . psi of every episode (free)."""
        V = [0] * self.S
        for h in reversed(range(len(self.costs))):
            costs, law = {k: span(c) for (step, k), c in theta.items() if step == h}, h % len(self.counts)
            Q = dict.fromkeys((i for actions in self.actions for i in actions), 0)
            for k, c in costs.items():
                Q.update((i, Q[i] + times(c, x)[0]) for i, x in self.costs[h].pairs[k].items() if i in Q)
            for i, pay in Q.items():
                anywhere = self.open and not self.ends[i // self.A]
                W = {s: V[s] for s in (range(self.S) if anywhere else self.next[i])}
                for k in self.costs[h].arrivals.keys() & costs.keys():
                    table = self.costs[h].arrivals[k][i * self.S : (i + 1) * self.S]
                    W = {s: w + times(costs[k], span(table[s]))[0] for s, w in W.items()}
                seen, ways = self.counts[law][i][: len(self.next[i])], [W[s] for s in self.next[i]]
                if anywhere:  # all other states are one more successor, the cheapest of them
                    seen, ways = [*seen, 0], [*ways, min(W.values())]
                Q[i] = pay + (min(ways) if free or len(ways) == 1 else row_minimum(seen, self.radii[law][i], ways))
            V = [min(Q[i] for i in actions) for actions in self.actions]
        if self.start is None:
            return min(V) if free else row_minimum(self.starts, self.radii[0][-1], V)
        parts, total = self.start
        return min(v for v, p in zip(V, parts, strict=True) if p) if free else sum(map(mul, parts, V)) // total
