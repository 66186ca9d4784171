"""Checks of shapes that are prepared when they are first needed: most functions are imported and never called."""

from functools import wraps

from beartype import beartype


def check_at_first_call(function):
    """Return the function with its arguments and results checked, which beartype prepares at the first call."""
    checked = None

    @wraps(function)
    def call(*args, **kwargs):
        nonlocal checked
        if checked is None:
            checked = beartype(function)
        return checked(*args, **kwargs)

    return call
