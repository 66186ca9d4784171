"""The car, the cart pole and the acrobot: their physics against Gymnasium's own, what they pay, a plan for the car.

That environments keep Gymnasium's contract and tasks say how they are drawn is in test_control_tasks.
"""

import importlib

import jax.numpy as jnp
import numpy as np
import pytest

import bidual as bd
from bidual._base.keys import Draw, Purpose
from bidual._base.types import float64
from bidual.models import Simulated, Stage
from bidual.planners.control import Mpc, Regulator, icem
from bidual.tasks import _lc3_envs, _lc3_laws
from bidual.tasks._control_laws import step_inverted_pendulum

gymnasium = pytest.importorskip("gymnasium")
SYSTEMS = ("mountain-car", "cartpole", "acrobot")


def _theirs(name):
    """Gymnasium's environment without its time limit and its checks."""
    return gymnasium.make(name).unwrapped


def _module(name):
    return importlib.import_module(f"bidual.tasks.{name.replace('-', '_')}")


def test_the_car_is_gymnasiums():
    """Step by step, with both ends of the road; they store single precision, so every step is started anew."""
    env, theirs = _lc3_envs.MountainCar(), _theirs("MountainCarContinuous-v0")
    env.reset(seed=0)
    theirs.reset(seed=0)
    rng = np.random.default_rng(0)
    visited = []
    for i in range(600):
        s = np.array([rng.uniform(-1.2, 0.6), rng.uniform(-0.07, 0.07)])
        u = rng.uniform(-1.2, 1.2, 1)  # also beyond the limits
        env.state, theirs.state = s, s.copy()
        y, *_ = env.step(u)
        np.testing.assert_allclose(y, theirs.step(u)[0], atol=1e-7, err_msg=f"{i}: {s} {u}")  # of single precision
        visited.append(y)
    at = np.array(visited)
    assert (at[:, 0] == -1.2).any()  # the test has seen the wall, where speed is lost
    assert np.all(at[at[:, 0] == -1.2, 1] == 0)
    assert (at[:, 0] == 0.6).any()  # and the other end, where it is not
    assert (np.abs(at[:, 1]) == 0.07).any()


def test_the_cart_pole_is_gymnasiums():
    """Its two forces are ours at the limits; both go on in double precision, without an end."""
    env, theirs = _lc3_envs.CartPole(), _theirs("CartPole-v1")
    s, _ = env.reset(seed=0)
    theirs.reset(seed=0)
    theirs.state = s.copy()
    rng = np.random.default_rng(0)
    y = s
    for _ in range(200):
        push = int(rng.integers(2))
        y, *_ = env.step(np.array([2.0 * push - 1.0]))
        theirs.steps_beyond_terminated = None  # it only warns
        theirs.step(push)
        np.testing.assert_allclose(y, theirs.state, rtol=1e-12, atol=1e-12)
    assert abs(y[2]) > np.pi  # the pole has turned over


def test_the_acrobot_is_gymnasiums():
    """Its three torques; every step is started anew, so that chaos does not make rounding large."""
    env, theirs = _lc3_envs.Acrobot(), _theirs("Acrobot-v1")
    env.reset(seed=0)
    theirs.reset(seed=0)
    rng = np.random.default_rng(0)
    fast = 0
    for _ in range(300):
        s = rng.uniform(-1, 1, 4) * [np.pi, np.pi, 12.0, 27.0]
        torque = int(rng.integers(3))
        env.state, theirs.state = s, s.copy()
        y, *_ = env.step(np.array([torque - 1.0]))
        np.testing.assert_allclose(y, theirs.step(torque)[0], atol=2e-6)  # they show single precision of up to 28
        fast += bool(np.any(np.abs(y[4:]) >= np.array(_lc3_laws.LINKS_FASTEST) - 1e-9))
    assert fast > 0  # the limits of speeds were met


@pytest.mark.parametrize("name", SYSTEMS)
def test_where_episodes_begin_is_gymnasiums(name):
    """2000 starts: within the box, and as wide as uniform draws in it are (5 standard errors)."""
    env = bd.tasks.find(name).build().env
    env.reset(seed=0)
    states = np.array([(env.reset(), env.state)[1] for _ in range(2000)])
    offset = states - env.first
    assert np.all(np.abs(offset) <= env.spread)
    error = 5 * env.spread / np.sqrt(3 * 2000)
    assert np.all(np.abs(offset.mean(axis=0)) <= error)
    assert np.all(np.abs(offset).max(axis=0) >= 0.99 * env.spread)


@pytest.mark.parametrize("name", SYSTEMS)
@float64
def test_the_laws_of_planners_are_those_of_environments(name):
    env, law = bd.tasks.find(name).build().env, _module(name).LAW
    rng = np.random.default_rng(0)
    x, _ = env.reset(seed=0)
    for _ in range(50):
        u = rng.uniform(-1, 1, 1)
        there = law(jnp.asarray(x), jnp.asarray(u))
        x, *_ = env.step(u)
        np.testing.assert_allclose(there, x, rtol=1e-9, atol=1e-9)


def test_what_is_paid():
    """Position; height of the pole less what distance costs; height of the tip: by hand."""

    def paid(name, y, u=0.0):
        features = bd.tasks.find(name).build().problem.embedding.features
        return np.asarray(features.values(jnp.zeros(len(y)), jnp.array([u]), jnp.asarray(y, dtype=float)), dtype=float)

    np.testing.assert_allclose(paid("mountain-car", [0.45, 0.01], -0.5), [0.45, 0.25], atol=1e-6)
    np.testing.assert_allclose(paid("cartpole", [2.0, 0, np.pi / 3, 0], 1.0), [0.5 - 0.04, 1.0], atol=1e-6)
    np.testing.assert_allclose(paid("cartpole", [30.0, 0, 0, 0]), [-2.0, 0.0], atol=1e-6)  # held to its bounds
    for first, second, height in (
        (0.0, 0.0, -2.0),
        (np.pi, 0.0, 2.0),
        (np.pi / 2, np.pi / 2, 1.0),
        (np.pi, np.pi, 0.0),
    ):
        shown = _lc3_laws.observe_acrobot(np.array([first, second, 0.0, 0.0]), np)
        np.testing.assert_allclose(paid("acrobot", shown), [height, 0.0], atol=1e-6)


def test_the_car_cannot_drive_out_at_once_and_stays_at_the_end_for_nothing():
    """Full force from the bottom turns back below the flag; beyond the top the slope holds the car at the end."""
    s, far = np.array([-0.5, 0.0]), []
    for _ in range(200):
        s = _lc3_laws.step_mountain_car(s, np.ones(1), np)
        far.append(s[0])
    assert max(far) < _module("mountain-car").GOAL
    assert min(far) < -0.5
    s = _lc3_laws.step_mountain_car(np.array([0.6, 0.0]), np.zeros(1), np)
    assert s[0] == 0.6


def test_energy_of_the_acrobot_is_kept_without_torque():
    """Of two rods with moments of inertia about their centres, to the order of the step: 1 % over 200 steps."""
    s, energies = np.array([1.0, 0.5, 0.0, 0.0]), []
    for _ in range(200):
        first, second, one, two = s
        kinetic = 0.5 * (1 + 0.25) * one**2 + 0.5 * (one + two) ** 2
        kinetic += 0.5 * (one**2 + 0.25 * (one + two) ** 2 + np.cos(second) * one * (one + two))
        potential = -9.8 * (1.5 * np.cos(first) + 0.5 * np.cos(first + second))
        energies.append(kinetic + potential)
        s = _lc3_laws.step_acrobot(s, np.zeros(1), np)
    assert np.ptp(energies) <= 0.01 * 4 * 9.8  # of what there is between hanging and standing


def test_the_car_is_driven_out_where_the_law_is_known():
    """With few draws, from two starts: two swings or three, and most of the time at the end of the road."""
    task = bd.tasks.find("mountain-car").build()
    law = Simulated(np.array([-1.0]), np.array([1.0]), np.zeros(2), _module("mountain-car").LAW)
    theta = np.tile([-1.0, 0.0], (200, 1))
    for seed in range(2):
        start, _ = task.env.reset(seed=seed)
        stage = Stage(task.problem.embedding.features, 200, start[None])
        plan = Regulator(icem(128, 5, deviation=1.0), Mpc(10, 110), 1, Draw(seed, Purpose.PLAN, 0))(law, stage, theta)
        assert -plan.value >= 50.0


@pytest.mark.parametrize("name", [f"{system}-effort" for system in SYSTEMS])
def test_the_limit_is_a_parameter(name):
    entry = bd.tasks.find(name)
    task = entry.with_settings({"budget": "2.5", "horizon": "7"})
    assert task.problem.embedding.horizon == 7
    assert task.problem.program().limits.tolist() == [2.5]
    assert [line.name for line in task.problem.lines()] == ["effort"]


@pytest.mark.parametrize("name", SYSTEMS)
def test_rods_are_drawn_as_long_as_they_are_and_end_where_heights_are_paid(name):
    """Over an episode of random forces."""
    task, rng = bd.tasks.find(name).build(), np.random.default_rng(0)
    seen = [task.env.reset(seed=0)[0]]
    seen += [task.env.step(rng.uniform(-1, 1, 1))[0] for _ in range(200)]
    assert task.picture is not None
    assert task.picture.joints is not None
    joints = task.picture.joints(np.array(seen).T)
    assert joints.shape == ({"mountain-car": 1, "cartpole": 2, "acrobot": 3}[name], 2, 201)
    np.testing.assert_allclose(np.linalg.norm(np.diff(joints, axis=0), axis=1), 1.0, atol=1e-12)
    if name != "mountain-car":
        heights = joints[-1, 1]  # of the tip
        away = 0.0 if name == "acrobot" else 0.01 * joints[0, 0] ** 2
        values = task.problem.embedding.features.values
        paid = [values(jnp.asarray(y), jnp.zeros(1), jnp.asarray(y))[0] for y in seen]
        np.testing.assert_allclose(heights - away, paid, atol=1e-5)


def test_the_law_of_the_cart_that_planners_are_told_is_mujocos():
    """From 200 states within what the rail allows; masses are written down with 13 digits."""
    pytest.importorskip("mujoco")
    theirs, rng = _theirs("InvertedPendulum-v5"), np.random.default_rng(0)
    theirs.reset(seed=0)
    for _ in range(200):
        s, u = rng.uniform(-1, 1, 4) * [0.5, 0.5, 2.0, 3.0], rng.uniform(-3, 3, 1)
        theirs.set_state(s[:2], s[2:])
        np.testing.assert_allclose(step_inverted_pendulum(s, u, np), theirs.step(u)[0], atol=1e-10)
