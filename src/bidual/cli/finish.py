"""``bidual finish``: end a run that was stopped with what it has learned."""

import argparse
from dataclasses import replace
from pathlib import Path

from bidual.cli._output import report, show

_INFEASIBLE = 3


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "finish",
        help="end a stored run that was stopped with what it has learned",
        description="Conclude a stored run from its last checkpoint: its policy is computed, evaluated on fresh "
        "episodes and stored with its certificate. 'bidual learn --run RUN --resume' can still go on with it.",
    )
    parser.add_argument("path", type=Path, metavar="RUN", help="the folder of a run")
    parser.add_argument(
        "target", nargs="?", metavar="FILE.py", help="the file that the run was learned in, where it was a file"
    )
    parser.add_argument(
        "--evaluation",
        type=int,
        metavar="N",
        help="fresh episodes to evaluate the policy on (default what the run was started with); 0 needs no environment",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    parser.add_argument("--verbose", action="store_true", help="print every policy and every assumption")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Finish one run."""
    from bidual.cli._files import to_json
    from bidual.cli._next_steps import describe_use
    from bidual.cli._stored import conclude_run, read_trusted_options

    options = read_trusted_options(args.path, args.target, f"bidual finish {args.path}")
    evaluation = options.evaluation if args.evaluation is None else args.evaluation
    solution = conclude_run(args.path, options, evaluation=evaluation, store=True)
    solution = replace(solution, task=Path(options.target).name)
    show(to_json(solution) if args.json else solution.describe() if args.verbose else str(solution))
    report(f"finished and stored in {args.path}")
    for line in describe_use(args.path / "solution.bidual", options):
        report(line)
    return _INFEASIBLE if solution.status == "infeasible" else 0
