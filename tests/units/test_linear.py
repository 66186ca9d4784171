"""Linear models: what is refused, what is learned, and what is claimed of it."""

import cvxpy as cp
import numpy as np
import pytest
from scipy.stats import kstest

import bidual as bd
from bidual.models import LinearMDP, Tabular
from bidual.models.linear._ridge import count_log_vertices, fit_ridge
from bidual.tasks.riverswim import riverswim
from tests.classes import dense
from tests.contracts.test_explorers import EXPLORERS
from tests.learning import after, beginning, false_claims, random_episodes, true_optimum
from tests.linear import truth_is_inside, world
from tests.units.test_saved_learned import _rewrite as rewrite

RIVER = riverswim(budget=2.5, states=3, horizon=5)
S, A, H = 3, 2, 5
INDICATORS = np.eye(S * A).reshape(S, A, S * A)
SMALL = world(0, (5, 2, 2), 3)


def _learn(model, episodes=120, **settings):
    return bd.learn(RIVER.problem, RIVER.mdp, model, episodes=episodes, seed=1, **settings)


def _changed(array, place, value):
    array = np.array(array)
    array[place] = value
    return array


def _problem(one, **features):
    shape = one.mdp.num_states, one.mdp.num_actions
    x = one.mdp.embedding(
        r=np.random.default_rng(7).random(shape), c=np.random.default_rng(8).random(shape), **features
    )
    return bd.Problem(cp.Maximize(cp.sum(x.r)), {"c": cp.sum(x.c) <= 0.55 * one.mdp.horizon})


WRONG = {
    "words": ({"phi": "phi"}, r"phi must be an array of numbers \(S, A, d\)"),
    "ragged": ({"phi": [[[1.0], [1.0, 2.0]]]}, r"phi must be an array of numbers"),
    "axes": ({"phi": np.ones((3, 2))}, r"phi must have shape \(S, A, d\), or \(H, S, A, d\) .* got \(3, 2\)"),
    "no feature": ({"phi": np.ones((3, 2, 0))}, r"phi must have shape .* got \(3, 2, 0\)"),
    "not finite": ({"phi": _changed(INDICATORS, (0, 0, 0), np.nan)}, r"phi contains NaN or infinity"),
    "states": ({"phi": np.eye(8).reshape(4, 2, 8)}, r"phi is over \(4, 2\) .* the environment has \(3, 2\)"),
    "steps": ({"phi": np.tile(INDICATORS, (4, 1, 1, 1))}, r"phi has features for 4 steps, the environment has 5"),
    "zero": ({"phi": _changed(INDICATORS, (1, 1), 0.0)}, r"phi\[1, 1\] is 0, and phi . mu no law"),
    "zero at a step": (
        {"phi": _changed(np.tile(INDICATORS, (5, 1, 1, 1)), (3, 1, 1), 0.0)},
        r"phi\[3\]\[1, 1\] is 0",
    ),
    "long": ({"phi": _changed(INDICATORS, (2, 0), 1.0)}, r"phi\[2, 0\] has length 2.44949, above 1: divide phi"),
    "ridge": ({"phi": INDICATORS, "ridge": -1.0}, r"ridge must be a positive number; got -1.0"),
    "no ridge": ({"phi": INDICATORS, "ridge": 0.0}, r"ridge must be a positive number; got 0.0"),
    "bound": ({"phi": INDICATORS, "bound": np.nan}, r"bound must be a positive number; got nan"),
    "support": (
        {"phi": INDICATORS, "support": np.zeros((4, 1), dtype=int)},
        r"support must be over \(S, A\) = \(3, 2\)",
    ),
    "absorbing": ({"phi": INDICATORS, "absorbing": (7,)}, r"absorbing names state 7"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_linear_model_is_refused_with_its_place(case):
    settings, message = WRONG[case]
    with pytest.raises(bd.ModelError, match=message):
        _learn(LinearMDP(**settings), 1)


def test_features_are_copied():
    phi = INDICATORS.copy()
    model = LinearMDP(phi)
    phi[:] = np.nan
    assert np.isfinite(np.asarray(model.phi)).all()


def test_long_features_are_taken_with_a_bound():
    found = _learn(LinearMDP(2 * INDICATORS, bound=1.3), 30)
    assert "is longer than 1.3;" in " ".join(found.assumptions)


def test_a_law_that_changes_needs_a_mu_for_every_step():
    one = world(1, stationary=False)
    problem = _problem(one)
    with pytest.raises(bd.ProblemError, match=r"declare stationary=False"):
        bd.learn(problem, one.mdp, LinearMDP(one.phi), episodes=1)
    found = bd.learn(problem, one.mdp, LinearMDP(one.phi, stationary=False), episodes=50)
    assert "with a mu of its own at every step" in " ".join(found.assumptions)


def _known(one, count, seed=5, **settings):
    shape = one.mdp.horizon, one.mdp.num_states, one.mdp.num_actions
    features = bd.features.signals(r=np.zeros(shape[1:]))
    first = beginning(features, shape, LinearMDP(one.phi, **settings), initial=one.mdp.initial)
    return after(first, random_episodes(one.mdp, count, seed))


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ({}, {}),
        ({"stationary": False}, {"stationary": False}),
        ({"moving": True}, {}),
        ({"moving": True}, {"ridge": 0.1}),
    ],
)
def test_the_estimate_is_that_of_plain_loops(kind, settings):
    """phi . Lambda^-1 sum phi e^T, the elliptical bonus and the determinant, one transition after the other."""
    one = world(4, **kind)
    H, (S, A, d) = one.mdp.horizon, one.phi.shape[-3:]
    knowledge = _known(one, 60, **settings)
    phi = np.broadcast_to(one.phi, (H, S, A, d))
    mus, ridge = 1 if knowledge.stationary else H, settings.get("ridge", 1.0)
    Lambda, G = np.tile(ridge * np.eye(d), (mus, 1, 1)), np.zeros((mus, d, S))
    for episode in random_episodes(one.mdp, 60, 5):
        for h in range(H):
            x = phi[h, episode.states[h], episode.actions[h]]
            Lambda[h % mus] += np.outer(x, x)
            G[h % mus, :, episode.states[h + 1]] += x
    fit = knowledge.fit
    np.testing.assert_allclose(fit.log_det, np.linalg.slogdet(Lambda / ridge)[1], rtol=1e-10)
    for h in range(len(fit.centre)):
        inverse = np.linalg.inv(Lambda[h % mus])
        np.testing.assert_allclose(fit.centre[h], phi[h] @ inverse @ G[h % mus], atol=1e-12)
        squared = np.einsum("sad,de,sae->sa", phi[h], inverse, phi[h])
        np.testing.assert_allclose(fit.spread[h], np.sqrt(squared), rtol=1e-10)
        np.testing.assert_allclose(fit.bias[h], ridge * np.linalg.norm(phi[h] @ inverse, axis=-1), atol=1e-10)
        assert fit.rounding.max() <= 1e-11
        beta = 0.5 * np.sqrt(2 * 4.0 + np.linalg.slogdet(Lambda[h % mus] / ridge)[1])
        expected = beta * np.sqrt(squared) + 1.7 * fit.bias[h]
        np.testing.assert_allclose(fit.radius(4.0, 1.7)[h], expected, rtol=1e-9)


def test_vertices_are_counted():
    assert [round(np.exp(count_log_vertices(n))) for n in (1, 2, 3, 4, 10)] == [1, 1, 3, 7, 511]


def test_badly_conditioned_features_make_wide_sets_and_no_errors():
    """Features that differ in the last bits, and a ridge far below rounding: whatever comes out, the truth is in."""
    one = world(3, (5, 2, 2), 3)
    same = np.full((5, 2, 1), 0.5)
    phi = np.concatenate([one.phi, 0.1 * one.phi + 1e-15 * same], axis=-1)
    mu = np.concatenate([one.mu, np.zeros_like(one.mu)], axis=1)
    known = after(
        beginning(
            bd.features.signals(r=np.zeros((5, 2))),
            (3, 5, 2),
            LinearMDP(phi, ridge=1e-14, bound=2.0),
            initial=one.mdp.initial,
        ),
        random_episodes(one.mdp, 300, 5),
    )
    model = known.build_confidence_set()
    assert np.isfinite(model.gain).all()
    assert truth_is_inside(model, np.matmul(phi[None], mu[:, None]))


def test_with_indicators_laws_are_those_of_counts():
    """The law that is expected is the smoothed one of `Tabular`, the law drawn has the posterior's distribution.

    Kolmogorov-Smirnov on 12 entries with 400 draws each at level 1e-4: false alarms in fewer than 2 of 1000 versions.
    """
    features, episodes = bd.features.signals(r=np.zeros((S, A))), random_episodes(RIVER.mdp, 20, 3)
    start = {"initial": RIVER.mdp.initial}
    linear = after(beginning(features, (H, S, A), LinearMDP(INDICATORS, support=RIVER.mdp), **start), episodes)
    plain = after(beginning(features, (H, S, A), Tabular(RIVER.mdp), **start), episodes)
    np.testing.assert_allclose(linear.compute_smoothed_estimate(), plain.compute_smoothed_estimate(), atol=1e-12)
    draws = [
        np.stack([dense(law) for law in known.laws(np.random.default_rng(i), 400)])
        for i, known in enumerate((linear, plain))
    ]
    tested = 0
    for s, a, t in np.argwhere(dense(RIVER.mdp) > 0):
        one, other = (part[:, s, a, t] for part in draws)
        if other.std() > 0:
            tested += 1
            assert kstest(one, other).pvalue > 1e-4
        else:
            np.testing.assert_array_equal(one, other)
    assert tested >= 6


def test_drawn_laws_are_laws_that_narrow():
    """All rows share what is uncertain; with 30 times the episodes the spread falls by sqrt(30), a third at most."""
    spreads = []
    for count in (20, 600):
        known = _known(SMALL, count)
        drawn = np.stack([dense(law) for law in known.laws(np.random.default_rng(0), 100)])
        assert drawn.min() >= 0
        np.testing.assert_allclose(drawn.sum(axis=-1), 1.0, atol=1e-12)
        spreads.append(drawn.std(axis=0).mean())
    assert spreads[1] < spreads[0] / 3


USUAL = ("optimistic", "thompson", "alternating", "primal-dual")


@pytest.mark.parametrize(
    "name", [name if name in USUAL else pytest.param(name, marks=pytest.mark.slow) for name in EXPLORERS]
)
def test_every_explorer_learns_in_it(name):
    problem = _problem(SMALL)
    found = bd.learn(problem, SMALL.mdp, LinearMDP(SMALL.phi), episodes=40, explorer=EXPLORERS[name], evaluation=30)
    assert not false_claims(found, problem, SMALL.mdp, true_optimum(problem, SMALL.mdp)[1])
    assert found.upper is not None


@pytest.mark.slow
def test_features_say_more_than_counts():
    """The bound is true, and nearer than that of counts: 3.08 against 3.29 after 300 episodes, optimum 2.83."""
    one = world(0, (12, 3, 3), 4)
    problem = _problem(one)
    best = bd.solve(problem, one.mdp).value
    found = bd.learn(problem, one.mdp, LinearMDP(one.phi), episodes=300)
    alone = bd.learn(problem, one.mdp, Tabular(), episodes=300)
    assert not false_claims(found, problem, one.mdp, -best + 1e-6)
    assert found.upper >= best - 1e-6
    assert found.upper - best < 0.7 * (alone.upper - best)


@pytest.mark.parametrize(
    ("size", "horizon"), [((5, 1, 2), 2), pytest.param((2, 2, 1), 1, marks=pytest.mark.slow), ((1, 2, 1), 2)]
)
def test_small_worlds_are_learned(size, horizon):
    one = world(3, size, horizon)
    x = one.mdp.embedding(r=np.arange(size[0] * size[1]).reshape(size[:2]) / 3)
    problem = bd.Problem(cp.Maximize(cp.sum(x.r)), {})
    found = bd.learn(problem, one.mdp, LinearMDP(one.phi), episodes=60)
    best = bd.solve(problem, one.mdp).value
    assert best <= found.upper + 1e-9
    assert found.lower <= best + 1e-9


def test_signals_on_arrival_and_convex_functions():
    x = SMALL.mdp.embedding(r=np.random.default_rng(0).random((5, 2, 5)), visits=True)
    problem = bd.Problem(cp.Minimize(cp.sum_squares(cp.sum(x.visits, axis=0) - 0.6)), {"r": cp.sum(x.r) >= 1.2})
    best = bd.solve(problem, SMALL.mdp)
    found = bd.learn(problem, SMALL.mdp, LinearMDP(SMALL.phi), episodes=300)
    assert found.lower <= best.value + 1e-6
    assert found.lower > 0.01
    assert abs(found.value - best.value) <= 0.05


def test_states_that_are_never_left_need_no_features():
    """A goal that phi does not describe, reached by either action; and an action that is not allowed."""
    law = np.array([[[0.2, 0.5, 0.3], [0.6, 0.2, 0.2]], [[0.2, 0.5, 0.3], [0.4, 0.3, 0.3]], [[0, 0, 1.0], [0, 0, 1.0]]])
    phi = np.array([[[1.0, 0], [0, 1.0]], [[1.0, 0], [np.sqrt(0.5), np.sqrt(0.5)]], [[0, 0], [0, 0]]])
    allowed = np.array([[True, True], [True, False], [True, True]])
    mdp = bd.TabularMDP(law, 0, 4, actions=allowed)
    x = mdp.embedding(r=np.array([[0.0, 0.3], [1.0, 0.0], [0.2, 0.2]]))
    problem = bd.Problem(cp.Maximize(cp.sum(x.r)))
    found = bd.learn(problem, mdp, LinearMDP(phi, absorbing=[2]), episodes=400)
    best = bd.solve(problem, mdp).value
    assert best <= found.upper <= best + 0.5
    assert found.knowledge.counts.pairs[0, 2].sum() > 0
    assert found.knowledge.fit.log_det[0] <= 2 * np.log1p(found.knowledge.counts.pairs[0, :2].sum())
    assert "one declared state is never left" in found.assumptions


def test_declared_successors_narrow_the_set():
    one = riverswim(budget=2.5, states=3, horizon=5)
    wide, short = (_learn(LinearMDP(INDICATORS, support=support)) for support in (None, one.mdp))
    best = bd.solve(one.problem, one.mdp).value
    assert best - 1e-6 <= short.upper < wide.upper
    assert "only declared successors follow: at most 3" in " ".join(short.assumptions)
    assert "any state may follow any other" in " ".join(wide.assumptions)


def test_features_that_contradict_what_was_seen_end_the_run():
    """All actions of all states are said to do the same. Only what is tried can tell: half of them are random."""
    with pytest.raises(
        bd.EnvError, match=r"phi is misspecified: for action \d in state \d .* contradicts what was"
    ) as e:
        _learn(LinearMDP(np.ones((S, A, 1))), 600, explorer=bd.explorers.EpsilonGreedy(0.5))
    assert e.value.state.episodes == e.value.state.loop.knowledge.counts.episodes < 600


def test_features_that_leave_no_law_end_the_run():
    """In state 0 the second action is the first one doubled: if one is a law, the other is none."""
    one = world(2, (4, 2, 2), 2)
    phi = one.phi / 2
    phi[0, 1] = 2 * phi[0, 0]
    with pytest.raises(bd.EnvError, match=r"phi is misspecified: for action \d in state \d .* leaves no law"):
        bd.learn(_problem(one), one.mdp, LinearMDP(phi, bound=3.0), episodes=2000)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "a.bidual"
    _learn(LinearMDP(INDICATORS), 60).save(path)
    return path


@pytest.mark.parametrize("settings", [{}, {"stationary": False}, {"ridge": 0.5, "bound": 3.0}, {"support": RIVER.mdp}])
def test_the_check_derives_the_same_numbers(tmp_path, settings):
    found = _learn(LinearMDP(INDICATORS, **settings), 60)
    found.save(tmp_path / "a.bidual")
    check = bd.check(tmp_path / "a.bidual")
    assert check.claims["upper"] == found.upper
    assert check.claims["lower"] == found.lower


def test_the_check_reads_features_of_every_step(tmp_path):
    one = world(2, moving=True)
    found = bd.learn(_problem(one), one.mdp, LinearMDP(one.phi), episodes=60)
    found.save(tmp_path / "a.bidual")
    assert bd.check(tmp_path / "a.bidual").claims["upper"] == found.upper


FORGED = {
    "another set": lambda m, a: m["model"].update(set="ball"),
    "no linear model": lambda m, a: m["model"].pop("linear"),
    "a mu for every step": lambda m, a: m["model"].update(linear=[False, m["model"]["linear"][1], 1.0]),
    "no bound": lambda m, a: m["model"].update(linear=[True, 0.0, 1.0]),
    "a bound in words": lambda m, a: m["model"].update(linear=[True, "1", 1.0]),
    "a negative ridge": lambda m, a: m["model"].update(linear=[True, 2.0, -1.0]),
    "a number missing": lambda m, a: m["model"].update(linear=[True, 2.0]),
    "features of other states": lambda m, a: a.update(phi=a["phi"][:, :2]),
    "features that are none": lambda m, a: a.update(phi=np.zeros_like(a["phi"])),
    "features twice as long": lambda m, a: a.update(phi=2 * a["phi"]),
}


@pytest.mark.parametrize("case", FORGED)
def test_forged_models_fail_the_check(saved, tmp_path, case):
    path = tmp_path / "a.bidual"
    path.write_bytes(saved.read_bytes())
    rewrite(path, FORGED[case])
    with pytest.raises((bd.ArchiveError, bd.CertificateError)):
        bd.check(path)


def test_a_smaller_declared_bound_proves_what_the_file_claims(saved, tmp_path):
    """What was declared is taken for granted, as every check prints: with more of it the claims follow all the more."""
    path = tmp_path / "a.bidual"
    path.write_bytes(saved.read_bytes())
    rewrite(path, lambda m, a: m["model"].update(linear=[True, 0.5, 1.0]))
    assert "taken for granted: what was declared" in str(bd.check(path))


def test_the_estimate_is_a_function_of_the_counts():
    """In whatever order episodes came."""
    episodes = random_episodes(SMALL.mdp, 30, 5)
    first = _known(SMALL, 0)
    one, other = after(first, episodes), first.update(*episodes[::-1])
    np.testing.assert_array_equal(one.counts.transitions, other.counts.transitions)
    fits = [fit_ridge(known.phi, known.counts, 1.0, stationary=True) for known in (one, other)]
    np.testing.assert_array_equal(fits[0].centre, fits[1].centre)
