"""Runs of changed modules, many in a second: the tests are collected once, and each mutant is a fork of that process.

First all tests run once, with a note of every statement of the changed modules that each of them reaches, and of its
CPU time. A mutant's child then puts the changed code in the place of the functions of the imported module, and runs the
tests that reach the changed statement: those that killed its neighbours first, then the cheap ones, until one fails.
"""

import ast
import builtins
import gc
import inspect
import json
import os
import resource
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

SECONDS = 4.0  # of CPU for the tests of one mutant; dearer ones are left out
MOST_THREADS = 8  # those of JAX would be missing in a fork, which waits for them for ever
JAX, JAX_SECONDS = -1, 1.5  # the number of its files in notes, and the CPU time of its start
NOTES = "_reached_statements"  # the name under which changed code finds the set of what was reached
CONSTANTS = (bool, int, float, str, tuple, list, dict, Fraction)


class Runs:
    """Plugin that runs the collected tests over mutants, in the place of pytest's own loop."""

    def __init__(self, mutants: list, deadline: float, log: Path | None):
        self.mutants, self.deadline, self.log = mutants, deadline, log
        self.counts, self.survivors, self.failed = Counter(), [], []
        self.fixtures: dict[str, set] = defaultdict(set)
        self.waits: dict[str, float] = defaultdict(float)
        self.waited = 0.0
        self.with_jax: dict[str, dict[str, list[FunctionType]]] = {}
        self.kills: Counter[tuple[str, str]] = Counter()  # of mutants of a module by a test

    def __str__(self) -> str:
        """Count the verdicts."""
        return ", ".join(f"{count} {verdict}" for verdict, count in sorted(self.counts.items()))

    def pytest_runtest_logreport(self, report) -> None:
        """Note a failure."""
        if report.failed:
            self.failed.append(report.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef):
        """Note what a fixture reaches and how long it takes: every test that uses it depends on that."""
        notes = getattr(builtins, NOTES, None)
        if notes is None:
            return (yield)
        before, began = set(notes), time.process_time()
        notes.clear()
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":
                self.fixtures[fixturedef.argname] |= notes
                self.waits[fixturedef.argname] = time.process_time() - began
                self.waited += time.process_time() - began
            notes |= before

    def pytest_runtestloop(self, session) -> bool:
        """Run the tests once, and then those of every mutant, each in a child."""
        if session.testsfailed:
            raise session.Interrupted("the tests cannot be collected")
        if (threads := len(list(Path("/proc/self/task").glob("*")))) > MOST_THREADS:
            raise session.Interrupted(f"{threads} threads: a file of tests starts JAX when it is collected")
        functions = {str(path): find_functions(str(path)) for path in dict.fromkeys(one.path for one in self.mutants)}
        self.with_jax = {path: find_functions(path) for path in _files_with_jax()}
        gc.freeze()
        status, text = run_child(lambda: self._note(session.items, functions), 3600)
        if status != 0:
            raise session.Interrupted("the tests of the unchanged package end their process")
        names = [item.nodeid for item in session.items]
        reached = dict(zip(names, json.loads(text), strict=True))
        items = {item.nodeid: item for item in session.items if reached[item.nodeid][0] is not None}
        for name in reached.keys() - items.keys():
            print(f"fails on the unchanged package, and is left out: {name}", flush=True)
        print(f"{len(items)} tests take {sum(reached[name][0][''] for name in items):.0f} s of CPU", flush=True)
        for mutant in self.mutants:
            if time.monotonic() > self.deadline:
                self.counts["not run"] += 1
            else:
                self._run(mutant, functions, items, reached)
                if sum(self.counts.values()) % 50 == 0:
                    print(f"so far {self}", flush=True)
        return True

    def _run(self, mutant, functions, items, reached) -> None:
        """Run the tests that reach a mutant, and print it if it survives them."""
        number, statement = list(functions).index(str(mutant.path)), _statement(mutant)
        # A change of the module itself may show in whatever reaches anything there.
        chosen = [
            name
            for name, (_, places) in reached.items()
            if name in items and any(file == number and statement in (0, line) for file, line in places)
        ]
        alone = {name: sum(reached[name][0].values()) for name in chosen}
        chosen.sort(key=lambda name: (alone[name] + 0.01) / (1 + self.kills[mutant.module, name]))
        taken, ready, total = {}, set(), 0.0
        for name in chosen:  # what one test has set up, others do not wait for
            total += sum(seconds for part, seconds in reached[name][0].items() if part not in ready)
            ready |= reached[name][0].keys() - {""}
            if total <= SECONDS or not taken:
                taken[name] = total
        verdict, note = "survives", "no test reaches it"
        if taken:
            seconds = 5 + 3 * max(taken.values())
            verdict, note = self._judge(mutant, functions[str(mutant.path)], [items[name] for name in taken], seconds)
        self.counts[verdict] += 1
        self.kills[mutant.module, note] += 1
        if verdict == "killed" and self.log is not None:
            with self.log.open("a") as stream:
                stream.write(json.dumps(mutant.name) + "\n")
        if verdict == "survives":
            self.survivors.append(mutant)
        if verdict != "killed":
            note = note or f"{len(taken)} of {len(chosen)} tests that reach it"
            print(f"{verdict}: {mutant.module}:{mutant.line}: {mutant.change} ({note})", flush=True)

    def _judge(self, mutant, functions, items, seconds: float) -> tuple[str, str]:
        """Return the verdict of a child, and who gave it."""
        status, text = run_child(lambda: self._child(mutant, functions, items), seconds)
        if status == 0:
            verdict, note = json.loads(text)
            return verdict, note
        return "killed", "the end of its process, or of its time"

    def _child(self, mutant, functions, items) -> Any:
        if not place(mutant.tree(), str(mutant.path), functions, module_level=not _statement(mutant)):
            return "not placed", "it changes no name that can be set"
        self._run_items(items)
        return ("killed", self.failed[0]) if self.failed else ("survives", "")

    def _run_items(self, items) -> None:
        for item, after in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            if self.failed:
                return

    def _note(self, items, functions) -> list:
        """Return the seconds of every test, None where it fails, and the statements that it reaches."""
        notes: set = set()
        setattr(builtins, NOTES, notes)
        for number, (path, found) in enumerate(functions.items()):
            place(_with_notes(ast.parse(Path(path).read_text()), number), path, found)
        for path, found in self.with_jax.items():
            place(_with_notes(ast.parse(Path(path).read_text()), JAX, of_jax=True), path, found)
        noted = []
        for item, after in zip(items, [*items[1:], None], strict=True):
            notes.clear()
            self.failed.clear()
            self.waited, began = 0.0, time.process_time()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            seconds = None if self.failed else time.process_time() - began - self.waited
            noted.append((seconds, set(notes), item.fixturenames))
        return [self._sum_up(*one) for one in noted]

    def _sum_up(self, seconds: float | None, notes: set, fixtures: list[str]) -> tuple[dict[str, float] | None, list]:
        """Return the CPU times of a test by what they are for, and what it reaches, with all fixtures."""
        reached = notes.union(*(self.fixtures[name] for name in fixtures))
        times = {name: self.waits[name] for name in fixtures if name in self.waits}
        times |= {"jax": JAX_SECONDS} if any(number == JAX for number, _ in reached) else {}
        return None if seconds is None else times | {"": seconds}, sorted(one for one in reached if one[0] != JAX)


def _files_with_jax() -> list[str]:
    """Return the imported files of the package that use JAX, which every process starts anew."""
    files = [one.__file__ for name, one in sys.modules.items() if name.startswith("bidual.") and one.__file__]
    return [path for path in files if "import jax" in Path(path).read_text()]


def run_child(work: Callable[[], Any], seconds: float) -> tuple[int, str]:
    """Run work in a fork with limits of CPU time and of ten times that by the clock; return its status and answer."""
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 1))
            signal.alarm(int(10 + 5 * seconds))
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nothing, stream)
            with os.fdopen(sender, "w") as stream:
                json.dump(work(), stream)
            code = 0
        finally:
            os._exit(code)
    os.close(sender)
    with os.fdopen(receiver) as stream:
        text = stream.read()
    return os.waitpid(child, 0)[1], text


def place(tree: ast.Module, path: str, functions: dict[str, list[FunctionType]], *, module_level: bool = False) -> bool:
    """Put the code of a changed module in the place of the imported one; return whether anything was changed."""
    code = compile(tree, path, "exec")
    codes = defaultdict(list)
    for inner in _codes(code):
        codes[inner.co_qualname].append(inner)
    changed = module_level and _rebind(code, path, functions)
    for name, olds in functions.items():
        if module_level and not name.endswith("<lambda>"):
            continue
        lines = sorted({old.__code__.co_firstlineno for old in olds})
        if len(lines) == len(codes[name]):
            for old in olds:
                new = codes[name][lines.index(old.__code__.co_firstlineno)]
                changed |= not module_level or old.__code__.co_consts != new.co_consts
                old.__code__ = new
    return changed


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the codes of all functions within a code, in their order."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield inner
            yield from _codes(inner)


def find_functions(path: str) -> dict[str, list[FunctionType]]:
    """Return the imported functions of a file by their qualified names."""
    found = defaultdict(list)
    for one in gc.get_objects():
        if type(one) is FunctionType and one.__code__.co_filename == path:
            found[one.__code__.co_qualname].append(one)
    return dict(found)


def _rebind(code: CodeType, path: str, functions: dict[str, list[FunctionType]]) -> bool:
    """Run a changed module anew, and take its constants and the defaults of its functions and classes."""
    (module,) = [one for one in _modules() if getattr(one, "__file__", None) == path]
    shadow = ModuleType(module.__name__)
    exec(code, shadow.__dict__)
    changed = False
    for name, value in vars(shadow).items():
        old = vars(module).get(name)
        if name.startswith("__") or isinstance(value, ModuleType):
            continue
        if inspect.isclass(value) and value.__module__ == module.__name__:
            changed |= _take_class(old, value)
        elif inspect.isfunction(value) and value.__module__ == module.__name__:
            changed |= any([_take_defaults(one, value) for one in functions.get(value.__qualname__, [])])
        elif (isinstance(value, CONSTANTS) or hasattr(value, "dtype")) and repr(value) != repr(old):
            for one in _modules():
                if vars(one).get(name) is old:
                    setattr(one, name, value)
                    changed = True
    return changed


def _modules() -> list[ModuleType]:
    return [one for name, one in sys.modules.items() if name.partition(".")[0] in ("bidual", "tests")]


def _take_class(old: type, new: type) -> bool:
    made, remade = vars(old).get("__new__"), vars(new).get("__new__")  # those of tuples with names
    changed = isinstance(made, staticmethod) and _take_defaults(made.__func__, remade.__func__)
    for name, value in vars(new).items():
        if inspect.isfunction(value):
            target = inspect.unwrap(vars(old).get(name, value))
            changed |= inspect.isfunction(target) and _take_defaults(target, value)
        elif isinstance(value, bool | int | float) and not name.startswith("__") and vars(old).get(name) != value:
            setattr(old, name, value)
            changed = True
    return changed


def _take_defaults(old: FunctionType, new: FunctionType) -> bool:
    if repr((old.__defaults__, old.__kwdefaults__)) == repr((new.__defaults__, new.__kwdefaults__)):
        return False
    old.__defaults__, old.__kwdefaults__ = new.__defaults__, new.__kwdefaults__
    return True


def _statement(mutant) -> int:
    """Return the line of the innermost statement in a function that a mutant changes, 0 if it is in none."""
    tree, found = ast.parse(mutant.path.read_text()), 0
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for part in function.body:
                for one in ast.walk(part):
                    if isinstance(one, ast.stmt) and one.lineno <= mutant.line <= (one.end_lineno or one.lineno):
                        found = max(found, one.lineno)
    return found


def _with_notes(tree: ast.Module, number: int, *, of_jax: bool = False) -> ast.Module:
    """Let every statement of a function (that uses JAX) note that it is reached, in the file of this number."""
    functions = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)]
    if of_jax:
        functions = [
            one for one in functions if {"jax", "jnp"} & {n.id for n in ast.walk(one) if isinstance(n, ast.Name)}
        ]
    for inner in {id(one): one for function in functions for one in ast.walk(function)}.values():
        for name in ("body", "orelse", "finalbody"):
            if isinstance(block := getattr(inner, name, None), list):
                setattr(inner, name, [part for one in block for part in (_note(number, one), one)])
    return ast.fix_missing_locations(tree)


def _note(number: int, statement: ast.stmt) -> ast.stmt:
    note = ast.parse(f"{NOTES}.add(({number}, {statement.lineno}))").body[0]
    for inner in ast.walk(note):
        ast.copy_location(inner, statement)
    return note
