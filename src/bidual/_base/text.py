"""Strings from files and environments on their way to a terminal, which obeys what is written in them."""

import unicodedata

_KEPT = {"\n", "\t"}
# Controls (C0, C1, escape), marks that reverse the direction of writing, lone surrogates, and line separators.
_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def escape_unprintable(text: str) -> str:
    """Return a text with every character that a terminal would obey, and none would show, written as an escape."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(one if one in _KEPT or not _is_hidden(one) else _escape(one) for one in text)


def _is_hidden(one: str) -> bool:
    return unicodedata.category(one) in _HIDDEN


def _escape(one: str) -> str:
    number = ord(one)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
