"""``bidual check``: derive the certificate of a saved solution again."""

import argparse
from pathlib import Path

from bidual.cli._imports import import_cvxpy
from bidual.cli._output import show
from bidual.cli._stored import add_file_to, open_saved


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "check",
        help="re-run the independent checker on a saved solution",
        description="Derive every bound of a saved solution again: from its policy, model and multipliers where the "
        "model is known, and from counts, multipliers and samples where it was learned.",
    )
    parser.add_argument(
        "solution", type=Path, metavar="RUN|FILE", help="the folder of a run, or a file that solve wrote with --out"
    )
    parser.add_argument(
        "--exact",
        action="store_true",
        help="instead, decide every claim in rational arithmetic, with no tolerance; exit code 0 if all are proved, "
        "1 if one is refuted, 4 if one is not decided",
    )
    add_file_to(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Check one file, or what a run that was stopped comes to."""
    import_cvxpy()
    with open_saved(args.solution, args.target, "bidual check", evaluate=True) as saved:
        return _check(saved, exact=args.exact)


def _check(saved: Path, *, exact: bool) -> int:
    """Check a file and print the result; return the exit code."""
    if exact:
        from bidual._base import archive
        from bidual.certificate.verify import main
        from bidual.certificate.verify_convex import read_convex
        from bidual.certificate.verify_learned import read_learned
        from bidual.storage import find_saved

        file = find_saved(saved)
        archive.read(file, archive.read_kind(file) or "file")  # behind the guards, which the verifier does without
        return main([str(file)], show, convex=read_convex, learned=read_learned)
    from bidual.storage import check

    show(check(saved))
    return 0
