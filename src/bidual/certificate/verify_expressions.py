"""The expressions of a convex problem for verify_convex.py: read into affine forms over numbers and convex functions.

A form is over y (the image of Psi), v (free variables) and leaves, the values of convex functions of further forms.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING or __package__:
    from bidual.certificate.verify import Arrays, Form, NotDecidedError, combine
else:  # alone, beside these files
    from verify import Arrays, Form, NotDecidedError, combine


MOST = 10**6  # coefficients of one array, and with them some hundred megabytes


def check_size(*factors: int) -> None:
    """Raise before anything is expanded to so many coefficients."""
    if math.prod(factors) > MOST:
        raise NotDecidedError(f"an array of more than {MOST} coefficients")


class Array(NamedTuple):
    """An array of forms by index, in column order."""

    shape: tuple[int, ...]
    forms: dict[tuple[int, ...], Form]

    def at(self, index: tuple[int, ...]) -> Form:
        """Return the form at an index of a shape to which this array is broadcast."""
        last = index[len(index) - len(self.shape) :]
        return self.forms[tuple(0 if n == 1 else i for n, i in zip(self.shape, last, strict=True))]


def places(shape: Sequence[int]) -> list[tuple[int, ...]]:
    check_size(*(max(n, 1) for n in shape))
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
        self.room = MOST + 8 * sum(len(numbers) for _, numbers in arrays.values())  # coefficients of all arrays
        for letter, shapes in (("y", stored["images"]), ("v", stored["auxiliary"])):
            start = 0
            for shape in shapes:
                check_size(*shape)
                self._spend(math.prod(shape))
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
        """Return the forms of an expression."""
        found = self._read(node)
        self._spend(sum(1 + len(form) for form in found.forms.values()))
        return found

    def _spend(self, coefficients: int) -> None:
        self.room -= coefficients
        if self.room < 0:
            raise NotDecidedError("expressions with more coefficients than FILE gives reason for")

    def _read(self, node: dict[str, Any]) -> Array:
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


def check_shapes(found: object, expected: object) -> None:
    if found != expected:
        raise ValueError(f"shapes that do not fit: {found}, not {expected}")


def entries(arguments: list[Array], entry: Any, shape: tuple[int, ...] | None = None) -> Array:  # noqa: ANN401
    if shape is not None:
        check_shapes(common([*arguments, Array(shape, {})]), shape)
    shape = common(arguments) if shape is None else shape
    check_size(*(max(n, 1) for n in shape), sum(max(map(len, a.forms.values()), default=1) for a in arguments))
    return Array(shape, {i: entry(*(a.at(i) for a in arguments)) for i in places(shape)})


def matrix_product(arguments: list[Array], data: list[Any]) -> Array:
    a, b = arguments
    inner, (rows, columns) = a.shape[-1], (a.shape[:-1], b.shape[1:])
    check_shapes(b.shape[0], inner)
    check_size(*rows, *columns, inner, max(len(form) for x in arguments for form in x.forms.values()))
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
        check_shapes(
            [*a.shape[:axis], *a.shape[axis + 1 :]], [*arguments[0].shape[:axis], *arguments[0].shape[axis + 1 :]]
        )
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


def difference(a: Form, b: Form) -> Form:
    return combine([(Fraction(1), a), (Fraction(-1), b)])
