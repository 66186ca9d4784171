"""A verifier of saved answers for known models that trusts nobody: ``python verify.py FILE``.

One file, the standard library, no line shared with what wrote FILE. FILE holds a model, a problem, a policy, a proof
and claims. Its numbers are doubles, hence rationals, and every claim on them is decided with no tolerance.

* Meaning. A distribution is a row of FILE divided by its sum. psi_h(s, a) are the signals of FILE, then an indicator of
  every state (visits) and of every pair (occupancy) where it asks for them; Psi is their expectation under the policy.
  The problem: minimise f with g <= 0 (or == 0), here linear in Psi; ``verify_convex.py`` knows more functions.
* Arithmetic. A `Span` encloses a number by two integers in units of 2^-256: the lower rounded down, the upper up.
* Bounds. The policy's f and g are enclosed by following it forward. With multipliers gamma (>= 0 for inequalities)
  a policy that keeps the constraints has f >= f + gamma . g, and backward induction gives the least value of that over
  all policies. Where the least gamma . g is above 0, no policy keeps them all.
* A bound must hold exactly. A rounded number (value, violation, price) states nine digits of the amounts in its sum,
  and a limit holds where the exact violation is at most 1e-9 times the larger of the limit and these amounts.

Exit codes: 0 all proved, 1 something refuted, 4 something not decided, 5 FILE cannot be read.
"""

import abc
import hashlib
import json
import math
import struct
import sys
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import cached_property
from operator import mul
from typing import Any, NamedTuple, final

BITS = 256
ONE = 1 << BITS
NINE_DIGITS = Fraction(1, 10**9)
Span = tuple[int, int]
Form = dict[Any, Fraction]  # an affine form: coefficients by the names of numbers, the constant under None
Arrays = dict[str, tuple[tuple[int, ...], list[Any]]]  # shapes, and numbers in row-major order
Test = Callable[[], tuple[bool, str]]  # whether a claim holds, and why


class NotDecidedError(Exception):
    """Something that this program cannot decide; the message says why."""


class Verdict(NamedTuple):
    """A claim, and whether it is proved, refuted or not decided."""

    outcome: str
    claim: str
    reason: str


# --- The file: a zip of manifest.json and arrays.safetensors, with a checksum over both ---


def read(path: str) -> tuple[dict[str, Any], Arrays]:
    with zipfile.ZipFile(path) as file:
        manifest, blob = json.loads(file.read("manifest.json")), file.read("arrays.safetensors")
    checksum = manifest.pop("sha256")
    if hashlib.sha256(json.dumps(manifest, sort_keys=True).encode() + blob).hexdigest() != checksum:
        raise ValueError("its checksum is wrong")
    start = 8 + int.from_bytes(blob[:8], "little")
    entries = {name: entry for name, entry in json.loads(blob[8:start]).items() if name != "__metadata__"}
    return manifest, {name: (tuple(entry["shape"]), _numbers(entry, blob[start:])) for name, entry in entries.items()}


def _numbers(entry: dict[str, Any], blob: bytes) -> list[Any]:
    code = {"F64": "d", "I64": "q", "I32": "i", "BOOL": "?"}[entry["dtype"]]
    found = struct.unpack(f"<{math.prod(entry['shape'])}{code}", blob[slice(*entry["data_offsets"])])
    if not all(map(math.isfinite, found)):
        raise ValueError("an array holds NaN or infinity")
    return list(found)


def cut(row: list[Any], width: int) -> list[list[Any]]:
    return [row[i : i + width] for i in range(0, len(row), width)] if width else []


# --- Spans and affine forms ---


def span(x: float | Fraction) -> Span:
    n, d = x.as_integer_ratio()
    return (n << BITS) // d, -((-n << BITS) // d)


def times(a: Span, b: Span) -> Span:
    ends = (a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1])
    return min(ends) >> BITS, -(-max(ends) >> BITS)


def add(spans: Iterable[Span]) -> Span:
    ends = list(spans)
    return sum(low for low, _ in ends), sum(high for _, high in ends)


def size(a: Span) -> Span:
    """Enclose an absolute value."""
    return max(a[0], -a[1], 0), max(-a[0], a[1])


def combine(terms: Iterable[tuple[Fraction | int, Form]]) -> Form:
    found: Form = defaultdict(Fraction)
    for c, form in terms:
        for name, x in form.items():
            found[name] += c * x
    return {name: x for name, x in found.items() if x}


# --- The model: its policy followed forward, and the least value of a linear cost by backward induction ---


def _distribution(row: list[float]) -> tuple[list[int], int]:
    """Return a row in units of its last bit, and its sum, by which it is divided wherever it is used."""
    ratios = [x.as_integer_ratio() for x in row]
    unit = max(d for _, d in ratios)
    parts = [n * (unit // d) for n, d in ratios]
    if min(parts) < 0 or abs(sum(parts) - unit) * 10**9 > unit:
        raise ValueError(f"the row {row} is no distribution")
    return parts, sum(parts)


@final
class Model:
    """Law, start, features and policy."""

    def __init__(self, manifest: dict[str, Any], arrays: Arrays) -> None:
        (self.H, S, A), policy = arrays["policy"]
        (*_, K), states = arrays["next_states"]
        (_, self.signals, *_), psi = arrays["psi"]
        n, allowed = S * A, arrays["allowed"][1]
        self.S, self.A, self.start = S, A, _distribution(arrays["initial"][1])
        shapes = {"next_states": (S, A, K), "probabilities": (S, A, K), "psi": (self.signals, S, A)}
        fits = [arrays[x][0][0] in (1, self.H) and arrays[x][0][1:] == shape for x, shape in shapes.items()]
        sizes = (manifest["horizon"], len(allowed), len(self.start[0])) == (self.H, n, S)
        if not (all(fits) and sizes and all(0 <= s < S for s in states)):
            raise ValueError("model, features and policy do not fit each other")
        self.actions = [[a for a in range(A) if allowed[s * A + a]] for s in range(S)]
        rows, ways = cut(arrays["probabilities"][1], K), cut(cut(states, K), n)
        laws = cut([_distribution(row) if allowed[i % n] else ([0] * K, 1) for i, row in enumerate(rows)], n)
        self.law = [(laws[h % len(laws)], ways[h % len(ways)]) for h in range(self.H)]
        pays = cut([[span(x) for x in row] for row in cut(psi, n)], self.signals)
        self.psi = [pays[h % len(pays)] if pays else [] for h in range(self.H)]
        self.visits, self.pairs = (flag is True for flag in manifest["features"])
        self.features = self.signals + S * self.visits + n * self.pairs
        self.policy = cut([_distribution(row) for row in cut(policy, A)], S)
        if any(p and not ok for step in cut(policy, n) for p, ok in zip(step, allowed, strict=True)):
            raise ValueError("the policy takes an action that its state does not allow")

    def peak(self, h: int, k: int) -> int:
        return max(size(x)[1] for x in self.psi[h][k]) if k < self.signals else ONE

    def follow(self) -> dict[tuple[int, int], Span]:
        """Enclose Psi of the policy, by step and feature."""
        here, found = [((p << BITS) // self.start[1], -((-p << BITS) // self.start[1])) for p in self.start[0]], {}
        for h, (rows, ways) in enumerate(self.law):
            pairs, low, high = {}, [0] * self.S, [0] * self.S
            for s, (least, most) in enumerate(here):
                row, whole = self.policy[h][s]
                taken = [(a, p) for a, p in enumerate(row) if p] if most else []
                pairs.update((s * self.A + a, (least * p // whole, -(-most * p // whole))) for a, p in taken)
            for i, (least, most) in pairs.items():
                row, whole = rows[i]
                for s, p in zip(ways[i], row, strict=True):
                    low[s], high[s] = low[s] + least * p // whole, high[s] - (-most * p // whole)
            features = [add(times(w, pay[i]) for i, w in pairs.items()) for pay in self.psi[h]]
            features += here if self.visits else []
            features += [pairs.get(i, (0, 0)) for i in range(self.S * self.A)] if self.pairs else []
            found.update(((h, k), x) for k, x in enumerate(features))
            here = list(zip(low, high, strict=True))
        return found

    def least(self, theta: Form) -> int:
        """Return a number below theta . Psi of every policy, and by less than 2^-200."""
        V, pay, before = [0] * self.S, [], None
        for h in reversed(range(self.H)):
            costs = {k: span(theta[h, k]) for k in range(self.features) if (h, k) in theta}
            if (costs, self.psi[h]) != before:
                before, pay = (costs, self.psi[h]), self._pay(costs, self.psi[h])
            rows, ways = self.law[h]
            steps = zip(pay, rows, ways, strict=True)
            Q = [x + sum(map(mul, row, map(V.__getitem__, to))) // whole for x, (row, whole), to in steps]
            V = [min(Q[s * self.A + a] for a in actions) for s, actions in enumerate(self.actions)]
        return sum(map(mul, self.start[0], V)) // self.start[1]

    def _pay(self, costs: dict[Any, Span], psi: list[list[Span]]) -> list[int]:
        pay, second = [0] * (self.S * self.A), self.signals + self.S * self.visits
        for k, cost in costs.items():
            if k < self.signals:
                pay = [x + times(cost, y)[0] for x, y in zip(pay, psi[k], strict=True)]
            else:
                first = k - second if k >= second else (k - self.signals) * self.A
                for i in range(first, first + (1 if k >= second else self.A)):
                    pay[i] += cost[0]
        return pay


# --- The problem and its proof ---


class AbstractAnswer(abc.ABC):
    """f and g of a problem at the policy, and a number that w f + gamma . g is never below."""

    def __init__(self, manifest: dict[str, Any], arrays: Arrays) -> None:
        self.model, self.weight = Model(manifest, arrays), Fraction(manifest["objective_weight"])
        self.values: dict[Any, Span] = {None: (ONE, ONE), **self.model.follow()}
        self.sizes = {name: self.model.peak(*name) if name else ONE for name in self.values}
        self.forms, self.equality, self.gamma = self.state(manifest["problem"], arrays)
        counts = {len(self.forms) - 1, len(self.equality), len(self.gamma), sum(len(x[3]) for x in manifest["lines"])}
        if self.weight not in (0, 1) or len(counts) > 1:
            raise ValueError("constraints, rows and multipliers do not match")

    @abc.abstractmethod
    def state(self, stored: dict[str, Any], arrays: Arrays) -> tuple[list[Form], list[bool], list[Fraction]]:
        """Return f and every g as forms, which g are to be 0, and their multipliers."""

    @abc.abstractmethod
    def proof(self) -> Form:
        """Return a form over Psi that is nowhere above w f + gamma . g."""

    def enclose(self, form: Form) -> Span:
        return add(times(span(c), self.values[name]) for name, c in form.items())

    def amount(self, form: Form) -> int:
        """Bound the sum of the absolute values of the terms of a form."""
        return math.ceil(sum(abs(c) * self.sizes[name] for name, c in form.items()))

    @cached_property
    def bound(self) -> int:
        """A number below w f + gamma . g of every policy."""
        if any(x < 0 and not equal for x, equal in zip(self.gamma, self.equality, strict=True)):
            raise ValueError("the multiplier of an inequality is negative")
        form = self.proof()
        return self.model.least(form) + span(form.get(None, Fraction(0)))[0]


@final
class LinearAnswer(AbstractAnswer):
    """f and g with their coefficients in the file."""

    def state(self, stored: dict[str, Any], arrays: Arrays) -> tuple[list[Form], list[bool], list[Fraction]]:
        rows = cut(arrays["problem_objective"][1] + arrays["problem_rows"][1], len(self.values) - 1)
        constants = [stored["offset"], *(-x for x in arrays["problem_limits"][1])]
        whole = [map(Fraction, [c, *row]) for c, row in zip(constants, rows, strict=True)]
        forms = [{name: c for name, c in zip(self.values, row, strict=True) if c} for row in whole]
        return forms, list(map(bool, arrays["problem_equality"][1])), list(map(Fraction, arrays["gamma"][1]))

    def proof(self) -> Form:
        return combine(zip([self.weight, *self.gamma], self.forms, strict=True))


# --- The claims ---


def nearly(stated: float, exact: Span, amount: int) -> tuple[bool, str]:
    return all(abs(Fraction(stated) * ONE - x) <= NINE_DIGITS * amount for x in exact), f"exactly {exact[0] / ONE!r}"


def at_most(exact: int, stated: float, what: str, sign: int = 1) -> tuple[bool, str]:
    return exact <= Fraction(stated) * sign * ONE, f"{what} {sign * exact / ONE!r}"


@final
class StatedConstraint:
    """A constraint: the forms of its entries, which are sign (value - limit), and the claims on them."""

    def __init__(self, problem: AbstractAnswer, line: list[Any], stated: dict[str, Any], start: int) -> None:
        (name, sense, sign, limits), rows = line, slice(start, start + len(line[3]))
        signs, equal = {"<=": (1,), ">=": (-1,), "==": (1, -1)}[sense], {sense == "=="}
        as_stated = sign in signs and (name, sense) == (stated["name"], stated["sense"])
        if not as_stated or set(problem.equality[rows]) != equal:
            raise ValueError(f"constraint {name!r} does not fit its rows")
        self.problem, self.stated, self.sign, self.limits = problem, stated, int(sign), list(map(Fraction, limits))
        self.forms, self.gamma, self.equal = problem.forms[1:][rows], problem.gamma[rows], sense == "=="
        self.amount = max(map(problem.amount, self.forms))

    def violation(self) -> Span:
        spans = [(size if self.equal else tuple)(self.problem.enclose(form)) for form in self.forms]
        return max(0, *(low for low, _ in spans)), max(0, *(high for _, high in spans))

    def holds(self) -> bool:
        return self.violation()[1] <= NINE_DIGITS * max(self.amount, *(abs(x) * ONE for x in self.limits))

    def tests(self) -> Iterator[tuple[str, Test]]:
        stated, name = self.stated, f"constraint {self.stated['name']!r}"
        yield f"{name} value", self._value
        yield f"{name} violation", lambda: nearly(stated["violation"], self.violation(), self.amount)
        yield f"{name} violation_upper", lambda: at_most(self.violation()[1], stated["violation_upper"], "exactly")
        if stated["price"] is not None:
            price = span(sum(self.gamma) * (self.sign if self.equal else 1))
            yield f"{name} price", lambda: nearly(stated["price"], price, size(price)[1])

    def _value(self) -> tuple[bool, str]:
        """Decide whether an entry with the stated limit has the stated value."""
        limit, sign = Fraction(self.stated["limit"]), Fraction(self.sign)
        forms = [form for form, x in zip(self.forms, self.limits, strict=True) if x == limit]
        exact = [combine([(sign, form), (1, {None: limit})]) for form in forms]
        found = [nearly(self.stated["value"], self.problem.enclose(x), self.amount) for x in exact]
        holds, reason = max(found, default=(False, "no entry has this limit"))
        constants = {float(form.get(None, 0)) for form in exact} - {0.0}
        return holds, f"{reason}, of which {constants} is a constant in FILE" if constants else reason


def tests(manifest: dict[str, Any], problem: AbstractAnswer) -> Iterator[tuple[str, Test]]:
    """Yield every claim with its test."""
    claims, f, start, lines = manifest["claims"], problem.forms[0], 0, list[StatedConstraint]()
    for line, stated in zip(manifest["lines"], claims["constraints"], strict=True):
        lines.append(StatedConstraint(problem, line, stated, start))
        start += len(line[3])
    sign = {"minimize": 1, "maximize": -1}[claims["sense"]]
    reach, beat = ("upper", "lower")[::sign]  # what the policy reaches, and what no policy beats

    def least() -> int:
        if problem.weight == 0:
            raise ValueError("the multipliers are those of a clash")
        return problem.bound

    def status() -> tuple[bool, str]:
        if claims["status"] == "infeasible":
            return problem.weight == 0 and problem.bound > 0, f"gamma . g is at least {problem.bound / ONE!r}"
        wrong = [line.stated["name"] for line in lines if not line.holds()]
        if wrong or claims["status"] == "feasible":
            return not wrong, f"it does not keep {wrong}" if wrong else "the policy keeps every limit"
        goal, relative = manifest["goal"]
        most = goal * (max(abs(claims["lower"]), abs(claims["upper"])) if relative else 1)
        closed = claims["status"] == "optimal" and claims["gap"] <= most
        return closed, f"the policy keeps every limit; the goal is a gap of {goal}"

    if claims["status"] != "undecided":  # which claims nothing
        yield f"status {claims['status']}", status
    yield "value", lambda: nearly(claims["value"], problem.enclose(combine([(sign, f)])), problem.amount(f))
    if claims[reach] is not None:
        yield reach, lambda: at_most(problem.enclose(f)[1], claims[reach], "the policy reaches", sign)
    if claims[beat] is not None:
        yield beat, lambda: at_most(-least(), claims[beat], "the multipliers prove", -sign)
    if claims["gap"] is not None:
        yield "gap", lambda: at_most(problem.enclose(f)[1] - least(), claims["gap"], "exactly")
    for line in lines:
        yield from line.tests()


def verify(path: str, convex: type[AbstractAnswer] | None = None) -> list[Verdict]:
    """Decide every claim of a file."""
    manifest, arrays = read(path)
    kinds = {"solution": convex if "functions" in manifest.get("problem", {}) else LinearAnswer}
    kind, verdicts = kinds.get(manifest["kind"]), []
    try:
        if kind is None:
            raise NotDecidedError("only linear problems over known models are known here; more in verify_convex.py")
        answer = kind(manifest, arrays)
    except NotDecidedError as why:
        return [Verdict("not decided", "every claim", str(why))]
    for claim, test in tests(manifest, answer):
        try:
            holds, reason = test()
            verdicts.append(Verdict("proved" if holds else "refuted", claim, reason))
        except NotDecidedError as why:
            verdicts.append(Verdict("not decided", claim, str(why)))
        except (ArithmeticError, TypeError, ValueError) as why:  # NaN, infinity, or no number at all
            verdicts.append(Verdict("refuted", claim, str(why)))
    return verdicts


def main(paths: list[str], convex: type[AbstractAnswer] | None = None, show: Callable[[str], None] = print) -> int:
    """Show a line for every claim of a file, and return the exit code."""
    try:
        verdicts = verify(*paths, convex=convex)
    except Exception as why:  # whatever a damaged file makes of its reader
        print(f"{' '.join(paths)} cannot be read: {why!r}", file=sys.stderr)
        return 5
    for verdict in verdicts:
        show(f"{verdict.outcome:<11}  {verdict.claim}: {verdict.reason}")
    outcomes = {verdict.outcome for verdict in verdicts}
    return 1 if "refuted" in outcomes else 4 if "not decided" in outcomes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
