"""``bidual demo``: the main job, on an embedded task."""

import argparse
from pathlib import Path

_WORDS = """\
The Mars rover must cross 8x8 cells to the goal in the bottom right corner within 30 steps. One action in ten slips.
Pits pay like the goal but count as damage, and the expected damage may be at most 0.3. Which policy earns most?
"""


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the command."""
    parser = commands.add_parser("demo", help="solve the rover, print its certificate, draw what it does")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("bidual-demo"),
        metavar="DIR",
        help="folder for the files (default bidual-demo)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Solve the rover and say what is certain about the answer."""
    import shutil
    import sys
    from dataclasses import replace

    from bidual._solve import solve
    from bidual.cli._files import write_outputs
    from bidual.cli._progress import progress_line
    from bidual.cli._target import load_target

    target = load_target("rover", [])
    print(_WORDS)
    with progress_line("rover") as progress:
        solution = replace(solve(target.problem, target.mdp, progress=progress), task="rover")
    print(solution)
    pits = solution.constraint("pits")
    print(
        f"\nIn words: the policy earns {solution.value:.6f} with an expected damage of {pits.value:.6f}.\n"
        f"No policy that keeps the damage within {pits.limit:g} earns more than {solution.upper:.6f}.\n"
        f"Allowing a little more damage would pay {pits.price:.3f} per unit.\n"
    )
    paths = write_outputs(solution, args.out, target.grid)
    print(f"Policy, numbers and figures are in {args.out}:")
    for path in paths:
        print(f"  {path}")
    command = "bidual" if shutil.which("bidual") else sys.argv[0]
    print(f"Check the certificate again with: {command} check {paths[0]}")
    return 0
