"""Tables of notebooks: what `_repr_html_` returns."""

import html
from collections.abc import Iterable, Sequence

_LEFT = "style='text-align:left'"


def format_html_table(title: str, rows: Iterable[Sequence[str]], header: Sequence[str] = ()) -> str:
    """Return a table with a title, whose rows begin with a label; all text is escaped."""
    head = "".join(_format_cell("th", text) for text in header)
    body = "".join(f"<tr>{_format_row(row)}</tr>" for row in rows)
    head = head and f"<tr>{head}</tr>"
    return f"<table><caption {_LEFT}><b>{html.escape(title)}</b></caption>{head}{body}</table>"


def _format_row(row: Sequence[str]) -> str:
    return "".join(_format_cell("td" if i else "th", text) for i, text in enumerate(row))


def _format_cell(kind: str, text: str) -> str:
    return f"<{kind} {_LEFT}>{html.escape(text)}</{kind}>"
