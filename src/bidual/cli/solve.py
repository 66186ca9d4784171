"""``bidual solve``: a known model, to a certified gap."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bidual.cli._files import make_folder
from bidual.cli._imports import import_cvxpy
from bidual.cli._model_target import add_to as add_model_options
from bidual.cli._output import report, show

if TYPE_CHECKING:
    from bidual.cli._target import Target

_EXIT = {"optimal": 0, "feasible": 0, "infeasible": 3, "undecided": 4}


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "solve",
        help="solve a task or a problem file with a known model",
        description="Solve a problem with a known model and certify how far from optimal the policy can be.",
    )
    parser.add_argument(
        "target", metavar="TASK|FILE", help="a name from 'bidual tasks', a Python file, or a model: FILE.drn, FILE.tra"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", dest="settings", help="a parameter of the task"
    )
    parser.add_argument(
        "--gap", type=float, help="certified gap to reach (default: a millionth of the size of the bounds)"
    )
    parser.add_argument("--rel-gap", action="store_true", help="measure the gap relative to the bounds")
    parser.add_argument("--time-limit", type=float, metavar="S", help="stop after this many seconds")
    parser.add_argument("--plans", type=int, metavar="N", help="stop after this many plans")
    parser.add_argument(
        "--dual",
        choices=["corrective", "paper", "ftl"],
        default="corrective",
        help="the dual player: corrective (default), the paper's gradient ascent, or follow the leader; "
        "the last two approach the optimum like 1/sqrt(plans), so limit --plans",
    )
    parser.add_argument("--check-only", action="store_true", help="check and print problem and model, solve nothing")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write solution, JSON and figures there")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    add_model_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Solve and report."""
    import_cvxpy()
    from bidual.cli._files import to_json, write_outputs
    from bidual.cli._model_target import check_no_model_options, is_model_file, load_model_target
    from bidual.cli._progress import open_progress_line
    from bidual.cli._target import load_target
    from bidual.dual import FollowTheLeader, GradientAscent
    from bidual.solving.solve import solve

    if is_model_file(args.target):
        target = load_model_target(args)
    else:
        check_no_model_options(args)
        target = load_target(args.target, args.settings)
    if args.check_only:
        return _check_only(target, as_json=args.json)
    if args.out is not None:
        make_folder(args.out)
    with open_progress_line(target.name) as progress:
        solution = solve(
            target.problem,
            target.mdp,
            gap=args.gap,
            relative=args.rel_gap,
            time_limit=args.time_limit,
            max_plans=args.plans,
            dual={"corrective": None, "paper": GradientAscent(), "ftl": FollowTheLeader()}[args.dual],
            progress=progress,
        )
    solution = replace(solution, task=target.name)
    show(to_json(solution) if args.json else solution)
    if args.json and solution.conflict is not None:
        report(f"bidual: {solution.conflict}")
    if args.out is not None:
        for path in write_outputs(solution, args.out, target.grid):
            report(f"wrote {path}")
    return _EXIT[solution.status]


def _check_only(target: "Target", *, as_json: bool) -> int:
    """Print what the problem is made of, without solving it; return the exit code."""
    import json

    from bidual.cli._expressions import write_expression, write_limit
    from bidual.solving.search import bind

    program, psi = bind(target.problem, target.mdp)
    x, limits = target.problem.embedding, target.problem.limits
    sizes = {line.name: line.bounds.size for line in target.problem.lines()}
    facts = {
        "task": target.name,
        "states": target.mdp.num_states,
        "actions": target.mdp.num_actions,
        "horizon": target.mdp.horizon if target.mdp.criterion is None else None,
        **({} if target.mdp.criterion is None else target.mdp.criterion.to_json()),
        "features": psi.dimension,
        "sense": "maximize" if target.problem.maximises else "minimize",
        "objective": write_expression(target.problem.objective.args[0], x),
        "constraints": [
            {
                "name": one.name,
                "left": write_expression(one.value, x),
                "sense": one.sense,
                "limit": write_limit(one.limit),
                "entries": sizes[one.name],
            }
            for one in limits
        ],
        "rows": 1 + program.equality.size,
    }
    if as_json:
        show(json.dumps(facts, indent=2))
        return 0
    show(f"{target.name}: problem and model are well formed; nothing was solved")
    time = target.mdp.criterion or f"horizon {facts['horizon']}"
    show(f"  model        {facts['states']} states, {facts['actions']} actions, {time}")
    show(f"  features     {psi.dimension}: {', '.join(f'x.{part.name}' for part in x.features.parts)}")
    show(f"  objective    {facts['sense']} {facts['objective']}")
    for one in facts["constraints"]:
        entries = f", {one['entries']} of them" if one["entries"] > 1 else ""
        show(f"  constraint   {one['name']}: {one['left']} {one['sense']} {one['limit']}{entries}")
    return 0
