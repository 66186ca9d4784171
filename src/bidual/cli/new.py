"""``bidual new``: write a problem file to start from."""

import argparse
from pathlib import Path

from bidual._errors import TaskError

TEMPLATE = '''\
"""A machine that wears out: run it hard, gently, or repair it. Solve with: bidual solve {name}"""

import cvxpy as cp
import numpy as np

import bidual as bd

# Three states of the machine and three things to do in each.
GOOD, WORN, BROKEN = 0, 1, 2
HARD, GENTLE, REPAIR = 0, 1, 2

# P[s, a, t] is the probability of going from s to t under a: every row sums to 1.
P = np.zeros((3, 3, 3))
P[GOOD, HARD] = [0.6, 0.3, 0.1]
P[GOOD, GENTLE] = [0.9, 0.1, 0.0]
P[WORN, HARD] = [0.0, 0.5, 0.5]
P[WORN, GENTLE] = [0.0, 0.9, 0.1]
P[BROKEN, HARD] = P[BROKEN, GENTLE] = [0.0, 0.0, 1.0]
P[:, REPAIR] = [1.0, 0.0, 0.0]

income = np.array([[10.0, 6.0, 0.0], [8.0, 5.0, 0.0], [0.0, 0.0, 0.0]])  # by state and action
repairs = np.array([[0.0, 0.0, 1.0]] * 3)
broken = np.array([0.0, 0.0, 1.0])  # by state

mdp = bd.TabularMDP(P, initial=GOOD, horizon=20)
x = mdp.embedding(income=income, repairs=repairs, broken=broken)  # x.income[h] = expected income at step h

# What can be changed on the command line: bidual solve {name} --set budget=1
budget = cp.Parameter(name="budget", value=2.0)

problem = bd.Problem(
    cp.Maximize(cp.sum(x.income)),
    {{
        "repairs": cp.sum(x.repairs) <= budget,  # in total
        "broken": x.broken <= 0.2,  # at every single step
    }},
)
'''


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the command."""
    parser = commands.add_parser("new", help="write a runnable example of a problem file")
    parser.add_argument("file", type=Path, metavar="FILE.py", help="the file to write; must not exist yet")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the template, never over an existing file."""
    if args.file.suffix != ".py":
        raise TaskError(f"the file name must end in .py, like my_problem.py; got {args.file}")
    if not args.file.parent.is_dir():
        raise TaskError(f"the folder {args.file.parent} does not exist: create it first")
    try:
        with args.file.open("x") as file:
            file.write(TEMPLATE.format(name=args.file.name))
    except FileExistsError:
        raise TaskError(f"{args.file} exists already and was left alone: choose another name") from None
    print(f"wrote {args.file}; solve it with: bidual solve {args.file}")
    return 0
