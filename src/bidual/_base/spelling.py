"""Misspelt names: which of the known ones was probably meant."""

from collections.abc import Iterable


def suggest(value: object, known: Iterable[str]) -> str:
    """Return a question that follows an error, about the known name nearest to a value; empty where none is near."""
    from difflib import get_close_matches

    near = get_close_matches(str(value), list(known), 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def list_possible(value: object, known: Iterable[str]) -> str:
    """List the known names, after the one that was probably meant."""
    names = list(known)
    return f"{suggest(value, names) or '.'} Possible: {', '.join(names) or 'none'}"
