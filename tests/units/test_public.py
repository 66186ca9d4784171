"""The public surface: what `__all__` lists is sorted, documented, importable, and all that users are told of."""

import inspect
import re
import types
import typing
from pathlib import Path

import gymnasium
import matplotlib.figure
import pytest

import bidual as bd

ROOT = Path(__file__).parents[2]
NAMESPACES = {name: getattr(bd, name) for name in bd.__all__ if inspect.ismodule(getattr(bd, name))}
GUIDE = ROOT / "docs" / "extending.md"  # which uses the names that it adds
PAGES = [ROOT / "README.md", *sorted({*(ROOT / "docs").glob("*.md")} - {GUIDE}), *(ROOT / "examples").glob("*.py")]
EVERYWHERE = {"bidual": bd, **NAMESPACES}
TYPING_ONLY = {
    "Env": gymnasium.Env,
    "VectorEnv": gymnasium.vector.VectorEnv,
    "Figure": matplotlib.figure.Figure,
}  # imported for type checkers alone
PUBLIC = {id(getattr(module, name)) for module in EVERYWHERE.values() for name in module.__all__}


@pytest.mark.parametrize("name", EVERYWHERE)
def test_lists_are_sorted_and_importable(name):
    names = EVERYWHERE[name].__all__
    assert list(names) == sorted(set(names), key=lambda one: (not one.isupper(), not one[0].isupper(), one))
    for one in names:
        assert getattr(EVERYWHERE[name], one) is not None


@pytest.mark.parametrize("name", EVERYWHERE)
def test_everything_public_is_documented(name):
    module = EVERYWHERE[name]
    assert inspect.getdoc(module)
    for one in module.__all__:
        thing = getattr(module, one)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert thing.__doc__, f"bd.{name}.{one} has no docstring"
            assert not thing.__doc__.startswith(f"{one}("), f"the docstring of bd.{name}.{one} is a signature"


def _names_in(page):
    """Names of the public modules that a page uses, as in ``bd.features.computed``."""
    found = re.findall(rf"\bbd\.({'|'.join(NAMESPACES)})\.([A-Za-z_]\w*)", page.read_text())
    return {(module, name) for module, name in found if name != "py"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_use_public_names(page):
    hidden = [f"bd.{module}.{name}" for module, name in _names_in(page) if name not in NAMESPACES[module].__all__]
    assert not hidden
    top = set(re.findall(r"\bbd\.([A-Za-z_]\w*)", page.read_text()))
    assert top <= set(bd.__all__)


def _classes(hint):
    """The classes of this package that occur in an annotation."""
    if inspect.isclass(hint) and not typing.get_args(hint):
        return {hint} if hint.__module__.startswith("bidual.") else set()
    return {kind for part in typing.get_args(hint) for kind in _classes(part)}


@pytest.mark.parametrize("name", EVERYWHERE)
def test_signatures_of_functions_mention_public_classes(name):
    module, hidden = EVERYWHERE[name], set()
    for one in module.__all__:
        thing = getattr(module, one)
        if isinstance(thing, types.FunctionType):
            hints = typing.get_type_hints(inspect.unwrap(thing), vars(inspect.getmodule(thing)), TYPING_ONLY)
            classes = {kind for hint in hints.values() for kind in _classes(hint)}
            hidden |= {f"{one}: {kind.__qualname__}" for kind in classes if id(kind) not in PUBLIC}
    assert not hidden


def test_names_are_imported_on_first_use_and_listed():
    assert set(dir(bd)) == set(bd.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = bd.nothing
