"""Problems over the files of model checkers, stated by options of the command line."""

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bidual._base.errors import TaskError
from bidual._base.spelling import list_possible
from bidual.cli._target import Target

if TYPE_CHECKING:
    import cvxpy as cp
    import numpy as np

    from bidual.world.mdp import TabularMDP

_KINDS = (".drn", ".tra")
_LIMIT = re.compile(r"\s*([^<>=\s]+)\s*(<=|>=|==)\s*(\S+)\s*")


def add_to(parser: argparse.ArgumentParser) -> None:
    """Declare the options that state a problem over a model file."""
    group = parser.add_argument_group("a problem over a model file, FILE.drn or FILE.tra")
    group.add_argument("--maximize", metavar="NAME", help="the reward model, or label, to maximise")
    group.add_argument("--minimize", metavar="NAME", help="the same to minimise")
    group.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="'NAME <= NUMBER'",
        help="a limit, <=, >= or ==; repeatable",
    )
    group.add_argument("--until", metavar="LABEL", help="sum until a state with this label, or one that is 'absorbed'")
    group.add_argument("--discount", type=float, metavar="D", help="discount the signals of step t by D^t")
    group.add_argument("--average", action="store_true", help="average over an unbounded time")
    group.add_argument("--horizon", type=int, metavar="H", help="sum over H steps")


def is_model_file(text: str) -> bool:
    """Return whether an argument names the file of a model checker."""
    return text.endswith(_KINDS)


def load_model_target(args: argparse.Namespace) -> Target:
    """Read the model, and state the problem of the options over it."""
    import cvxpy as cp

    from bidual.problem.modelling import Problem

    goals = [(name, goal) for name, goal in ((args.maximize, cp.Maximize), (args.minimize, cp.Minimize)) if name]
    if len(goals) != 1:
        raise TaskError(f"{args.target} is a model: say what to optimise, --maximize NAME or --minimize NAME")
    limits = [_read_limit(text) for text in args.limit]
    mdp = _read_model(args)
    names = list(dict.fromkeys([goals[0][0], *(name for name, _, _ in limits)]))
    signals: dict[str, Any] = {f"s{i}": _find_signal(name, mdp) for i, name in enumerate(names)}
    x = mdp.embedding(total=True, **signals)
    parts = {name: getattr(x, f"s{i}") for i, name in enumerate(names)}
    constraints = {text.strip(): _state_limit(parts, *limit) for text, limit in zip(args.limit, limits, strict=True)}
    problem = Problem(goals[0][1](parts[goals[0][0]]), constraints)
    return Target(Path(args.target).name, problem, mdp)


def check_no_model_options(args: argparse.Namespace) -> None:
    """Raise `TaskError` where options of model files are given for something else."""
    given = [name for name in ("maximize", "minimize", "until", "discount", "horizon") if getattr(args, name)]
    given += ["limit"] * bool(args.limit) + ["average"] * args.average
    if given:
        raise TaskError(f"--{given[0]} states a problem over a FILE.drn or FILE.tra; {args.target} has its own")


def _read_model(args: argparse.Namespace) -> "TabularMDP":
    from bidual.world.mdp import TabularMDP

    time = {"discount": args.discount, "until": args.until, "average": args.average}
    if args.target.endswith(".drn"):
        return TabularMDP.from_drn(args.target, args.horizon, **time)
    beside = {kind: path if (path := Path(args.target).with_suffix(kind)).exists() else None for kind in (".lab",)}
    rewards = {kind: Path(args.target).with_suffix(kind) for kind in (".srew", ".trew")}
    srew, trew = (path if path.exists() else None for path in rewards.values())
    return TabularMDP.from_prism(args.target, beside[".lab"], srew, trew, horizon=args.horizon, **time)


def _read_limit(text: str) -> tuple[str, str, float]:
    found = _LIMIT.fullmatch(text)
    try:
        if found is not None:
            return found[1], found[2], float(found[3])
    except ValueError:
        pass
    raise TaskError(f"--limit {text!r}: write it as 'NAME <= NUMBER', for example --limit 'energy <= 1.45'")


def _find_signal(name: str, mdp: "TabularMDP") -> "np.ndarray":
    """Return a reward model, or the indicator of a label, by name."""
    import numpy as np

    if name in mdp.signals:
        return mdp.signals[name]
    if name in mdp.labels:
        return np.repeat(mdp.labels[name][:, None].astype(float), mdp.num_actions, axis=1)
    raise TaskError(
        f"the model has no reward model or label {name!r}{list_possible(name, [*mdp.signals, *mdp.labels])}"
    )


def _state_limit(parts: "dict[str, cp.Expression]", name: str, sense: str, limit: float) -> "cp.Constraint":
    left = parts[name]
    return left <= limit if sense == "<=" else left >= limit if sense == ">=" else left == limit
