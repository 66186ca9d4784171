"""``bidual learn``: an unknown model, from episodes."""

import argparse
import contextlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bidual.cli._exploring import DUALS, EXPLORERS, explorer_named
from bidual.cli._history import write_history

if TYPE_CHECKING:
    from bidual.cli._target import Unknown
    from bidual.explorers import AbstractExplorer
    from bidual.learned import Learned
    from bidual.models import Tabular

SETS = ("ball", "box", "bernstein", "l1")  # those of bidual.models, which would take a second to import for --help
_INFEASIBLE, _UNDECIDED = 3, 4


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "learn",
        help="learn a task or an environment from episodes",
        description="Learn a policy in an environment whose transitions are not known, and say what is certain about "
        "it. A task is simulated: the learner is told which states can follow, not how likely they are.",
    )
    parser.add_argument(
        "target",
        metavar="TASK|FILE.py",
        help="a name from 'bidual tasks', or a Python file that defines problem and env (or mdp), and maybe model",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", dest="settings", help="a parameter of the task"
    )
    parser.add_argument("--episodes", type=int, default=1000, metavar="N", help="to learn from (default 1000)")
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
        "--evaluation", type=int, metavar="N", help="fresh episodes to evaluate the policy on (default a share of N)"
    )
    parser.add_argument(
        "--stop-gap", type=float, metavar="G", help="stop as soon as the policy is certified to be this near to optimal"
    )
    parser.add_argument(
        "--explorer", choices=EXPLORERS, help="how to choose the policy of an episode (default alternating)"
    )
    parser.add_argument(
        "--dual",
        choices=DUALS,
        help="corrective (default), or the paper's own loop, one plan and one step per episode: gradient ascent "
        "(paper), with steps for linear functions too (paper-literal), or follow the leader (ftl)",
    )
    parser.add_argument(
        "--confidence", choices=SETS, help="what is known of a law after some samples of it (default ball)"
    )
    parser.add_argument(
        "--per-step", action="store_true", help="count every step of an episode apart, because the law changes with it"
    )
    parser.add_argument("--history", type=Path, metavar="FILE.csv", help="write bounds, regret and violation over time")
    parser.add_argument("--time-limit", type=float, metavar="S", help="stop learning after this many seconds")
    parser.add_argument(
        "--require-certificate", action="store_true", help="exit code 4 unless the policy is shown to be feasible"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="write JSON and figures there")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Learn and report."""
    from bidual.cli._files import to_json, write_learned
    from bidual.cli._target import load_unknown
    from bidual.cli._truth import truth_of

    target = load_unknown(args.target, args.settings, args.support)
    target = replace(target, model=_declared(target.model, args.confidence, per_step=args.per_step))
    if args.out is not None:
        args.out.mkdir(parents=True, exist_ok=True)  # an impossible folder should fail before the work, not after
    solution = learned(
        target,
        episodes=args.episodes,
        seed=args.seed,
        delta=args.delta,
        evaluation=args.evaluation,
        stop_gap=args.stop_gap,
        time_limit=args.time_limit,
        explorer=explorer_named(args.explorer, args.dual),
    )
    print(to_json(solution) if args.json else solution, flush=True)
    if args.json and solution.conflict is not None:
        print(f"bidual: {solution.conflict}", file=sys.stderr)
    truth = None
    if target.truth is not None and (args.out is not None or not args.json):
        truth = truth_of(solution, target.problem, target.truth)
    if truth is not None and not args.json:
        print(truth)
    if args.out is not None:
        for path in write_learned(solution, args.out, target.grid, None if truth is None else truth.optimum):
            print(f"wrote {path}", file=sys.stderr)
    if args.history is not None:
        regret = None if target.truth is None else solution.regret(target.truth)
        print(f"wrote {write_history(solution, regret, args.history)}", file=sys.stderr)
    return _exit_code(solution, args)


def _declared(model: "Tabular | None", confidence: str | None, *, per_step: bool) -> "Tabular":
    """What is declared, with what the options add to it."""
    from bidual.models import Tabular

    model = model or Tabular()
    return replace(model, set=confidence or model.set, stationary=model.stationary and not per_step)


def learned(
    target: "Unknown",
    *,
    episodes: int,
    seed: int = 0,
    delta: float = 0.05,
    evaluation: int | None = None,
    stop_gap: float | None = None,
    time_limit: float | None = None,
    explorer: "AbstractExplorer[Any] | None" = None,
) -> "Learned":
    """Learn with a progress line."""
    from bidual._learn import learn, stop_when
    from bidual.cli._progress import learning_line

    line = learning_line(target.name, episodes, maximises=target.problem.maximises)
    # An environment may print, and stdout belongs to the result.
    with line as progress, contextlib.redirect_stdout(sys.stderr):
        solution = learn(
            target.problem,
            target.env,
            target.model,
            episodes=episodes,
            seed=seed,
            delta=delta,
            explorer=explorer,
            evaluation=evaluation,
            stop_when=None if stop_gap is None else stop_when(stop_gap),
            time_limit=time_limit,
            progress=progress,
        )
    return replace(solution, task=target.name)


def _exit_code(solution: "Learned", args: argparse.Namespace) -> int:
    """Spent episodes are a success, whatever they have shown, unless more was required."""
    if solution.status == "infeasible":
        return _INFEASIBLE
    unfinished = args.require_certificate or solution.episodes < args.episodes
    return _UNDECIDED if solution.status == "undecided" and unfinished else 0
