"""Tables of plain text."""

from collections.abc import Sequence


def format_rows(rows: Sequence[Sequence[str]]) -> str:
    """Format rows of as many cells each as lines, with columns as wide as their widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)
