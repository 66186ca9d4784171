"""The tree is the architecture: a module imports from its own room and from lower floors."""

import ast
import re
import sys
from pathlib import Path

import bidual

ROOT = Path(bidual.__file__).parent

# The table "Floors" of docs/architecture.md, bottom to top. A name is a folder, or a module beside it.
FLOORS = (
    ("_base",),
    ("problem",),
    ("world",),
    ("models",),
    ("planners", "certificate"),
    ("dual", "storage"),
    ("loop",),
    ("solving", "tasks"),
    ("learning",),
    ("report",),
    ("cli",),
    ("__init__", "__main__"),
)
RANK = {name: rank for rank, floor in enumerate(FLOORS) for name in floor}
LIGHT = ("problem/convex", "models", "planners", "dual", "world/policies")
# Conveniences of results: imported when they are called, from the room that draws.
UPWARD = {"solving/pricing/_curve.py": {"bidual.report"}, "learning/curve.py": {"bidual.report"}}


def _imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            if node.module == "bidual":
                yield from (f"bidual.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _home(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def test_every_room_has_a_floor():
    assert {_home(path) for path in ROOT.rglob("*.py")} == set(RANK)


def test_no_module_imports_from_its_own_floor_or_above():
    wrong = []
    for path in ROOT.rglob("*.py"):
        here = _home(path)
        for module in _imports(path):
            parts = module.split(".")
            if parts[0] != "bidual" or len(parts) < 2:
                continue
            there = parts[1]
            name = path.relative_to(ROOT).as_posix()
            if there in RANK and there != here and RANK[there] >= RANK[here] and module not in UPWARD.get(name, ()):
                wrong.append(f"{path.relative_to(ROOT)} imports {module}")
    assert not wrong


def test_the_check_sees_a_wrong_import(tmp_path):
    """The test of the test: an upward import is found by the same reading of the source."""
    path = tmp_path / "world.py"
    path.write_text("def f():\n    from bidual.cli import main\n")
    assert any(RANK[module.split(".")[1]] > RANK["world"] for module in _imports(path))


def test_the_players_need_only_the_numerical_stack():
    """GPU hosts often have little else than JAX, NumPy and SciPy."""
    allowed = {"jax", "numpy", "scipy", "jaxtyping", "bidual", *sys.stdlib_module_names}
    for folder in LIGHT:
        for path in (ROOT / folder).rglob("*.py"):
            tree = ast.parse(path.read_text())
            top = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
            for node in top:
                names = [node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
                for name in names:
                    assert name is not None
                    assert name.split(".")[0] in allowed, f"{path.name} imports {name}"


# What makes objects or code of bytes. Processes of one run send each other objects, and scripts are run on request.
LOADERS = {
    *("pickle", "_pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"),
    *("runpy", "code", "codeop", "imp", "multiprocessing.reduction"),
}
EXCEPTIONS = {"world/envs/_sending.py": {"multiprocessing.reduction"}, "cli/_script.py": {"runpy"}}
CALLS = {"eval", "exec", "compile", "__import__"}


def _loaders(path):
    """The loaders that a module imports, and its calls that execute something."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        yield from (name for name in names if name in LOADERS or name.split(".")[0] in LOADERS)
        if isinstance(node, ast.Name) and node.id in CALLS:
            yield node.id
        if isinstance(node, ast.Attribute) and node.attr in CALLS - {"compile"}:
            yield node.attr
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            yield "allow_pickle"


def test_no_code_is_loaded_from_data():
    for path in ROOT.rglob("*.py"):
        name = path.relative_to(ROOT).as_posix()
        assert set(_loaders(path)) <= EXCEPTIONS.get(name, set()), name


def test_the_check_sees_loaders(tmp_path):
    """The test of the test."""
    path = tmp_path / "mdp.py"
    for line, found in (
        ("import pickle", "pickle"),
        ("from pickle import loads", "pickle"),
        ("import joblib.numpy_pickle", "joblib.numpy_pickle"),
        ("from multiprocessing import reduction", "multiprocessing.reduction"),
        ("from multiprocessing.reduction import ForkingPickler", "multiprocessing.reduction"),
        ("def f(): import runpy", "runpy"),
        ("x = eval('1')", "eval"),
        ("f = exec", "exec"),
        ("import builtins; builtins.exec('1')", "exec"),
        ("np.load('x', allow_pickle=True)", "allow_pickle"),
        ("import re; re.compile('x')", None),
        ("from importlib import import_module", None),
    ):
        path.write_text(line)
        assert next(_loaders(path), None) == found


def _definitions(path):
    """Classes, functions, parameters, attributes and variables of a module, by name."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node, node.name
        elif isinstance(node, ast.arg):
            yield node, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node, node.id
        elif isinstance(node, ast.Attribute):
            yield node, node.attr


PRIVATE_WORDS = {"words", "told", "said", "made", "shown", "look", "looks", "paid", "course"}  # see docs/glossary.md
ALLOWED = {"seed_words"}  # the three 32-bit words of a seed


def test_names_are_words_of_the_field():
    wrong = []
    for path in ROOT.rglob("*.py"):
        for _, name in _definitions(path):
            if PRIVATE_WORDS & set(name.lower().strip("_").split("_")) and name not in ALLOWED:
                wrong.append(f"{path.relative_to(ROOT)}: {name}")
    assert not wrong


def test_a_class_name_means_one_thing():
    homes = {}
    for path in ROOT.rglob("*.py"):
        for node, name in _definitions(path):
            if isinstance(node, ast.ClassDef) and not name.startswith("_"):
                homes.setdefault(name, []).append(path.relative_to(ROOT).as_posix())
    assert not {name: files for name, files in homes.items() if len(files) > 1}


def _list_classes(root):
    """The names of classes, and those that others are derived from."""
    classes = [node for path in root.rglob("*.py") for node in ast.walk(ast.parse(path.read_text()))]
    classes = [node for node in classes if isinstance(node, ast.ClassDef)]
    bases = {ast.unparse(base).split("[")[0].split(".")[-1] for node in classes for base in node.bases}
    return {node.name for node in classes}, bases


def test_classes_are_abstract_or_final():
    names, bases = _list_classes(ROOT)
    assert {name for name in names & bases if not re.search("^_?Abstract|Error$", name)} == set()


def test_the_check_sees_a_class_that_is_neither(tmp_path):
    """The test of the test."""
    (tmp_path / "module.py").write_text("class A:\n    pass\n\n\nclass B(A):\n    pass\n")
    assert _list_classes(tmp_path) == ({"A", "B"}, {"A"})


def test_other_rooms_import_no_private_file():
    wrong = []
    for path in ROOT.rglob("*.py"):
        for module in _imports(path):
            room, *inner = module.split(".")[1:] or [""]
            if module.startswith("bidual.") and room != _home(path) and any(part.startswith("_") for part in inner):
                wrong.append(f"{path.relative_to(ROOT)} imports {module}")
    assert not wrong


def test_the_architecture_page_prints_the_floors():
    page = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| ((?:`\w+` ?)+) \|", page[page.index("## Floors") :], re.MULTILINE)
    printed = [tuple(row.replace("`", "").split()) for row in rows[: len(FLOORS) - 1]]
    assert printed == list(FLOORS[:-1])


def _offered(room):
    """The names that a room's `__init__` imports, those that it gives to users or names for stored states aside."""
    tree = ast.parse((room / "__init__.py").read_text())
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    listed = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name for node in imports for alias in node.names} - used - listed


def _uses():
    """The names taken from modules, by module, or by the last part of its name (`bounds.Split`)."""
    root = Path(__file__).parents[2]
    sources = [path.read_text() for folder in ("src", "tests", "benchmarks") for path in (root / folder).rglob("*.py")]
    sources += re.findall(r"```python\n(.*?)```", (root / "docs" / "extending.md").read_text(), re.DOTALL)
    found = {}
    for node in (node for source in sources for node in ast.walk(ast.parse(source))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.setdefault(node.module, set()).update(alias.name for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.setdefault(node.value.id, set()).add(node.attr)
    return found


def test_a_room_offers_no_name_that_nobody_uses():
    uses, dead = _uses(), []
    for room in (path.parent for path in ROOT.rglob("__init__.py")):
        module = ".".join(room.relative_to(ROOT.parent).parts)
        if room != ROOT and not module.startswith("bidual.cli"):  # whose commands are all called alike
            dead += [
                f"{module}.{name}" for name in _offered(room) - uses.get(module, set()) - uses.get(room.name, set())
            ]
    assert not dead
