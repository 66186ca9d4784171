"""Mutation testing of the checker: ``make mutants``, or ``python -m tests.mutants --count 100 --seed 1 _affine _cuts``.

One place of `certificate/` or `storage/` is changed at a time (a comparison, sign, constant, term, guard), and the
tests that reach it run until one fails (`tests/mutant_runs.py`). A mutant that no test kills is printed, unless
tests/mutants.toml lists it as equivalent, with the reason. Mutants are drawn at random from all there are; the draw is
printed with its seed.
"""

import argparse
import ast
import copy
import json
import random
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.mutant_runs import Runs

TESTS = Path(__file__).parent
ROOM = TESTS.parent / "src" / "bidual" / "certificate"
LINEAR = ("checker", "checker_convex", "certificate", "forged", "tradeoff", "verify")
CONVEX = ("checker_convex", "checker", "enclosures", "forged", "verify", "slater", "saved")
LEARNED = ("checker_learned", "laws/optimistic", "laws/linear", "low_rank", "control_checks")
STORED = ("belonging", "check", "learned", "rows", "programs", "knowledge", "saved")  # that verify claims of files
# Files of tests/units, or of the folder that is named.
SUITES = {
    **dict.fromkeys(("_affine", "_evaluate", "_types", "rounding", "constraints"), LINEAR),
    "_mixtures": ("mixture_bounds",),
    **dict.fromkeys(("_cuts", "_convex"), CONVEX),
    "_slopes": ("slopes", "verify"),
    "verify_convex": ("verify",),
    "verify": ("verify_claims", "verify"),
    "verify_learned": ("verify_claims",),
    **{f"verify_{name}": (f"verify_{name}",) for name in ("numbers", "functions", "expressions", "laws")},
    "verify_bets": ("verify_bets", "verify_learned"),
    **dict.fromkeys(("verify_sets", "verify_signals"), ("verify_sets", "verify_learned")),
    **dict.fromkeys(("_ball", "_optimistic", "_lower"), LEARNED),
    **dict.fromkeys(
        ("_class", "_within", "_within_mixtures"), ("class_bounds", "laws/class_search", "laws/class_policies")
    ),
    "_sampled": ("sampled",),
    **dict.fromkeys(("_estimates", "_controlled"), ("estimates",)),
    "_quadratic": ("quadratic_bounds",),
    "_radius": ("confidence_sets",),
    "_pessimistic": ("over_laws",),
    **{f"bounds/_{name}": ("bounds",) for name in ("betting", "range", "executed", "restarts", "split", "differences")},
    "theory": ("theory",),
    "../storage/_claims": ("claims",),
    **{f"../storage/_{name}": ("saved", "saved_learned", "forged", "stored_evaluation") for name in STORED},
}
COMPARISONS = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
SUMS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
CALLS = {"maximum": "minimum", "minimum": "maximum", "max": "min", "min": "max", "argmax": "argmin", "any": "all"}


class Mutant(NamedTuple):
    """What was changed in a module, as tests/mutants.toml names it."""

    module: str
    line: int
    code: str  # the line before the change
    change: str
    number: int  # among the mutants of the module

    @property
    def name(self) -> tuple[str, str, str]:
        """What names it where others stand in other lines."""
        return self.module, self.code, self.change

    @property
    def path(self) -> Path:
        """The file that is changed."""
        return (ROOM / f"{self.module}.py").resolve()

    def tree(self) -> ast.Module:
        """Return the changed module."""
        tree = ast.parse(self.path.read_text())
        place, _, instead = list(_changes_of(tree))[self.number]
        place.put(instead)
        return tree


class Place(NamedTuple):
    """Where an expression or statement stands in a tree."""

    parent: ast.AST
    field: str
    position: int | None
    node: ast.expr | ast.stmt

    def put(self, node: ast.AST) -> None:
        """Put another one there."""
        ast.fix_missing_locations(ast.copy_location(node, self.node))
        if self.position is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.position] = node


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield what may be put in the place of a node, with a description."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
        yield "comparison", _with(node, ops=[COMPARISONS[type(node.ops[0])](), *node.ops[1:]])
    if isinstance(node, ast.BinOp) and type(node.op) in SUMS:
        yield "operator", _with(node, op=SUMS[type(node.op)]())
        if isinstance(node.op, ast.Add | ast.Sub):
            yield "dropped term", node.left
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield "constant", ast.Constant(node.value + 1 if isinstance(node.value, int) else 2 * node.value or 1.0)
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield "truth", ast.Constant(not node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
        yield "dropped sign", node.operand
    if isinstance(node, ast.BoolOp):
        yield "and/or", _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
    if isinstance(node, ast.Call):
        yield from _calls(node)
    if isinstance(node, ast.If) and any(isinstance(part, ast.Raise | ast.Return) for part in node.body):
        yield "dropped guard", _with(node, test=ast.Constant(False))


def _calls(node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in CALLS and isinstance(node.func, ast.Attribute):
        yield "extreme", _with(node, func=_with(node.func, attr=CALLS[name]))
    elif name in CALLS:
        yield "extreme", _with(node, func=ast.Name(CALLS[name], ast.Load()))
    if name in ("abs", "maximum") and node.args:
        yield "dropped call", node.args[0]


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def find_files(module: str) -> list[Path]:
    """Return the files of tests of a module."""
    places = [name.rpartition("/") for name in SUITES[module]]
    return [TESTS / (folder or "units") / f"test_{name}.py" for folder, _, name in places]


def mutants(module: str) -> list[Mutant]:
    """Return all mutants of a module."""
    source = (ROOM / f"{module}.py").read_text()
    lines, found, times = source.splitlines(), [], Counter()
    for place, kind, instead in _changes_of(ast.parse(source)):
        line, change = place.node.lineno, f"{kind}: {_short(place.node)} -> {_short(instead)}"
        code = lines[line - 1].strip()
        times[code, change] += 1
        same = f" [{times[code, change]}]" if times[code, change] > 1 else ""
        found.append(Mutant(module, line, code, change + same, len(found)))
    return found


def _changes_of(tree: ast.AST) -> Iterator[tuple[Place, str, ast.AST]]:
    return ((place, kind, instead) for place in list(_places(tree)) for kind, instead in changes(place.node))


def _places(tree: ast.AST) -> Iterator[Place]:
    """Yield every expression and statement with its place; not messages, annotations and defaults of types."""
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns", "decorator_list") or isinstance(tree, ast.Raise | ast.JoinedStr):
            continue
        for index, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(node, ast.expr | ast.stmt):
                yield Place(tree, field, index, node)
            if isinstance(node, ast.AST):
                yield from _places(node)


def _short(node: ast.AST) -> str:
    text = ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).split("\n")[0]
    return text if len(text) <= 70 else f"{text[:67]}..."


def main() -> int:
    """Draw mutants, run their tests, print the survivors; return 1 where there is one that is not listed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", default=list(SUITES))
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--log", type=Path, help="of killed mutants, which are not run again: for long runs in parts")
    args = parser.parse_args()
    everything = [mutant for module in args.modules for mutant in mutants(module)]
    drawn = random.Random(args.seed).sample(everything, min(args.count, len(everything)))
    written = tomllib.loads((TESTS / "mutants.toml").read_text())["equivalent"]
    listed = {(one["module"], one["code"], one["change"]) for one in written}
    logged = args.log.read_text().splitlines() if args.log and args.log.exists() else []
    dead = {tuple(json.loads(line)) for line in logged} - listed
    left = [mutant for mutant in drawn if mutant.name not in listed | dead]
    equivalent = sum(mutant.name in listed for mutant in drawn)
    print(f"{len(drawn)} of {len(everything)} mutants of {', '.join(args.modules)}; seed {args.seed}", flush=True)
    runs = Runs(left, time.monotonic() + 60 * args.minutes, args.log)
    files = dict.fromkeys(str(file) for mutant in left for file in find_files(mutant.module))
    pytest.main(["-qq", "-s", "--no-summary", "-p", "no:cacheprovider", "-m", "not slow", *files], plugins=[runs])
    print(f"{equivalent} listed as equivalent, {len(drawn) - len(left) - equivalent} killed before; {runs}")
    return 1 if runs.survivors else 0


if __name__ == "__main__":
    sys.exit(main())
