"""Runs that are killed at their n-th moment: one for every line
``[CASE, FOLDER, MOMENT, RESULT]`` on stdin.

Every run is a process of its own, forked before JAX has started, so that what all of them import is imported once.

Moments are where a crash could hurt: before and after every write, sync and rename of a file, before every statement
of a transaction, and at every episode. A family of models, a planner or an explorer joins with one line of `CASES`.
"""

import hashlib
import json
import os
import signal
import sqlite3
import sys
import traceback
import zipfile

import cvxpy as cp

import bidual as bd
from bidual.dual import GradientAscent
from bidual.models import ControlKnowledge
from bidual.planners import control
from bidual.problem.features import computed, fourier
from bidual.problem.features import signal as of
from bidual.tasks.riverswim import riverswim
from bidual.world.envs import ControlEnvironment, RichEnvironment, Simulator
from tests.classes import around
from tests.control_envs import Slider

EPISODES, EVERY = 60, 6
RIVER = riverswim(budget=2.5, states=3, horizon=5)
INDICATORS, _ = around(RIVER.mdp, 1)


def _tabular(explorer, folder, **settings):
    return _learn(bd.models.Tabular(RIVER.mdp), explorer, folder, **settings)


def _learn(model, explorer, folder, **settings):
    return bd.learn(
        RIVER.problem,
        RIVER.mdp,
        model,
        episodes=EPISODES,
        evaluation=20,
        seed=3,
        explorer=explorer,
        run=folder,
        **settings,
    )


def _latent(folder, **options):
    lock = bd.tasks.find("lock").build(horizon=3)
    settings = {"episodes": EPISODES, "evaluation": 20, "seed": 3, "run": folder} | options
    return bd.learn(lock.problem, lock.env, lock.model, **settings)


def _controls(execution, folder, **options):
    """The noisy double integrator, with features that do not hold the truth."""
    distance, effort = of(lambda x, u, y: x[0] ** 2, 0.0, 4.0), of(lambda x, u, y: u @ u, 0.0, 4.0)
    x = computed(distance=distance, effort=effort).embedding(8, total=True)
    problem = bd.Problem(cp.Minimize(x.distance), {"effort": x.effort <= 2.0})
    model = bd.models.KNR(fourier(d=16, bandwidth=2.0), box=((-4.0, -4.0), (4.0, 4.0)))
    explorer = bd.explorers.Controls(control.Thompson(), control.icem(16, 2), execution, rollouts=4)
    settings = {"episodes": EPISODES // 3, "evaluation": 5, "seed": 3, "run": folder} | options
    return bd.learn(problem, Slider(), model, explorer=explorer, **settings)


CASES = {
    "corrective": lambda folder, **options: _tabular(bd.explorers.Alternating(), folder, **options),
    "paper": lambda folder, **options: _tabular(
        bd.explorers.PrimalDual(GradientAscent(), canonical=True), folder, **options
    ),
    "class": lambda folder, **options: _learn(
        bd.models.LowRank(*around(RIVER.mdp, 6)), bd.explorers.Alternating(), folder, **options
    ),
    "linear": lambda folder, **options: _learn(
        bd.models.LinearMDP(*INDICATORS), bd.explorers.Alternating(), folder, **options
    ),
    "latent": _latent,
    "controls": lambda folder, **options: _controls(control.Feedback(2), folder, **options),
    "receding": lambda folder, **options: _controls(control.Mpc(every=4), folder, **options),
    "batches": lambda folder, **options: _tabular(bd.explorers.Alternating(), folder, batch=4, **options),
}


class Moments:
    """Counts them, and ends the process at the one that was asked for, as a loss of power would."""

    def __init__(self, last):
        self.count, self.last = 0, last

    def __call__(self, *_):
        self.count += 1
        if self.count == self.last:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, function):
        def wrapped(*args, **kwargs):
            self()
            result = function(*args, **kwargs)
            self()
            return result

        return wrapped

    def watch(self):
        os.fsync, os.replace = self.around(os.fsync), self.around(os.replace)
        zipfile.ZipFile.writestr = self.around(zipfile.ZipFile.writestr)
        Simulator.collect = self.around(Simulator.collect)
        RichEnvironment.collect = self.around(RichEnvironment.collect)
        ControlEnvironment.collect = self.around(ControlEnvironment.collect)
        connect = sqlite3.connect

        def watched(*args, **kwargs):
            base = connect(*args, **kwargs)
            base.set_trace_callback(self)
            return base

        sqlite3.connect = watched


def outcome(solution):
    """All that must be the same, as JSON: floats are written so that they come back to the last bit."""
    told = solution.to_dict()
    del told["seconds"]
    looks = [[look.episodes, look.bound, look.reached, look.violation, look.plans] for look in solution.history]
    known = _control_parts(solution) if isinstance(solution.knowledge, ControlKnowledge) else _table_parts(solution)
    return {
        "solution": told,
        "looks": looks,
        "outputs": [str(output) for output in solution.outputs],
        "arrays": hashlib.sha256(b"".join(known)).hexdigest(),
    }


def _table_parts(solution):
    arrays = [solution.policy.table, solution.mixture.weights, solution.knowledge.counts.transitions]
    return [array.tobytes() for array in arrays + [member.actions for member in solution.mixture.members]]


def _control_parts(solution):
    policy, moments = solution.policy, solution.knowledge.moments
    arrays = [moments.gram, moments.cross, solution.embedding, solution.mixture.weights, *solution.knowledge.seen]
    members = [*getattr(policy, "members", (policy,)), *solution.mixture.members]
    return [array.tobytes() for array in arrays] + [member.fingerprint for member in members]


def run(case, folder, moment, result):
    """Learn one case, and store what came of it unless this process ends before."""
    moments = Moments(moment)
    moments.watch()
    solution = CASES[case](bd.runs.Folder(folder, resume=True, every=EVERY))
    with open(result, "w") as file:
        json.dump({"outcome": outcome(solution), "moments": moments.count}, file)


def serve():
    """Run a line of stdin at a time in a forked process, and print its exit code."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                run(*json.loads(line))
                code = 0
            except BaseException:
                traceback.print_exc()
            sys.stderr.flush()
            os._exit(code)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    serve()
