"""The command line: one file per command, heavy imports only where a command runs."""

import argparse
import gc
import os

from bidual._base.errors import BidualError
from bidual._base.version import __version__
from bidual.cli import check, demo, evaluate, export, finish, learn, new, price, runs, solve, sweep, tasks
from bidual.cli._compiled import keep_compiled_code
from bidual.cli._interrupts import Terminated
from bidual.cli._output import give_up_stdout, report, reserve_stdout
from bidual.cli._parser import Parser

INTERRUPTED, READER_LEFT, TERMINATED = 130, 141, 143  # 128 and the number of the signal that ends other tools
_MANY_OBJECTS = 50_000  # before Python looks for garbage: importing makes a hundred times the usual number, and none
_COMMANDS = (demo, tasks, new, solve, learn, sweep, runs, finish, evaluate, export, price, check)


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    args, unknown = _build_parser().parse_known_args(argv)
    if unknown:  # of options: the parser of the command knows which were meant
        args.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        with reserve_stdout() as results:
            code = args.run(args)
        return READER_LEFT if results.reader_left and not code else code
    except BidualError as error:
        report(f"bidual: {error}")
        return error.exit_code
    except Terminated:
        report("bidual: terminated")
        return TERMINATED
    except KeyboardInterrupt:
        report("bidual: interrupted")
        return INTERRUPTED
    except OSError as error:
        report(f"bidual: {error}")
        return BidualError.exit_code


def entry() -> int:
    """Run the command of this process, which prints nothing on standard output after it."""
    if "_ARGCOMPLETE" in os.environ:
        _complete_command()
    keep_compiled_code()
    gc.set_threshold(_MANY_OBJECTS)
    try:
        return main()
    finally:
        give_up_stdout()
        gc.disable()  # the process ends, and what it leaves need not be searched


def _complete_command() -> None:
    """Answer a shell that completes a command, whose question is in the environment, and end the process."""
    import argcomplete

    argcomplete.autocomplete(_build_parser())


def _build_parser() -> Parser:
    """Build the parser of all commands, each of which adds its own options."""
    parser = Parser(
        prog="bidual",
        description="Constrained convex Markov decision processes: policies with certificates.",
        epilog="exit codes: 0 solved, feasible or learned, 1 internal error or failed check, 2 usage or bad input, "
        "3 infeasible, 4 undecided, 5 a file or a stored run that cannot be read or written, 130 interrupted, "
        "141 nobody reads the results (all else was done), 143 terminated",
    )
    parser.add_argument("--version", action="version", version=f"bidual {__version__}")
    _add_commands(parser)
    return parser


def _add_commands(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add_to(commands)
    for one in commands.choices.values():
        one.set_defaults(parser=one)
