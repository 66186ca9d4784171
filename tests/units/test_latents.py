"""Latents: what is counted of them, what is hoped for, and what planning makes of that."""

import itertools
import json

import cvxpy as cp
import numpy as np
import pytest
from safetensors.numpy import load_file

import bidual as bd
from bidual._base import archive
from bidual._base.keys import Draw, Purpose
from bidual.learning.runs._policies import Journal
from bidual.learning.setup import set_up
from bidual.loop.explorers import EpsilonGreedy, Greedy, Thompson
from bidual.loop.vpdpo import start_state, vpdpo
from bidual.models import Latent, Tabular
from bidual.models.latent._decoded_counts import count_episodes
from bidual.models.latent._latent import shrink_estimates
from bidual.models.latent._latents import build_latents
from bidual.models.latent._reading import GrowingRows
from bidual.planners import UnseenOptimism
from bidual.problem.features import Observed, Pieces
from bidual.tasks._lock_env import LockEnv
from bidual.world.envs import rich_environment
from bidual.world.policies import DecodedPolicy, DeterministicPolicy, Mixture, write_table
from tests.rich_envs import Corridor, decoder

H, S, A, SIGNALS = 3, 4, 2, 2  # two latents, UNSEEN and the end
ALLOWED = np.ones((S, A), dtype=bool)
ALLOWED[-1, 1] = False
PIECES = Pieces(
    np.zeros((1, SIGNALS, S, A)),
    observed=((0, Observed(lambda step: 0.0, -1.0, 2.0)), (1, Observed(lambda step: 0.0, 0.0, 1.0, at_end=True))),
)


def _episodes(rng, n):
    """Random ones over two latents, some of which end."""
    latents, actions = rng.integers(0, 2, (H + 1, n)), rng.integers(0, A, (H, n))
    for h in range(1, H + 1):
        latents[h, (rng.random(n) < 0.2) | (latents[h - 1] == S - 1)] = S - 1
    actions[latents[:-1] == S - 1] = 0
    signals = rng.uniform(-1, 1, (H, n, SIGNALS))
    signals[latents[:-1] == S - 1] = 0
    return latents, actions, signals


def _tally(seed=0, n=12):
    return count_episodes(*_episodes(np.random.default_rng(seed), n), (H, S, A))


def test_counts_are_those_of_a_loop():
    latents, actions, signals = _episodes(np.random.default_rng(0), 50)
    seen = count_episodes(latents, actions, signals, (H, S, A))
    transitions, sums = np.zeros((H, S, A, S)), np.zeros((H, S, A, SIGNALS))
    for h, i in itertools.product(range(H), range(50)):
        transitions[h, latents[h, i], actions[h, i], latents[h + 1, i]] += 1
        sums[h, latents[h, i], actions[h, i]] += signals[h, i]
    np.testing.assert_array_equal(seen.transitions, transitions)
    np.testing.assert_allclose(seen.sums, sums, atol=1e-13)  # fifty additions of numbers below 1
    np.testing.assert_array_equal(seen.starts, np.bincount(latents[0], minlength=S))


def test_the_error_of_a_regression_is_what_latents_leave_open():
    """A signal that is the latent plus noise of 0.3: its error is that noise, up to five of its deviations."""
    rng = np.random.default_rng(1)
    latents, actions, signals = _episodes(rng, 4000)
    signals = np.stack([latents[:-1] + 0.3 * rng.standard_normal(latents[:-1].shape), latents[:-1].astype(float)], -1)
    left, varied = count_episodes(latents, actions, signals, (H, S, A)).errors()
    assert abs(left[0] / 0.3 - 1) <= 5 / np.sqrt(2 * H * 4000)
    assert left[1] <= 1e-6 < 0.4 < varied[1]


def _reference(model, theta):
    """The least cost by the equations of the planner, in plain loops over the freed mass."""
    least = theta * np.where(theta >= 0, model.low, model.high)
    U, Us = 0.0, []
    for h in reversed(range(H)):
        U = least[h, ~model.at_end].sum() + min(U, least[h, model.at_end].sum())
        Us.insert(0, U)
    V = np.zeros(S)
    for h in reversed(range(H)):
        Q = np.full((S, A), np.inf)
        for s, a in np.argwhere(model.allowed):
            known = theta[h] @ model.signals[h, :, s, a] + model.law[h, s, a] @ V
            Q[s, a] = known + model.freed[h, s, a] * Us[h]
        V = Q.min(axis=1)
        V[S - 2] = Us[h]
    return float(model.start @ V)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("n", [0, 2, 30])
def test_planning_hopes_for_the_best(seed, n):
    model = build_latents(_tally(seed, n), PIECES, 0.4, "unseen", ALLOWED)
    theta = np.random.default_rng(seed).normal(size=(H, SIGNALS))
    plan = UnseenOptimism()(model, model.restrict(PIECES), theta)
    assert abs(plan.value - _reference(model, theta)) <= 1e-12  # a few dozen operations on numbers below 10
    assert abs(plan.value - np.vdot(theta, plan.embedding)) <= 1e-12


def test_what_is_free_shrinks_with_visits():
    model = build_latents(_tally(0, 200), PIECES, 0.5, "unseen", ALLOWED)
    pairs = _tally(0, 200).pairs
    np.testing.assert_allclose(model.freed[:, :2], 0.5 ** pairs[:, :2])
    np.testing.assert_array_equal(model.freed[:, 2], 1.0)
    np.testing.assert_array_equal(model.freed[:, 3], 0.0)
    np.testing.assert_allclose(model.law.sum(axis=-1) + model.freed, 1.0, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_without_unseen_nothing_is_hoped_for_that_was_not_seen(seed):
    """Mass that is free goes to the best latent that was met; a signal that was never paid is not expected."""
    latents, actions, signals = _episodes(np.random.default_rng(seed), 30)
    seen = count_episodes(latents, actions, 0 * signals, (H, S, A))
    theta = np.random.default_rng(seed).normal(size=(H, SIGNALS))
    plans = {
        to: UnseenOptimism()(model, model.restrict(PIECES), theta)
        for to in ("seen", "unseen")
        for model in [build_latents(seen, PIECES, 0.1, to, ALLOWED)]
    }
    assert abs(plans["seen"].value) <= 1e-12
    assert plans["unseen"].value < -0.1


def test_the_expected_law_is_a_law_near_the_frequencies():
    seen = _tally(0, 400)
    law, means = shrink_estimates(seen)
    np.testing.assert_allclose(law.sum(axis=-1), 1.0, atol=1e-12)
    often = seen.pairs > 50
    frequencies = seen.transitions[often] / seen.pairs[often][:, None]
    assert np.abs(law[often] - frequencies).max() <= 1 / 51 + 1e-12
    np.testing.assert_allclose(means[often], seen.means()[often], atol=2 / 51)
    np.testing.assert_array_equal(law[:, 2, :, 2], 1.0)  # nothing was ever decoded to UNSEEN


def test_an_archive_never_changes_what_somebody_holds():
    empty = GrowingRows.empty(2, (3,), np.float64)
    one = empty.add(np.ones((2, 1, 3)))
    two, other = one.add(np.full((2, 1, 3), 2.0)), one.add(np.full((2, 2, 3), 5.0))
    np.testing.assert_array_equal(one.rows[..., 0], [[1], [1]])
    np.testing.assert_array_equal(two.rows[..., 0], [[1, 2]] * 2)
    np.testing.assert_array_equal(other.rows[..., 0], [[1, 5, 5]] * 2)
    assert empty.rows.shape == (2, 0, 3)


def _problem(horizon=5):
    x = bd.features.signals(reward=bd.features.observed(lambda step: step.reward, 0.0, 1.2)).embedding(horizon)
    return bd.Problem(cp.Maximize(cp.sum(x.reward)))


def _after(env, model, explorer=None, episodes=60, horizon=5):
    setting = set_up(_problem(horizon), env, model, explorer, delta=0.05, seed=0)
    first = start_state(setting.program, setting.explorer, setting.knowledge)
    turns = vpdpo(setting.program, setting.env, setting.explorer, first, seed=0)
    return setting, next(itertools.islice(turns, episodes - 1, None)).state.knowledge


@pytest.mark.parametrize("symbols", [False, True])
def test_latents_of_a_corridor_are_its_places(symbols):
    """By a decoder that knows the places. Two letters of six are wrong in 0.6 percent of the words: those may be
    misread, and a word with one wrong is seen often enough to look like a latent of its own.
    """
    emission = "categorical" if symbols else "gaussian"
    setting, knowledge = _after(Corridor(symbols), Latent(4, emission), episodes=150)
    truth, reader = decoder(setting.env), knowledge.reader
    for h in range(5):
        alive = reader.latents.rows[h] != 5
        shown = reader.observations.rows[h, alive].astype(np.float64)
        ours, theirs = reader.latents.rows[h, alive], truth.latents(h, shown)
        table = np.zeros((4, 3))
        np.add.at(table, (ours, theirs), 1)
        assert table.max(axis=1).sum() >= (0.97 if symbols else 1.0) * ours.size
        assert symbols or len(set(ours.tolist())) == len(set(theirs.tolist()))
    assert (reader.latents.rows[1:][reader.latents.rows[:-1] == 5] == 5).all()


def test_counts_do_not_depend_on_how_they_were_added_up():
    """Reading everything again gives what was counted on the way."""
    _, knowledge = _after(Corridor(), Latent(3))
    reader = knowledge.reader
    again = count_episodes(reader.latents.rows, reader.actions.rows, reader.signals.rows, reader.shape)
    np.testing.assert_array_equal(knowledge.seen.transitions, again.transitions)
    np.testing.assert_allclose(knowledge.seen.sums, again.sums, atol=1e-12)
    np.testing.assert_array_equal(knowledge.counts.pairs, again.pairs)


@pytest.mark.parametrize("explorer", [Greedy(), Thompson(), EpsilonGreedy(0.2)])
def test_other_explorers_run_decoded_policies_too(explorer):
    _, knowledge = _after(Corridor(), Latent(3), explorer, episodes=20)
    assert knowledge.counts.episodes == 20


def test_the_same_seed_gives_the_same_result():
    values = [bd.learn(_problem(), Corridor(), Latent(3), episodes=40, seed=3) for _ in range(2)]
    assert values[0].value == values[1].value
    np.testing.assert_array_equal(values[0].policy.table, values[1].policy.table)
    assert values[0].policy.decoder.fingerprint == values[1].policy.decoder.fingerprint


def test_nothing_is_claimed_about_other_policies():
    learned = bd.learn(_problem(), Corridor(), Latent(3), episodes=60, seed=0)
    assert learned.lower is not None  # maximising: what the policy is shown to reach, from its own episodes
    assert learned.upper is None
    assert learned.gap is None
    assert all(look.bound is None for look in learned.history)
    text = learned.describe()
    assert "no bound on what other policies can reach is claimed" in text
    assert "heuristic" in text
    assert "no rate is proved" in text
    assert "root mean square error" in text
    assert "sqrt" not in text


def test_policies_act_on_observations_anywhere(tmp_path):
    learned = bd.learn(_problem(), Corridor(), Latent(3), episodes=60, seed=0)
    assert isinstance(learned.policy, DecodedPolicy)
    learned.policy.save(tmp_path / "corridor.bidual")
    policy = bd.load(tmp_path / "corridor.bidual")
    np.testing.assert_array_equal(policy.table, learned.policy.table)
    assert policy.decoder.fingerprint == learned.policy.decoder.fingerprint
    env, actor, total = Corridor(), policy.reset(0), 0.0
    obs, _ = env.reset(seed=5)
    for _ in range(5):
        obs, reward, done, _, _ = env.step(actor.act(obs))
        total += reward
        if done:
            break
    assert total > 0.2
    said = bd.evaluate(_problem(), Corridor(), policy, Latent(3), episodes=40, seed=9)
    again = bd.evaluate(_problem(), Corridor(), learned.policy, Latent(3), episodes=40, seed=9)
    assert said.objective == again.objective


def test_symbols_are_stored_too(tmp_path):
    learned = bd.learn(_problem(), Corridor(symbols=True), Latent(3, "categorical"), episodes=40, seed=0)
    learned.policy.save(tmp_path / "p.bidual")
    assert bd.load(tmp_path / "p.bidual").decoder.fingerprint == learned.policy.decoder.fingerprint


def test_a_damaged_policy_is_refused(tmp_path):
    learned = bd.learn(_problem(), Corridor(), Latent(3), episodes=20, seed=0)
    learned.policy.save(tmp_path / "good.bidual")
    _, arrays = archive.read(tmp_path / "good.bidual", "decoded policy")
    for name, wrong in (
        ("policy", arrays["policy"] * 2),
        ("sizes", arrays["sizes"][:-1]),
        ("variances", -arrays["variances"]),
        ("weights", 0 * arrays["weights"]),
    ):
        archive.write(tmp_path / "bad.bidual", "decoded policy", {}, arrays | {name: wrong})
        with pytest.raises(bd.ArchiveError, match="holds no policy over latents"):
            bd.load(tmp_path / "bad.bidual")


@pytest.fixture(scope="module")
def learned():
    return bd.learn(_problem(), Corridor(), Latent(3), episodes=40, seed=0)


def test_a_saved_solution_is_its_policy_and_claims_nothing(learned, tmp_path):
    learned.save(tmp_path / "a.bidual")
    np.testing.assert_array_equal(bd.load(tmp_path / "a.bidual").table, learned.policy.table)
    with pytest.raises(bd.CertificateError, match="holds a policy over latents: a heuristic claims nothing"):
        bd.check(tmp_path / "a.bidual")


@pytest.mark.parametrize("symbols", [False, True])
def test_policies_of_a_run_come_back_with_their_decoders(tmp_path, symbols):
    """In two parts, the second of which names emissions of the first."""
    model = Latent(3, "categorical" if symbols else "gaussian")
    learned = bd.learn(_problem(), Corridor(symbols), model, episodes=40, seed=0)
    journal = Journal(tmp_path)
    journal.write(learned.executed[:7])
    journal.write(learned.executed)
    again = Journal(tmp_path, journal.parts)
    assert len(again.policies) == len(learned.executed) == 40
    for one, other in zip(again.policies, learned.executed, strict=True):
        np.testing.assert_array_equal(one.actions, other.actions)
        assert one.decoder.fingerprint == other.decoder.fingerprint
        assert one.decoder.dimension == other.decoder.dimension


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("decoders", lambda a: a + 1000),
        ("decoders", lambda a: a - 2),
        ("dimension", lambda a: a + 1),
        ("sizes", lambda a: a + 1),
        ("weights", lambda a: -a),
        ("variances", lambda a: 0 * a),
        ("means", lambda a: a + np.nan),
    ],
)
def test_forged_decoders_are_refused(learned, tmp_path, name, change):
    journal = Journal(tmp_path)
    journal.write(learned.executed)
    (part,) = journal.parts
    manifest, arrays = archive.read(journal.folder / part.name, "policies")
    manifest = {key: manifest[key] for key in ("first", "num_actions")}
    sha256 = archive.write(journal.folder / part.name, "policies", manifest, arrays | {name: change(arrays[name])})
    with pytest.raises(bd.ArchiveError, match="does not hold the policies it should"):
        Journal(tmp_path, [part._replace(sha256=sha256)])


def test_a_table_goes_with_its_decoder(learned, tmp_path):
    """As its documentation says: whoever has the arrays can act."""
    with pytest.raises(bd.PolicyError, match="a csv has no place for it: choose json, npz or safetensors"):
        write_table(learned.policy, tmp_path / "p.csv", "csv")
    told = json.loads(write_table(learned.policy, tmp_path / "p.json", "json").read_text())
    stored = load_file(write_table(learned.policy, tmp_path / "p.safetensors", "safetensors"))
    with np.load(write_table(learned.policy, tmp_path / "p.npz", "npz")) as arrays:
        for name in ("probabilities", "sizes", "weights", "means", "variances"):
            np.testing.assert_array_equal(arrays[name], np.array(told[name]))
            np.testing.assert_array_equal(arrays[name], stored[name])
        obs, _ = Corridor().reset(seed=4)
        k = int(arrays["sizes"][0])
        far = ((np.asarray(obs, dtype=float) - arrays["means"][0, :k]) ** 2).sum(axis=1) / (2 * arrays["variances"][0])
        assert np.argmax(np.log(arrays["weights"][0, :k]) - far) == learned.policy.decoder.latent(0, obs)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"latents": 0}, "latents must be a whole number, at least 1; got 0"),
        ({"latents": True}, "latents must be a whole number"),
        ({"latents": 3, "emission": "poisson"}, "emission must be one of gaussian, categorical; got 'poisson'"),
        ({"latents": 3, "rarest": 0.0}, "rarest is a probability, above 0"),
        ({"latents": 3, "freed": "nobody"}, "freed must be one of unseen, seen"),
    ],
)
def test_bad_settings(settings, match):
    with pytest.raises(bd.ModelError, match=match):
        Latent(**settings)


def test_environments_that_do_not_fit():
    with pytest.raises(bd.EnvError, match=r"not a Box of numbers: .* bd\.models\.Tabular\(\)"):
        bd.learn(_problem(), "FrozenLake-v1", Latent(3), episodes=5)
    with pytest.raises(bd.EnvError, match="not MultiDiscrete or MultiBinary"):
        bd.learn(_problem(), Corridor(), Latent(3, "categorical"), episodes=5)
    with pytest.raises(bd.ProblemError, match="shows state numbers: learn it with"):
        bd.learn(_problem(), bd.TabularMDP(np.ones((1, 1, 1)), 0, 5), Latent(3), episodes=5)
    with pytest.raises(bd.ProblemError, match=r"shows vectors, not state numbers: .*Latent"):
        bd.learn(_problem(), rich_environment(Corridor(), 5, 3), Tabular(), episodes=5)
    with pytest.raises(bd.ProblemError, match="opened for 2 latents, the model has 3"):
        bd.learn(_problem(), rich_environment(Corridor(), 5, 2), Latent(3), episodes=5)


def test_signals_must_be_functions():
    x = bd.features.signals(reward=np.ones((5, 2))).embedding(5)
    with pytest.raises(bd.ProblemError, match=r"give every signal as a function .* bd\.features\.observed"):
        bd.learn(bd.Problem(cp.Maximize(cp.sum(x.reward))), Corridor(), Latent(3), episodes=5)


def test_observations_that_are_none():
    class Broken(Corridor):
        def _shown(self):
            return np.full(6, np.nan)

    with pytest.raises(bd.EnvError, match="must be 6 finite numbers"):
        bd.learn(_problem(), Broken(), Latent(3), episodes=5)


def test_policies_that_read_something_else_are_refused():
    env, draw = rich_environment(Corridor(), 5, 3), Draw(0, Purpose.LEARN, 1)
    table = DeterministicPolicy(np.zeros((5, 5), dtype=int), 2)
    with pytest.raises(bd.PolicyError, match="wants state numbers"):
        env.collect(table, draw)
    other = DecodedPolicy(table, rich_environment_decoder(9))
    with pytest.raises(bd.PolicyError, match="shows 6 numbers, the policy reads 9"):
        env.collect(Mixture(np.ones(1), (other,)), draw)


def rich_environment_decoder(dimension):
    from bidual.world.policies import Decoder

    return Decoder((None,) * 6, dimension)


def test_a_lock_in_one_step_and_with_one_latent():
    """The least there is: nothing to explore but ten actions, and nothing to tell apart."""
    x = bd.features.signals(reward=bd.features.observed(lambda step: step.reward)).embedding(1)
    problem = bd.Problem(cp.Maximize(cp.sum(x.reward)))
    learned = bd.learn(problem, LockEnv(1, 0), Latent(2), episodes=80, seed=0, evaluation=50)
    assert learned.value == 1.0
    lumped = bd.learn(problem, LockEnv(1, 0), Latent(1), episodes=80, seed=0, evaluation=50)
    assert lumped.value < 0.9
