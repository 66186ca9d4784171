"""docs/paper.md says where every line of the paper is: all of them are there, and every link leads to what it names."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "paper.md"
KEPT = ("exact", "high probability", "heuristic", "assumed", "rate", "not built")
LINES = {
    *("1, require", *(f"1.{i}" for i in range(1, 11)), "1, output"),
    *(
        "2, require",
        *(f"2.{i}" for i in range(1, 5)),
        "3, require",
        *(f"3.{i}" for i in range(1, 6)),
        "3, oracle",
        "3, output",
    ),
}
NAMES = {
    "Example": {"plain RL", "constrained MDP", "multi-objective", "feasibility", "apprenticeship", "entropy"},
    "Definition": {"kernel embedding"},
    "Equation": {
        *("value functions V, Q", "tabular problem", "the problem", "Regret(T), Violation(T)", "KNR", "low rank"),
        *("Lagrangian", "min-max", "max-min", "set G", "value functions of theta"),
        *("radius for KNR", "radius for low rank"),
    },
    "Assumption": {
        *("realizability", "bounded features of KNR", "bounded features of low rank", "bounded psi"),
        *("1-Lipschitz f and g", "Slater point", "planning oracle", "maximum-likelihood oracle"),
    },
    "Proposition": {"convex problem"},
    "Lemma": {
        *("bounded dual variable", "dual update", "optimism", "spurious regret", "value difference", "simulation"),
        *("estimation error", "shrinking set", "confidence ball"),
    },
    "Theorem": {"KNR", "low rank"},
    "Corollary": {"KNR", "low rank"},
    "Remark": {
        "perspective",
        "computation",
        "heuristic planners",
        "Monte Carlo",
        "PAC",
        "infinite classes",
        "known phi",
    },
}
LINK = re.compile(r"\[([\w.]+)\]\((\.\./(?:src|tests)/[\w./]+)\)")


def _rows():
    """The rows of the tables that say what is kept, cell by cell."""
    rows, inside = [], False
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        inside = len(cells) == 5 and (inside or cells[-1] == "kept")
        if inside and cells[-1] != "kept" and set(cells[-1]) != {"-"}:
            rows.append(cells)
    return rows


ROWS = _rows()


@cache
def _tree(path):
    return ast.parse(path.read_text())


def _defines(path, name):
    """Whether a file defines a function, a class, a constant or, after a point, a member of a class."""
    body = _tree(path).body
    for part in name.split("."):
        found = [node for node in body if part in _names(node)]
        if not found:
            return False
        body = getattr(found[0], "body", [])
    return True


def _names(node):
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}


def test_every_line_of_the_paper_has_a_row():
    found = {row[0] for row in ROWS}
    assert len(found) == len(ROWS)
    assert found >= LINES | {f"{kind}: {name}" for kind, names in NAMES.items() for name in names}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_has_code_and_a_test_or_says_what_is_missing(row):
    _, _, code, test, kept = row
    assert kept.startswith(KEPT)
    if kept.startswith("not built"):
        assert len(kept) > len("not built: why")
        return
    assert LINK.findall(code), "no code"
    assert LINK.findall(test), "no test"
    assert all(path.startswith("../src/bidual/") for _, path in LINK.findall(code))
    assert all(name.startswith("test_") for name, _ in LINK.findall(test))


def test_every_link_leads_to_what_it_names():
    links = LINK.findall(PAGE.read_text())
    assert len(links) > 150
    gone = [(name, path) for name, path in links if not (PAGE.parent / path).exists()]
    assert not gone
    assert not [(name, path) for name, path in links if not _defines((PAGE.parent / path).resolve(), name)]


def test_a_target_that_is_gone_is_noticed(tmp_path):
    path = tmp_path / "some.py"
    path.write_text("class Here:\n    size: int\n    def now(self): ...\na, b = 1, 2\n")
    assert all(_defines(path, name) for name in ("Here", "Here.now", "Here.size", "b"))
    assert not any(_defines(path, name) for name in ("There", "Here.then", "now"))
