"""Mutation testing of the checker: ``make mutants``, or ``python -m tests.mutants --count 100 --seed 1 _affine _cuts``.

One place of `certificate/` is changed at a time (a comparison, sign, constant, term, guard), and the fast tests of that
module run over a copy of the package. A mutant that no test kills is printed, unless tests/mutants.toml lists it as
equivalent, with the reason. Mutants are drawn at random from all there are; the draw is printed with its seed.
"""

import argparse
import ast
import copy
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import bidual

ROOT = Path(bidual.__file__).parent
TESTS = Path(__file__).parent
CHECKER, BOUNDS = "tests/units/test_checker.py", "tests/units/test_bounds.py"
SUITES = {
    **{name: (CHECKER,) for name in ("_affine", "_evaluate", "_types", "rounding", "constraints", "_cuts")},
    **{f"bounds/{name}": (BOUNDS,) for name in ("_betting", "_range", "_executed", "_restarts", "_split")},
    "bounds/_differences": (BOUNDS,),
}
SECONDS = 90  # for one mutant: some loop for ever
COMPARISONS = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
SUMS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
CALLS = {"maximum": "minimum", "minimum": "maximum", "max": "min", "min": "max", "argmax": "argmin", "any": "all"}


class Mutant(NamedTuple):
    """A changed module, and what was changed, as tests/mutants.toml names it."""

    module: str
    line: int
    code: str  # the line before the change
    change: str
    source: str


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield what may be put in the place of a node, with a description."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
        yield "comparison", _with(node, ops=[COMPARISONS[type(node.ops[0])](), *node.ops[1:]])
    if isinstance(node, ast.BinOp) and type(node.op) in SUMS:
        yield "operator", _with(node, op=SUMS[type(node.op)]())
        if isinstance(node.op, ast.Add | ast.Sub):
            yield "dropped term", node.left
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield "constant", ast.Constant(node.value + 1 if isinstance(node.value, int) else 2 * node.value)
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


def mutants(module: str) -> Iterator[Mutant]:
    """Yield all mutants of a module of `certificate/`."""
    source = (ROOT / "certificate" / f"{module}.py").read_text()
    tree, lines = ast.parse(source), source.splitlines()
    for parent, field, place, node in list(_places(tree)):
        for kind, instead in changes(node):
            _put(parent, field, place, instead)
            text = ast.unparse(ast.fix_missing_locations(tree))
            yield Mutant(
                module,
                node.lineno,
                lines[node.lineno - 1].strip(),
                f"{kind}: {_short(node)} -> {_short(instead)}",
                text,
            )
            _put(parent, field, place, node)


def _places(tree: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.expr | ast.stmt]]:
    """Yield every expression and statement with its place; not messages, annotations and defaults of types."""
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns", "decorator_list") or isinstance(tree, ast.Raise | ast.JoinedStr):
            continue
        for place, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(node, ast.expr | ast.stmt):
                yield tree, field, place, node
            if isinstance(node, ast.AST):
                yield from _places(node)


def _put(parent: ast.AST, field: str, place: int | None, node: ast.AST) -> None:
    if place is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[place] = node


def _short(node: ast.AST) -> str:
    text = ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).split("\n")[0]
    return text if len(text) <= 70 else f"{text[:67]}..."


def is_killed(mutant: Mutant | None, copied: Path, suite: tuple[str, ...], seconds: float) -> bool:
    """Run the tests over the changed copy in a process of its own; return whether one of them fails."""
    child = os.fork()
    if child == 0:
        _run_tests(suite, copied)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status != 0
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return mutant is not None


def _run_tests(suite: tuple[str, ...], copied: Path) -> None:
    """Run the tests quietly, and end this process."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    for name in [name for name in sys.modules if name == "bidual" or name.startswith(("bidual.", "tests"))]:
        del sys.modules[name]
    sys.path.insert(0, str(copied))
    import pytest

    code = 1
    with suppress(BaseException):
        code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-m", "not slow", *suite]))
    os._exit(code)


def preload() -> None:
    """Import what all tests need but the package itself, once for all processes."""
    import cvxpy  # noqa: F401
    import gymnasium  # noqa: F401
    import jax  # noqa: F401
    import safetensors.numpy  # noqa: F401
    import scipy.sparse.linalg  # noqa: F401


def main() -> int:
    """Draw mutants, run their tests, print the survivors; return 1 where there is one that is not listed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", default=list(SUITES))
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--minutes", type=float, default=30.0)
    args = parser.parse_args()
    everything = [mutant for module in args.modules for mutant in mutants(module)]
    drawn = random.Random(args.seed).sample(everything, min(args.count, len(everything)))
    written = tomllib.loads((TESTS / "mutants.toml").read_text())["equivalent"]
    listed = {(one["module"], one["code"], one["change"]) for one in written}
    print(f"{len(drawn)} of {len(everything)} mutants of {', '.join(args.modules)}; seed {args.seed}", flush=True)
    preload()
    return _run_all(drawn, listed, time.monotonic() + 60 * args.minutes)


def _run_all(drawn: list[Mutant], listed: set[tuple[str, str, str]], deadline: float) -> int:
    run, killed, equivalent, survivors = 0, 0, 0, []
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder)
        shutil.copytree(ROOT, copied / "bidual")
        for suite in {SUITES[mutant.module] for mutant in drawn}:
            if is_killed(None, copied, suite, 10 * SECONDS):
                raise SystemExit(f"the tests {', '.join(suite)} fail on the unchanged package")
        for mutant in drawn:
            if time.monotonic() > deadline:
                break
            run += 1
            if (mutant.module, mutant.code, mutant.change) in listed:
                equivalent += 1
            elif _survives(mutant, copied):
                survivors.append(mutant)
                print(f"survives: {mutant.module}:{mutant.line}: {mutant.change}", flush=True)
            else:
                killed += 1
    print(f"{run} run: {killed} killed, {equivalent} listed as equivalent, {len(survivors)} survive")
    return 1 if survivors else 0


def _survives(mutant: Mutant, copied: Path) -> bool:
    path = copied / "bidual" / "certificate" / f"{mutant.module}.py"
    original = path.read_text()
    _write(path, mutant.source)
    try:
        return not is_killed(mutant, copied, SUITES[mutant.module], SECONDS)
    finally:
        _write(path, original)


def _write(path: Path, source: str) -> None:
    """Write a module and remove what was compiled of it: times of files are too coarse to tell the two apart."""
    path.write_text(source)
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        compiled.unlink()


if __name__ == "__main__":
    sys.exit(main())
