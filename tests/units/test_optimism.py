"""Learned dynamics and what optimism adds: by hand, in a box, for actions, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bidual as bd
from bidual.models import LearnedDynamics, compute_posterior, start_moments
from bidual.planners.control import BestOf, Bonus, Hallucinated, Mean, Thompson
from bidual.problem.features import compute_features, fourier, linear
from tests.regressions import world

N, D = 3, 30
LIMITS = np.array([-1.0, -2.0]), np.array([1.0, 0.5])
WORLD = world(fourier(D), N, LIMITS)
RNG = np.random.default_rng(0)
S, U = RNG.normal(size=N), np.array([0.3, -0.4])


def single(*arrays):
    return tuple(jnp.asarray(array, dtype=jnp.float32) for array in arrays)


def step(dynamics, s=S, u=U, e=(), noise=(0.0,) * N):
    moved, bonus = dynamics.step(*single(s, u, np.array(e), np.array(noise)))
    return np.asarray(moved), float(bonus)


def sigma_of(known, s=S, u=U):
    return float(known.posterior.sigma(compute_features(known.phi, s[None], u[None]))[0])


def test_a_step_is_the_estimate_and_noise():
    (dynamics,) = Mean()(WORLD, RNG)
    phi = compute_features(WORLD.phi, S[None], U[None])[0]
    assert dynamics.sizes == (N, 2, 0)
    moved, bonus = step(dynamics)
    np.testing.assert_allclose(moved, S + WORLD.posterior.mean @ phi, atol=1e-5)
    assert bonus == 0
    np.testing.assert_allclose(step(dynamics, noise=(1.0, -2.0, 0.0))[0] - moved, [0.05, -0.1, 0.0], atol=1e-6)


def test_extras_displace_it_by_beta_sigma():
    (dynamics,), (mean,) = Hallucinated(0.7, rank=None)(WORLD, RNG), Mean()(WORLD, RNG)
    assert dynamics.sizes == (N, 2, N)
    reach, still = 0.7 * sigma_of(WORLD), step(mean)[0]
    for e in ([0.0, 0.0, 0.0], [0.1, -0.2, 0.3], [0.0, -1.0, 0.0], [30.0, 0.0, -40.0]):
        length = max(np.linalg.norm(e), 1.0)
        moved, bonus = step(dynamics, e=e)
        np.testing.assert_allclose(moved - still, reach * np.array(e) / length, atol=1e-5)
        assert bonus == 0


def test_an_outer_ellipsoid_reaches_further():
    reaches = [step(Hallucinated(1.0, rank)(WORLD, RNG)[0], e=(1.0, 0.0, 0.0))[0][0] for rank in (None, 25, 5, 1)]
    assert reaches == sorted(reaches)
    assert reaches[0] < reaches[-1]


def test_a_bonus_is_kappa_sigma():
    (dynamics,), (mean,) = Bonus(3.0, rank=None)(WORLD, RNG), Mean()(WORLD, RNG)
    moved, bonus = step(dynamics)
    np.testing.assert_allclose(moved, step(mean)[0], atol=1e-6)
    assert bonus == pytest.approx(3 * sigma_of(WORLD), rel=1e-4)
    assert dynamics.sizes == (N, 2, 0)


def test_draws_have_the_deviation_of_the_noise():
    made = BestOf(5, scale=0.0)(WORLD, RNG)
    assert len(made) == 5
    for one in made:
        np.testing.assert_array_equal(one.W, WORLD.posterior.mean)
    (drawn,) = Thompson(2.0)(WORLD, np.random.default_rng(1))
    np.testing.assert_array_equal(drawn.W, WORLD.posterior.sample(np.random.default_rng(1), 2.0 * 0.05))


def test_draws_can_be_stacked_and_stepped_at_once():
    made = BestOf(3)(WORLD, RNG)
    stacked = jax.tree.map(lambda *parts: jnp.stack([jnp.asarray(part) for part in parts]), *made)
    assert stacked.sizes == made[0].sizes
    s, u, zero = single(S, U, np.zeros(N))
    moved, _ = jax.vmap(lambda one: one.step(s, u, jnp.zeros(0), zero))(stacked)
    np.testing.assert_allclose(np.asarray(moved), [step(one)[0] for one in made], atol=1e-6)


def test_steps_have_the_precision_of_their_state():
    (dynamics,) = Hallucinated(0.1)(WORLD, RNG)
    with jax.enable_x64(True):
        for kind in (jnp.float32, jnp.float64):
            s, u = jnp.zeros(N, kind), jnp.zeros(2, kind)
            moved, bonus = dynamics.step(s, u, s, s)
            assert moved.dtype == bonus.dtype == kind


def test_states_are_held_to_the_box_and_an_infinite_one_does_nothing():
    (dynamics,) = Mean()(WORLD, RNG)
    np.testing.assert_array_equal(step(dynamics, s=np.array([90.0, -90.0, 0.0]))[0][:2], [5.0, -5.0])
    open_box = LearnedDynamics(WORLD.posterior, WORLD.phi, (np.full(N, -np.inf), np.full(N, np.inf)), LIMITS)
    assert np.all(np.abs(step(Mean()(open_box, RNG)[0], s=np.array([90.0, -90.0, 0.0]))[0][:2]) > 80)


def test_actions_are_seen_as_the_largest_control():
    known = world(linear(constant=True), N, LIMITS, discrete=True)
    (dynamics,) = Hallucinated(0.1)(known, RNG)
    zero = np.zeros(N)
    first, second = (step(dynamics, u=np.array(u), e=zero)[0] for u in ([1.0, 0.0], [0.0, 1.0]))
    for u in ([0.2, 0.1], [-3.0, -4.0], [7.0, 7.0]):
        np.testing.assert_array_equal(step(dynamics, u=np.array(u), e=zero)[0], first)
    assert not np.array_equal(first, second)


def test_without_extras_no_large_product_is_computed():
    """In a batch the estimate takes two products, by d x (n + m) and n x d; sigma takes one of rank x d."""

    def products(dynamics):
        n, m, e = dynamics.sizes
        inputs = (jnp.zeros((8, size)) for size in (n, m, e, n))
        text = jax.jit(jax.vmap(type(dynamics).step, in_axes=(None, 0, 0, 0, 0))).lower(dynamics, *inputs).as_text()
        return [line for line in text.splitlines() if "dot_general" in line]

    assert len(products(Mean()(WORLD, RNG)[0])) == 2
    large = [line for line in products(Hallucinated(0.1, rank=7)(WORLD, RNG)[0]) if f"{D}x7" in line]
    assert len(large) == 1
    assert "8x7" in large[0]  # one product of matrices for all samples


def test_derivatives_exist_where_nothing_is_chosen_and_nothing_is_known():
    known = LearnedDynamics(
        compute_posterior(start_moments(N, N + 2), 1.0, 0.1), linear().build_map(N, 2), WORLD.box, LIMITS
    )
    (dynamics,) = Hallucinated(1.0)(known, RNG)
    zero = jnp.zeros(N)
    slopes = jax.jacobian(dynamics.step, argnums=(0, 1, 2))(zero, jnp.zeros(2), zero, zero)
    assert all(np.isfinite(np.asarray(leaf)).all() for leaf in jax.tree.leaves(slopes))


def test_a_share_is_one_of_the_certified_radius():
    """Around the centre of the certified set, in the norm of its precision; only all of it is called certified."""
    declared = compute_posterior(WORLD.posterior.moments, 0.1, 0.05, 2.0)
    known = LearnedDynamics(declared, WORLD.phi, WORLD.box, LIMITS, delta=0.2)
    found, zero = declared.confidence(0.2), np.zeros(N)
    (whole,), (part,) = (Hallucinated(rank=None, share=share)(known, RNG) for share in (1.0, 0.25))
    np.testing.assert_array_equal(whole.W, found.centre)
    phi = compute_features(WORLD.phi, S[None], U[None])[0]
    sigma = np.sqrt(phi @ np.linalg.solve(found.precision, phi))
    for one, share in ((whole, 1.0), (part, 0.25)):
        moved = step(one, e=(1.0, 0.0, 0.0))[0] - step(one, e=zero)[0]
        np.testing.assert_allclose(moved, [share * found.radius * sigma, 0, 0], rtol=1e-3, atol=1e-5)
    assert "certified set" in Hallucinated(share=1.0).description
    assert "certified set" not in Hallucinated(share=0.1).description
    assert repr(Hallucinated(share=0.1)) == "Hallucinated(rank=32, share=0.1)"
    assert repr(Hallucinated(0.2)) == "Hallucinated(beta=0.2, rank=32)"  # of stored runs
    with pytest.raises(bd.ModelError, match="bound must be given"):
        Hallucinated(share=1.0)(WORLD, RNG)


def test_a_description_gives_the_scale():
    assert Hallucinated(0.003).description == "the estimate with hallucinated controls (beta 0.003)"


@pytest.mark.parametrize(
    ("make", "description"),
    [
        (lambda: Thompson(-1.0), r"Thompson\(scale=...\) must be a number of at least 0; got -1.0"),
        (lambda: BestOf(0), "at least 1; got 0"),
        (lambda: BestOf(2, np.inf), "got inf"),
        (lambda: Hallucinated(np.nan), "got nan"),
        (lambda: Hallucinated(0.1, share=1.0), "beta or share"),
        (lambda: Hallucinated(share=-1.0), r"Hallucinated\(share=...\)"),
        (lambda: Hallucinated(0.1, rank=0), r"Hallucinated\(rank=...\)"),
        (lambda: Bonus(-2.0), r"Bonus\(kappa=...\)"),
    ],
)
def test_what_cannot_be_is_refused(make, description):
    with pytest.raises(bd.ModelError, match=description):
        make()
