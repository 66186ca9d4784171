"""The verifier of convex answers: ``python verify_convex.py FILE``, with the other files verify*.py beside it.

FILE stores f and g as expressions, the multipliers of the constraints, and one slope for every argument of every convex
function, in the order in which `Tree` reads them: multipliers and slopes turn w f + gamma . g into a linear cost that
is nowhere above it (verify_functions.py). What the slopes leave over on a free variable v has to vanish exactly: it is
moved, as a rational number, onto a constraint or a slope of v alone.

A FILE without any multipliers claims no more than the floor: the least that f can be over all y between the least and
the largest features, by enclosures (`Floor`). A norm is never negative.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING or __package__:
    from bidual.certificate.verify import (
        ONE,
        Answer,
        Arrays,
        Claims,
        Form,
        NotDecidedError,
        Problem,
        add,
        combine,
        main,
        span,
        times,
    )
    from bidual.certificate.verify_expressions import Tree, difference, entries
    from bidual.certificate.verify_functions import FUNCTIONS, Ends, least
    from bidual.certificate.verify_numbers import size
else:  # alone, beside these files
    from verify import ONE, Answer, Arrays, Claims, Form, NotDecidedError, Problem, add, combine, main, span, times
    from verify_expressions import Tree, difference, entries
    from verify_functions import FUNCTIONS, Ends, least
    from verify_numbers import size


def read_convex(manifest: dict[str, Any], arrays: Arrays) -> Claims:
    return Answer(manifest, arrays, read_expressions).claims()


def read_expressions(answer: Answer, stored: dict[str, Any], arrays: Arrays) -> Problem:
    """Read f and g as expressions of y = B Psi + b and free variables v."""
    if "multipliers" not in arrays:
        raise NotDecidedError("the file holds no multipliers of its constraints: save it again with a newer bidual")
    functions = stored["functions"]
    tree = Tree(functions, arrays)
    read = [tree.read(functions["objective"])]
    read += [entries([tree.read(side) for side in sides], difference) for sides in functions["sides"]]
    equality = [equal is True for equal, a in zip(functions["equality"], read[1:], strict=True) for _ in a.forms]
    forms, gamma = [form for a in read for form in a.forms.values()], list(map(Fraction, arrays["multipliers"][1]))
    images = read_images(stored["total"] is True, arrays, answer)
    evaluate(answer, tree, images, arrays["auxiliary"][1])
    slopes = list(map(Fraction, arrays["slopes"][1])) if "slopes" in arrays else None
    return (
        forms,
        equality,
        gamma,
        (lambda: Floor(answer, tree, images).find(forms[0]))
        if answer.weight and not arrays["gamma"][1]
        else lambda: Proof(tree, forms, equality, images).find([Fraction(answer.weight), *gamma], slopes),
    )


def read_images(summed: bool, arrays: Arrays, answer: Answer) -> dict[Any, Form]:
    parts = (arrays[f"problem_image_{name}"][1] for name in ("values", "columns", "starts", "offset"))
    (values, columns, starts, offset), d, found = parts, len(answer.model.psi[0]), {}
    for i, b in enumerate(offset):
        form: Form = defaultdict(Fraction, {None: Fraction(b)})
        for c, column in zip(values[starts[i] : starts[i + 1]], columns[starts[i] : starts[i + 1]], strict=True):
            for name in [(h, column) for h in range(answer.model.H)] if summed else [divmod(column, d)]:
                form[name] += Fraction(c)
        found["y", i] = form
    return found


def evaluate(answer: Answer, tree: Tree, images: dict[Any, Form], auxiliary: list[float]) -> None:
    for name, form in images.items():
        answer.values[name], answer.sizes[name] = answer.enclose(form), answer.amount(form)
    for j, x in enumerate(auxiliary):
        answer.values["v", j], answer.sizes["v", j] = span(x), size(span(x))[1]
    for n, leaf in enumerate(tree.leaves):
        low, high = FUNCTIONS[leaf.function].value(list(map(answer.enclose, leaf.arguments)), leaf.p)
        answer.values["leaf", n] = (low, high)
        answer.sizes["leaf", n] = max(-low, high, *map(answer.amount, leaf.arguments))


@final
class Floor:
    """Ends of y, of free variables and of functions over all embeddings between the ends of the features.

    None stands for an end that is not known. Few functions are needed here, and those by their lower ends.
    """

    def __init__(self, answer: Answer, tree: Tree, images: dict[Any, Form]) -> None:
        pairs, self.ends = answer.model.S * answer.model.A, dict[Any, Ends]({None: (ONE, ONE)})
        for h, step in enumerate(answer.model.psi):
            for k, pays in enumerate(step):
                values = [*pays.values()] + [(0, 0)] * (len(pays) < pairs)
                self.ends[h, k] = min(low for low, _ in values), max(high for _, high in values)
        for name, form in images.items():
            self.ends[name] = self.enclose(form)
        for v in (v for a in tree.variables for form in a.forms.values() for v in form):
            self.ends.setdefault(v, (None, None))
        for n, leaf in enumerate(tree.leaves):
            self.ends["leaf", n] = least(leaf.function, list(map(self.enclose, leaf.arguments)), leaf.p), None

    def enclose(self, form: Form) -> Ends:
        """Enclose an affine form, to the last bits."""
        found = list[int | None]()
        for side in (0, 1):
            ends = [(c, self.ends[name][side if c > 0 else 1 - side]) for name, c in form.items()]
            known = [times(span(c), (end, end)) for c, end in ends if end is not None]
            found.append(add(known)[side] if len(known) == len(ends) else None)
        return found[0], found[1]

    def find(self, form: Form) -> Form:
        low, _ = self.enclose(form)
        if low is None:
            raise NotDecidedError("the file holds no multipliers, and the objective has no floor")
        return {None: Fraction(low, ONE)}


@final
class Proof:
    """Linear functions of Psi below w f + gamma . g, from slopes of the convex functions in it."""

    def __init__(self, tree: Tree, forms: list[Form], equality: list[bool], images: dict[Any, Form]) -> None:
        self.tree, self.forms, self.equality, self.images = tree, forms, equality, images

    def find(self, weights: list[Fraction], stored: list[Fraction] | None) -> Form:
        if stored is None or len(stored) != sum(len(leaf.arguments) for leaf in self.tree.leaves):
            raise NotDecidedError("the file holds no slopes of its functions")
        slopes, start = list[list[Fraction]](), 0
        for leaf in self.tree.leaves:
            slopes.append(stored[start : (start := start + len(leaf.arguments))])
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
    sys.exit(main(sys.argv[1:], convex=read_convex))
