"""Vectors with nothing declared: features in units of what is seen, by default, and environments by name."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual._base.keys import Draw, Purpose
from bidual.cli import main
from bidual.cli._options import Options, find_default_episodes
from bidual.cli._target import load_unknown
from bidual.cli.learn import _find_known_optimum
from bidual.cli.new import VECTORS as VECTORS_BY_NAME
from bidual.learning.defaults import VECTORS, plan_vectors
from bidual.learning.setup import set_up
from bidual.models import KNR
from bidual.models.regression._scales import is_refitted
from bidual.planners import control
from bidual.problem.features import FourierMap, compute_features, computed, fourier, linear
from tests.control_envs import Slider

SEEN = KNR(fourier(16, 1.5, scales="seen"))
QUICK = bd.explorers.Controls(control.Mean(), control.icem(16, 2), control.OpenLoop(), rollouts=4)
MANY = 20  # episodes, more than scales are fitted to


def _problem():
    x = computed(distance="next_obs[0] ** 2").embedding(6, total=True)
    return bd.Problem(cp.Minimize(x.distance))


@pytest.fixture(scope="module")
def episodes():
    """What is known before, and random episodes."""
    setup = set_up(_problem(), Slider(), SEEN, QUICK, delta=0.05, seed=0)
    limits = setup.knowledge.limits
    policy = bd.policies.ControlPolicy(bd.policies.RandomControls(6, 2, *limits), *limits)
    return setup.knowledge, [setup.env.collect(policy, Draw(0, Purpose.LEARN, i)) for i in range(MANY)]


def _scales(knowledge):
    """From the frequencies, those with scales of 1 being known."""
    assert isinstance(knowledge.phi, FourierMap)
    unit = fourier(16, 1.5).build_map(2, 1)
    return (unit.frequencies / knowledge.phi.frequencies)[0]


def test_scales_are_half_of_what_is_seen_and_features_are_those_of_all_transitions(episodes):
    before, ran = episodes
    np.testing.assert_array_equal(_scales(before), 1.0)
    knowledge = before.update(ran[0]).update(*ran[1:4])
    seen = np.concatenate([one.observations for one in ran[:4]])
    np.testing.assert_allclose(_scales(knowledge), [*np.ptp(seen, axis=0) / 2, 2.0], rtol=1e-12)
    phi = np.concatenate([compute_features(knowledge.phi, one.observations[:-1], one.controls) for one in ran[:4]])
    np.testing.assert_allclose(knowledge.moments.gram, phi.T @ phi, rtol=1e-12, atol=1e-14)
    assert knowledge.moments.count == 24


def test_scales_stay_after_the_first_episodes(episodes):
    """And episodes at once are the same as one by one, to the last bit."""
    before, ran = episodes
    one_by_one = before
    for episode in ran:
        one_by_one = one_by_one.update(episode)
    at_once = before.update(*ran)
    np.testing.assert_array_equal(_scales(at_once), _scales(before.update(*ran[:16])))
    assert at_once.early is one_by_one.early is None
    assert at_once.moments.count == 6 * MANY
    np.testing.assert_allclose(at_once.moments.gram, one_by_one.moments.gram, rtol=1e-12)


def test_a_declared_range_limits_the_scale_and_what_never_moved_has_one(episodes):
    _, ran = episodes
    model = KNR(fourier(16, 1.5, scales="seen"), box=((-0.1, -np.inf), (0.1, np.inf)))
    before = set_up(_problem(), Slider(), model, QUICK, delta=0.05, seed=0).knowledge
    assert _scales(before.update(*ran[:2]))[0] == pytest.approx(0.1, rel=1e-12)
    still = np.tile([1.0, 0.0], (7, 1))
    known = before.update(replace(ran[0], observations=still))
    np.testing.assert_allclose(_scales(known), [1e-4, 1e-3, 2.0], rtol=1e-12)


@pytest.mark.unchecked_shapes(reason="the subject is bad input")
def test_other_scales_are_refused():
    with pytest.raises(bd.ModelError, match="must be positive numbers or 'seen'; got 'scene'"):
        fourier(scales="scene")  # pyright: ignore[reportArgumentType]: the subject


def _learned(run=None, episodes=5, model=None):
    env = Slider()
    return bd.learn(_problem(), env, model, episodes=episodes, evaluation=2, explorer=QUICK, run=run)


def test_the_default_for_vectors_is_a_regression_in_these_units():
    learned = _learned(episodes=2)
    assert learned.knowledge.declared == VECTORS
    assert learned.lower is None
    assert "no lower bound: heuristic planner" in learned.assumptions[0]


def test_a_stopped_run_goes_on_with_the_same_units(tmp_path):
    """Scales change until episode 16, and what they were fitted to is stored."""
    whole = _learned(episodes=5, model=SEEN)
    _learned(bd.runs.Folder(tmp_path / "run", every=1), episodes=3, model=SEEN)
    longer = _learned(bd.runs.Folder(tmp_path / "run", resume=True, every=1), episodes=5, model=SEEN)
    assert longer.value == whole.value
    assert [one.fingerprint for one in longer.executed] == [one.fingerprint for one in whole.executed]
    assert longer.knowledge.moments.gram.tobytes() == whole.knowledge.moments.gram.tobytes()


def test_environments_with_vectors_are_learned_by_name(tmp_path):
    """As a new user writes it: nothing but signals and a name; the policy is loaded without either."""
    x = bd.features.computed(upright="cos(next_obs[2])").embedding(8, total=True)
    problem = bd.Problem(cp.Maximize(x.upright))
    explorer = bd.explorers.Controls(control.Thompson(0.3), control.icem(16, 2), control.Mpc(4, 4), rollouts=2)
    learned = bd.learn(problem, "CartPole-v1", episodes=2, evaluation=2, explorer=explorer)
    learned.save(tmp_path / "pole.bidual", signals={})
    actor = bd.load(tmp_path / "pole.bidual").reset(0)
    assert actor.act(np.zeros(4)) in (0, 1)
    assert bd.check(tmp_path / "pole.bidual").claims["lower"] is None


def test_a_learned_result_is_saved_with_its_functions_as_text(tmp_path):
    """Its samples still belong to it, so that its claims are derived again."""
    x = bd.features.computed(place=bd.features.signal(lambda s, u, y: y[0], -1.0, 1.0)).embedding(6, total=True)
    explorer = bd.explorers.Controls(control.Mean(), control.icem(16, 2), control.Mpc(3, 3), rollouts=2)
    model = KNR(fourier(16, 1.5, scales="seen"))
    learned = bd.learn(bd.Problem(cp.Maximize(x.place)), Slider(), model, episodes=2, evaluation=4, explorer=explorer)
    with pytest.raises(bd.PolicyError, match="give the same as text"):
        learned.save(tmp_path / "slide.bidual")
    learned.save(tmp_path / "slide.bidual", signals={"place": "next_obs[0]"})
    assert bd.load(tmp_path / "slide.bidual").reset(0).act(np.zeros(2)).shape == (1,)
    check = bd.check(tmp_path / "slide.bidual")
    assert (check.episodes, check.claims["value"]) == (4, learned.value)


def test_gymnasiums_classics_need_nothing_but_a_name(capsys):
    """Signal and steps are those of the file that 'bidual new' writes, episodes suit them."""
    target = load_unknown("CartPole-v1", [], None)
    assert (target.env, target.problem.embedding.horizon, target.model) == ("CartPole-v1", 200, None)
    assert find_default_episodes("CartPole-v1") == 12
    assert _find_known_optimum(Options("CartPole-v1")) is None  # --out draws it where there is one
    assert _find_known_optimum(Options("rover")) is not None
    assert main(["learn", "CartPole-v1", "--set", "budget=1"]) == 2
    assert "bidual new --vectors CartPole-v1" in capsys.readouterr().err
    assert main(["learn", "CartPole-v1", "--support", "unknown"]) == 2
    limited = bd.Problem(target.problem.objective, {"few": target.problem.embedding.upright <= 100})
    assert plan_vectors(target.problem).inner is not None
    assert plan_vectors(limited).inner is None


def test_a_map_in_other_units_is_told_from_another_map(episodes):
    before, ran = episodes
    fitted = before.update(ran[0]).phi
    assert is_refitted(fitted, before.phi)
    for other in (fourier(16, 1.5, 1).build_map(2, 1), fourier(8, 1.5).build_map(2, 1), linear().build_map(2, 1)):
        assert not is_refitted(other, before.phi)
    bent = fitted.frequencies.copy()
    bent[0, 0] *= 1.1
    for frequencies in (bent, -fitted.frequencies, fitted.frequencies * np.nan):
        assert not is_refitted(replace(fitted, frequencies=frequencies), before.phi)


@pytest.mark.parametrize("name", VECTORS_BY_NAME)
def test_files_for_gymnasiums_classics_can_be_learned(name, tmp_path, capsys):
    """Their signals fit the observations, and nothing else is in the file."""
    path = tmp_path / "own.py"
    assert main(["new", "--vectors", name, str(path)]) == 0
    assert f"bidual learn {path} --episodes 20" in capsys.readouterr().out
    target = load_unknown(str(path), [], None)
    assert target.model is None
    setup = set_up(target.problem, target.env, None, None, delta=0.05, seed=0)
    assert setup.knowledge.declared == VECTORS
    assert setup.explorer == plan_vectors(target.problem)
    H, n, _ = setup.env.shape
    limits = setup.knowledge.limits
    random = bd.policies.ControlPolicy(
        bd.policies.RandomControls(H, n, *limits), *limits, discrete=setup.knowledge.discrete
    )
    episode = setup.env.collect(random, Draw(0, Purpose.LEARN, 0))
    assert np.isfinite(episode.observed).all()
    assert episode.observed.any()
    assert path.read_text().count("\n") < 22


def test_one_example_at_a_time(tmp_path):
    assert main(["new", "--env", "--vectors", "CartPole-v1", str(tmp_path / "own.py")]) == 2
