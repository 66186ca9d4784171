"""``bidual learn``: an unknown model, from episodes."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bidual._base.errors import EnvError, TaskError
from bidual.cli._explorer_options import DUALS, EXPLORERS
from bidual.cli._files import make_folder
from bidual.cli._history import write_history
from bidual.cli._imports import import_cvxpy
from bidual.cli._interrupts import remember_interrupts
from bidual.cli._next_steps import describe_stop, describe_use
from bidual.cli._options import (
    Options,
    check_executes_nothing,
    find_default_episodes,
    learn_with_options,
    load_declared,
    read_stored_options,
    resume_command,
)
from bidual.cli._output import report, show

if TYPE_CHECKING:
    from collections.abc import Callable

    from bidual.cli._target import Unknown
    from bidual.learning.learned import Learned
    from bidual.learning.runs import Folder

# Those of bidual.models, which would take a second to import for --help: of counts, and of classes of laws.
SETS = ("ball", "box", "bernstein", "l1", "likelihood", "paper")
_INFEASIBLE, _UNDECIDED = 3, 4


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "learn",
        help="learn a task or an environment from episodes",
        description="Learn a policy in an environment whose transitions are not known, and say what is certain about "
        "it. A task is simulated: the learner is told which states can follow, not how likely they are; or, where the "
        "task has one, a class of laws of which one is true at every step.",
    )
    parser.add_argument(
        "target",
        nargs="?",
        metavar="TASK|FILE.py",
        help="a name from 'bidual tasks'; CartPole-v1, MountainCar-v0, Acrobot-v1 or Pendulum-v1 of Gymnasium; or a "
        "Python file that defines problem and env (or mdp), and maybe model, states (a function from an observation to "
        "a state) and states_limit; not needed with --resume",
    )
    parser.add_argument(
        "--run", type=Path, metavar="DIR", help="store the run in this folder, a new one", dest="folder"
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on with the run in --run DIR, with its own options, to the last bit"
    )
    parser.add_argument(
        "--checkpoint-every", type=int, metavar="N", help="episodes between checkpoints (default: by the clock)"
    )
    parser.add_argument(
        "--tensorboard",
        action="store_true",
        help="also write the numbers of --run DIR for TensorBoard (an extra)",
    )
    parser.add_argument(
        "--batch", type=int, default=1, metavar="M", help="episodes to run with each policy that is chosen (default 1)"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", dest="settings", help="a parameter of the task"
    )
    parser.add_argument(
        "--episodes", type=int, metavar="N", help="to learn from (default 1000, or what 'bidual tasks' says)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of everything random (default 0)")
    parser.add_argument(
        "--delta", type=float, default=0.05, help="all bounds hold at once with probability 1 - delta (default 0.05)"
    )
    parser.add_argument(
        "--support",
        choices=["declared", "unknown"],
        help="whether the learner is told which states can follow, where a model is simulated (default declared)",
    )
    parser.add_argument(
        "--evaluation",
        type=int,
        metavar="N",
        help="fresh episodes to evaluate the policy on (default a third of --episodes, at least 50)",
    )
    parser.add_argument(
        "--stop-gap", type=float, metavar="G", help="stop as soon as the policy is certified to be this near to optimal"
    )
    parser.add_argument(
        "--explorer",
        choices=EXPLORERS,
        help="how to choose the policy of an episode (default alternating; of vectors under controls what suits the "
        "task, or one of thompson, greedy, bonus, best-of, hallucinated)",
    )
    parser.add_argument(
        "--dual",
        choices=DUALS,
        help="corrective (default), or the paper's own loop, one plan and one step per episode: gradient ascent "
        "(paper), with steps for linear functions too (paper-literal), or follow the leader (ftl). Of a class of laws "
        "the paper's loop is Algorithm 3: its set, and a rollout for every step with an action at random",
    )
    parser.add_argument(
        "--confidence",
        choices=SETS,
        help="what is known of a law after some samples of it (default ball or, of a class of laws, likelihood)",
    )
    parser.add_argument(
        "--per-step", action="store_true", help="count every step of an episode apart, because the law changes with it"
    )
    parser.add_argument("--history", type=Path, metavar="FILE.csv", help="write bounds, regret and violation over time")
    parser.add_argument("--time-limit", type=float, metavar="S", help="end within so many seconds, bounds included")
    parser.add_argument(
        "--require-certificate", action="store_true", help="exit code 4 unless the policy is shown to be feasible"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="write the policy, JSON and figures there")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    parser.add_argument(
        "--verbose", action="store_true", help="print every policy, every assumption and how episodes were chosen"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Learn and report. The folder of a run is written first, before numerical libraries are imported."""
    if args.folder is None:
        return _learn(args)
    from bidual.learning.folder import begin_run

    options = _read_options(args)
    begun = options.to_dict()
    if not _knows_episodes(args):
        del begun["episodes"]
    try:
        with (
            remember_interrupts() as raise_lost,
            begin_run(args.folder, resume=args.resume, task=options.target, options=begun),
        ):
            return _learn(args, raise_lost)
    except (KeyboardInterrupt, EnvError):
        report(describe_stop(args.folder, options))
        raise


def _learn(args: argparse.Namespace, raise_lost: "Callable[[], None]" = lambda: None) -> int:
    """Learn and report."""
    import_cvxpy()
    from bidual.cli._files import draw_control_figures, to_json, write_learned
    from bidual.cli._true_model import evaluate_in_true_model

    options = _read_options(args)
    if not _knows_episodes(args):
        options = replace(options, episodes=find_default_episodes(options.target))
    target = load_declared(options)
    raise_lost()
    if args.out is not None:
        make_folder(args.out)
    solution = learn_with_progress(options, target, time_limit=args.time_limit, run=_read_folder(args, options))
    if args.folder is not None:
        report(f"stored in {args.folder}")
    text = to_json(solution) if args.json else solution.describe() if args.verbose else str(solution)
    show(text)
    if args.json and solution.conflict is not None:
        report(f"bidual: {solution.conflict}")
    truth = None
    if target.truth is not None and (args.out is not None or not args.json):
        truth = evaluate_in_true_model(solution, target.problem, target.truth)
    if truth is not None and not args.json:
        show(truth)
    if args.out is not None:
        optimum = _find_known_optimum(options) if truth is None else truth.optimum
        figures = draw_control_figures(solution, target)
        for path in write_learned(solution, args.out, target.grid, optimum, figures):
            report(f"wrote {path}")
    if args.history is not None:
        regret = None if target.truth is None else solution.regret(target.truth)
        report(f"wrote {write_history(solution, regret, args.history)}")
    if args.out is not None:
        for line in describe_use(args.out / "solution.bidual", options):
            report(line)
    return _choose_exit_code(solution, args, options.episodes)


def _find_known_optimum(options: Options) -> float | None:
    """Return the optimum of a task with its default parameters, where it is known."""
    if options.settings:
        return None
    from bidual.tasks import ENTRIES

    return next((entry.optimum for entry in ENTRIES if entry.name == options.target), None)


def _read_options(args: argparse.Namespace) -> Options:
    """Read the options of the command line or, where a run is resumed without naming its task, those of the run."""
    if args.target is None:
        if not (args.resume and args.folder is not None):
            raise TaskError(
                "name a task or a file to learn ('bidual tasks' lists tasks), or resume: --run DIR --resume"
            )
        stored = read_stored_options(args.folder)
        options = stored if args.episodes is None else replace(stored, episodes=args.episodes)
        check_executes_nothing(options, resume_command(options, args.folder))
        return options
    return Options(
        target=args.target,
        settings=tuple(args.settings),
        episodes=Options.episodes if args.episodes is None else args.episodes,
        seed=args.seed,
        delta=args.delta,
        support=args.support,
        evaluation=args.evaluation,
        stop_gap=args.stop_gap,
        explorer=args.explorer,
        dual=args.dual,
        confidence=args.confidence,
        per_step=args.per_step,
        batch=args.batch,
    )


def _knows_episodes(args: argparse.Namespace) -> bool:
    """Tell whether a number of episodes was given, now or when the run was started: the task's own comes with tasks."""
    from bidual.learning.folder import read_manifest

    stored = args.target is None and "episodes" in read_manifest(args.folder)["options"]
    return stored or args.episodes is not None


def _read_folder(args: argparse.Namespace, options: Options) -> "Folder | None":
    """Read the folder of the run; None where the run is not stored."""
    if args.folder is None:
        for name in ("resume", "checkpoint_every", "tensorboard"):
            if getattr(args, name):
                raise TaskError(f"--{name.replace('_', '-')} is about a stored run: say which with --run DIR")
        return None
    from bidual.learning.runs import Folder

    return Folder(
        args.folder,
        resume=args.resume,
        every=args.checkpoint_every,
        task=options.target,
        options=options.to_dict(),
        tensorboard=args.tensorboard,
    )


def learn_with_progress(
    options: Options, target: "Unknown", *, time_limit: float | None = None, run: "Folder | None" = None
) -> "Learned":
    """Learn with a progress line."""
    from bidual.cli._progress import open_learning_line

    with open_learning_line(target.name, options.episodes, maximises=target.problem.maximises) as progress:
        return learn_with_options(options, target, time_limit=time_limit, progress=progress, run=run)


def _choose_exit_code(solution: "Learned", args: argparse.Namespace, episodes: int) -> int:
    """Return the exit code: a used-up episode budget is a success, certified or not, unless more was required."""
    if solution.status == "infeasible":
        return _INFEASIBLE
    unfinished = args.require_certificate or solution.episodes < episodes
    return _UNDECIDED if solution.status == "undecided" and unfinished else 0
