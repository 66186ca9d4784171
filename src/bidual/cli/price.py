"""``bidual price``: the value of the limit of a constraint."""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bidual._base.errors import TaskError
from bidual.cli._folders import make_folder
from bidual.cli._output import report, show

if TYPE_CHECKING:
    from bidual.solving.pricing import Curve


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "price",
        help="optimum and price against the limit of a constraint",
        description="Solve a problem at many limits of one constraint: what each limit costs, which limits can be kept "
        "at all, and from which one on the constraint costs nothing.",
    )
    parser.add_argument("target", metavar="TASK|FILE.py", help="a name from 'bidual tasks', or a Python file")
    parser.add_argument("--constraint", metavar="NAME", help="the constraint; may be left out where there is only one")
    parser.add_argument("--points", type=int, default=20, metavar="N", help="number of limits (default 20)")
    parser.add_argument("--from", type=float, metavar="A", dest="first", help="the first limit, with --to")
    parser.add_argument("--to", type=float, metavar="B", dest="last", help="the last limit, with --from")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", dest="settings", help="a parameter of the task"
    )
    parser.add_argument(
        "--gap",
        type=float,
        help="certified gap to reach at every limit (default: a millionth of the size of the bounds)",
    )
    parser.add_argument("--rel-gap", action="store_true", help="measure the gap relative to the bounds")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write curve.json and curve.png there")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Solve along the limits and report."""
    from bidual.cli._progress import progress_line
    from bidual.cli._target import load_target
    from bidual.solving.pricing import price

    limits = _limits(args.first, args.last, args.points)
    target = load_target(args.target, args.settings)
    if args.out is not None:
        make_folder(args.out)
    with progress_line(target.name) as progress:
        curve = price(
            target.problem,
            target.mdp,
            args.constraint,
            points=args.points,
            limits=limits,
            gap=args.gap,
            relative=args.rel_gap,
            progress=lambda done, state: progress(state, f"limit {done + 1}, "),
        )
    curve = replace(curve, task=target.name)
    show(_to_json(curve) if args.json else curve)
    if args.out is not None:
        for path in _write(curve, args.out):
            report(f"wrote {path}")
    return _exit_code(curve)


def _limits(first: float | None, last: float | None, points: int) -> list[float] | None:
    if first is None and last is None:
        return None
    if first is None or last is None:
        raise TaskError("--from and --to go together: give both, or neither for the whole range")
    if points < 1 or (points == 1) != (first == last) or not first <= last:
        raise TaskError(
            f"--from {first:g} --to {last:g} --points {points}: the limits must increase, "
            "and one point is for a single limit"
        )
    step = (last - first) / max(points - 1, 1)
    return [*(first + i * step for i in range(points - 1)), last]


def _to_json(curve: "Curve") -> str:
    return json.dumps(curve.to_dict(), indent=2, allow_nan=False)


def _write(curve: "Curve", folder: Path) -> list[Path]:
    from bidual._base.archive import put_bytes
    from bidual.report import save_figure

    paths = [folder / "curve.json", folder / "curve.png"]
    put_bytes(paths[0], (_to_json(curve) + "\n").encode())
    save_figure(curve.figure(), paths[1])
    return paths


def _exit_code(curve: "Curve") -> int:
    """Return the exit code, as for solve: 4 where a limit was left undecided, 3 where no limit can be kept."""
    if "undecided" in curve.statuses:
        return 4
    return 3 if set(curve.statuses) == {"infeasible"} else 0
