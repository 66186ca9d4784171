"""``bidual price``: the value of the limit of a constraint."""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bidual._base.errors import TaskError
from bidual.cli._files import make_folder
from bidual.cli._imports import import_cvxpy
from bidual.cli._output import report, show
from bidual.cli._stored import conclude_run, read_trusted_options

if TYPE_CHECKING:
    from bidual.learning.curve import LearnedCurve
    from bidual.solving.pricing import AbstractCurve, Curve


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "price",
        help="optimum and price against the limit of a constraint",
        description="Solve a problem at many limits of one constraint: what each limit costs, which limits can be kept "
        "at all, and from which one on the constraint costs nothing. Of a run: what no policy can beat at each limit, "
        "and an estimate.",
    )
    parser.add_argument(
        "target", metavar="TASK|FILE.py|RUN", help="a name from 'bidual tasks', a Python file, or the folder of a run"
    )
    parser.add_argument("file", nargs="?", metavar="FILE.py", help="the file that a run was learned in")
    parser.add_argument("--constraint", metavar="NAME", help="the constraint; may be left out where there is only one")
    parser.add_argument("--points", type=int, metavar="N", help="number of limits (default 20, of a run 10)")
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
    import_cvxpy()
    from bidual.cli._progress import open_progress_line
    from bidual.cli._target import load_target
    from bidual.solving.pricing import price

    learned = _is_run(args.target)
    points = args.points if args.points is not None else 10 if learned else 20
    limits = _read_limits(args.first, args.last, points)
    if args.out is not None:
        make_folder(args.out)
    if learned:
        return _report(_price_run(args, points, limits), args)
    if args.file is not None:
        raise TaskError(f"{args.file} goes with the folder of a run, and {args.target!r} is none: leave it out")
    target = load_target(args.target, args.settings)
    with open_progress_line(target.name) as progress:
        curve = price(
            target.problem,
            target.mdp,
            args.constraint,
            points=points,
            limits=limits,
            gap=args.gap,
            relative=args.rel_gap,
            progress=lambda done, state: progress(state, f"limit {done + 1}, "),
        )
    return _report(replace(curve, task=target.name), args) or _choose_exit_code(curve)


def _report(curve: "AbstractCurve", args: argparse.Namespace) -> int:
    """Print the curve and write its files; what episodes say is no failure, decided or not."""
    show(_to_json(curve) if args.json else curve)
    if args.out is not None:
        for path in _write(curve, args.out):
            report(f"wrote {path}")
    return 0


def _is_run(target: str) -> bool:
    """Return whether the target is the folder of a run; a task of that name comes first."""
    if not (Path(target) / "run.json").is_file():
        return False
    from bidual.tasks import ENTRIES

    return target not in [entry.name for entry in ENTRIES]


def _price_run(args: argparse.Namespace, points: int, limits: list[float] | None) -> "LearnedCurve":
    """Price the limit of a run from its last checkpoint; nothing of the run changes, and no episode is run."""
    if args.settings or args.gap is not None or args.rel_gap:
        raise TaskError("--set, --gap and --rel-gap are for known models: a run has its settings, and no gap to reach")
    folder = Path(args.target)
    options = read_trusted_options(folder, args.file, f"bidual price {folder}")
    learned = conclude_run(folder, options, evaluation=0, store=False)
    return learned.price(args.constraint, points=points, limits=limits)


def _read_limits(first: float | None, last: float | None, points: int) -> list[float] | None:
    """Read the limits between two ends; None for the whole range."""
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


def _to_json(curve: "AbstractCurve") -> str:
    return json.dumps(curve.to_dict(), indent=2, allow_nan=False)


def _write(curve: "AbstractCurve", folder: Path) -> list[Path]:
    from bidual._base.archive import put_bytes
    from bidual.report import save_figure

    paths = [folder / "curve.json", folder / "curve.png"]
    put_bytes(paths[0], (_to_json(curve) + "\n").encode())
    save_figure(curve.figure(), paths[1])
    return paths


def _choose_exit_code(curve: "Curve") -> int:
    """Return the exit code, as for solve: 4 where a limit was left undecided, 3 where no limit can be kept."""
    if "undecided" in curve.statuses:
        return 4
    return 3 if set(curve.statuses) == {"infeasible"} else 0
