"""Signals as text, and signals that files hold: a policy that plans with these alone is loaded without them."""

import json

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_array_equal

import bidual as bd
from bidual._base import archive
from bidual._base.types import float64
from bidual.models import Regressed
from bidual.planners import control
from bidual.planners.control._receding import Receding
from bidual.problem.features import computed, fourier, quadratic, rbf, signal
from bidual.world.policies import CONTROLS, ControlPolicy

H, N, M = 6, 2, 1
LOW, HIGH = np.array([-2.0]), np.array([2.0])
OBS, CONTROL, NEXT = np.array([0.3, -1.2]), np.array([0.7]), np.array([0.5, 2.0])


@float64
def _value(text):
    parts = (jnp.asarray(part) for part in (OBS, CONTROL, NEXT))
    return np.asarray(signal(text).function(*parts))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1.0),
        ("cos(next_obs[1]) - 0.1 * control[0] ** 2", np.cos(2.0) - 0.1 * 0.7**2),
        ("arctan2(obs[0], obs[-1]) ** 2 / pi", np.arctan2(0.3, -1.2) ** 2 / np.pi),
        ("where(obs[0] < 0.5, sum(control**2), 0)", 0.49),
        ("maximum(0.45 - next_obs[0], 0)", 0.0),
        ("norm(next_obs - obs)", np.hypot(0.2, 3.2)),
        ("obs[0:2] @ next_obs", 0.15 - 2.4),
        ("-abs(+obs[1])", -1.2),
        ("obs[0] ** 0.5", 0.3**0.5),
    ],
)
def test_text_is_evaluated_as_written(text, value):
    np.testing.assert_allclose(_value(text), value, rtol=1e-14, atol=1e-300)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cos(next_obs[2]", "is no expression"),
        ("", "is no expression"),
        ("coss(obs[0])", "calls 'coss'; did you mean 'cos'"),
        ("observation[0]", "names 'observation'"),
        ("obs.shape", "has a part that text cannot hold"),
        ("__import__('os').system('true')", "has a part that text cannot hold"),
        ("(lambda: 1)()", "has a part that text cannot hold"),
        ("[x for x in obs]", "has a part that text cannot hold"),
        ("'text'", "has a part that text cannot hold"),
        ("True", "has a part that text cannot hold"),
        ("cos(obs[0], obs[1])", "cos wants 1 argument; got 2"),
        ("obs[control]", "has the index control: give a whole number"),
        ("-" * 60 + "1", "more than 40 operations within each other"),
        ("(" * 500 + "1" + ")" * 500, "no expression"),
        ("1+" * 1200 + "1", "at most 2000 characters"),
        ("1\x00", "no expression"),
    ],
)
def test_other_text_is_refused_with_what_is_wrong(text, message):
    with pytest.raises(bd.ModelError, match=message):
        signal(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [("obs[5]", "no entry 5 among 2"), ("1 / 0", "division"), ("9.0 ** (9 * 99)", "fails"), ("obs @ control", "fails")],
)
def test_text_that_does_not_fit_the_numbers_is_named(text, message):
    with pytest.raises(bd.ModelError, match=message):
        _value(text)


SIGNALS = computed(
    near=rbf([[0.0, 1.0], [1.0, 0.5]], 0.7, of=(1, 0)),
    cost=quadratic(np.eye(2 * N + M), np.full(2 * N + M, 0.1), 0.3, low=0.0),
    text=signal("sum(next_obs**2)", 0, 4),
    both="obs[0] * control[0]",
)
OWN = computed(text="sum(next_obs**2)", own=lambda x, u, y: u @ u)


def _policy(features, seed=0):
    rng = np.random.default_rng(seed)
    phi = fourier(d=7, bandwidth=2.0).build_map(N, M)
    box = np.array([-3.0, -3.0]), np.array([3.0, 3.0])
    dynamics = Regressed(phi, 0.1 * rng.standard_normal((N, 7)), np.full(N, 0.01), *box, LOW, HIGH)
    theta, nominal = rng.standard_normal((H, features.dimension)), rng.standard_normal((4, M)).astype(np.float32)
    return ControlPolicy(Receding(dynamics, theta, nominal, features, control.icem(16, 2), 2), LOW, HIGH)


def _acts(policy):
    actor, rng = policy.reset(3), np.random.default_rng(4)
    return [np.asarray(actor.act(rng.standard_normal(N))) for _ in range(H)]


def test_a_policy_with_signals_of_ours_is_loaded_without_them(tmp_path):
    policy = _policy(SIGNALS)
    policy.save(tmp_path / "p.bidual", signals={})
    again = bd.load(tmp_path / "p.bidual")
    assert_array_equal(_acts(again), _acts(policy))
    again.save(tmp_path / "again.bidual")
    assert (tmp_path / "again.bidual").read_bytes() == (tmp_path / "p.bidual").read_bytes()
    assert bd.load(tmp_path / "p.bidual", features=SIGNALS).controller.features is SIGNALS


def test_only_functions_of_the_user_are_asked_for(tmp_path):
    policy = _policy(OWN)
    policy.save(tmp_path / "p.bidual", signals={})
    with pytest.raises(bd.ArchiveError, match=r"functions \(own\).*bd\.features\.computed\(own=\.\.\.\)\).*as text"):
        bd.load(tmp_path / "p.bidual")
    for given in (OWN, computed(own=OWN.signals[1])):
        assert_array_equal(_acts(bd.load(tmp_path / "p.bidual", features=given)), _acts(policy))
    with pytest.raises(bd.ArchiveError, match="other signals than those given"):
        bd.load(tmp_path / "p.bidual", features=computed(text=OWN.signals[0]))


def test_members_of_a_mixture_share_their_signals(tmp_path):
    """Compiled code is found by these: every member would be compiled anew."""
    mixture = bd.policies.Mixture(np.full(2, 0.5), (_policy(SIGNALS), _policy(SIGNALS, 1)))
    mixture.save(tmp_path / "p.bidual", signals={})
    one, two = bd.load(tmp_path / "p.bidual").members
    assert one.controller.features is two.controller.features


@pytest.mark.parametrize(
    ("place", "forged"),
    [
        (2, {"kind": "text", "text": "__import__('os')"}),
        (2, {"kind": "text", "text": 3}),
        (2, {"kind": "text"}),
        (2, {"kind": "else"}),
        (2, 3),
        (0, {"kind": "rbf", "width": -1.0, "of": None}),
        (0, {"kind": "rbf", "width": 1.0, "of": ["a", "b"]}),
        (0, {"kind": "rbf", "width": 1.0, "of": [1]}),
        (1, {"kind": "quadratic", "constant": "nan"}),
    ],
)
def test_forged_recipes_are_refused(tmp_path, place, forged):
    _policy(SIGNALS).save(tmp_path / "p.bidual", signals={})
    manifest, arrays = archive.read(tmp_path / "p.bidual", CONTROLS)
    members = json.loads(json.dumps(manifest["members"]))
    members[0]["controller"]["recipes"][place] = forged
    archive.write(tmp_path / "forged.bidual", CONTROLS, {"members": members}, arrays)
    with pytest.raises(bd.ArchiveError):
        bd.load(tmp_path / "forged.bidual")


@pytest.mark.parametrize("name", ["acrobot", "cartpole-effort", "mountain-car", "pendulum", "pendulum-spread"])
def test_tasks_are_written_so_that_their_policies_need_no_signals(name):
    features = bd.tasks.find(name).build().problem.embedding.features
    assert all(one.recipe is not None for one in features.signals)
