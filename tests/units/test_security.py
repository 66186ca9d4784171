"""SECURITY.md promises nothing without a test: every row names files that exist, and every file there has tests."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "SECURITY.md").read_text()


def _rows():
    """Return promise and tests of every row of the tables that have tests."""
    tables = re.findall(r"\| promise \| held by \|\n\|---\|---\|\n((?:\|.*\n)+)", PAGE)
    return [row.strip("| ").split(" | ") for table in tables for row in table.splitlines()]


def test_every_promise_names_its_tests():
    assert len(_rows()) >= 15
    for promise, tests in _rows():
        assert re.fullmatch(r"(`tests/\w+/test_\w+\.py`(, |$))+", tests), promise


def test_every_file_that_is_named_exists_and_has_tests():
    named = set(re.findall(r"`(tests/[^`]*)`", PAGE))
    assert len(named) >= 12
    for name in named:
        assert "\ndef test_" in (ROOT / name).read_text(), name
