"""Checks of shapes, prepared and made where they can find something new.

`jaxtyping` decorates every function of the package when it is imported, and checks every call. Most functions are never
called in one test file, and the first calls in a test find what the ten thousandth would: so a function is decorated at
its first checked call, and its first calls in every test are checked. Both are deterministic.
"""

import inspect
from functools import cached_property, partial, wraps
from types import FunctionType, SimpleNamespace
from typing import Any, get_type_hints

import jaxtyping
from beartype import BeartypeConf, beartype

CALLS = 8  # of one function in one test

_jaxtyped = jaxtyping.jaxtyped
_check_types = beartype(conf=BeartypeConf(violation_type=jaxtyping.TypeCheckError))


class Tests:
    """The number of the running test, which says when to count anew, and whether shapes are checked in it."""

    def __init__(self):
        self.number, self.checked = 0, False

    def begin(self, checked):
        """Begin a test whose calls are checked or not."""
        self.number, self.checked = self.number + 1, checked


TESTS = Tests()


class Checks:
    """The checked form of one function, and how often it was called in the running test."""

    def __init__(self, function):
        self.function, self.test, self.calls = function, 0, 0

    @cached_property
    def checked(self):
        """The function with arguments and results checked: once each, while jaxtyping itself checks arguments twice."""
        function, sizes = _check_types(_copy(self.function)), _jaxtyped("context")

        def call(*args, **kwargs):
            with sizes:  # of this call: names of axes mean the same in its arguments and in its result
                return function(*args, **kwargs)

        return call

    def choose(self):
        """Count a call and return the function to use for it, checked or as it is."""
        if not TESTS.checked:
            return self.function
        if self.test != TESTS.number:
            self.test, self.calls = TESTS.number, 0
        self.calls += 1
        return self.checked if self.calls <= CALLS else self.function


def _copy(function):
    """Copy a function, with types in the place of strings in its annotations."""
    code, names = function.__code__, function.__globals__
    copy = FunctionType(code, names, function.__name__, function.__defaults__, function.__closure__)
    copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__annotations__ = {name: _resolve(hint, names) for name, hint in function.__annotations__.items()}
    return copy


def _resolve(annotation, names):
    """Return the type that an annotation means, or anything where only type checkers know it."""
    holder = SimpleNamespace(__annotations__={"value": annotation})
    try:
        return get_type_hints(holder, names, include_extras=True)["value"]
    except (NameError, TypeError):  # a class that takes parameters only there
        return Any


def check_first_calls(function):
    """Return the function with its first calls in every test checked; methods, properties and classes likewise."""
    if inspect.isclass(function):
        return _check_fields(function)
    if isinstance(function, classmethod | staticmethod):
        return type(function)(check_first_calls(function.__func__))
    if isinstance(function, property):
        return property(*(each and check_first_calls(each) for each in (function.fget, function.fset, function.fdel)))
    if not inspect.isfunction(function) or not function.__annotations__:
        return function
    checks = Checks(function)

    @wraps(function)
    def call(*args, **kwargs):
        return checks.choose()(*args, **kwargs)

    return call


def _check_fields(kind):
    """Return a class whose fields are checked where it is a dataclass."""
    if "__dataclass_fields__" in vars(kind) and "__init__" in vars(kind):
        kind.__init__ = check_first_calls(kind.__init__)
    return kind


def install():
    """Let jaxtyping's import hook decorate with `check_first_calls`."""
    jaxtyping.jaxtyped = _decorate


def _decorate(function=None, typechecker=None):
    """Decorate as jaxtyping does: without a function yet, with one, or as a context, which stays as it is."""
    if function is None:
        return partial(_decorate, typechecker=typechecker)
    return _jaxtyped(function) if function == "context" else check_first_calls(function)
