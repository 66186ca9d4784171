"""A process that was forked after computing: policies act in it, and computing is refused where it would hang."""

import os
import subprocess
import sys

import numpy as np
import pytest

import bidual as bd
from bidual._base import types
from bidual.models import Tabular
from bidual.tasks.riverswim import riverswim

RIVER = riverswim(budget=2.5, states=3, horizon=5)


@pytest.fixture
def _forked(monkeypatch):
    """As in a child of the process that computed first."""
    monkeypatch.setattr(types, "_record_first_process", os.getppid)


@pytest.mark.usefixtures("_forked")
@pytest.mark.parametrize(
    "compute",
    [
        lambda: bd.solve(RIVER.problem, RIVER.mdp),
        lambda: bd.learn(RIVER.problem, RIVER.mdp, Tabular(RIVER.mdp), episodes=5),
        lambda: bd.price(RIVER.problem, RIVER.mdp, "right"),
    ],
    ids=["solve", "learn", "price"],
)
def test_computing_is_refused_with_the_remedy(compute):
    with pytest.raises(bd.BidualError, match=r'multiprocessing\.get_context\("spawn"\)'):
        compute()


@pytest.mark.usefixtures("_forked")
def test_policies_act():
    policy = bd.policies.MarkovPolicy(np.full((5, 3, 2), 0.5))
    assert policy.reset(rng=0).act(0) in (0, 1)


FORK = """
import os
import bidual as bd

task = bd.tasks.find("riverswim").build()
model = bd.models.Tabular(support=task.mdp)
child = os.fork()
if not child:  # before anything is computed everything works
    print(bd.learn(task.problem, task.mdp, model, episodes=5, evaluation=5).episodes, flush=True)
    os._exit(0)
os.waitpid(child, 0)
learned = bd.learn(task.problem, task.mdp, model, episodes=5, evaluation=5)
child = os.fork()
if not child:
    print(learned.policy.reset(rng=0).act(0) in (0, 1), flush=True)
    try:
        bd.learn(task.problem, task.mdp, model, episodes=5, evaluation=5)
    except bd.BidualError as error:
        print("refused", flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


@pytest.mark.slow
def test_a_real_fork():
    run = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=300, check=True)
    assert run.stdout.split() == ["5", "True", "refused"]
