"""Results for people: a title and labelled lines, as text or as an HTML table."""

import html
from collections.abc import Sequence

Facts = Sequence[tuple[str, str]]


def facts_text(title: str, facts: Facts) -> str:
    """Return one line for the title and one for every fact, the labels aligned."""
    return "\n".join([title, *(f"  {label:<12} {text}" for label, text in facts)])


def facts_html(title: str, facts: Facts) -> str:
    """Return the same as an HTML table, for notebooks."""
    left = "style='text-align:left'"
    rows = "".join(
        f"<tr><th {left}>{html.escape(label)}</th><td {left}>{html.escape(text)}</td></tr>" for label, text in facts
    )
    return f"<table><caption {left}><b>{html.escape(title)}</b></caption>{rows}</table>"
