"""What everything about controls promises: signals of vectors, dynamics, controllers and their policies."""

import itertools
from functools import cache, partial

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import bidual as bd
from bidual.models import AbstractDynamics, Regressed, Simulated
from bidual.planners.control import (
    AbstractOptimism,
    AbstractSearch,
    BestOf,
    Bonus,
    Chain,
    Descent,
    Hallucinated,
    Mean,
    Thompson,
    icem,
    mppi,
)
from bidual.planners.control._receding import Receding
from bidual.planners.control._sampling import clip_controls, sum_path_costs
from bidual.planners.control._search import Subproblem
from bidual.problem.features import computed, fourier, linear, signal
from bidual.world.policies import AbstractController, AffineFeedback, ControlPolicy, RandomControls
from tests.helpers import random_instance
from tests.regressions import world

H, N, M = 4, 3, 2
RNG = np.random.default_rng(0)
LOW, HIGH = np.array([-1.0, -0.5]), np.array([0.5, 2.0])

FEATURES = computed(
    spread=lambda x, u, y: x @ x,
    effort=signal(lambda x, u, y: u @ u, 0.0, 1.0),
    both=signal(lambda x, u, y: jnp.concatenate([x, y]), -2.0, 2.0, size=6),
)
OPTIMISMS = {
    "mean": Mean(),
    "draw": Thompson(),
    "best of draws": BestOf(3, scale=2.0),
    "hallucinated": Hallucinated(0.5, rank=3),
    "hallucinated exactly": Hallucinated(0.5, rank=None),
    "bonus": Bonus(2.0, rank=3),
}
WORLDS = {
    "fourier": cache(lambda: world(fourier(20), N, (LOW, HIGH))),
    "linear, actions": cache(lambda: world(linear(constant=True), N, (LOW, HIGH), discrete=True)),
}
SIMULATED = Simulated(LOW, HIGH, np.array([0.1, 0.2, 0.0]), lambda s, u: 0.9 * s + u.sum())
FAMILY = Simulated(LOW, HIGH, np.array([0.1, 0.2, 0.0]), lambda s, u, e: 0.9 * s + u.sum() + e, 3)
DYNAMICS = ["simulated", "simulated, a family"] + [
    f"{name}, {kind}, {i}"
    for name, optimism in OPTIMISMS.items()
    for kind in WORLDS
    for i in range(optimism.n if isinstance(optimism, BestOf) else 1)
]


@cache
def make_dynamics():
    """All dynamics by name, made when the first is used: the worlds are regressions."""
    found = {"simulated": SIMULATED, "simulated, a family": FAMILY}
    for name, optimism in OPTIMISMS.items():
        for kind, known in WORLDS.items():
            made = optimism(known(), np.random.default_rng(0))
            found |= {f"{name}, {kind}, {i}": one for i, one in enumerate(made)}
    return found


CONTROLLERS = {
    "affine feedback": AffineFeedback(RNG.normal(size=(H, M)), RNG.normal(size=(H, N)), RNG.normal(size=(H, M, N))),
    "random controls": RandomControls(H, N, LOW, HIGH),
    "receding": Receding(SIMULATED, np.ones((H, 8)), np.zeros((H, M)), FEATURES, icem(8, 2), every=2),
    "receding, a family, two steps ahead": Receding(
        FAMILY, np.ones((H, 8)), np.zeros((2, M + 3)), FEATURES, mppi(8, 2)
    ),
}

SEARCHES = {
    "sampled": mppi(16, 3),
    "descended": Descent(4),
    "sampled, then descended": Chain(icem(16, 3), Descent(4)),
}


def test_every_implementation_is_here():
    assert {type(one) for one in SEARCHES.values()} == set(AbstractSearch.__subclasses__())
    assert list(make_dynamics()) == DYNAMICS
    assert {type(one) for one in make_dynamics().values()} == set(AbstractDynamics.__subclasses__())
    assert {type(one) for one in CONTROLLERS.values()} == set(AbstractController.__subclasses__())
    assert {type(one) for one in OPTIMISMS.values()} == set(AbstractOptimism.__subclasses__())


def test_signals_are_where_their_parts_say_and_within_their_bounds():
    x, u, y = jnp.array([1.0, -3.0, 2.0]), jnp.array([0.9, 0.9]), jnp.array([0.5, 5.0, -5.0])
    told = np.asarray(FEATURES.values(x, u, y))
    assert [(part.name, part.position, part.size) for part in FEATURES.parts] == [
        ("spread", 0, 1),
        ("effort", 1, 1),
        ("both", 2, 6),
    ]
    np.testing.assert_array_equal(told, np.array([14.0, 1.0, 1.0, -2.0, 2.0, 0.5, 2.0, -2.0], dtype=np.float32))
    low, high = FEATURES.bounds
    np.testing.assert_array_equal(low, [-np.inf, 0, *[-2.0] * 6])
    np.testing.assert_array_equal(high, [np.inf, 1, *[2.0] * 6])


def test_the_embedding_of_signals_has_their_names():
    x = FEATURES.embedding(H, total=True)
    assert x.size == 8
    assert x.both.shape == (6,)
    assert x.effort.shape == ()


@pytest.mark.parametrize(
    ("make", "description"),
    [
        (lambda: computed(), "at least one"),
        (lambda: signal(abs, 2.0, 1.0), r"low <= high; got \[2.0, 1.0\]"),
        (lambda: signal(abs, size=0), "at least 1"),
        (lambda: FEATURES.stage(random_instance(0, (4, 3, 3, 5)).mdp.successors), "KNR"),
    ],
)
def test_signals_that_cannot_be_are_refused(make, description):
    with pytest.raises(bd.ModelError, match=description):
        make()


@pytest.fixture(params=DYNAMICS)
def dynamics(request):
    return make_dynamics()[request.param]


def test_dynamics_go_through_compiled_code_as_arguments(dynamics):
    """The same step inside and outside of compiled code, up to the rounding of single precision."""
    n, m, e = dynamics.sizes
    s, u, noise = (jnp.asarray(RNG.normal(size=size), dtype=jnp.float32) for size in (n, m, n))
    plain, bonus = dynamics.step(s, u, jnp.zeros(e), noise)
    inside, same = jax.jit(lambda d, *args: d.step(*args))(dynamics, s, u, jnp.zeros(e), noise)
    np.testing.assert_allclose(np.asarray(inside), np.asarray(plain), rtol=1e-5, atol=1e-5)
    assert plain.shape == (n,)
    assert float(same) == pytest.approx(float(bonus), rel=1e-5)
    assert float(bonus) >= 0
    low, high = dynamics.limits
    assert low.shape == high.shape == (m,)


def test_noise_and_extras_move_the_mean_by_as_much_as_they_may(dynamics):
    """Steps are differentiable at extras of 0, and no extras move further than the longest do."""
    n, m, e = dynamics.sizes
    s, u, zero = jnp.zeros(n), jnp.full(m, 0.1), jnp.zeros(n)
    mean, _ = dynamics.step(s, u, jnp.zeros(e), zero)
    noisy, _ = dynamics.step(s, u, jnp.zeros(e), jnp.ones(n))
    np.testing.assert_allclose(np.asarray(noisy - mean), dynamics.deviation, rtol=1e-4, atol=1e-6)
    slope = jax.jacobian(lambda e: dynamics.step(s, u, e, zero)[0])(jnp.zeros(e))
    assert np.isfinite(np.asarray(slope)).all()
    if e:
        short, long = (np.asarray(dynamics.step(s, u, size * jnp.ones(e), zero)[0] - mean) for size in (0.1, 1e3))
        reach = np.linalg.norm(long)
        assert reach > 0
        np.testing.assert_allclose(short, long * 0.1 * np.sqrt(e), rtol=1e-3, atol=1e-6)


@partial(jax.jit, static_argnums=0)
def _searched(searching, dynamics, theta, h, s, nominal):
    return searching(Subproblem.ahead(dynamics, FEATURES, theta, h, s, len(nominal)), jr.key(3), nominal)


@partial(jax.jit, static_argnums=0)
def _cost(steps, dynamics, theta, s, nominal):
    return sum_path_costs(Subproblem(dynamics, FEATURES, theta, jnp.asarray(steps), s), nominal[:, None])[0]


def _pairs():
    """Every search with extras or without: other pairs are slow, because each is compiled."""
    gate = [("sampled", "fourier, hallucinated"), ("descended", "fourier, hallucinated")]
    gate += [("descended", "simulated"), ("sampled, then descended", "simulated")]
    for pair in itertools.product(
        SEARCHES, ("simulated", "simulated, a family", "fourier, hallucinated", "fourier, draw")
    ):
        yield pytest.param(*pair, marks=() if pair in gate else pytest.mark.slow)


@pytest.mark.parametrize("h", [0, 2])
@pytest.mark.parametrize(("search", "name"), list(_pairs()))
def test_a_search_keeps_what_it_began_with_unless_something_is_cheaper(search, name, h):
    """Within limits, at the cost that it says, up to single precision; nothing is paid beyond the horizon."""
    kind, _, hoped = name.partition(", ")
    dynamics = make_dynamics()[name if kind == "simulated" else f"{hoped}, {kind}, 0"]
    n, m, e = dynamics.sizes
    rng = np.random.default_rng(0)
    theta, s = rng.uniform(0, 1, size=(H, 8)).astype(np.float32), rng.normal(size=n).astype(np.float32)
    nominal = rng.normal(size=(H, m + e)).astype(np.float32)
    found = _searched(SEARCHES[search], dynamics, theta, np.int32(h), s, nominal)
    sequence = np.asarray(found.nominal, dtype=np.float64)
    np.testing.assert_allclose(np.asarray(clip_controls(dynamics, jnp.asarray(sequence))), sequence, atol=1e-6)
    ahead = np.concatenate([theta[h:], np.zeros_like(theta[:h])])
    within = [np.float32(clip_controls(dynamics, jnp.asarray(one))) for one in (nominal, sequence)]
    start, end = (float(_cost(H - h, dynamics, ahead, s, one)) for one in within)
    assert float(found.cost) <= start + 1e-5 * abs(start)
    assert float(found.cost) == pytest.approx(end, rel=1e-5, abs=1e-5)
    assert float(found.cost) < start - 1e-3  # the first sequence is random: every search finds something better


@pytest.fixture(params=OPTIMISMS)
def optimism(request):
    return OPTIMISMS[request.param]


@pytest.mark.parametrize("kind", WORLDS)
def test_optimism_makes_dynamics_of_what_is_known(optimism, kind):
    known = WORLDS[kind]()
    made, again, other = (optimism(known, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert all(isinstance(one, Regressed) and one.discrete == known.discrete for one in made)
    assert len(made) == (optimism.n if isinstance(optimism, BestOf) else 1)
    for one, same, else_ in zip(made, again, other, strict=True):
        np.testing.assert_array_equal(one.W, same.W)
        drawn = isinstance(optimism, Thompson | BestOf)
        assert np.array_equal(one.W, else_.W) != drawn
        assert np.array_equal(one.W, known.posterior.mean) != drawn
        np.testing.assert_array_equal(one.limits, known.limits)
    assert optimism.description
    assert hash(optimism) == hash(type(optimism)(**vars(optimism)))


@pytest.fixture(params=CONTROLLERS)
def controller(request):
    return CONTROLLERS[request.param]


@pytest.mark.parametrize("discrete", [False, True])
def test_policies_of_controllers_act_within_limits_and_the_same_for_the_same_seed(controller, discrete):
    policy = ControlPolicy(controller, LOW, HIGH, discrete)
    assert policy.shape == controller.sizes
    path = RNG.normal(size=(H, N)) * 3
    first, actor = policy.reset(7), policy.reset(7)
    episodes = [[one.act(s) for s in path] for one in (first, actor)]
    np.testing.assert_array_equal(*episodes)
    if discrete:
        assert set(episodes[0]) <= {0, 1}
    else:
        assert all(np.all((u >= LOW) & (u <= HIGH)) for u in episodes[0])
    with pytest.raises(bd.PolicyError, match="episode is over"):
        actor.act(path[0])


@pytest.mark.parametrize("discrete", [False, True])
def test_policies_of_controllers_predict_for_batches(controller, discrete):
    policy, path = ControlPolicy(controller, LOW, HIGH, discrete), RNG.normal(size=(H, 2, N))
    state, batches = bd.policies.PredictionState(4), []
    for h in range(H):
        batch, state = policy.predict(path[h], state)
        batches.append(batch)
    assert batches[0].shape == ((2,) if discrete else (2, M))
    for i in range(2):
        actor = policy.reset(np.random.default_rng((4, i, 1)))
        np.testing.assert_array_equal([batch[i] for batch in batches], [actor.act(s) for s in path[:, i]])
    one, alone = policy.predict(path[0, 0], deterministic=True)
    again, _ = policy.predict(path[0, 0], deterministic=True)
    np.testing.assert_array_equal(one, again)
    assert alone.single
    assert np.shape(one) == (() if discrete else (M,))


def test_policies_of_controllers_refuse_what_they_cannot_read(controller):
    policy = ControlPolicy(controller, LOW, HIGH)
    with pytest.raises(bd.PolicyError, match="has 2 numbers, the policy reads 3"):
        policy.reset(0).act(np.zeros(2))
    with pytest.raises(bd.PolicyError, match="no vector"):
        policy.reset(0).act("left")


def test_fingerprints_tell_controllers_apart(controller):
    policy = ControlPolicy(controller, LOW, HIGH)
    assert policy.fingerprint == ControlPolicy(controller, LOW, HIGH).fingerprint
    assert policy.fingerprint != ControlPolicy(controller, LOW - 1, HIGH).fingerprint


def test_affine_feedback_is_affine():
    K = CONTROLLERS["affine feedback"]
    s = RNG.normal(size=N)
    for h in range(H):
        np.testing.assert_allclose(K.act(None, h, s)[0], K.controls[h] + K.gains[h] @ (s - K.states[h]), rtol=1e-15)
        np.testing.assert_array_equal(K.act(None, h, K.states[h])[0], K.controls[h])
