"""Limits of time, on a clock of their own: what takes time moves it, and nothing else does.

Every episode takes a second and every plan a tenth of one, or whatever a test says; a call of `learn` may take a fifth
longer than it was given, and one episode and one plan.
"""

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual._base import deadline
from bidual._base.deadline import NEVER, Deadline
from bidual.dual import GradientAscent
from bidual.learning.outputs import FinalBound, run_episodes_until, run_fresh_episodes
from bidual.planners import BackwardInduction, ClassSearch, ExtendedValueIteration
from bidual.planners._class_steps import ClassSteps
from bidual.planners.control import Regulator
from bidual.world.envs import ControlEnvironment, Simulator
from tests.classes import random_case, world
from tests.control_envs import Slider


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    def charge(self, monkeypatch, kind, name, seconds):
        """Let every call of a method take so long, or as long as a function of its arguments says."""
        method = getattr(kind, name)

        def slow(*args, **named):
            self.now += seconds(*args) if callable(seconds) else seconds
            return method(*args, **named)

        monkeypatch.setattr(kind, name, slow)


def charge_episodes(clock, monkeypatch, kind, seconds):
    """Let each episode take so long, as in an environment that runs one at a time."""
    monkeypatch.setattr(kind, "simultaneous", 1)
    clock.charge(monkeypatch, kind, "collect", seconds)
    if "collect_many" in vars(kind):
        clock.charge(monkeypatch, kind, "collect_many", lambda _env, _policy, draws: seconds * len(draws))


@pytest.fixture
def clock(monkeypatch):
    one = Clock()
    monkeypatch.setattr(deadline, "read_clock", one)
    monkeypatch.setattr("bidual.learning.learn.read_clock", one)
    monkeypatch.setattr("bidual.learning.outputs._functionals.read_clock", one)
    return one


def test_deadlines(clock):
    assert NEVER.left == np.inf
    assert not NEVER.passed
    assert NEVER.after_share(0.5) is NEVER
    one = Deadline.after(10.0)
    assert Deadline.after(None) == NEVER
    assert (one.left, one.after_share(0.5).left, one.within(3.0).left, NEVER.within(3.0).left) == (10.0, 5.0, 3.0, 3.0)
    assert one.within(30.0) == one
    clock.now += 10.0
    assert one.passed
    assert one.left == 0.0
    assert one.after_share(0.5).left == 0.0


def _tabular():
    task = bd.tasks.find("riverswim").build(horizon=4)
    return (task.problem, task.mdp), {}


def _class():
    one = world(3, horizon=4)
    x = one.mdp.embedding(r=np.random.default_rng(0).random((5, 2)))
    problem = bd.Problem(cp.Minimize(cp.norm(cp.sum(x.r) - 1.0)), {"r": cp.sum(x.r) <= 2.5})
    return (problem, one.mdp, bd.models.LowRank(one.phis, one.mus, shared=False)), {}


FAMILIES = {"tabular": _tabular, "class": _class}
LOOPS = {"default": None, "paper": bd.explorers.PrimalDual(GradientAscent())}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(("plan", "episode"), [(0.1, 1.0), (1.5, 0.1)])
def test_a_call_keeps_its_limit_to_a_fifth(clock, monkeypatch, family, loop, plan, episode):
    """Plans or episodes may be what takes long. The limit is for 1000 episodes far too short."""
    charge_episodes(clock, monkeypatch, Simulator, episode)
    for planner in (BackwardInduction, ExtendedValueIteration, ClassSearch):
        clock.charge(monkeypatch, planner, "__call__", plan)
    arguments, settings = FAMILIES[family]()
    limit, start = 120.0, clock.now
    found = bd.learn(*arguments, episodes=1000, time_limit=limit, explorer=LOOPS[loop], **settings)
    assert clock.now - start <= 1.2 * limit
    assert clock.now - start >= 0.6 * limit  # and most of it is used
    assert 0 < found.episodes < 1000
    assert found.evaluation_episodes > 0
    assert found.knowledge.counts.episodes == found.episodes + found.evaluation_episodes


def test_controls_keep_their_limit_too(clock, monkeypatch):
    features = bd.features.computed(
        distance=bd.features.signal(lambda x, u, y: x[0] ** 2, 0.0, 4.0),
        effort=bd.features.signal(lambda x, u, y: u @ u, 0.0, 4.0),
    )
    x = features.embedding(5)
    problem = bd.Problem(cp.Minimize(cp.sum(x.distance)), {"effort": cp.sum(x.effort) <= 3.0})
    control = bd.control
    explorer = bd.explorers.Controls(control.Mean(), control.icem(8, 2), control.Feedback(), rollouts=2)
    charge_episodes(clock, monkeypatch, ControlEnvironment, 1.0)
    clock.charge(monkeypatch, Regulator, "__call__", 2.0)
    start = clock.now
    model = bd.models.KNR(bd.features.linear(), ridge=1e-3, noise=0.02)
    found = bd.learn(problem, Slider(), model, episodes=500, time_limit=100.0, explorer=explorer)
    assert clock.now - start <= 120.0
    assert 0 < found.episodes < 500
    assert found.evaluation_episodes > 0


def test_a_limit_reaches_into_branch_and_bound(clock, monkeypatch):
    """A node takes a second: one plan alone would take hundreds of them."""
    case = random_case(0, (8, 3, 3), (6, 6), horizon=5)
    theta = np.random.default_rng(1).normal(size=(5, case.pieces.psi.dimension))
    free = ClassSearch(10**4, 0).search(case.model, case.layout, theta)
    assert free.nodes > 20
    clock.charge(monkeypatch, ClassSteps, "relaxed_values", 1.0)
    start = clock.now
    found = ClassSearch(10**4, 0, Deadline.after(10.0)).search(case.model, case.layout, theta)
    assert clock.now - start <= 12.0
    assert found.nodes < 20
    assert found.lower <= free.lower <= free.upper <= found.upper


def test_a_bound_within_no_time_is_one_plan(clock):
    arguments, _ = _tabular()
    found = bd.learn(*arguments, episodes=30, evaluation=10)
    setup, knowledge = found._session.setup, found.knowledge
    clock.now += 5.0
    bound = FinalBound().within(Deadline(clock.now))(setup.program, knowledge)
    assert bound.plans == 1
    assert bound.lower is None or bound.lower <= FinalBound()(setup.program, knowledge).lower + 1e-9


def test_evaluation_is_cut_and_its_interval_holds_for_any_number(clock, monkeypatch):
    charge_episodes(clock, monkeypatch, Simulator, 1.0)
    arguments, _ = _tabular()
    found = bd.learn(*arguments, episodes=40, evaluation=1000, time_limit=100.0)
    assert 0 < found.evaluation_episodes < 100
    (seen,) = found._session.estimates.rounds
    assert seen.uniform
    whole = bd.learn(*arguments, episodes=20, evaluation=10, time_limit=10000.0)
    (seen,) = whole._session.estimates.rounds
    assert not seen.uniform
    assert whole.evaluation_episodes == 10
    ran, env = [], Simulator(arguments[1])

    def collect(env, policy, seed, first, count):
        ran.extend(range(first, first + count))
        return run_fresh_episodes(env, policy, seed, first, count)

    episodes = run_episodes_until(collect, env, found.policy, 0, range(7, 107), Deadline.after(40.0))
    assert 30 <= len(episodes) <= 40
    assert ran == list(range(7, 7 + len(episodes)))
