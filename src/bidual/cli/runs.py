"""``bidual runs``: the stored runs, and their status."""

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bidual.cli._output import show
from bidual.cli._table import format_rows

if TYPE_CHECKING:
    from bidual.learning.runs import Listed

_COLUMNS = ("run", "task", "status", "episodes", "value", "gap", "violation", "age")


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "runs",
        help="list stored runs",
        description="List the runs of a folder. Gap and violation are upper bounds: of the policy where a run has "
        "finished, of the mixture of the policies run so far where it has not.",
    )
    parser.add_argument("folder", nargs="?", type=Path, default=Path("runs"), metavar="DIR", help="default runs")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the list."""
    from bidual.learning.runs import listed

    found = listed(args.folder)
    if args.json:
        show(json.dumps({"runs": [_to_values(one) for one in found]}, indent=2, allow_nan=False))
        return 0
    show(format_rows([_COLUMNS, *(_format_cells(one) for one in found)]))
    return 0


def _to_values(one: "Listed") -> dict[str, Any]:
    values = {name: getattr(one, name) for name in ("name", "task", "status", "episodes", "created", "updated")}
    return values | {"folder": str(one.folder), "gap": one.gap, "violation": one.violation, "result": one.result}


def _format_cells(one: "Listed") -> tuple[str, ...]:
    value = None if one.result is None else one.result["value"]
    numbers = ("" if number is None else f"{number:.4g}" for number in (value, one.gap, one.violation))
    return (one.name, one.task or "", one.status, str(one.episodes), *numbers, _format_age(time.time() - one.updated))


def _format_age(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"
