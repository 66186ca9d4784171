"""Checks of shapes, prepared and made where they can find something new.

`jaxtyping` decorates every function of the package when it is imported, and checks every call. Most functions are never
called in one test file, and the first calls in a test find what the ten thousandth would: so a function is decorated at
its first checked call, and its first calls in every test are checked. Both are deterministic.
"""

import inspect
from functools import cached_property, partial, wraps

import jaxtyping
from beartype import beartype

CALLS = 8  # of one function in one test

_jaxtyped = jaxtyping.jaxtyped


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
        """The function with arguments and results checked."""
        return _jaxtyped(self.function, typechecker=beartype)

    def choose(self):
        """Count a call and return the function to use for it, checked or as it is."""
        if not TESTS.checked:
            return self.function
        if self.test != TESTS.number:
            self.test, self.calls = TESTS.number, 0
        self.calls += 1
        return self.checked if self.calls <= CALLS else self.function


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
