"""``bidual new``: write a problem file to start from."""

import argparse
from pathlib import Path

from bidual._base.errors import TaskError
from bidual.cli._templates import ENVIRONMENT, KNOWN


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the command."""
    parser = commands.add_parser("new", help="write a runnable example of a problem file")
    parser.add_argument("--env", action="store_true", help="an environment to learn instead of a known model to solve")
    parser.add_argument("file", type=Path, metavar="FILE.py", help="the file to write; must not exist yet")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the template, never over an existing file."""
    template, command = (ENVIRONMENT, "learn") if args.env else (KNOWN, "solve")
    if args.file.suffix != ".py":
        raise TaskError(f"the file name must end in .py, like my_problem.py; got {args.file}")
    if not args.file.parent.is_dir():
        raise TaskError(f"the folder {args.file.parent} does not exist: create it first")
    try:
        with args.file.open("x") as file:
            file.write(template.format(name=args.file.name))
    except FileExistsError:
        raise TaskError(f"{args.file} exists already and was left alone: choose another name") from None
    print(f"wrote {args.file}; {command} it with: bidual {command} {args.file}")
    return 0
