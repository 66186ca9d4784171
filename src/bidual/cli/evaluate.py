"""``bidual evaluate``: fresh episodes of a stored policy."""

import argparse
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from bidual._base.errors import RunError, TaskError
from bidual.cli._imports import import_cvxpy
from bidual.cli._options import Options, check_executes_nothing, load_declared, read_stored_options
from bidual.cli._output import show
from bidual.cli._stored import open_saved

if TYPE_CHECKING:
    from bidual.cli._target import Unknown
    from bidual.world.policies import AbstractPolicy


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "evaluate",
        help="run fresh episodes of the policy of a run or a saved solution",
        description="Run episodes of a policy that it was not learned from, and say where its objective and its "
        "constraints lie.",
    )
    parser.add_argument("path", type=Path, metavar="RUN|FILE", help="the folder of a run, or a saved solution")
    parser.add_argument(
        "target", nargs="?", metavar="TASK|FILE.py", help="where to run it (default: what the run was learned in)"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", dest="settings", help="a parameter of the task"
    )
    parser.add_argument("--episodes", type=int, default=1000, metavar="N", help="to run (default 1000)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of everything random (default 0)")
    parser.add_argument(
        "--delta", type=float, default=0.05, help="all intervals hold at once with probability 1 - delta (default 0.05)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Evaluate one policy."""
    import_cvxpy()
    from bidual.learning.evaluate import evaluate

    target = _load_target(args)
    named = args.target if args.target is not None and args.target.endswith(".py") else None
    with open_saved(args.path, named, "bidual evaluate", evaluate=False) as saved:
        policy = _load_policy(saved, target)
    result = evaluate(
        target.problem,
        target.env,
        policy,
        target.model,
        episodes=args.episodes,
        seed=args.seed,
        delta=args.delta,
    )
    show(json.dumps({"task": target.name, **result.to_dict()}, indent=2, allow_nan=False) if args.json else result)
    return 0


def _load_policy(path: Path, target: "Unknown") -> "AbstractPolicy":
    """Load the policy; where it replans, it uses the signals and the features of the target."""
    from bidual.problem.features import Computed
    from bidual.storage import load

    features, model = target.problem.embedding.features, target.model
    return load(
        path,
        features=features if isinstance(features, Computed) else None,
        model_features=None if model is None else model.map_features,
    )


def _load_target(args: argparse.Namespace) -> "Unknown":
    """Load the task of a stored run, or the one that is named after the policy."""
    if not args.path.exists():
        raise RunError(f"there is no run and no policy at {args.path} ('bidual runs' lists runs)")
    if args.target is not None:
        return load_declared(_read_named_options(args))
    if not args.path.is_dir():
        raise TaskError(
            f"{args.path} does not say where its policy is to be run: name the task or the file after it, as in "
            f"'bidual evaluate {args.path} rover'"
        )
    if args.settings:
        raise TaskError("--set goes with a task: name it after the run, or leave --set out for what the run was in")
    options = read_stored_options(args.path)
    check_executes_nothing(options, shlex.join(["bidual", "evaluate", str(args.path), options.target]))
    return load_declared(options)


def _read_named_options(args: argparse.Namespace) -> Options:
    """Return the options of a named target: those of the run, where it names the file that the run was learned in."""
    named = Options(args.target, tuple(args.settings))
    if named.settings or not (named.runs_a_file and args.path.is_dir()):
        return named
    try:
        stored = read_stored_options(args.path)
    except RunError:  # a run of another program, whose policy alone is wanted
        return named
    return stored if stored.target == named.target else named
