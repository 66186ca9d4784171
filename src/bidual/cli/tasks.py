"""``bidual tasks``: the list of built-in tasks."""

import argparse

from bidual.cli._output import show


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the command."""
    parser = commands.add_parser("tasks", help="list the built-in tasks")
    parser.add_argument("--json", action="store_true", help="print a JSON list instead of text")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print every task with its parameters, constraints and exact optimum, where it is known."""
    from bidual.tasks import ENTRIES

    if args.json:
        import json

        keys = ("name", "summary", "source", "constraints", "optimum", "parameters", "episodes")
        show(json.dumps([{key: getattr(entry, key) for key in keys} for entry in ENTRIES], indent=2))
        return 0
    for entry in ENTRIES:
        settings = " ".join(f"{name}={value}" for name, value in entry.parameters.items())
        show(entry.name)
        show(f"    {entry.summary}")
        optimum = "unknown" if entry.optimum is None else f"{entry.optimum:.6f}"
        show(f"    optimum {optimum}; constraints: {', '.join(entry.constraints) or 'none'}; --set {settings}")
        show(f"    learned from {entry.episodes} episodes unless --episodes says otherwise")
        show(f"    from {entry.source}")
    return 0
