"""Runs that end at their n-th moment: killed, one for every line ``[CASE, FOLDER, MOMENT, RESULT]`` on stdin; or here.

Every killed run is a process of its own, forked before JAX has started, so that what all of them import is imported
once. What a kill leaves behind is what the files hold at that moment, for everything else ends with the process: so a
run can also be given up in this process, where everything is compiled, once its files have been copied.

Moments are where a crash could hurt: before and after every write, sync and rename of a file, before every statement
of a transaction, and at every episode. A family of models, a planner or an explorer joins with one line of `CASES`.
"""

import hashlib
import json
import os
import shutil
import signal
import sqlite3
import sys
import traceback
import zipfile

import cvxpy as cp

import bidual as bd
from bidual.dual import GradientAscent
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
# Compiled code belongs to these functions: it serves all runs of a process.
PULLED = computed(distance=of(lambda x, u, y: x[0] ** 2, 0.0, 4.0), effort=of(lambda x, u, y: u @ u, 0.0, 4.0))


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
    x = PULLED.embedding(8, total=True)
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


class GivenUpError(BaseException):
    """A run in this process is over, though nobody killed it."""


class Moments:
    """Counts them, and ends the run at the one that was asked for and, if it is still there, at all later ones."""

    def __init__(self, last, end):
        self.count, self.last, self.end = 0, last, end

    def __call__(self, *_):
        self.count += 1
        if 0 < self.last <= self.count:
            self.end()

    def around(self, function):
        def wrapped(*args, **kwargs):
            self()
            result = function(*args, **kwargs)
            self()
            return result

        return wrapped

    def watch(self, patch=setattr):
        """Count from now on, until what was patched is mended."""
        for owner in (Simulator, RichEnvironment, ControlEnvironment):
            patch(owner, "collect", self.around(owner.collect))
        for owner, name in ((os, "fsync"), (os, "replace"), (zipfile.ZipFile, "writestr")):
            patch(owner, name, self.around(getattr(owner, name)))
        connect = sqlite3.connect

        def watched(*args, **kwargs):
            base = connect(*args, **kwargs)
            base.set_trace_callback(self)
            return base

        patch(sqlite3, "connect", watched)


def outcome(solution):
    """All that must be the same, as JSON: floats are written so that they come back to the last bit."""
    told = solution.to_dict()
    del told["seconds"]
    looks = [[look.episodes, look.bound, look.reached, look.violation, look.plans] for look in solution.history]
    known = _table_parts(solution) if solution.knowledge.controlled is None else _control_parts(solution)
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


def run(case, folder, moments):
    """Learn one case; return what came of it, and how many moments that took."""
    solution = CASES[case](bd.runs.Folder(folder, resume=True, every=EVERY))
    return {"outcome": outcome(solution), "moments": moments.count}


def run_until_killed(case, folder, moment, result):
    """Learn one case, and store what came of it unless this process ends before."""
    moments = Moments(moment, lambda: os.kill(os.getpid(), signal.SIGKILL))
    moments.watch()
    left = run(case, folder, moments)
    with open(result, "w") as file:
        json.dump(left, file)


def run_until_given_up(case, folder, moment, copy, patch):
    """Learn one case here; return what came of it, or None where its files were copied at a moment."""
    left = []

    def give_up():
        if not left:
            left.append(shutil.copytree(folder.parent, copy))
        raise GivenUpError

    moments = Moments(moment, give_up)
    moments.watch(patch)
    try:
        finished = run(case, folder, moments)
    except GivenUpError:
        finished = None
    return None if left else finished


def serve():
    """Run a line of stdin at a time in a forked process, and print its exit code."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                run_until_killed(*json.loads(line))
                code = 0
            except BaseException:
                traceback.print_exc()
            sys.stderr.flush()
            os._exit(code)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    serve()
