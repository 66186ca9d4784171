"""Policies of controls in files: what comes back acts as before, to the bit, and what is forged is refused."""

import contextlib
import copy
import json
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from safetensors.numpy import load_file

import bidual as bd
from bidual._base import archive
from bidual.models import Ellipsoid, Regressed, Simulated
from bidual.planners import control
from bidual.planners.control import Receding
from bidual.problem.features import computed, fourier, linear, mapped, signal
from bidual.world.policies import CONTROLS, AffineFeedback, ControlPolicy, Mixture, RandomControls, write_table

H, N, M = 6, 2, 1
LOW, HIGH = np.array([-2.0]), np.array([2.0])
SIGNALS = {
    "distance": signal(lambda x, u, y: x[0] ** 2, 0.0, 4.0),
    "at": signal(lambda x, u, y: x, -2.0, 2.0, size=2),
    "free": signal(lambda x, u, y: u @ u),
}
FEATURES = computed(**SIGNALS)
MAPPED = mapped(lambda s, u: jnp.concatenate([s, u, s * s]), 5)
SAMPLERS = {
    "icem": control.icem(16, 2),
    "mppi": control.mppi(16, 2, temperature=0.3),
    "chain": control.Chain(control.icem(16, 2), control.Descent(3)),
}


def _affine(seed=0):
    rng = np.random.default_rng(seed)
    parts = rng.standard_normal((H, M)), rng.standard_normal((H, N)), rng.standard_normal((H, M, N))
    return ControlPolicy(AffineFeedback(*parts), LOW, HIGH)


def _random():
    return ControlPolicy(RandomControls(H, N, LOW, HIGH), LOW, HIGH)


def _receding(declared=None, kind="plain", sampler="icem", seed=0):
    rng = np.random.default_rng(seed)
    phi = (declared or fourier(d=7, bandwidth=2.0)).build_map(N, M)
    d, extras = phi.sizes[2], N if kind == "hallucinated" else 0
    ellipsoid, beta, kappa = None, None, None
    if kind != "plain":
        basis = np.linalg.qr(rng.standard_normal((d, d)))[0][:3]
        ellipsoid = Ellipsoid(basis, rng.random(3), np.asarray(0.7))
        beta, kappa = (np.asarray(0.1), None) if extras else (None, np.asarray(0.2))
    W, deviation = 0.1 * rng.standard_normal((N, d)), np.full(N, 0.01)
    box = np.array([-3.0, -np.inf]), np.array([3.0, np.inf])
    dynamics = Regressed(phi, W, deviation, *box, LOW, HIGH, ellipsoid, beta, kappa)
    theta, nominal = rng.standard_normal((H, 4)), rng.standard_normal((4, M + extras)).astype(np.float32)
    return ControlPolicy(Receding(dynamics, theta, nominal, FEATURES, SAMPLERS[sampler], 2), LOW, HIGH)


POLICIES = {
    "affine": _affine(),
    "numbered": replace(_affine(), discrete=True),
    "random": _random(),
    "receding": _receding(),
    "linear": _receding(linear(constant=True)),
    "mapped": _receding(MAPPED),
    "hallucinated": _receding(kind="hallucinated"),
    "bonus": _receding(kind="bonus", sampler="mppi"),
    "descended": _receding(sampler="chain"),
    "mixture": Mixture(np.array([0.25, 0.75]), (_receding(), _receding(seed=1))),
    "of all kinds": Mixture(np.array([0.25, 0.25, 0.5]), (_affine(), _random(), _receding())),
}


def _saved(policy, path):
    policy.save(path, signals={})
    again = bd.load(path, features=FEATURES, model_features=MAPPED)
    assert isinstance(again, ControlPolicy | Mixture)
    return again


def _acts(policy, seed):
    actor, rng = policy.reset(seed), np.random.default_rng(seed)
    return [np.asarray(actor.act(rng.standard_normal(N))) for _ in range(H)]


@pytest.mark.parametrize("name", POLICIES)
def test_what_is_loaded_acts_as_what_was_saved(name, tmp_path):
    policy = POLICIES[name]
    again = _saved(policy, tmp_path / "p.bidual")
    assert type(again) is type(policy)
    assert repr(again) == repr(policy)
    members = zip(getattr(policy, "members", (policy,)), getattr(again, "members", (again,)), strict=True)
    assert all(one.fingerprint == other.fingerprint and one is not other for one, other in members)
    for seed in range(3):
        assert_array_equal(_acts(again, seed), _acts(policy, seed))


def test_the_same_policy_gives_the_same_bytes_and_shared_arrays_are_stored_once(tmp_path):
    one, policy = tmp_path / "one", _receding()
    policy.save(one, signals={})
    _saved(policy, one).save(tmp_path / "two", signals={})
    assert one.read_bytes() == (tmp_path / "two").read_bytes()
    Mixture(np.full(4, 0.25), (policy,) * 4).save(tmp_path / "four", signals={})
    arrays = [archive.read(path, CONTROLS)[1] for path in (one, tmp_path / "four")]
    assert len(arrays[0]) == len(arrays[1])


@pytest.mark.parametrize("name", ["affine", "random"])
def test_what_plans_nothing_needs_no_signals(name, tmp_path):
    POLICIES[name].save(tmp_path / "p.bidual", signals={})
    assert bd.load(tmp_path / "p.bidual").fingerprint == POLICIES[name].fingerprint


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            None,
            r"give the same ones again, bd\.load\(path, features=bd\.features\.computed\(distance=\.\.\., at=\.\.\.",
        ),
        (computed(**{name: SIGNALS[name] for name in ("at", "distance", "free")}), "plans with other signals"),
        (computed(distance=SIGNALS["distance"], at=SIGNALS["at"]), r"free \(no end to no end\) then"),
        (computed(**SIGNALS | {"distance": signal(lambda x, u, y: x[0], 0.0, 5.0)}), r"distance \(0\.0 to 5\.0\)"),
        (computed(**SIGNALS | {"at": signal(lambda x, u, y: x[0], -2.0, 2.0)}), r"at \(-2\.0 to 2\.0, 2 numbers\)"),
    ],
)
def test_signals_must_be_given_again(given, words, tmp_path):
    POLICIES["receding"].save(tmp_path / "p.bidual", signals={})
    with pytest.raises(bd.ArchiveError, match=words):
        bd.load(tmp_path / "p.bidual", features=given)


TEXTS = {"distance": "obs[0]**2", "at": "obs", "free": "sum(control**2)"}


def test_what_is_saved_as_text_is_loaded_alone(tmp_path):
    """In one file, and in one of a mixture; functions that are left out are asked for when it is loaded."""
    for policy in (POLICIES["receding"], POLICIES["mixture"]):
        policy.save(tmp_path / "p.bidual", signals=TEXTS)
        again = bd.load(tmp_path / "p.bidual")
        np.testing.assert_allclose(_acts(again, 0), _acts(policy, 0), rtol=1e-5, atol=1e-6)
    POLICIES["receding"].save(tmp_path / "p.bidual", signals={"at": "obs"})
    given = computed(distance=SIGNALS["distance"], free=SIGNALS["free"])
    assert_array_equal(_acts(bd.load(tmp_path / "p.bidual", features=given), 0), _acts(POLICIES["receding"], 0))


@pytest.mark.parametrize(
    ("name", "signals", "words"),
    [
        ("receding", None, r"\(at, distance, free\).*save\(path, signals=\{'at': '\.\.\.', 'distance'.*signals=\{\}"),
        ("mixture", None, "no file stores functions"),
        ("receding", TEXTS | {"distance": "obs[1]**2"}, r"text for 'distance' is another signal: at obs=\[.*the text"),
        ("receding", {"speed": "obs[1]"}, "names speed, and the functions .* are at, distance, free"),
        ("affine", {"speed": "obs[1]"}, "names speed, and the functions .* are none"),
    ],
)
def test_functions_are_asked_for_where_they_are_saved(name, signals, words, tmp_path):
    with pytest.raises(bd.PolicyError, match=words):
        POLICIES[name].save(tmp_path / "p.bidual", signals=signals)
    assert not (tmp_path / "p.bidual").exists()


@pytest.mark.parametrize("given", [None, fourier(d=5), mapped(lambda s, u: s, 2)])
def test_a_map_that_is_a_function_must_be_given_again(given, tmp_path):
    POLICIES["mapped"].save(tmp_path / "p.bidual", signals={})
    with pytest.raises(bd.ArchiveError, match=r"a function that gives 5 numbers.*give the same bd\.features\.mapped"):
        bd.load(tmp_path / "p.bidual", features=FEATURES, model_features=given)


def test_what_is_a_function_is_not_stored(tmp_path):
    law = Simulated(LOW, HIGH, np.zeros(N), lambda s, u: s)
    controller = replace(POLICIES["receding"].controller, dynamics=law)
    with pytest.raises(bd.PolicyError, match="a Simulated, which is a function, and functions are not stored"):
        ControlPolicy(controller, LOW, HIGH).save(tmp_path / "p.bidual", signals={})
    table = bd.policies.DeterministicPolicy(np.zeros((H, N), dtype=np.int64), 1)
    with pytest.raises(bd.PolicyError, match="a mixture of tables is stored as the one table"):
        Mixture(np.ones(1), (table,)).save(tmp_path / "p.bidual", signals={})
    assert not (tmp_path / "p.bidual").exists()


def _read(path):
    manifest, arrays = archive.read(path, CONTROLS)
    return {"members": manifest["members"]}, arrays


def _load(path):
    return bd.load(path, features=FEATURES, model_features=MAPPED)


STRANGE = (None, -1, 10**9, 0.5, "x", [[]])


def _places(words, path=()):
    """Every place in JSON values."""
    yield path
    if isinstance(words, dict | list):
        for key in words if isinstance(words, dict) else range(len(words)):
            yield from _places(words[key], (*path, key))


def _with(words, path, value):
    forged = copy.deepcopy(words)
    at = forged
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return forged


@pytest.mark.parametrize("name", ["affine", "random", "hallucinated"])
def test_forged_words_are_refused_or_still_a_policy(name, tmp_path):
    """Anything anywhere: an `ArchiveError`, or a policy of the same sizes that can be stored again."""
    POLICIES[name].save(tmp_path / "good", signals={})
    words, arrays = _read(tmp_path / "good")
    refused = 0
    for path in list(_places(words))[1:]:
        for value in STRANGE:
            archive.write(tmp_path / "bad", CONTROLS, _with(words, path, value), arrays)
            try:
                policy = _load(tmp_path / "bad")
            except bd.ArchiveError:
                refused += 1
            else:
                assert isinstance(policy, ControlPolicy | Mixture)
                policy.save(tmp_path / "again", signals={})
    assert refused > 30


@pytest.mark.parametrize("name", ["affine", "random", "hallucinated", "mixture"])
def test_forged_arrays_are_refused(name, tmp_path):
    POLICIES[name].save(tmp_path / "good", signals={})
    words, arrays = _read(tmp_path / "good")
    for key, array in arrays.items():
        for bad in (np.full_like(array, np.nan), array[None], array.astype(bool), np.zeros(0)):
            archive.write(tmp_path / "bad", CONTROLS, words, arrays | {key: bad})
            with pytest.raises(bd.ArchiveError, match="holds no policy of controls"):
                _load(tmp_path / "bad")
        archive.write(tmp_path / "bad", CONTROLS, words, {k: v for k, v in arrays.items() if k != key})
        with pytest.raises(bd.ArchiveError, match="holds no policy of controls"):
            _load(tmp_path / "bad")
    for weights in (arrays["weights"] * 2, arrays["weights"] - 1, np.ones(7) / 7):
        archive.write(tmp_path / "bad", CONTROLS, words, arrays | {"weights": weights})
        with pytest.raises(bd.ArchiveError, match="its weights are none of its members"):
            _load(tmp_path / "bad")


def test_damaged_bytes_are_refused(tmp_path):
    """One flipped bit anywhere: refused, unless it is none of the contents (a date in the zip)."""
    POLICIES["receding"].save(tmp_path / "good", signals={})
    good, rng = (tmp_path / "good").read_bytes(), np.random.default_rng(0)
    for place in rng.integers(0, len(good), 200):
        bad = bytearray(good)
        bad[place] ^= 1 << int(rng.integers(8))
        (tmp_path / "bad").write_bytes(bytes(bad))
        with contextlib.suppress(bd.ArchiveError):
            assert _load(tmp_path / "bad").fingerprint == POLICIES["receding"].fingerprint


def _followed(arrays, member, discrete, observations):
    """What the documentation of `write_table` says."""
    for h, s in enumerate(observations):
        control = arrays["controls"][member, h] + arrays["gains"][member, h] @ (s - arrays["states"][member, h])
        held = np.clip(control, arrays["low"][member], arrays["high"][member])
        yield int(np.argmax(control)) if discrete else held


@pytest.mark.parametrize("discrete", [False, True])
def test_affine_laws_are_written_for_other_programs(discrete, tmp_path):
    members = tuple(replace(_affine(seed), discrete=discrete) for seed in range(2))
    policy = Mixture(np.array([0.25, 0.75]), members)
    told = json.loads(write_table(policy, tmp_path / "p.json", "json").read_text())
    stored = load_file(write_table(policy, tmp_path / "p.safetensors", "safetensors"))
    assert (told["kind"], told["shape"], told["discrete"]) == ("affine control", [H, N, M], discrete)
    with np.load(write_table(policy, tmp_path / "p.npz", "npz")) as arrays:
        assert arrays["discrete"] == discrete
        assert_array_equal(arrays["weights"], policy.weights)
        for name in ("weights", "controls", "states", "gains", "low", "high"):
            assert_array_equal(arrays[name], np.array(told[name]))
            assert_array_equal(arrays[name], stored[name])
        for number, member in enumerate(members):
            observations = np.random.default_rng(number).standard_normal((H, N))
            assert_array_equal(list(_followed(arrays, number, discrete, observations)), _acts(member, number))


def test_what_other_programs_cannot_run_is_not_written(tmp_path):
    with pytest.raises(bd.PolicyError, match="a csv has no place for them: choose json, npz or safetensors"):
        write_table(_affine(), tmp_path / "p.csv", "csv")
    for name in ("random", "receding", "of all kinds"):
        with pytest.raises(bd.PolicyError, match="draw or plan their controls as they go"):
            write_table(POLICIES[name], tmp_path / "p.json", "json")


def test_nothing_but_json_and_numbers_is_in_a_file(tmp_path):
    POLICIES["of all kinds"].save(tmp_path / "p.bidual", signals={})
    words, arrays = _read(tmp_path / "p.bidual")
    assert json.loads(json.dumps(words, allow_nan=False)) == words
    assert {array.dtype.kind for array in arrays.values()} == {"f"}


def test_a_mixture_says_what_it_mixes():
    table = bd.policies.DeterministicPolicy(np.zeros((2, 3), dtype=np.int32), 2)
    half = np.array([0.5, 0.5])
    assert repr(Mixture(half, (_affine(), _random()))) == "Mixture(2 controllers, weights [0.5 0.5])"
    assert repr(Mixture(half, (table, table))) == "Mixture(2 deterministic policies, weights [0.5 0.5])"
    assert repr(Mixture(half, (table, _affine()))) == "Mixture(2 policies, weights [0.5 0.5])"
