"""``bidual tasks``: the table of built-in tasks."""

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bidual._base.errors import TaskError
from bidual._base.spelling import list_possible
from bidual.cli._output import show
from bidual.cli._table import format_rows

if TYPE_CHECKING:
    from bidual.tasks import Entry

FAMILIES = ("tabular", "class", "latent", "control")  # those of bidual.tasks, which would take a second to import
_COLUMNS = ("name", "family", "objective", "limits", "optimum")
_VALUES = ("name", "family", "summary", "source", "objective", "limits", "constraints", "optimum", "parameters")


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "tasks",
        help="list the built-in tasks",
        description="List the built-in tasks. Those whose names contain NAME are described in full.",
    )
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help="a name or a part of it")
    parser.add_argument(
        "--family",
        choices=FAMILIES,
        help="only tasks of counted states (tabular), with a class of laws (class), with states hidden in vectors "
        "(latent), or of vectors under controls (control)",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON list instead of text")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the table and, where a name is asked for, the details of what it names."""
    entries = _choose(args.name, args.family)
    if args.json:
        keys = (*_VALUES, "episodes")
        show(json.dumps([{key: getattr(entry, key) for key in keys} for entry in entries], indent=2))
        return 0
    show(format_rows([_COLUMNS, *map(_format_cells, entries)]))
    if args.name:
        for entry in entries:
            show(_describe(entry))
    return 0


def _choose(part: str, family: str | None) -> "Sequence[Entry]":
    from bidual.tasks import ENTRIES

    possible = [entry for entry in ENTRIES if family in (None, entry.family)]
    chosen = [entry for entry in possible if part in entry.name]
    if not chosen:
        where = "" if family is None else f" of the family {family!r}"
        raise TaskError(f"no task{where} is called {part!r}{list_possible(part, [entry.name for entry in possible])}")
    return chosen


def _format_cells(entry: "Entry") -> tuple[str, ...]:
    limits = ", ".join(_put_number(entry, limit) for limit in entry.limits)
    optimum = "unknown" if entry.optimum is None else f"{entry.optimum:.6f}"
    return (entry.name, entry.family, entry.objective, limits or "none", optimum)


def _put_number(entry: "Entry", limit: str) -> str:
    """Replace the parameter of a limit by its default."""
    name, sense, parameter = limit.split()
    return f"{name} {sense} {entry.parameters[parameter]}"


def _describe(entry: "Entry") -> str:
    settings = " ".join(f"{name}={value}" for name, value in entry.parameters.items())
    lines = [
        f"\n{entry.name}: {entry.summary}",
        f"    --set {settings}; constraints: {', '.join(entry.limits) or 'none'}",
        f"    learned from {entry.episodes} episodes unless --episodes says otherwise",
        f"    from {entry.source}",
    ]
    return "\n".join(lines)
