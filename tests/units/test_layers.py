"""The tree is the architecture: a module may import only modules of rows above its own, or of its own folder."""

import ast
import sys
from pathlib import Path

import bidual

ROOT = Path(bidual.__file__).parent

# Rows of docs/architecture.md, top to bottom. A name is a module or a folder.
ROWS = (
    ("_version", "_errors", "_status", "_types"),
    ("_archive", "_keys", "bounds", "theory"),
    ("convex",),
    ("features",),
    ("problem",),
    ("_matrices",),
    ("_lists",),
    ("_gymnasium",),
    ("mdp",),
    ("problems",),
    ("policies",),
    ("envs",),
    ("models",),
    ("planners",),
    ("control",),
    ("dual",),
    ("primal_dual",),
    ("explorers",),
    ("vpdpo",),
    ("rounding",),
    ("certificate",),
    ("constraints",),
    ("saved",),
    ("solution",),
    ("_conflict",),
    ("_unbounded",),
    ("_effort",),
    ("_search",),
    ("_conclude",),
    ("_slater",),
    ("_averaged",),
    ("_solve",),
    ("outputs",),
    ("learned",),
    ("_prepare",),
    ("_announce",),
    ("_evaluate",),
    ("_learning",),
    ("_course",),
    ("_measured",),
    ("_paid",),
    ("_running",),
    ("runs",),
    ("_learn",),
    ("tasks",),
    ("report",),
    ("distributed",),
    ("_curve",),
    ("_families",),
    ("_sweep",),
    ("_points",),
    ("_price",),
    ("cli",),
    ("__init__", "__main__"),
)
RANK = {name: rank for rank, row in enumerate(ROWS) for name in row}
LIGHT = ("convex", "models", "planners", "dual", "policies")


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


def test_every_module_has_a_row():
    assert {_home(path) for path in ROOT.rglob("*.py")} == set(RANK)


def test_no_module_imports_a_lower_row():
    wrong = []
    for path in ROOT.rglob("*.py"):
        here = _home(path)
        for module in _imports(path):
            parts = module.split(".")
            if parts[0] != "bidual" or len(parts) < 2:
                continue
            there = parts[1]
            if there in RANK and there != here and RANK[there] >= RANK[here]:
                wrong.append(f"{path.relative_to(ROOT)} imports {module}")
    assert not wrong


def test_the_check_sees_a_wrong_import(tmp_path):
    """The test of the test: an upward import is found by the same reading of the source."""
    path = tmp_path / "mdp.py"
    path.write_text("def f():\n    from bidual.cli import main\n")
    assert any(RANK[module.split(".")[1]] > RANK["mdp"] for module in _imports(path))


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
EXCEPTIONS = {"envs/_sending.py": {"multiprocessing.reduction"}, "cli/_script.py": {"runpy"}}
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
