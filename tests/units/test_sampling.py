"""Planning by sampling: weights, noise, limits, look-ahead, and what happens when a model explodes."""

from functools import partial

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import bidual as bd
from bidual.models import Simulated
from bidual.planners.control import Elites, Exponential, Sampling, cem, dmd, icem, mppi
from bidual.planners.control._sampling import _colour, clip_controls, sum_path_costs
from bidual.planners.control._search import Subproblem
from bidual.problem.features import computed

H = 6
LOW, HIGH = np.array([-1.0]), np.array([2.0])
FEATURES = computed(place=lambda x, u, y: (x[0] - 3.0) ** 2, effort=lambda x, u, y: u @ u, arrival=lambda x, u, y: y[1])
MOVE = Simulated(LOW, HIGH, np.zeros(2), lambda s, u: jnp.stack([s[0] + u[0], s[1] * 0.5 + s[0]]))
SAMPLERS = {"mppi": mppi(32, 4), "cem": cem(32, 4), "icem": icem(32, 4), "dmd": dmd(32, 4)}


@partial(jax.jit, static_argnums=0)
def _compiled(sampler, dynamics, theta, s, nominal, h, seed):
    return sampler(Subproblem.ahead(dynamics, FEATURES, theta, h, s, len(nominal)), jr.key(seed), nominal)


def _searched(sampler, dynamics=MOVE, theta=None, h=0, s=(0.0, 1.0), nominal=None, T=H, seed=0):
    theta = np.ones((H, 3)) if theta is None else theta
    nominal = np.zeros((T, sum(dynamics.sizes[1:]))) if nominal is None else nominal
    found = _compiled(sampler, dynamics, *map(np.float32, (theta, s, nominal)), h, seed)
    return np.asarray(found.nominal, dtype=np.float64), float(found.cost)


def _cost(nominal, theta, s, h=0):
    """The same in plain NumPy and double precision."""
    total, (x, y) = 0.0, s
    for t, (u,) in enumerate(nominal[: H - h]):
        after = x + u, y * 0.5 + x
        total += theta[h + t] @ [(x - 3) ** 2, u * u, after[1]]
        x, y = after
    return total


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e6])
def test_exponential_weights_do_not_depend_on_the_unit_of_costs(unit):
    costs = jnp.asarray([3.0, 1.0, 2.0, 5.0, np.inf])
    weights = np.asarray(Exponential(0.5).weights(costs * unit))
    # The median of the four finite costs is taken as the lower one, 2: scale = 0.5 (2 - 1).
    np.testing.assert_allclose(weights, [np.exp(-4), 1.0, np.exp(-2), np.exp(-8), 0.0], rtol=1e-5)


@pytest.mark.parametrize("utility", [Exponential(), Elites()])
def test_equal_costs_weigh_the_same_and_failures_nothing(utility):
    np.testing.assert_array_equal(utility.weights(jnp.full(8, 2.0)), np.ones(8))
    np.testing.assert_array_equal(utility.weights(jnp.full(8, jnp.inf)), np.zeros(8))


def test_elites_are_the_cheapest_share():
    weights = np.asarray(Elites(0.3).weights(jnp.arange(10.0)[::-1]))
    np.testing.assert_array_equal(weights, [0] * 7 + [1] * 3)
    assert Elites(0.01).weights(jnp.arange(10.0)).sum() == 2


@pytest.mark.parametrize("colour", [0.0, 0.5, 0.9])
def test_coloured_noise_has_unit_variance_and_the_stated_correlation(colour):
    matrix = _colour(30, colour)
    lags = np.abs(np.subtract.outer(np.arange(30), np.arange(30)))
    np.testing.assert_allclose(matrix @ matrix.T, colour**lags, atol=1e-14)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Sampling(samples=1), "samples must be a whole number of at least 2; got 1"),
        (lambda: Sampling(iterations=True), "iterations must be"),
        (lambda: Sampling(deviation=0.0), "above 0; got 0.0"),
        (lambda: Sampling(colour=1.0), "less than 1; got 1.0"),
        (lambda: Sampling(mean_step=0.0), "mean_step"),
        (lambda: Sampling(covariance_step=-0.1), "covariance_step"),
        (lambda: Exponential(0.0), "temperature"),
        (lambda: Elites(1.5), "share of elites"),
    ],
)
def test_bad_settings_are_refused(make, words):
    with pytest.raises(bd.ProblemError, match=words):
        make()


def test_samplers_are_values():
    assert icem(64, 3) == icem(64, 3)
    assert len({mppi(), cem(), icem(), dmd(), icem()}) == 4


def test_controls_are_held_to_limits_and_extras_to_the_ball():
    family = Simulated(LOW, HIGH, np.zeros(2), lambda s, u, e: s + e, 2)
    z = jnp.asarray([[5.0, 3.0, 4.0], [-5.0, 0.3, -0.4]])
    np.testing.assert_allclose(clip_controls(family, z), [[2.0, 0.6, 0.8], [-1.0, 0.3, -0.4]], rtol=1e-6)
    slope = jax.jacfwd(lambda z: clip_controls(family, z))(jnp.zeros(3))
    np.testing.assert_array_equal(slope, np.eye(3))


@pytest.mark.parametrize("name", SAMPLERS)
def test_plans_keep_limits_and_cost_what_they_say(name):
    theta = np.random.default_rng(0).random((H, 3))
    nominal, cost = _searched(SAMPLERS[name], theta=theta)
    assert ((nominal >= -1) & (nominal <= 2)).all()
    # Six steps in single precision, of terms up to 10.
    assert abs(cost - _cost(nominal, theta, (0.0, 1.0))) <= 1e-5 * 60
    assert cost < _cost(np.zeros((H, 1)), theta, (0.0, 1.0))
    # From far away the limit binds, and no sequence that was tried may have been beyond it.
    nominal, cost = _searched(SAMPLERS[name], theta=theta, s=(-40.0, 1.0))
    assert 1.0 < nominal.max() <= 2
    assert cost >= _cost(np.full((H, 1), 2.0), theta * [1, 0, 1], (-40.0, 1.0)) * (1 - 1e-5)


@pytest.mark.parametrize("name", ["icem", "dmd"])
def test_the_start_of_a_search_is_never_made_worse(name):
    """The optimum found by many draws, handed to a search with few: the incumbent competes."""
    best, cost = _searched(icem(512, 60))
    for seed in range(5):
        _, again = _searched(SAMPLERS[name], nominal=best, seed=seed)
        assert again <= cost * (1 + 1e-6)


def test_without_keeping_a_good_start_is_lost():
    """The test of the test: a search that does not keep its start does make it worse."""
    best, cost = _searched(icem(512, 60))
    _, again = _searched(Sampling(32, 1, keep=False), nominal=best)
    assert again > cost * (1 + 1e-3)


@pytest.mark.parametrize("h", [0, 2, 5])
@pytest.mark.parametrize("T", [2, H])
def test_plans_look_ahead_but_not_beyond_the_end(h, T):
    theta = np.random.default_rng(1).random((H, 3))
    nominal, cost = _searched(SAMPLERS["icem"], theta=theta, h=h, T=T)
    assert abs(cost - _cost(nominal, theta, (0.0, 1.0), h)) <= 1e-5 * 60
    changed = theta.copy()
    changed[:h] += 1.0
    changed[h + T :] += 1.0
    np.testing.assert_array_equal(_searched(SAMPLERS["icem"], theta=changed, h=h, T=T)[0], nominal)


def test_sequences_that_explode_are_avoided_and_all_exploding_changes_nothing():
    cliff = Simulated(LOW, HIGH, np.zeros(2), lambda s, u: jnp.where(u[0] > 0.25, jnp.nan, 1.0) * s + u[0])
    nominal, cost = _searched(icem(64, 10), dynamics=cliff, s=(3.0, 0.0))
    assert np.isfinite(cost)
    assert (nominal <= 0.25).all()
    lost = Simulated(LOW, HIGH, np.zeros(2), lambda s, u: s * jnp.inf)
    for name in ("mppi", "icem"):
        nominal, cost = _searched(SAMPLERS[name], dynamics=lost, nominal=np.full((H, 1), 0.5))
        assert cost == np.inf
        np.testing.assert_array_equal(nominal, 0.5)


def test_controls_without_limits_have_noise_in_their_own_unit():
    free = Simulated(np.array([-np.inf]), np.array([np.inf]), np.zeros(2), MOVE.function)
    nominal, cost = _searched(icem(512, 60), dynamics=free)
    assert np.isfinite(nominal).all()
    assert cost < _searched(icem(512, 60))[1] * 1.05


def test_extras_choose_the_cheapest_law():
    """s' = s + u + e with |e| <= 1: the first extra always helps towards the goal, the second is not paid for."""
    family = Simulated(LOW, HIGH, np.zeros(2), lambda s, u, e: s + u[0] + jnp.stack([2 * e[0], 0 * e[1]]), 2)
    theta = np.tile([1.0, 1.0, 0.0], (H, 1))
    _, cost = _searched(icem(512, 60), dynamics=family, theta=theta, s=(0.0, 0.0))
    _, alone = _searched(icem(512, 60), theta=theta, s=(0.0, 0.0))
    assert cost < 0.8 * alone


def test_a_bonus_is_worth_its_size(monkeypatch):
    """With a bonus of u and an effort of u^2 to pay, and nothing else, controls of 1/2 are the best."""
    monkeypatch.setattr(Simulated, "step", lambda self, s, u, e, noise: (s, u[0]))
    still, theta = Simulated(LOW, HIGH, np.zeros(2), abs), np.tile([0.0, 1.0, 0.0], (H, 1))
    nominal, cost = _searched(icem(256, 40), still, theta)
    assert abs(cost + H / 4) <= 1e-2
    np.testing.assert_allclose(nominal, 0.5, atol=0.1)  # an error of 0.1 costs 0.01
    _, late = _searched(icem(256, 40), still, theta, h=4)
    assert abs(late + 2 / 4) <= 1e-2  # none after the end


def test_costs_of_many_paths_are_those_of_each():
    rng = np.random.default_rng(2)
    theta, sequences = np.ones((H, 3)), rng.uniform(-1, 2, (H, 7, 1))
    problem = Subproblem(MOVE, FEATURES, jnp.asarray(theta), jnp.asarray(4), jnp.asarray([0.0, 1.0]))
    together = sum_path_costs(problem, jnp.asarray(sequences))
    each = [_cost(sequences[:4, k], theta, (0.0, 1.0)) for k in range(7)]
    np.testing.assert_allclose(together, each, rtol=1e-5)
