"""How well the tasks of LC3 are learned, by the explorers that come with them, and by planners that know the law.

Seeds are fixed: nothing here is random from run to run. Settings were chosen on seeds from 100 on; these are 0 to 3.
"""

import importlib
from functools import cache

import numpy as np
import pytest

import bidual as bd
from bidual._keys import Draw, Purpose
from bidual._prepare import prepare_learning
from bidual.control import Regulator
from bidual.envs import control_environment
from bidual.models import Simulated, Stage
from bidual.vpdpo import first_state, vpdpo

pytest.importorskip("gymnasium")
pytestmark = pytest.mark.slow


@cache
def _built(name):
    """The task, once: what is compiled for it serves all seeds."""
    return bd.tasks.find(name).build()


def _module(name):
    return importlib.import_module(f"bidual.tasks.{name.replace('-', '_')}")


def _learned(name, episodes, seed):
    """The sums of signals of every episode, and the largest of the first observed number."""
    task = _built(name)
    setting = prepare_learning(task.problem, task.env, task.model, task.explorer, delta=0.05, seed=seed)
    first = first_state(setting.program, setting.explorer, setting.knowledge)
    turns = vpdpo(setting.program, setting.env, setting.explorer, first, seed=seed)
    runs = [next(turns).episodes[0] for _ in range(episodes)]
    return np.array([run.observed.sum(axis=0) for run in runs]), np.array(
        [run.observations[:, 0].max() for run in runs]
    )


def _known(name, seed):
    """The same of one episode in the environment, planned by the task's own planner in its true law."""
    task = _built(name)
    embedding, space = task.problem.embedding, task.env.action_space
    n = task.env.observation_space.shape[0]
    told = Simulated(space.low, space.high, np.zeros(n), _module(name).LAW)
    starts = np.stack([task.env.reset(seed=1000 * seed + i)[0] for i in range(16)])
    planner = Regulator(task.explorer.sampler, task.explorer.execution, 1, Draw(seed, Purpose.PLAN, 0))
    theta = np.tile([-1.0, 0.0], (embedding.horizon, 1))
    plan = planner(told, Stage(embedding.features, embedding.horizon, starts), theta)
    world = control_environment(task.env, embedding.horizon, embedding.features)
    run = world.collect(plan.actions, Draw(seed, Purpose.EVALUATE, 1))
    return run.observed.sum(axis=0)[0], run.observations[:, 0].max()


def test_the_car_is_driven_out_from_the_eighth_episode_on():
    """In every episode from then to the twentieth, in at least three of four seeds; by the planner in all of them.

    What is earned is 57 on average, of the same planner in the true law 58; by random forces -100.
    """
    goal = _module("mountain-car").GOAL
    known = np.array([_known("mountain-car", seed) for seed in range(4)])
    assert np.all(known[:, 1] >= goal)
    runs = [_learned("mountain-car", 20, seed) for seed in range(4)]
    assert sum(bool(np.all(highest[7:] >= goal)) for _, highest in runs) >= 3
    earned = np.array([sums[:, 0] for sums, _ in runs])
    assert earned[:, 7:].mean() >= 0.95 * known[:, 0].mean()
    assert earned[:, 0].max() <= -90.0  # at random: the test has power


def test_the_pole_is_balanced_as_well_as_by_who_knows_the_law():
    """Within a hundredth of it, over the last fifteen of twenty episodes; at random the pole has fallen."""
    known = np.mean([_known("cartpole", seed)[0] for seed in range(4)])
    earned = np.array([_learned("cartpole", 20, seed)[0][:, 0] for seed in range(4)])
    assert np.all(earned[:, 5:].mean(axis=1) >= 0.99 * known)
    assert earned[:, 0].max() <= 100.0


def test_the_acrobot_swings_nearly_as_high_as_by_who_knows_the_law():
    """A tenth of what that earns above hanging still (-400) is 41: last 25 of 50 episodes, three of four seeds and all.

    They earn -18, 3, -6 and -57, the planner that knows the law 11 on average over eight seeds (standard error 11).
    """
    hanging = -400.0
    known = np.mean([_known("acrobot", seed)[0] for seed in range(8)]) - hanging
    assert known >= 350.0
    earned = np.array([_learned("acrobot", 50, seed)[0][25:, 0].mean() for seed in range(4)]) - hanging
    assert (earned >= 0.9 * known).sum() >= 3
    assert earned.mean() >= 0.9 * known


def test_the_car_keeps_its_budget_of_effort():
    """Second halves of 24 episodes: over the limit by at most a twentieth in each seed; without it 150 is spent.

    Efforts are 62.3, 49.4, 58.7 and 54.5. Mixtures of plans have members that stay in the valley, so not every episode
    leads out of it: 42 of 48 earn 50 and more, and three quarters are asked for.
    """
    halves = np.array([_learned("mountain-car-effort", 24, seed)[0][12:] for seed in range(4)])
    assert np.all(halves[:, :, 1].mean(axis=1) <= 1.05 * 60.0)
    assert np.mean(halves[:, :, 0] >= 50.0) >= 0.75
