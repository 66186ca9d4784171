"""``bidual export``: a policy as a table for other programs."""

import argparse
from pathlib import Path

from bidual.cli._output import show
from bidual.cli._stored import add_file_to, open_saved

_FORMATS = ("json", "csv", "npz", "safetensors")  # those of bidual.policies, which would take a second to import


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "export",
        help="write the policy of a run or a saved solution as a table",
        description="Write the probability of every action at every step in every state or, of controls, the affine "
        "law of every step.",
    )
    parser.add_argument("path", type=Path, metavar="RUN|FILE", help="the folder of a run, or a saved solution")
    parser.add_argument("--format", choices=_FORMATS, default="json", help="default json")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="where to write (default: the run's name in this folder)"
    )
    add_file_to(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write one table."""
    from bidual.storage import load
    from bidual.world.policies import write_table

    name = args.path.resolve().name if args.path.is_dir() else args.path.stem
    target = args.out or Path(f"{name}.{args.format}")
    with open_saved(args.path, args.target, "bidual export", evaluate=False) as saved:
        policy = load(saved)
    show(f"wrote {write_table(policy, target, args.format)}: {policy}")
    return 0
