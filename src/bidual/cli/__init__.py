"""The command line: one file per command, heavy imports only where a command runs."""

import argparse

from bidual._base.errors import BidualError
from bidual._base.version import __version__
from bidual.cli import check, demo, evaluate, export, learn, new, price, runs, solve, sweep, tasks
from bidual.cli._interrupts import Terminated
from bidual.cli._output import give_up_stdout, report, reserve_stdout

INTERRUPTED, TERMINATED = 130, 143  # 128 and the number of the signal
_COMMANDS = (demo, tasks, new, solve, learn, sweep, runs, evaluate, export, price, check)


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    args = _parser().parse_args(argv)
    try:
        with reserve_stdout():
            return args.run(args)
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
    try:
        return main()
    finally:
        give_up_stdout()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bidual",
        description="Constrained convex Markov decision processes: policies with certificates.",
        epilog="exit codes: 0 solved, feasible or learned, 1 internal error or failed check, 2 usage or bad input, "
        "3 infeasible, 4 undecided, 5 a file or a stored run that cannot be read or written, 130 interrupted, "
        "143 terminated",
    )
    parser.add_argument("--version", action="version", version=f"bidual {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add_to(commands)
    return parser
