"""What is executed of a plan: open loop, feedback, replanning; and rollouts with its extras and its replanning."""

import dataclasses

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import bidual as bd
from bidual._base.keys import Draw, Purpose
from bidual.models import Simulated, Stage
from bidual.planners import Plan
from bidual.planners.control import (
    Chain,
    Cheapest,
    Descent,
    Feedback,
    Mpc,
    OpenLoop,
    Receding,
    Regulator,
    embedding,
    icem,
)
from bidual.planners.control._execution import PlannedControls, choose_central_start
from bidual.problem.features import computed, signal

H = 8
LOW, HIGH = np.array([-1.0]), np.array([1.0])
FEATURES = computed(
    place=lambda x, u, y: y[0] ** 2, effort=lambda x, u, y: 0.1 * u[0] ** 2, speed=signal(lambda x, u, y: x[1])
)
THETA = np.tile([1.0, 1.0, 0.0], (H, 1))
START = np.array([[2.0, 0.0]])


def _move(s, u):
    return jnp.stack([s[0] + 0.5 * s[1], s[1] + 0.5 * u[0]])


def _hoped(s, u, e):
    return _move(s, u) + 0.2 * e


STILL, NOISY = (Simulated(LOW, HIGH, np.full(2, size), _move) for size in (0.0, 0.1))
FAMILY = Simulated(LOW, HIGH, np.zeros(2), _hoped, 2)
PSI = Stage(FEATURES, H, START)
SAMPLER, PATHS = icem(64, 5), 200  # the same everywhere: what is traced and compiled once serves all tests
EXECUTIONS = {"open": OpenLoop(), "feedback": Feedback(steps=0), "mpc": Mpc(), "mpc 3/4": Mpc(every=3, horizon=4)}


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.slow) if name == "mpc" else name for name in EXECUTIONS])
def execution(request):
    return EXECUTIONS[request.param]


def _episode(policy, noise=0.0, seed=0):
    """In NumPy, as an environment does it: features of every step."""
    rng, actor, s, seen = np.random.default_rng(seed), policy.reset(seed), START[0], []
    for _ in range(H):
        u = actor.act(s)
        after = np.array([s[0] + 0.5 * s[1], s[1] + 0.5 * u[0]]) + noise * rng.normal(size=2)
        seen.append([after[0] ** 2, 0.1 * u[0] ** 2, s[1]])
        s = after
    return np.array(seen)


@pytest.mark.parametrize("name", ["open", "feedback"])
def test_without_noise_rollouts_are_the_episode_itself(name):
    planner = Regulator(SAMPLER, EXECUTIONS[name], PATHS)
    sought = planner.search(STILL, PSI, THETA)
    plan = planner.execute(STILL, PSI, THETA, sought)
    # Sums of a dozen numbers of size 1 in single precision.
    np.testing.assert_allclose(plan.embedding, _episode(plan.actions), atol=1e-5)
    assert abs(plan.value - sought.cost) <= 1e-5
    assert plan.value == np.vdot(THETA, plan.embedding)
    assert plan.lower == -np.inf


def test_rollouts_of_replanning_replan(execution):
    """200 episodes against 200 paths with noise: means agree within 5 standard errors, of 24 numbers and 4 kinds."""
    plan = Regulator(SAMPLER, execution, PATHS)(NOISY, PSI, THETA)
    episodes = np.stack([_episode(plan.actions, 0.1, seed) for seed in range(PATHS)])
    errors = np.sqrt(2 / PATHS) * episodes.std(axis=0)
    assert (np.abs(episodes.mean(axis=0) - plan.embedding) <= 5 * errors + 1e-5).all()


def test_what_answers_to_noise_pays_less():
    """With much noise: open loop against feedback and replanning in the same paths."""
    noisy = Simulated(LOW, HIGH, np.full(2, 0.3), _move)
    values = {name: Regulator(SAMPLER, one, PATHS)(noisy, PSI, THETA).value for name, one in EXECUTIONS.items()}
    assert max(values["feedback"], values["mpc"]) < 0.9 * values["open"]


@pytest.mark.slow
@pytest.mark.parametrize("every", [1, 3, H])
def test_between_plans_the_gains_of_a_descent_answer_noise(every):
    """Linear, quadratic and far from limits: one gain is the best answer, however rarely it is planned again.

    The same noise for all. Without gains a plan for all steps pays three times as much.
    """
    near = Stage(FEATURES, H, np.array([[0.3, 0.0]]))
    best = Regulator(SAMPLER, Feedback(), PATHS)(NOISY, near, THETA)
    again = Regulator(Chain(SAMPLER, Descent(2)), Mpc(every), PATHS)(NOISY, near, THETA)
    np.testing.assert_allclose(again.embedding, best.embedding, atol=1e-5)  # means of squares in single precision
    assert Regulator(SAMPLER, Mpc(H), PATHS)(NOISY, near, THETA).value >= 2 * best.value


def test_a_descent_that_does_not_pay_less_is_not_taken():
    """Next to a kink: without curvature a step is as long as limits allow, and each share of it leads past the kink."""
    near = Simulated(LOW, HIGH, np.zeros(1), lambda s, u: s + u)
    psi = Stage(computed(apart=lambda x, u, y: jnp.abs(y[0])), 1, np.array([[0.3]]))
    policy, _ = Feedback()(PlannedControls(near, psi, np.ones((1, 1)), np.array([[-0.2999]]), SAMPLER))
    assert policy.controller.controls.item() == -0.2999


@pytest.mark.parametrize("search", [SAMPLER, pytest.param(Chain(SAMPLER, Descent(2)), marks=pytest.mark.slow)])
def test_replanning_is_the_same_in_compiled_code(search):
    controller = Receding(STILL, THETA, np.zeros((4, 1)), FEATURES, search, every=3)
    memory, path = controller.start(np.random.default_rng(5)), np.random.default_rng(6).normal(size=(H, 2))
    compiled = jax.jit(lambda c, memory, h, s: c.control(memory, h, s))
    inside = controller.begin(jr.key(memory.key))
    kept = []
    for h, s in enumerate(path):
        u, memory = controller.act(memory, h, s)
        v, _, inside = compiled(controller, inside, h, jnp.asarray(s, dtype=jnp.float32))
        # The same draws, and rounding that a search may follow to another plan of nearly the same cost.
        np.testing.assert_allclose(u, v, atol=1e-4)
        kept.append(memory.nominal)
    assert kept[0] is kept[1] is kept[2] is not kept[3]


def test_replanning_starts_from_the_rest_of_the_plan_before():
    """One draw of hardly any noise: the plan hardly moves, so the control at step h is that of the plan made first."""
    plan = np.linspace(-0.5, 0.5, H)[:, None]
    for warm, later in ((True, plan[5, 0]), (False, 0.0)):
        sampler = dataclasses.replace(icem(2, 1, 1e-6), warm=warm)
        actor = bd.policies.ControlPolicy(Receding(STILL, THETA, plan, FEATURES, sampler), LOW, HIGH).reset(0)
        controls = [actor.act(START[0])[0] for _ in range(6)]
        assert abs(controls[0] - plan[0, 0]) <= 1e-4
        assert abs(controls[5] - later) <= 1e-4


def test_the_cheapest_execution_is_taken():
    """Of one that follows a poor sequence, and one that improves it first, in either order."""
    nominal = np.full((H, 1), 0.9)
    planned = PlannedControls(NOISY, PSI, THETA, nominal, SAMPLER)
    poor, far = Feedback(steps=0), Feedback(steps=20)
    for executions in ((poor, far), (far, poor)):
        chosen = Cheapest(executions, paths=8)(planned)
        np.testing.assert_array_equal(chosen.policy.controller.controls, far(planned).policy.controller.controls)
    assert Cheapest((Mpc(2, 3), Mpc(2, 5))).ahead(H) == 5
    for executions, paths in (((far,), 2), ((far, poor), 0)):
        with pytest.raises(bd.ProblemError, match="must be"):
            Cheapest(executions, paths)


def test_fingerprints_are_of_numbers_and_settings():
    one = Receding(STILL, THETA, np.zeros((H, 1)), FEATURES, SAMPLER)
    assert one.fingerprint == Receding(STILL, THETA.copy(), np.zeros((H, 1)), FEATURES, icem(64, 5)).fingerprint
    others = [
        dataclasses.replace(one, theta=THETA + 1),
        dataclasses.replace(one, nominal=np.zeros((4, 1))),
        dataclasses.replace(one, dynamics=NOISY),
        dataclasses.replace(one, sampler=icem(64, 6)),
        dataclasses.replace(one, every=2),
        dataclasses.replace(one, features=computed(other=lambda x, u, y: y[0])),
    ]
    assert len({one.fingerprint, *(other.fingerprint for other in others)}) == 7


@pytest.mark.parametrize("name", ["open", pytest.param("mpc 3/4", marks=pytest.mark.slow)])
def test_rollouts_have_the_extras_of_the_plan(name):
    """In a family of laws the plan hopes for a good one; its embedding is of that one, and costs less."""
    execution = EXECUTIONS[name]
    planner = Regulator(SAMPLER, execution, PATHS)
    hopeful, sober = planner(FAMILY, PSI, THETA), planner(STILL, PSI, THETA)
    assert hopeful.value < 0.9 * sober.value
    if not isinstance(execution, Mpc):
        assert abs(hopeful.value - planner.search(FAMILY, PSI, THETA).cost) <= 1e-5


def test_the_same_draw_gives_the_same_plan_and_another_one_another():
    plans = [
        Regulator(SAMPLER, EXECUTIONS["feedback"], PATHS, Draw(seed, Purpose.PLAN, 3))(NOISY, PSI, THETA)
        for seed in (0, 0, 1)
    ]
    np.testing.assert_array_equal(plans[0].embedding, plans[1].embedding)
    assert plans[0].actions.fingerprint == plans[1].actions.fingerprint != plans[2].actions.fingerprint


def _known(nominal):
    return Plan(None, np.zeros_like(THETA), 0.0, lower=-np.inf, nominal=nominal)


def test_searches_start_where_they_are_told():
    sought = Regulator(SAMPLER, OpenLoop()).search(STILL, PSI, THETA)
    again = Regulator(icem(4, 1), OpenLoop()).after(_known(sought.nominal)).search(STILL, PSI, THETA)
    assert again.cost <= sought.cost * (1 + 1e-6)


def test_start_states_take_turns():
    starts = np.arange(6.0).reshape(3, 2)
    seen = computed(x=signal(lambda x, u, y: x, size=2))
    for seed in range(3):
        plan = Regulator(SAMPLER, OpenLoop(), 6, Draw(seed, Purpose.PLAN, 0))(
            STILL, Stage(seen, H, starts), np.zeros((H, 2))
        )
        np.testing.assert_allclose(plan.embedding[0], starts.mean(axis=0), rtol=1e-6)
    first = [Regulator(SAMPLER, OpenLoop(), 1, Draw(seed, Purpose.PLAN, 0)) for seed in range(20)]
    drawn = {planner(STILL, Stage(seen, H, starts), np.zeros((H, 2))).embedding[0, 0] for planner in first}
    assert drawn == {0.0, 2.0, 4.0}
    np.testing.assert_array_equal(choose_central_start(Stage(seen, H, starts)), starts[1])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Mpc(every=0), "every must be"),
        (lambda: Mpc(every=5, horizon=4), "at least every=5"),
        (lambda: Mpc(horizon="growing"), "got 'growing'"),
        (lambda: Feedback(steps=-1), "steps must be"),
        (lambda: Regulator(rollouts=0), "rollouts must be"),
        (
            lambda: Regulator(SAMPLER).after(_known(np.zeros((H, 1))))(FAMILY, PSI, THETA),
            r"shape \(8, 1\); .* 1 controls and 2 extras, so it must have shape \(8, 3\)",
        ),
    ],
)
def test_bad_settings_are_refused(make, message):
    with pytest.raises(bd.ProblemError, match=message):
        make()


def test_models_that_explode_and_starts_of_another_size_are_named():
    lost = Simulated(LOW, HIGH, np.zeros(2), lambda s, u: s * 1e20)
    with pytest.raises(bd.ModelError, match=r"pass all bounds at step \d of 8"):
        Regulator(SAMPLER, OpenLoop(), 2)(lost, PSI, THETA)
    with pytest.raises(bd.ModelError, match="start states have 3 numbers, the dynamics 2"):
        Regulator(SAMPLER)(STILL, Stage(FEATURES, H, np.zeros((1, 3))), THETA)


def test_rollouts_do_not_care_about_the_users_precision():
    law = Receding(NOISY, THETA, np.zeros((H, 1)), FEATURES, SAMPLER)
    message = np.arange(3, dtype=np.uint32)
    first = embedding(law, NOISY, PSI, PATHS, message)
    with jax.enable_x64(True):
        second = embedding(law, NOISY, PSI, PATHS, message)
    np.testing.assert_array_equal(first, second)
