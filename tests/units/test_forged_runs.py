"""Files of a stored run with forged values and the right checksum: refused, or run again, and never a raw error."""

import shutil
from contextlib import nullcontext
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual.learning.runs._checkpoints import Schedule
from bidual.learning.runs._evaluation import StoredEvaluation
from bidual.learning.session import evaluate_policy
from bidual.learning.setup import set_up
from bidual.problem.features import computed, fourier, observed, signal, signals
from bidual.world.policies import MarkovPolicy
from tests.control_envs import Slider
from tests.forgeries import choose, forge, read_parts, write_parts
from tests.golden.record import FILES
from tests.killed import CASES

H = 8
pytestmark = pytest.mark.unchecked_shapes(reason="the subject is what readers refuse by themselves")


class Evaluated(NamedTuple):
    """A policy, and what its fresh episodes are for."""

    setup: Any
    policy: Any

    def collect(self, folder, count, every=1):
        """Run fresh episodes, or take those that are stored."""
        stored = StoredEvaluation(folder, nullcontext, lambda: None, self.setup.knowledge)
        return stored.collect(self.setup.env, self.policy, 3, 0, count, Schedule(0.0, 0, every))

    def evaluate(self, episodes):
        """Use them."""
        return evaluate_policy(self.setup, self.policy, self.setup.knowledge, 1, episodes)


def _lake():
    env = bd.envs.gymnasium_environment("FrozenLake-v1", H, options={"map_name": "4x4"})
    x = signals(goal=observed(lambda step: step.reward, 0.0, 1.0, at_end=True)).embedding(H, total=True)
    setup = set_up(bd.Problem(cp.Maximize(x.goal)), env, None, None, delta=0.1, seed=3)
    return Evaluated(setup, MarkovPolicy(np.full(setup.env.shape, 1 / setup.env.shape[2])))


def _slider():
    distance, effort = signal(lambda x, u, y: x[0] ** 2, 0.0, 4.0), signal(lambda x, u, y: u @ u, 0.0, 4.0)
    x = computed(distance=distance, effort=effort).embedding(H, total=True)
    problem = bd.Problem(cp.Minimize(x.distance), {"effort": x.effort <= 2.0})
    model = bd.models.KNR(fourier(d=16, bandwidth=2.0), box=((-4.0, -4.0), (4.0, 4.0)))
    return Evaluated(
        set_up(problem, Slider(), model, None, delta=0.1, seed=3), bd.load(FILES / "controls-policy.bidual")
    )


@pytest.mark.parametrize("count", [60, pytest.param(None, marks=pytest.mark.slow)], ids=["few", "all"])
@pytest.mark.parametrize("kind", [_lake, _slider])
def test_forged_episodes_of_an_evaluation_are_run_again_or_could_be_true(tmp_path, caplog, kind, count):
    evaluated = kind()
    evaluated.collect(tmp_path, 4)
    path = tmp_path / "evaluation.bidual"
    whole, refused = read_parts(path), 0
    for what, make in choose(forge(*whole), 0, count):
        with np.errstate(all="ignore"):
            forged = make()
        write_parts(path, *forged)
        caplog.clear()
        episodes = evaluated.collect(tmp_path, 5, every=9)
        assert len(episodes) == 5, what
        evaluated.evaluate(episodes)
        refused += "run again" in caplog.text
    assert refused > 25


@pytest.fixture
def declared(monkeypatch):
    """A function that returns what a case is learned from: problem, environment, model and explorer."""

    def record(problem, env, model, **settings):
        return problem, env, model, settings.get("explorer")

    def declare(case):
        with monkeypatch.context() as patch:
            patch.setattr(bd, "learn", record)
            return CASES[case](None)

    return declare


MANY = [pytest.param(case, 200, marks=pytest.mark.slow) for case in CASES if case != "batches"]


@pytest.mark.parametrize(("case", "count"), [("corrective", 12), *MANY])
def test_a_forged_checkpoint_is_refused_or_concluded_from(declared, tmp_path, case, count):
    """What is concluded passes its check: counts and sums are those of the episodes, and declarations those given."""
    problem, env, model, explorer = declared(case)
    run = shutil.copytree(FILES / "runs" / case, tmp_path / case)
    *others, path = sorted((run / "checkpoints").glob("*.bidual"))
    for other in others:
        other.unlink()
    outcomes = set()
    for what, make in choose(forge(*read_parts(path)), 0, count):
        with np.errstate(all="ignore"):
            forged = make()
        write_parts(path, *forged)
        try:
            solution = bd.finish(problem, env, run, model, explorer=explorer, evaluation=5, store=False)
        except bd.RunError:
            outcomes.add("refused")
            continue
        outcomes.add("concluded")
        solution.save(tmp_path / "solution.bidual")
        if case != "latent":
            assert str(bd.check(tmp_path / "solution.bidual")).startswith("check passed"), what
    assert outcomes == {"refused", "concluded"}
