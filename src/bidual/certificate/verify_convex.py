"""The verifier of convex answers: ``python verify_convex.py FILE``, with verify.py beside it.

It adds the expressions of a convex problem to verify.py: affine operations, and a table of convex functions, each with
an enclosure of its value and linear functions below it. For a convex phi, a weight w > 0 and slopes s,

    w phi(x) >= s . x - sup_x (s . x - w phi(x)),

and the supremum is known in closed form: 0 for a norm where the dual norm of s is at most w (decided in rational
numbers), |s|^2 / 4 w for squares, s ln (s / w) - s for the exponential, and so on. FILE stores the multipliers of the
constraints and one slope for every argument of every function, in the order in which `Tree` reads them. Slopes that a
rounding left outside the domain of the supremum are moved into it: any slopes prove something. What they leave over on
a free variable v has to vanish exactly: it is moved, as a rational number, onto a constraint or a slope of v alone.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple, final

if TYPE_CHECKING or __package__:
    from bidual.certificate.verify import (
        ONE,
        AbstractAnswer,
        Arrays,
        Form,
        NotDecidedError,
        Span,
        add,
        combine,
        main,
        size,
        span,
        times,
    )
else:  # alone, beside verify.py
    from verify import ONE, AbstractAnswer, Arrays, Form, NotDecidedError, Span, add, combine, main, size, span, times

BITS, GUARD = ONE.bit_length() - 1, 64
FINE = ONE << GUARD

# --- More arithmetic, rounded outward ---


def root(a: Span) -> Span:
    return math.isqrt(max(a[0], 0) << BITS), 1 + math.isqrt((a[1] << BITS) - 1) if a[1] > 0 else 0


def over(a: Span, b: Span) -> Span:
    if b[0] <= 0:
        raise NotDecidedError("a divisor is not shown to be positive")
    return min((a[0] << BITS) // x for x in b), max(-((-a[1] << BITS) // x) for x in b)


def artanh(z: int) -> int:
    """Sum z + z^3 / 3 + ... for |z| <= 1 / 3, in units of 1 / FINE: it loses less than 2^10 of them."""
    square, terms, k = z * z // FINE, 0, 1
    while z not in (0, -1):
        terms, z, k = terms + z // k, z * square // FINE, k + 2
    return terms


LN2 = 2 * artanh(FINE // 3)


def ln(a: Span) -> Span:
    def near(x: int) -> int:  # x = m 2^e has the logarithm 2 artanh((m - 1) / (m + 1)) + e ln 2
        e = x.bit_length() - BITS
        m = (x << GUARD) >> e if e > 0 else x << (GUARD - e)
        return (2 * artanh((m - FINE) * FINE // (m + FINE)) + e * LN2) >> GUARD

    if a[0] <= 0:
        raise NotDecidedError("the logarithm of a number that is not shown to be positive")
    return near(a[0]) - 1, near(a[1]) + 2  # what was lost is far less than 2^GUARD units


def exp(a: Span) -> Span:
    if a[1] > ONE << 12:
        raise NotDecidedError("the exponential of a large number")

    def near(x: int, slack: int) -> int:  # of k ln 2 + r it is 2^k (1 + r + r^2 / 2 + ...)
        k, r = divmod(x << GUARD, LN2)
        term, terms, i = FINE, slack, 1
        while term:
            terms, term, i = terms + term, term * r // (FINE * i), i + 1
        return terms << (k - GUARD) if k > GUARD else terms >> (GUARD - k)

    return max(near(a[0], -(1 << 32)), 0), near(a[1], 1 << 32) + 1


# --- Expressions as affine forms over y, v and leaves, the values of convex functions ---


class Array(NamedTuple):
    """An array of forms by index, in column order."""

    shape: tuple[int, ...]
    forms: dict[tuple[int, ...], Form]

    def at(self, index: tuple[int, ...]) -> Form:
        """Return the form at an index of a shape to which this array is broadcast."""
        last = index[len(index) - len(self.shape) :]
        return self.forms[tuple(0 if n == 1 else i for n, i in zip(self.shape, last, strict=True))]


def places(shape: Sequence[int]) -> list[tuple[int, ...]]:
    return [index[::-1] for index in product(*map(range, reversed(shape)))]


def common(arrays: Sequence[Array]) -> tuple[int, ...]:
    most = max(len(a.shape) for a in arrays)
    padded = [(1,) * (most - len(a.shape)) + a.shape for a in arrays]
    return tuple(1 if set(ends) == {1} else max(n for n in ends if n != 1) for ends in zip(*padded, strict=True))


def along(a: Array, axis: Any, keep: bool) -> tuple[tuple[int, ...], dict[tuple[int, ...], list[Form]]]:  # noqa: ANN401
    """Group the entries that a reduction along an axis, some, or all of them takes together."""
    axes = (
        range(len(a.shape))
        if axis is None
        else [i % len(a.shape) for i in (axis if isinstance(axis, list) else [axis])]
    )

    def rest(index: tuple[int, ...], put: int) -> tuple[int, ...]:
        return tuple(put if j in axes else i for j, i in enumerate(index) if keep or j not in axes)

    groups: dict[tuple[int, ...], list[Form]] = defaultdict(list)
    for index, form in a.forms.items():
        groups[rest(index, 0)].append(form)
    return rest(a.shape, 1), groups


class Leaf(NamedTuple):
    """The value sign * phi(arguments) of a convex function phi."""

    function: str
    sign: int
    arguments: list[Form]
    p: Any


class Tree:
    """The expressions of a convex problem, read into forms over y, v and leaves."""

    def __init__(self, stored: dict[str, Any], arrays: Arrays) -> None:
        self.arrays, self.leaves, self.variables = arrays, list[Leaf](), list[Array]()
        for letter, shapes in (("y", stored["images"]), ("v", stored["auxiliary"])):
            start = 0
            for shape in shapes:
                names = [(letter, start + i) for i in range(math.prod(shape))]
                start += len(names)
                self.variables.append(
                    Array(tuple(shape), {i: {n: Fraction(1)} for i, n in zip(places(shape), names, strict=True)})
                )

    def item(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        if not isinstance(value, dict):
            return value
        if "array" in value:
            shape, row = self.arrays["problem_" + value["array"]]
            by_row = dict(zip(product(*map(range, shape)), row, strict=True))
            return Array(shape, {i: {None: Fraction(by_row[i])} for i in places(shape)})
        if "number" in value:
            return Fraction(float.fromhex(value["number"]))
        for name in ("list", "tuple", "slice"):
            if name in value:
                found = [self.item(x) for x in value[name]]
                return slice(*found) if name == "slice" else found
        if "fraction" in value:
            return Fraction(*value["fraction"])
        return self.read(value["expression"]) if "expression" in value else None

    def read(self, node: dict[str, Any]) -> Array:
        if "variable" in node:
            return self.variables[node["variable"]]
        if "constant" in node:
            found = self.item(node["constant"])
            if isinstance(found, Array):
                return found
            if found is None:
                raise NotDecidedError("a sparse constant is not known to this program")
            return Array((), {(): {None: Fraction(found)}})
        name = node["atom"].rsplit(".", 1)[1].removesuffix("Approx")
        arguments, data = [self.read(child) for child in node["arguments"]], self.item(node["data"]) or []
        if name in AFFINE:
            try:
                return AFFINE[name](arguments, data)
            except (ArithmeticError, LookupError, TypeError, ValueError) as why:
                raise NotDecidedError(f"{name} of these arguments is not known to this program") from why
        if name not in ATOMS:
            raise NotDecidedError(f"the atom {name} is not known to this program")
        function, sign, entrywise = ATOMS[name]
        p: Any = data.pop(0) if name in ("Pnorm", "sum_largest", "huber", "Power") else None
        if name in ("Pnorm", "Power"):
            if p not in POWERS[name]:
                raise NotDecidedError(f"{name} with the exponent {p} is not known to this program")
            function = POWERS[name][p]
        if name == "huber":
            p = p.forms[()].get(None, Fraction(0))
            if p < 0:
                raise NotDecidedError("a Huber function with a negative threshold")
        if entrywise:
            shape = common(arguments)
            groups = {index: [a.at(index) for a in arguments] for index in places(shape)}
        else:
            shape, groups = along(arguments[0], data[0] if data else None, len(data) > 1 and data[1] is True)
        added = (
            [a.at(()) for a in arguments[1:]]
            if name == "quad_over_lin"
            else [{None: Fraction(1)}] * (function == "quad" and name == "Power")
        )
        forms = {}
        for index, group in groups.items():
            inner = [combine([(-1, form)]) for form in group] if name in ("min", "minimum") else group + added
            self.leaves.append(Leaf(function, sign, inner, p))
            forms[index] = {("leaf", len(self.leaves) - 1): Fraction(sign)}
        return Array(shape, forms)


def scale(a: Form, b: Form, inverse: bool = False) -> Form:
    a, b = (b, a) if not inverse and set(a) <= {None} else (a, b)
    if not set(b) <= {None}:
        raise NotDecidedError("a product of two variables")
    c = b.get(None, Fraction(0))
    return combine([(1 / c if inverse else c, a)])


def entries(arguments: list[Array], entry: Any, shape: tuple[int, ...] | None = None) -> Array:  # noqa: ANN401
    shape = common(arguments) if shape is None else shape
    return Array(shape, {i: entry(*(a.at(i) for a in arguments)) for i in places(shape)})


def matrix_product(arguments: list[Array], data: list[Any]) -> Array:
    a, b = arguments
    inner, (rows, columns) = a.shape[-1], (a.shape[:-1], b.shape[1:])
    terms = {
        i: [scale(a.forms[*i[: len(rows)], j], b.forms[j, *i[len(rows) :]]) for j in range(inner)]
        for i in places(rows + columns)
    }
    return Array(rows + columns, {i: combine((1, form) for form in forms) for i, forms in terms.items()})


def part(arguments: list[Array], data: list[Any]) -> Array:
    """Return a part of an array, by slices; axes that were asked for by a number are dropped."""
    (a,), (slices, key) = arguments, data
    key = key if isinstance(key, list) else [key]
    picked = [range(*s.indices(n)) for s, n in zip(slices, a.shape, strict=True)]
    keep = [j for j in range(len(picked)) if j >= len(key) or isinstance(key[j], slice)]
    found = {i: a.forms[i] for i in (t[::-1] for t in product(*reversed(picked)))}
    shape = tuple(len(picked[j]) for j in keep)
    return Array(shape, dict(zip(places(shape), found.values(), strict=True)))


def reshape(arguments: list[Array], data: list[Any]) -> Array:
    (a,), (shape, order) = arguments, data
    before, after = places(a.shape), places(shape)
    before, after = (before, after) if order == "F" else (sorted(before), sorted(after))
    moved = dict(zip(after, before, strict=True))
    return Array(tuple(shape), {i: a.forms[moved[i]] for i in places(shape)})


def stack(arguments: list[Array], axis: int) -> Array:
    forms, start = {}, 0
    for a in arguments:
        forms.update({(*i[:axis], i[axis] + start, *i[axis + 1 :]): form for i, form in a.forms.items()})
        start += a.shape[axis]
    shape = (*arguments[0].shape[:axis], start, *arguments[0].shape[axis + 1 :])
    return Array(shape, {i: forms[i] for i in places(shape)})


def as_rows(a: Array) -> Array:
    return a if len(a.shape) > 1 else Array((1, *(a.shape or (1,))), {(0, *(i or (0,))): f for i, f in a.forms.items()})


def as_vector(a: Array) -> Array:
    return a if a.shape else Array((1,), {(0,): a.forms[()]})


def sums(arguments: list[Array], data: list[Any]) -> Array:
    shape, groups = along(arguments[0], data[0], data[1] is True)
    return Array(shape, {i: combine((1, form) for form in forms) for i, forms in groups.items()})


def transpose(arguments: list[Array], data: list[Any]) -> Array:
    (a,), shape = arguments, arguments[0].shape[::-1]
    return Array(shape, {i: a.forms[i[::-1]] for i in places(shape)})


AFFINE = {
    "AddExpression": lambda a, _: entries(a, lambda *forms: combine((1, form) for form in forms)),
    "NegExpression": lambda a, _: entries(a, lambda form: combine([(-1, form)])),
    "multiply": lambda a, _: entries(a, scale),
    "DivExpression": lambda a, _: entries(a, lambda x, y: scale(x, y, inverse=True)),
    "Promote": lambda a, data: entries(a, lambda form: form, tuple(data[0])),
    "broadcast_to": lambda a, data: entries(a, lambda form: form, tuple(data[0])),
    "Hstack": lambda a, _: stack([as_vector(x) for x in a], min(1, len(a[0].shape) - 1) if a[0].shape else 0),
    "Vstack": lambda a, _: stack([as_rows(x) for x in a], 0),
    "MulExpression": matrix_product,
    "Sum": sums,
    "index": part,
    "reshape": reshape,
    "transpose": transpose,
}
# Atoms by name: the convex function, the sign with which the atom is made of it, and whether it is entry by entry.
ATOMS = {
    **{name: (name, 1, True) for name in ("exp", "huber", "kl_div", "rel_entr", "logistic")},
    **{name: (name, 1, False) for name in ("norm1", "norm_inf", "log_sum_exp", "sum_largest")},
    **{"abs": ("norm1", 1, True), "log": ("log", -1, True), "entr": ("entropy", -1, True)},
    **{"max": ("max", 1, False), "min": ("max", -1, False), "maximum": ("max", 1, True), "minimum": ("max", -1, True)},
    **{"quad_over_lin": ("quad", 1, False), "Pnorm": ("", 1, False), "Power": ("", 1, True)},
}
POWERS = {"Pnorm": {1: "norm1", 2: "norm"}, "Power": {2: "quad"}}


# --- Convex functions ---


class ConvexFunction(NamedTuple):
    """phi(x; p): an enclosure of the value; for a weight and slopes, slopes near them, and the supremum for those."""

    value: Any
    conjugate: Any


def clip(s: list[Fraction], low: Fraction | int, high: Fraction) -> list[Fraction]:
    return [min(max(x, Fraction(low)), high) for x in s]


def shrink(s: list[Fraction], size: Fraction | int, w: Fraction) -> list[Fraction]:
    return s if size <= w else [x * w / size for x in s]


def shares(s: list[Fraction], w: Fraction) -> list[Fraction]:
    """Return numbers of at least 0 that sum to w."""
    s = [max(x, Fraction(0)) for x in s]
    return [x * w / sum(s) for x in s] if any(s) else [w / len(s)] * len(s)


def largest_shares(s: list[Fraction], w: Fraction, k: Fraction | int) -> list[Fraction]:
    """Return numbers between 0 and w that sum to k w."""
    s, n, k = clip(s, 0, w), len(s), min(k, len(s))
    if sum(s) >= k * w:
        return shrink(s, sum(s), k * w)
    room = (k * w - sum(s)) / (n * w - sum(s))
    return [x + (w - x) * room for x in s]


def upper(a: Span) -> Fraction:
    return Fraction(a[1], ONE)


def x_ln_x(s: Fraction | int, w: Fraction) -> Fraction:
    """Bound s ln(s / w) from above."""
    return upper(times(span(s), ln(span(s / w)))) if s else Fraction(0)


def entropy(a: Span) -> Span:
    """Enclose x ln x, which falls on [0, 1 / e]."""
    if a[0] < 0 or (a[0] == 0 and a[1] > ONE // 3):
        raise NotDecidedError("an entropy of a number that is not shown to be in its domain")
    if a[0] > 0 or a[1] == 0:
        return times(a, ln(a)) if a[0] > 0 else (0, 0)
    return times((a[1], a[1]), ln((a[1], a[1])))[0], 0


def minus(a: Span, b: Span) -> Span:
    return a[0] - b[1], a[1] - b[0]


def squares(x: list[Span]) -> Span:
    return add(times(size(a), size(a)) for a in x)


def logarithm(w: Fraction, s: Fraction) -> Fraction:
    if s >= 0:
        raise NotDecidedError("a slope of a logarithm has the wrong sign")
    return -w + upper(times(span(w), ln(span(-w / s))))


def huber(a: Span, M: Fraction) -> Span:
    ends = [(min(x, span(M)[0]), x - min(x, span(M)[0])) for x in size(a)]
    values = [add([times((i, i), (i, i)), times(span(2 * M), (o, o))]) for i, o in ends]
    return values[0][0], values[1][1]


def norm_slopes(s: list[Fraction], w: Fraction) -> list[Fraction]:
    square = sum(x * x for x in s)
    return s if square <= w * w else shrink(s, upper(root(span(square))), w)


def top(x: list[int], k: Fraction | int) -> list[Any]:
    return [min(max(k - i, 0), 1) * a for i, a in enumerate(sorted(x, reverse=True))]


FUNCTIONS = {
    "norm": ConvexFunction(lambda x, _: root(squares(x)), lambda w, s, _: (norm_slopes(s, w), 0)),
    "norm1": ConvexFunction(lambda x, _: add(map(size, x)), lambda w, s, _: (clip(s, -w, w), 0)),
    "norm_inf": ConvexFunction(
        lambda x, _: tuple(map(max, zip(*map(size, x), strict=True))),
        lambda w, s, _: (shrink(s, sum(map(abs, s)), w), 0),
    ),
    "quad": ConvexFunction(
        lambda x, _: over(squares(x[:-1]), x[-1]),
        lambda w, s, _: ([*s[:-1], -sum(x * x for x in s[:-1]) / (4 * w)], 0),
    ),
    "exp": ConvexFunction(
        lambda x, _: exp(x[0]), lambda w, s, _: ([max(s[0], 0)], x_ln_x(max(s[0], 0), w) - max(s[0], 0))
    ),
    "log": ConvexFunction(lambda x, _: minus((0, 0), ln(x[0])), lambda w, s, _: (s, logarithm(w, s[0]))),
    "entropy": ConvexFunction(lambda x, _: entropy(x[0]), lambda w, s, _: (s, w * upper(exp(span(s[0] / w - 1))))),
    "rel_entr": ConvexFunction(
        lambda x, _: minus(entropy(x[0]), times(x[0], ln(x[1]))),
        lambda w, s, _: ([s[0], -w * upper(exp(span(s[0] / w - 1)))], 0),
    ),
    "kl_div": ConvexFunction(
        lambda x, _: add([minus(entropy(x[0]), times(x[0], ln(x[1]))), minus(x[1], x[0])]),
        lambda w, s, _: ([s[0], w - w * upper(exp(span(s[0] / w)))], 0),
    ),
    "logistic": ConvexFunction(
        lambda x, _: ln(add([(ONE, ONE), exp(x[0])])),
        lambda w, s, _: (clip(s, 0, w), sum(x_ln_x(x, w) for x in (*clip(s, 0, w), w - clip(s, 0, w)[0]))),
    ),
    "log_sum_exp": ConvexFunction(
        lambda x, _: ln(add(map(exp, x))), lambda w, s, _: (shares(s, w), sum(x_ln_x(x, w) for x in shares(s, w)))
    ),
    "huber": ConvexFunction(
        lambda x, M: huber(x[0], M),
        lambda w, s, M: (clip(s, -2 * M * w, 2 * M * w), clip(s, -2 * M * w, 2 * M * w)[0] ** 2 / (4 * w)),
    ),
    "max": ConvexFunction(lambda x, _: tuple(map(max, zip(*x, strict=True))), lambda w, s, _: (shares(s, w), 0)),
    "sum_largest": ConvexFunction(
        lambda x, k: (math.floor(sum(top([a for a, _ in x], k))), math.ceil(sum(top([a for _, a in x], k)))),
        lambda w, s, k: (largest_shares(s, w, Fraction(k)), 0),
    ),
}


# --- The answer ---


def difference(a: Form, b: Form) -> Form:
    return combine([(Fraction(1), a), (Fraction(-1), b)])


@final
class ConvexAnswer(AbstractAnswer):
    """f and g as expressions of y = B Psi + b and free variables v."""

    def state(self, stored: dict[str, Any], arrays: Arrays) -> tuple[list[Form], list[bool], list[Fraction]]:
        if "multipliers" not in arrays:
            raise NotDecidedError("the file holds no multipliers of its constraints: save it again with a newer bidual")
        functions = stored["functions"]
        self.tree = Tree(functions, arrays)
        read = [self.tree.read(functions["objective"])]
        read += [entries([self.tree.read(side) for side in sides], difference) for sides in functions["sides"]]
        self.images = self._read_images(stored["total"] is True, arrays)
        self._evaluate(arrays["auxiliary"][1])
        self.slopes = list(map(Fraction, arrays["slopes"][1])) if "slopes" in arrays else None
        equality = [equal is True for equal, a in zip(functions["equality"], read[1:], strict=True) for _ in a.forms]
        return (
            [form for a in read for form in a.forms.values()],
            equality,
            list(map(Fraction, arrays["multipliers"][1])),
        )

    def _read_images(self, summed: bool, arrays: Arrays) -> dict[Any, Form]:
        parts = (arrays[f"problem_image_{name}"][1] for name in ("values", "columns", "starts", "offset"))
        (values, columns, starts, offset), d, found = parts, self.model.features, {}
        for i, b in enumerate(offset):
            form: Form = defaultdict(Fraction, {None: Fraction(b)})
            for c, column in zip(values[starts[i] : starts[i + 1]], columns[starts[i] : starts[i + 1]], strict=True):
                for name in [(h, column) for h in range(self.model.H)] if summed else [divmod(column, d)]:
                    form[name] += Fraction(c)
            found["y", i] = form
        return found

    def _evaluate(self, auxiliary: list[float]) -> None:
        for name, form in self.images.items():
            self.values[name], self.sizes[name] = self.enclose(form), self.amount(form)
        for j, x in enumerate(auxiliary):
            self.values["v", j], self.sizes["v", j] = span(x), size(span(x))[1]
        for n, leaf in enumerate(self.tree.leaves):
            low, high = FUNCTIONS[leaf.function].value(list(map(self.enclose, leaf.arguments)), leaf.p)
            self.values["leaf", n] = (low, high)
            self.sizes["leaf", n] = max(-low, high, *map(self.amount, leaf.arguments))

    def proof(self) -> Form:
        if self.slopes is None or len(self.slopes) != sum(len(leaf.arguments) for leaf in self.tree.leaves):
            raise NotDecidedError("the file holds no slopes of its functions")
        weights, slopes, start = [self.weight, *self.gamma], [], 0
        for leaf in self.tree.leaves:
            slopes.append(self.slopes[start : (start := start + len(leaf.arguments))])
        for _ in range(4):
            form = self._below(weights, slopes)
            left = {name: c for name, c in form.items() if name and name[0] == "v"}
            if not left:
                return combine((c, self.images.get(name, {name: Fraction(1)})) for name, c in form.items())
            for name, c in left.items():
                self._move(name, c, weights, slopes)
        raise NotDecidedError("the slopes of a free variable do not cancel")

    def _below(self, weights: list[Fraction], slopes: list[list[Fraction]]) -> Form:
        """Return a form over y and v that is nowhere above the weighted sum of f and g."""
        found: Form = defaultdict(Fraction, combine(zip(weights, self.forms, strict=True)))
        for n, leaf in reversed(list(enumerate(self.tree.leaves))):
            w = found.pop(("leaf", n), Fraction(0))
            if w < 0:
                raise NotDecidedError(f"the function {leaf.function} has a negative weight")
            if w > 0:
                slopes[n], supremum = FUNCTIONS[leaf.function].conjugate(w, slopes[n], leaf.p)
                found[None] -= supremum
                for x, form in zip(slopes[n], leaf.arguments, strict=True):
                    for name, c in form.items():
                        found[name] += x * c
        return {name: c for name, c in found.items() if c}

    def _move(self, v: Any, c: Fraction, weights: list[Fraction], slopes: list[list[Fraction]]) -> None:  # noqa: ANN401
        """Let the rest c of a free variable vanish, by a constraint or an argument that has no other one."""
        for i, form in enumerate(self.forms[1:], 1):
            weight = weights[i] - c / form[v] if v in form and set(form) <= {v, None} else Fraction(-1)
            if v in form and set(form) <= {v, None} and (weight >= 0 or self.equality[i - 1]):
                weights[i] = weight
                return
        places = [
            (any(name and name[0] == "y" for name in form), row, j, leaf.arguments)
            for row, leaf in zip(slopes, self.tree.leaves, strict=True)
            for j, form in enumerate(leaf.arguments)
            if v in form and not any(name and name != v and name[0] in ("v", "leaf") for name in form)
        ]
        if places:  # best at an argument without y, whose slope nothing else determines
            _, row, j, arguments = min(places, key=lambda place: place[0])
            moved = c / arguments[j][v]
            row[j] -= moved
            for k in [k for k, form in enumerate(arguments) if set(form) <= {None}][:1]:
                row[k] += moved  # slopes of a maximum have to sum to its weight


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], ConvexAnswer))
