"""``bidual demo``: learn an embedded task from scratch, print its certificate, compare it with the truth."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from bidual.cli._files import make_folder
from bidual.cli._imports import import_cvxpy
from bidual.cli._options import Options, load_declared
from bidual.cli._output import show
from bidual.cli.learn import learn_with_progress

if TYPE_CHECKING:
    from bidual.cli._target import Unknown
    from bidual.cli._true_model import TrueModel
    from bidual.learning.learned import Learned

_EPISODES = 5000  # about 25 seconds on one core, compilation included
_TEXT = """\
The Mars rover must cross 8x8 cells to the goal in the bottom right corner within 30 steps. One action in ten slips.
Pits pay like the goal but count as damage, and the expected damage may be at most 0.3. Which policy earns most?

The rover is told which cells an action can lead to, but not how likely each is: that it learns in {episodes} episodes.
"""


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the command."""
    parser = commands.add_parser("demo", help="learn the rover from scratch, say what is certain, draw it")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("bidual-demo"),
        metavar="DIR",
        help="folder for the files (default bidual-demo)",
    )
    parser.add_argument(
        "--episodes", type=int, default=_EPISODES, metavar="N", help=f"to learn from (default {_EPISODES})"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Learn the rover, print the certified bounds, and put the truth beside them."""
    import_cvxpy()
    from bidual.cli._true_model import evaluate_in_true_model

    make_folder(args.out)
    # Episodes of evaluation are cheap, and the policy is worth a narrow interval.
    options = Options("rover", episodes=args.episodes, evaluation=2 * args.episodes)
    target = load_declared(options)
    show(_TEXT.format(episodes=args.episodes))
    solution = learn_with_progress(options, target)
    show(_describe_certified(solution))
    assert target.truth is not None  # a task is simulated
    truth = evaluate_in_true_model(solution, target.problem, target.truth)
    show(_describe_truth(truth))
    _write(solution, truth, target, args.out)
    return 0


def _describe_certified(solution: "Learned") -> str:
    """Describe the certified facts."""
    reward, pits = solution.outputs[0].objective, solution.outputs[0].constraints["pits"]
    limit = solution.constraint("pits").limit
    assert reward.lower is not None  # rewards lie in known bounds, so
    assert pits.upper is not None  # fresh episodes bound their means
    lines = [
        f"It is sure of this, with probability {1 - solution.delta:.0%}, all at once:",
        f"  its policy earns at least {reward.lower:.4f} ({reward.value:.4f} on {solution.outputs[0].episodes} fresh "
        "episodes);",
        f"  its expected damage is at most {pits.upper:.4f} ({pits.value:.4f} on them), and {limit:g} is allowed;",
    ]
    if solution.upper is not None:
        lines.append(f"  no policy that keeps the damage within {limit:g} can earn more than {solution.upper:.4f}.")
    return "\n".join([*lines, "This rests on:", *(f"  {assumption}" for assumption in solution.assumptions), ""])


def _describe_truth(truth: "TrueModel") -> str:
    """Describe the truth."""
    (pits,), best = truth.constraints, truth.best
    allowed = best.constraint("pits")
    return (
        "The truth, which the rover was not told, is this (the model solved exactly, and certified):\n"
        f"  its policy earns {truth.value:.6f} with an expected damage of {pits.value:.6f};\n"
        f"  no policy that keeps the damage within {pits.limit:g} earns more than {best.upper:.6f};\n"
        f"  allowing a little more damage would pay {allowed.price:.3f} per unit.\n"
    )


def _write(solution: "Learned", truth: "TrueModel", target: "Unknown", folder: Path) -> None:
    """Write figures and numbers of the learned and of the known model, and list the files."""
    import shutil
    import sys
    from dataclasses import replace

    from bidual.cli._files import write_learned, write_outputs

    paths = write_learned(solution, folder, target.grid, truth.optimum)
    known = write_outputs(replace(truth.best, task="rover"), folder / "known", target.grid)
    show(f"Numbers and figures are in {folder}; of the known model, with its policy, in {folder / 'known'}:")
    for path in [*paths, *known]:
        show(f"  {path}")
    command = "bidual" if shutil.which("bidual") else sys.argv[0]
    show(f"Check the certificate of the known model again with: {command} check {known[0]}")
