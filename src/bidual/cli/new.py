"""``bidual new``: write a problem file to start from."""

import argparse
from pathlib import Path
from typing import NamedTuple, final

from bidual._base.errors import OutputError, TaskError
from bidual.cli._output import show


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the command."""
    parser = commands.add_parser("new", help="write a runnable example of a problem file")
    parser.add_argument("--env", action="store_true", help="an environment to learn instead of a known model to solve")
    parser.add_argument(
        "--vectors",
        choices=sorted(VECTORS),
        help="one of Gymnasium's environments with vectors to learn, with signals that suit it",
    )
    parser.add_argument("file", type=Path, metavar="FILE.py", help="the file to write; must not exist yet")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the template, never over an existing file."""
    if args.env and args.vectors:
        raise TaskError("--env and --vectors are two examples: choose one")
    template, command = _choose_template(args.env, args.vectors)
    if args.file.suffix != ".py":
        raise TaskError(f"the file name must end in .py, like my_problem.py; got {args.file}")
    if not args.file.parent.is_dir():
        raise TaskError(f"the folder {args.file.parent} does not exist: create it first")
    try:
        with args.file.open("x") as file:
            file.write(template.replace("{name}", args.file.name))
    except FileExistsError:
        raise OutputError(f"{args.file} exists already and was left alone: choose another name") from None
    few = " --episodes 20 --evaluation 10 --out results" if args.vectors else ""
    show(f"wrote {args.file}; {command} it with: bidual {command} {args.file}{few}")
    return 0


def _choose_template(env: bool, vectors: str | None) -> tuple[str, str]:
    """Return the text of the file, with {name} for its own, and the command that runs it."""
    if vectors is None:
        text, command = (ENVIRONMENT, "learn") if env else (KNOWN, "solve")
        return text.replace("{{", "{").replace("}}", "}"), command
    what, sense, name, signal, (low, high), horizon = VECTORS[vectors]
    parts = {"what": what, "env": vectors, "sense": sense, "name": "{name}", "signal": name, "text": signal}
    return CONTROLS.format(**parts, ends=f"{low}, {high}", horizon=horizon), "learn"


@final
class Example(NamedTuple):
    """A problem over one of Gymnasium's environments with vectors, whose own rewards are no use to a planner."""

    what: str
    sense: str
    name: str  # of the signal
    text: str
    bounds: tuple[float, float]
    horizon: int


VECTORS = {
    "CartPole-v1": Example(
        *("Balance a pole near the middle of a track", "Maximize", "upright"),
        *("cos(next_obs[2]) - 0.1 * next_obs[0]**2 - where(abs(next_obs[2]) > 0.2, 1, 0)", (-3.0, 1.0), 200),
    ),
    "MountainCar-v0": Example(
        *("Drive out of a valley with a weak engine", "Maximize", "position"),
        *("next_obs[0]", (-1.2, 0.6), 200),
    ),
    "Acrobot-v1": Example(
        *("Swing the lower of two links up", "Maximize", "height"),
        *("-next_obs[0] - (next_obs[0] * next_obs[2] - next_obs[1] * next_obs[3])", (-2.0, 2.0), 200),
    ),
    "Pendulum-v1": Example(
        *("Swing a pendulum up and keep it there", "Minimize", "cost"),
        *("arctan2(obs[1], obs[0])**2 + 0.1 * obs[2]**2 + 0.001 * control[0]**2", (0.0, 17.0), 200),
    ),
}

CONTROLS = '''\
"""{what}: {env}.

Learn with: bidual learn {name} --episodes 20 --evaluation 10 --out results
"""

import cvxpy as cp

import bidual as bd

env = "{env}"  # without a model: its law is a regression on features in units of what is seen

# A signal is text, or a function in jax.numpy, of obs, control and next_obs, with its bounds. Actions that have numbers
# are vectors with a single 1. After the end of an episode a signal is 0.
{signal} = bd.features.signal("{text}", {ends})
x = bd.features.computed({signal}={signal}).embedding({horizon}, total=True)
problem = bd.Problem(cp.{sense}(x.{signal}))
'''


KNOWN = '''\
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

ENVIRONMENT = '''\
"""A greenhouse to learn: water it so that plants grow, with little water. Learn with: bidual learn {name}"""

import cvxpy as cp
import gymnasium as gym
import numpy as np

import bidual as bd


class Greenhouse(gym.Env):
    """Moisture from 0 to 5. In dry soil, 0, the plants die and the episode ends. The learner sees none of this code."""

    observation_space = gym.spaces.Discrete(6)
    action_space = gym.spaces.Discrete(3)  # units of water

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.moisture = 3
        return self.moisture, {{}}

    def step(self, action):
        sun = self.np_random.choice(3, p=[0.3, 0.5, 0.2])
        self.moisture = int(np.clip(self.moisture + action - sun, 0, 5))
        growth = 1.0 if self.moisture in (2, 3, 4) else 0.0
        return self.moisture, growth, self.moisture == 0, False, {{}}


env = Greenhouse()

# Signals are functions of a step t with t.obs, t.action, t.next_obs, t.reward, t.terminated and t.info. They lie in
# [0, 1] unless declared otherwise. x.growth[h] is the expected growth on day h.
x = bd.features.signals(
    growth=lambda t: t.reward,
    water=bd.features.observed(lambda t: t.action, low=0, high=2),
).embedding(horizon=7)

# What can be changed on the command line: bidual learn {name} --set budget=4
budget = cp.Parameter(name="budget", value=5.0)

problem = bd.Problem(cp.Maximize(cp.sum(x.growth)), {{"water": cp.sum(x.water) <= budget}})

# What is known about the environment and need not be learned: moisture changes by at most two a day. State 6 is added
# by bidual: there an ended episode stays. Without these lines any state may follow any other: bounds are wider.
now, then = np.arange(7)[:, None], np.arange(7)
model = bd.models.Tabular(support=np.where((abs(then - now) <= 2) | (then == 6), then, -1), initial=3)
'''
