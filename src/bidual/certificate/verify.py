"""A verifier of saved answers for known models that trusts nobody: ``python verify.py FILE``.

FILE holds a model, a problem, a policy, a proof and claims, in doubles, hence rationals. All is decided exactly.
* A distribution is a row of FILE divided by its sum. psi_h(s, a) are its signals, then an indicator of every state
  (visits) and of every pair (occupancy) where it asks for them; Psi is their expectation under the policy. The problem:
  minimise f with g <= 0 (or == 0), here linear in Psi; ``verify_convex.py`` knows more functions.
* The policy's f and g are enclosed by following it forward. With multipliers gamma (>= 0 for inequalities) a policy
  that keeps the constraints has f >= f + gamma . g, whose least over all policies is found by backward induction. Where
  the least gamma . g is above 0, no policy keeps them all.
* A bound must hold exactly. A rounded number (value, violation, price) states nine digits of the amounts in its sum,
  and a limit holds where the exact violation is at most 1e-9 times the larger of the limit and these amounts.
"""

import hashlib
import json
import math
import os
import struct
import sys
import zipfile
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cached_property
from operator import mul
from typing import Any, final

BITS, ONE, NINE_DIGITS = 256, 1 << 256, Fraction(1, 10**9)
Span = tuple[int, int]  # encloses a number, in units of 2^-256: the lower end rounded down, the upper up
Form = dict[Any, Fraction]  # an affine form: coefficients by the names of numbers, the constant under None
Arrays = dict[str, tuple[tuple[int, ...], list[Any]]]  # shapes, and numbers in row-major order
Test = Callable[[], tuple[bool | None, str]]  # whether a claim holds, and why; None for what is taken for granted
Claims = list[tuple[str, Test]]
Problem = tuple[list[Form], list[bool], list[Fraction], Callable[[], Form]]


class NotDecidedError(Exception):
    """Something that this program cannot decide; the message says why."""


def read(path: str) -> tuple[dict[str, Any], Arrays]:
    """Read FILE: a zip of manifest.json and arrays.safetensors, with a checksum over both; nothing in it may swell."""
    with zipfile.ZipFile(path) as file:
        if any(part.compress_type or part.file_size > os.path.getsize(path) for part in file.infolist()):
            raise ValueError("a part is compressed, or longer than FILE")
        text, blob = file.read("manifest.json"), file.read("arrays.safetensors")
    start = 8 + int.from_bytes(blob[:8], "little")
    if sum(map((text + blob[8:start]).count, (b",", b"[", b"{"))) > 10**6:
        raise ValueError("its texts hold more than a million values")
    manifest, arrays, left = json.loads(text), Arrays(), len(blob) - start
    if manifest.pop("sha256") != hashlib.sha256(json.dumps(manifest, sort_keys=True).encode() + blob).hexdigest():
        raise ValueError("its checksum is wrong")
    for name, entry in json.loads(blob[8:start]).items():
        if name != "__metadata__":
            if not (code := {"F64": "d", "I64": "q", "I32": "i", "BOOL": "?"}.get(str(entry["dtype"]))):
                raise ValueError(f"{name} is not readable: it has the kind {entry['dtype']}, which bidual never writes")
            shape, (first, last) = tuple(entry["shape"]), entry["data_offsets"]
            left -= last - first
            fits = 0 <= first <= last and left >= 0 and all(n >= 0 for n in shape)
            if not fits or math.prod(n or 1 for n in shape) > len(blob):  # (0, 10^9), or numbers that others have too
                raise ValueError(f"{name} cannot have the shape {shape}, or its place")
            numbers = struct.unpack(f"<{math.prod(shape)}{code}", blob[start + first : start + last])
            arrays[name] = shape, list(numbers)  # NaN and infinity are no fractions, and fail where they are used
    return manifest, arrays


def cut(row: list[Any], width: int) -> list[list[Any]]:
    return [row[i : i + width] for i in range(0, len(row), width)] if width else []


def span(x: float | Fraction) -> Span:
    n, d = x.as_integer_ratio()
    return (n << BITS) // d, -((-n << BITS) // d)


def times(a: Span, b: Span) -> Span:
    ends = (a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1])
    return min(ends) >> BITS, -(-max(ends) >> BITS)


def add(spans: Iterable[Span]) -> Span:
    low, high = map(sum, zip((0, 0), *spans, strict=True))
    return low, high


def combine(terms: Iterable[tuple[Fraction | int, Form]]) -> Form:
    found: Form = {}
    for name, x in ((name, c * x) for c, form in terms for name, x in form.items()):
        found[name] = found.get(name, 0) + x
    return {name: x for name, x in found.items() if x}


def distribution(row: list[float]) -> tuple[list[int], int]:
    """Return a row in units of its last bit, and its sum, by which it is divided wherever it is used."""
    unit = max(x.as_integer_ratio()[1] for x in row)
    parts = [n * (unit // d) for n, d in (x.as_integer_ratio() for x in row)]
    if min(parts) < 0 or abs(sum(parts) - unit) * 10**9 > unit:
        raise ValueError(f"the row {row} is no distribution")
    return parts, sum(parts)


@final
class Model:
    """Law, start, features and policy. Pairs (s, a) have the numbers i = s A + a."""

    def __init__(self, manifest: dict[str, Any], arrays: Arrays) -> None:
        (self.H, S, A), policy = arrays["policy"]
        (*_, K), states = arrays["next_states"]
        (_, signals, *_), psi = arrays["psi"]
        n, allowed = S * A, arrays["allowed"][1]
        self.S, self.A, self.start = S, A, distribution(arrays["initial"][1])
        shapes = {"next_states": (S, A, K), "probabilities": (S, A, K), "psi": (signals, S, A)}
        fits = [arrays[x][0][0] in (1, self.H) and arrays[x][0][1:] == shape for x, shape in shapes.items()]
        sizes = (manifest["horizon"], len(allowed), len(self.start[0])) == (self.H, n, S)
        shares = [(p, whole) for row, whole in map(distribution, cut(policy, A)) for p in row]
        fits += [all(0 <= s < S for s in states), all(allowed[i % n] or not p for i, (p, _) in enumerate(shares))]
        if not (all(fits) and sizes):
            raise ValueError("model, features and policy do not fit each other")
        self.policy = cut(shares, n)
        self.actions = [[a for a in range(A) if allowed[s * A + a]] for s in range(S)]
        rows, ways = cut(arrays["probabilities"][1], K), cut(cut(states, K), n)
        laws = cut([distribution(row) if allowed[i % n] else ([0] * K, 1) for i, row in enumerate(rows)], n)
        self.law = [(laws[h % len(laws)], ways[h % len(ways)]) for h in range(self.H)]
        pays = [{i: span(x) for i, x in enumerate(row) if x} for row in cut(psi, n)]
        visits, occupancy = (flag is True for flag in manifest["features"])
        indicators = [{s * A + a: (ONE, ONE) for a in range(A)} for s in range(S)] if visits else []
        indicators += [{i: (ONE, ONE)} for i in range(n)] if occupancy else []
        steps = [[*signal, *indicators] for signal in cut(pays, signals) or [[]]]
        self.psi = [steps[h % len(steps)] for h in range(self.H)]  # for every step and feature, what a pair pays

    def follow(self) -> dict[tuple[int, int], Span]:
        """Enclose Psi of the policy, by step and feature."""
        here, found = [((p << BITS) // self.start[1], -((-p << BITS) // self.start[1])) for p in self.start[0]], {}
        for h, (rows, ways) in enumerate(self.law):
            pairs, low, high = {}, [0] * self.S, [0] * self.S
            for i, (p, whole) in enumerate(self.policy[h]):
                least, most = here[i // self.A]
                if p and most:
                    pairs[i] = least * p // whole, -(-most * p // whole)
            for (least, most), (row, whole), to in ((pair, rows[i], ways[i]) for i, pair in pairs.items()):
                for s, p in zip(to, row, strict=True):
                    low[s], high[s] = low[s] + least * p // whole, high[s] - (-most * p // whole)
            for k, pays in enumerate(self.psi[h]):
                found[h, k] = add(times(pairs[i], pays[i]) for i in pays.keys() & pairs.keys())
            here = list(zip(low, high, strict=True))
        return found

    def least(self, theta: Form) -> int:
        """Return a number below theta . Psi of every policy, and by less than 2^-200."""
        V, cost, before = [0] * self.S, [0], None
        for h in reversed(range(self.H)):
            now = self.psi[h], {k: span(theta[h, k]) for k in range(len(self.psi[h])) if (h, k) in theta}
            if now != before:  # often all steps cost the same
                before, cost = now, [0] * (self.S * self.A)
                for k, c in now[1].items():
                    for i, x in self.psi[h][k].items():
                        cost[i] += times(c, x)[0]
            steps = zip(cost, *self.law[h], strict=True)
            Q = [x + sum(map(mul, row, map(V.__getitem__, to))) // whole for x, (row, whole), to in steps]
            V = [min(Q[s * self.A + a] for a in actions) for s, actions in enumerate(self.actions)]
        return sum(map(mul, self.start[0], V)) // self.start[1]


@final
class Answer:
    """f and g of a problem at the policy, and a number that w f + gamma . g is never below."""

    def __init__(self, manifest: dict[str, Any], arrays: Arrays, reader: Callable[..., Problem] | None = None) -> None:
        self.manifest, self.model, self.weight = manifest, Model(manifest, arrays), int(manifest["objective_weight"])
        self.values: dict[Any, Span] = {None: (ONE, ONE), **self.model.follow()}
        features = (((h, k), pays) for h, step in enumerate(self.model.psi) for k, pays in enumerate(step))
        peaks = {name: max((max(-low, high) for low, high in pays.values()), default=0) for name, pays in features}
        self.sizes: dict[Any, int] = {None: ONE, **peaks}
        self.forms, self.equality, self.gamma, self.proof = (reader or read_rows)(self, manifest["problem"], arrays)
        numbers = {len(self.forms) - 1, len(self.equality), len(self.gamma), sum(len(x[3]) for x in manifest["lines"])}
        if manifest["objective_weight"] not in (0, 1) or len(numbers) > 1:
            raise ValueError("constraints, rows and multipliers do not match")

    def enclose(self, form: Form) -> Span:
        return add(times(span(c), self.values[name]) for name, c in form.items())

    def amount(self, form: Form) -> int:
        return math.ceil(sum(abs(c) * self.sizes[name] for name, c in form.items()))

    @cached_property
    def bound(self) -> int:
        if any(x < 0 and not equal for x, equal in zip(self.gamma, self.equality, strict=True)):
            raise ValueError("the multiplier of an inequality is negative")
        return self.model.least(form := self.proof()) + span(form.get(None, Fraction(0)))[0]

    def claims(self) -> Claims:
        claims, f, wrong, found, start = self.manifest["claims"], self.forms[0], [], Claims(), 0
        for line, stated in zip(self.manifest["lines"], claims["constraints"], strict=True):
            holds, more = self._examine(line, stated, slice(start, start := start + len(line[3])))
            wrong, found = wrong + [line[0]] * (not holds), found + more

        def status() -> tuple[bool, str]:
            if claims["status"] == "infeasible":
                return not self.weight and self.bound > 0, f"gamma . g is at least {self.bound / ONE!r}"
            if wrong or claims["status"] == "feasible":
                return not wrong, f"it does not keep {wrong}" if wrong else "the policy keeps every limit"
            goal, relative = self.manifest["goal"]
            most = goal * (max(abs(claims["lower"]), abs(claims["upper"])) if relative else 1)
            closed = claims["status"] == "optimal" and claims["gap"] <= most
            return closed, f"the policy keeps every limit; the goal is a gap of {goal}"

        sign = {"minimize": 1, "maximize": -1}[claims["sense"]]
        reach, beat = ("upper", "lower")[::sign]  # what the policy reaches, and what no policy beats
        tests: dict[str, Test] = {
            f"status {claims['status']}": status,
            "value": lambda: nearly(claims["value"], self.enclose(combine([(sign, f)])), self.amount(f)),
            reach: lambda: at_most(self.enclose(f)[1], claims[reach], "the policy reaches", sign),
            beat: lambda: at_most(-self.bound // self.weight, claims[beat], "the multipliers prove", -sign),
            "gap": lambda: at_most(self.enclose(f)[1] - self.bound // self.weight, claims["gap"], "exactly"),
        }
        stated = [x for x in tests if x == "value" or claims[x.split()[0]] not in (None, "undecided")]
        return [(name, tests[name]) for name in stated] + found

    def _examine(self, line: list[Any], stated: dict[str, Any], rows: slice) -> tuple[bool, Claims]:
        """Return whether a constraint holds, and the claims on it; its forms are sign (value - limit)."""
        (name, sense, sign, limits), forms, equal = line, self.forms[1:][rows], line[1] == "=="
        as_stated = [name, sense] == [stated["name"], stated["sense"]] and set(self.equality[rows]) == {equal}
        if not as_stated or sign not in {"<=": (1,), ">=": (-1,), "==": (1, -1)}[sense]:
            raise ValueError(f"constraint {name!r} does not fit its rows")
        spans = [(max(a, -b, 0), max(-a, b)) if equal else (a, b) for a, b in map(self.enclose, forms)]
        violation = max(0, *(low for low, _ in spans)), max(0, *(high for _, high in spans))
        amount, price = max(map(self.amount, forms)), span(sum(self.gamma[rows]) * int(sign if equal else 1))
        values = [combine([(int(sign), g), (1, {None: Fraction(x)})]) for g, x in zip(forms, limits, strict=True)]

        def value() -> tuple[bool, str]:  # of an entry with the stated limit
            exact = [form for form, x in zip(values, limits, strict=True) if x == stated["limit"]]
            found = [nearly(stated["value"], self.enclose(form), amount) for form in exact]
            right, why = max(found, default=(False, "no entry has this limit"))
            constants = {float(form.get(None, 0)) for form in exact} - {0.0}
            return right, f"{why}, of which {constants} is a constant in FILE" if constants else why

        tests: dict[str, Test] = {
            "value": value,
            "violation": lambda: nearly(stated["violation"], violation, amount),
            "violation_upper": lambda: at_most(violation[1], stated["violation_upper"], "exactly"),
            "price": lambda: nearly(stated["price"], price, max(-price[0], price[1])),
        }
        holds = violation[1] <= NINE_DIGITS * max(amount, *(abs(Fraction(x)) * ONE for x in limits))
        return holds, [(f"constraint {name!r} {key}", test) for key, test in tests.items() if stated[key] is not None]


def read_rows(answer: Answer, stored: dict[str, Any], arrays: Arrays) -> Problem:
    """Return f and every g as forms, which g are to be 0, gamma, and a form over Psi that is below w f + gamma . g."""
    rows = cut(arrays["problem_objective"][1] + arrays["problem_rows"][1], len(answer.values) - 1)
    constants = [stored["offset"], *(-x for x in arrays["problem_limits"][1])]
    whole = [map(Fraction, [c, *row]) for c, row in zip(constants, rows, strict=True)]
    forms = [{name: c for name, c in zip(answer.values, row, strict=True) if c} for row in whole]
    gamma, equality = list(map(Fraction, arrays["gamma"][1])), list(map(bool, arrays["problem_equality"][1]))
    return forms, equality, gamma, lambda: combine(zip([answer.weight, *gamma], forms, strict=True))


def nearly(stated: float, exact: Span, amount: int) -> tuple[bool, str]:
    return all(abs(Fraction(stated) * ONE - x) <= NINE_DIGITS * amount for x in exact), f"exactly {exact[0] / ONE!r}"


def at_most(exact: int, stated: float, what: str, sign: int = 1) -> tuple[bool, str]:
    return exact <= Fraction(stated) * sign * ONE, f"{what} {sign * exact / ONE!r}"


def verify(path: str, **readers: Callable[..., Claims]) -> list[tuple[str, str, str]]:
    """Return for every claim of FILE: proved, refuted or not decided; the claim; why. Readers know further kinds."""
    (manifest, arrays), verdicts = read(path), []
    convex = "functions" in manifest.get("problem", {})
    kind = manifest["kind"] if manifest["kind"] != "solution" else "convex" if convex else "linear"
    try:
        if kind not in ("linear", *readers):
            raise NotDecidedError(f"files of the kind {kind!r} are not known to this program: see the files beside it")
        claims = readers[kind](manifest, arrays) if kind in readers else Answer(manifest, arrays).claims()
    except NotDecidedError as why:
        return [("not decided", "every claim", str(why))]
    for claim, test in claims:
        try:
            holds, reason = test()
            verdicts.append(("granted" if holds is None else "proved" if holds else "refuted", claim, reason))
        except NotDecidedError as why:
            verdicts.append(("not decided", claim, str(why)))
        except (ArithmeticError, TypeError, ValueError) as why:  # NaN, infinity, or no number at all
            verdicts.append(("refuted", claim, str(why)))
    return verdicts


def main(paths: list[str], show: Callable[[str], None] = print, **readers: Callable[..., Claims]) -> int:
    """Return 0 if every claim is proved, 1 if one is refuted, 4 if one is not decided, 5 if FILE cannot be read."""
    try:
        verdicts = verify(*paths, **readers)
    except Exception as why:  # whatever a damaged file makes of its reader
        print(f"{' '.join(paths)} cannot be read: {why!r}", file=sys.stderr)
        return 5
    for outcome, claim, reason in verdicts:
        show(f"{outcome:<11}  {claim}: {reason}")
    outcomes = {outcome for outcome, _, _ in verdicts}
    return 1 if "refuted" in outcomes else 4 if "not decided" in outcomes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
