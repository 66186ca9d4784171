"""Classes of low-rank laws: what is refused, what is learned, and what is claimed of it."""

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual._base.keys import Draw, Purpose
from bidual._base.types import Episode
from bidual.models import EnvironmentFacts, Factors, LowRank
from bidual.models.classes._likelihood import (
    add_episodes,
    compute_likelihoods,
    compute_mixture_log_likelihood,
    find_likely,
    start_likelihoods,
)
from bidual.tasks.riverswim import riverswim
from tests.classes import around, dense, world
from tests.units.test_saved_learned import _rewrite as rewrite

RIVER = riverswim(budget=2.5, states=3, horizon=5)
PHIS, MUS = around(RIVER.mdp, 6)
S, A, H = 3, 2, 5


def _learn(model, episodes=120, **settings):
    return bd.learn(RIVER.problem, RIVER.mdp, model, episodes=episodes, seed=1, **settings)


def _changed(array, place, value):
    array = np.array(array)
    array[place] = value
    return array


WRONG = {
    "no phi": (([], MUS), r"phis holds no candidate"),
    "words": ((["phi"], MUS), r"phis\[0\] must be an array of numbers \(S, A, d\)"),
    "axes": ((PHIS, [np.ones(3)]), r"mus\[0\] must have shape \(d, S\); got \(3,\)"),
    "unlike": ((PHIS, [MUS[0], MUS[0][:2]]), r"mus\[1\] has shape \(2, 3\), mus\[0\] has \(6, 3\)"),
    "not finite": ((PHIS, [MUS[0], _changed(MUS[1], (0, 0), np.nan)]), r"mus\[1\] contains NaN or infinity"),
    "states": (
        (np.eye(8).reshape(1, 4, 2, 8), [np.full((8, 4), 0.25)]),
        r"over \(4, 2\) .* the environment has \(3, 2\)",
    ),
    "rank": ((PHIS, [MUS[0][:5]]), r"mus must have shape \(d, S\) = \(6, 3\) to go with phis; got \(5, 3\)"),
    "sum": ((PHIS, [MUS[0], MUS[0] * 1.1]), r"phis\[0\] . mus\[1\] after action \d in state \d sum to 1.1, not 1"),
    "negative": (
        (PHIS, [_changed(MUS[0], 0, (1.5, -0.5, 0))]),
        r"phis\[0\] . mus\[0\] gives state 1 after action 0 in state 0 the probability -0.5",
    ),
    "set": ((PHIS, MUS, True, "ball"), r"set must be one of likelihood, paper; got 'ball'"),
    "constant": ((PHIS, MUS, True, "paper", 0.0), r"c of the paper's set must be positive; got 0.0"),
    "steps": (([PHIS] * 4, [MUS] * 5, False), r"phis is a list of candidates for each of the 5 steps; got 4"),
    "wrong at a step": (
        ([PHIS] * 5, [MUS, [MUS[0] * 2], MUS, MUS, MUS], False),
        r"step 2: the probabilities of phis\[0\] . mus\[0\]",
    ),
    "no lists of steps": (([1, 2], [MUS], False), r"phis must be a list with a list of arrays for every step"),
    "left": (
        (PHIS, MUS, True, "likelihood", 8.0, "one-rollout", None, (1,)),
        r"state 1 is never left, but phis\[0\] . mus\[0\] leaves it",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_class_is_refused_with_its_place(case):
    arguments, message = WRONG[case]
    with pytest.raises(bd.ModelError, match=message):
        _learn(LowRank(*arguments), 1)


def test_candidates_may_come_from_a_generator_and_be_used_twice():
    model = LowRank(iter(PHIS), (mu for mu in MUS))
    assert _learn(model).to_dict() | {"seconds": 0} == _learn(model).to_dict() | {"seconds": 0}


@pytest.mark.parametrize("set_", ["likelihood", "paper"])
def test_bounds_are_true_and_the_truth_is_found(set_):
    best = bd.solve(RIVER.problem, RIVER.mdp)
    found = _learn(LowRank(PHIS, MUS, set=set_), 400)
    assert found.upper >= best.value - 1e-6
    assert found.lower is None or found.lower <= best.value + 1e-6
    number = len(MUS) - 1
    assert found.knowledge.build_confidence_set().inside[:, number].all()
    if set_ == "likelihood":
        assert found.knowledge.left.min() < 6
        assert "the true law of every step is one of 6 candidates" in str(found.assumptions)


def test_a_small_constant_claims_nothing_about_others():
    found = _learn(LowRank(PHIS, MUS, set="paper", c=1.0), 60)
    assert found.upper is None  # the river is swum for the most
    assert "the constant 1 < 8" in " ".join(found.assumptions)
    assert all(look.bound is None for look in found.history)


def test_a_class_says_more_than_counts():
    """After the same number of episodes the bound of the class is nearer to the optimum."""
    best = bd.solve(RIVER.problem, RIVER.mdp).value
    alone = _learn(bd.models.Tabular(RIVER.mdp, stationary=False)).upper
    assert _learn(LowRank(PHIS, MUS)).upper - best < 0.5 * (alone - best)


@pytest.mark.parametrize("block", [4, 12, 2**14])
def test_likelihoods_are_those_of_plain_loops(block, monkeypatch):
    """However many transitions are taken at a time: one, three or all."""
    monkeypatch.setattr("bidual.models.classes._likelihood._BLOCK", block)
    one = world(0)
    model = LowRank(one.phis, one.mus, shared=False)
    everyone = np.ones((5, 2), dtype=bool)
    pieces = bd.features.signals(r=np.zeros((5, 2))).pieces((3, 5, 2))
    knowledge = model.start(EnvironmentFacts(pieces, 3, everyone, 0.1, np.zeros(5, dtype=bool), one.mdp.initial))
    env, policy = bd.envs.Simulator(one.mdp), bd.policies.DeterministicPolicy(np.zeros((3, 5), dtype=int), 2)
    episodes = [env.collect(policy, Draw(0, Purpose.LEARN, n)) for n in range(20)]
    known = knowledge.update(*episodes)
    slowly = np.zeros((3, 4))
    for episode in episodes:
        for h in range(3):
            for m in range(4):
                law = one.phis[h][m // 2] @ one.mus[h][m % 2]
                slowly[h, m] += np.log(law[episode.states[h], episode.actions[h], episode.states[h + 1]])
    np.testing.assert_allclose(known.likelihoods, slowly, rtol=1e-12)
    np.testing.assert_allclose(compute_likelihoods(known.factors, known.counts), slowly, rtol=1e-12)
    by_one = start_likelihoods(known.factors)
    for episode in episodes:
        by_one = add_episodes(by_one, known.factors, [episode])
    np.testing.assert_allclose(by_one, slowly, rtol=1e-12)


def test_a_probability_that_is_rounded_below_zero_is_zero():
    """Factors may be negative, though their products are not: 0.1 * 3 - 0.3 is -5.6e-17 or 5.6e-17 in doubles."""
    phis = np.array([0.1, 0.1, 0.1, -1.0]).reshape(1, 1, 1, 4)
    mus = np.array([[[1.0], [1.0], [1.0], [0.3]], [[1.0], [1.0], [1.0], [0.31]]])
    factors = Factors(phis, mus)
    assert not factors.nonnegative
    assert Factors(np.abs(phis), mus).nonnegative
    episode = Episode(np.zeros(2, dtype=int), np.zeros(1, dtype=int), np.zeros((1, 0)))
    first, second = add_episodes(np.zeros((1, 2)), [factors], [episode])[0]
    assert first < -36  # the logarithm of what rounding leaves, or of nothing
    assert second == -np.inf


def test_candidates_that_were_excluded_still_count():
    """Which of 100 is left beside the best is chosen by what was seen, so that all of them have a share of delta."""
    likelihoods, share = np.full((1, 100), -np.inf), np.log(10)
    likelihoods[0, :3] = 0.0, -np.log(999), -np.log(1001)
    inside = find_likely(likelihoods, np.array([100]), share)
    np.testing.assert_array_equal(np.flatnonzero(inside), [0, 1])


def test_counts_that_no_candidate_explains_fail_the_check(tmp_path):
    """As if everybody who swam at the first step had got on, or nobody had: far from all candidates."""
    _, path = _saved(tmp_path)

    def change(manifest, arrays):
        seen = arrays["transitions"]
        seen[:, 0, 1] = np.sum(seen[:, 0, 1], axis=-1, keepdims=True) * (np.arange(seen.shape[-1]) == 0)
        arrays["transitions"] = seen * 1000
        arrays["starts"] = arrays["starts"] * 1000
        manifest["claims"]["episodes"] = int(arrays["starts"].sum())

    rewrite(path, change)
    with pytest.raises(bd.CertificateError, match=r"the class is misspecified"):
        bd.check(path)


def test_the_mixture_over_all_laws_is_a_law_of_sequences():
    """The likelihoods of all sequences of three arrivals sum to 1."""
    mean = np.array([[[0.2, 0.5, 0.3]]])
    total = 0.0
    for sequence in np.ndindex(3, 3, 3):
        total += np.exp(
            compute_mixture_log_likelihood(np.bincount(sequence, minlength=3)[None, None].astype(float), mean)
        )
    assert abs(total - 1) <= 1e-12


def test_what_no_candidate_holds_possible_ends_the_run():
    """The one candidate says that swimming always gets on."""
    here = np.arange(S)
    sure = np.eye(S)[np.stack([np.maximum(here - 1, 0), np.minimum(here + 1, S - 1)], axis=1)]
    with pytest.raises(bd.EnvError, match=r"the class is misspecified: at step \d action 1 in state \d led") as e:
        _learn(LowRank(PHIS, [sure.reshape(S * A, S)]))
    kept = e.value.state
    assert kept.episodes == kept.loop.knowledge.counts.episodes < 120


@pytest.mark.parametrize("explorer", [bd.explorers.Thompson(), bd.explorers.Greedy(), bd.explorers.Optimistic()])
def test_candidates_that_are_all_excluded_end_the_run(explorer):
    """The truth, but for the first stroke: in one it always gets on, in the other never."""
    laws = [_changed(dense(RIVER.mdp), (0, 1), to) for to in ((0, 1, 0), (1, 0, 0))]
    with pytest.raises(bd.EnvError, match=r"the class is misspecified: at step \d every candidate excludes"):
        _learn(LowRank(PHIS, [law.reshape(S * A, S) for law in laws]), 400, explorer=explorer)


def test_a_wrong_class_is_found_out():
    """The others of the class without the truth; far from it, so that a few hundred episodes are enough."""
    phis, mus = around(RIVER.mdp, 6, far=0.9)
    with pytest.raises(bd.EnvError, match=r"the class is misspecified: at step \d a mixture over all laws explains"):
        _learn(LowRank(phis, mus[:-1]), 2000)


@pytest.mark.parametrize("size", [(5, 1, 2), (5, 2, 1), (2, 2, 2)])
@pytest.mark.parametrize("horizon", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_small_worlds_are_learned(size, horizon):
    one = world(3, size, horizon=horizon)
    x = one.mdp.embedding(r=np.arange(size[0] * size[1]).reshape(size[:2]) / 3)
    problem = bd.Problem(cp.Maximize(cp.sum(x.r)), {})
    found = bd.learn(problem, one.mdp, LowRank(one.phis, one.mus, shared=False), episodes=100)
    best = bd.solve(problem, one.mdp).value
    assert found.lower <= best <= found.upper + 1e-9
    assert found.value == pytest.approx(best, abs=0.3)


def test_signals_on_arrival_and_convex_functions():
    one = world(5)
    x = one.mdp.embedding(r=np.random.default_rng(0).random((5, 2, 5)), visits=True)
    problem = bd.Problem(cp.Minimize(cp.sum_squares(cp.sum(x.visits, axis=0) - 0.6)), {"r": cp.sum(x.r) >= 1.2})
    best = bd.solve(problem, one.mdp)
    found = bd.learn(problem, one.mdp, LowRank(one.phis, one.mus, shared=False), episodes=300)
    assert found.lower <= best.value + 1e-6
    assert abs(found.value - best.value) <= 0.05


@pytest.mark.parametrize("evaluation", [0, 50])
def test_the_class_bounds_the_policy_too(tmp_path, evaluation):
    """Without any episode of the policy; its true value is known here."""
    found = _learn(LowRank(PHIS, MUS), 200, evaluation=evaluation)
    psi = RIVER.problem.embedding.features.stage(RIVER.mdp.successors)
    f, g = RIVER.problem.program().values(bd.policies.embedding(RIVER.mdp, psi, found.policy))
    assert found.lower <= -f + 1e-9
    assert found.lower <= found.value <= found.upper
    assert found.upper - found.lower <= 0.5  # without any episode, where one pays up to 5
    assert found.constraints[0].violation_upper >= max(0.0, g[0]) - 1e-9
    found.save(tmp_path / "a.bidual")
    assert bd.check(tmp_path / "a.bidual").claims["lower"] == found.lower
    more = found.certify(50)
    assert more.lower >= found.lower - 1e-9
    more.save(tmp_path / "b.bidual")
    assert bd.check(tmp_path / "b.bidual").claims["gap"] == more.gap


def test_a_class_may_have_a_smaller_probability_of_failure(tmp_path):
    """Then the set is larger; more than its share of what `learn` has it cannot have."""
    sure, usual = (_learn(LowRank(PHIS, MUS, delta=delta), 60) for delta in (1e-6, None))
    assert sure.knowledge.delta == 1e-6
    assert usual.knowledge.delta == 0.025
    assert sure.knowledge.left.sum() > usual.knowledge.left.sum()
    assert sure.upper >= usual.upper
    sure.save(tmp_path / "a.bidual")
    assert bd.check(tmp_path / "a.bidual").claims["upper"] == sure.upper
    with pytest.raises(bd.ModelError, match=r"delta of the class must be in \(0, 0.025\].*got 0.03"):
        _learn(LowRank(PHIS, MUS, delta=0.03), 5)


def _saved(tmp_path, **settings):
    found = _learn(LowRank(PHIS, MUS, **settings), 60)
    found.save(tmp_path / "a.bidual")
    return found, tmp_path / "a.bidual"


@pytest.mark.parametrize("settings", [{}, {"set": "paper"}, {"set": "paper", "c": 2.0}])
def test_the_check_derives_the_same_numbers(tmp_path, settings):
    found, path = _saved(tmp_path, **settings)
    check = bd.check(path)
    assert check.claims["upper"] == found.upper
    assert check.claims["lower"] == found.lower


FORGED = {
    "a candidate is no law": lambda m, a: a.update(mus_0=a["mus_0"] * 0.5),
    "another set": lambda m, a: m["model"].update(set="ball"),
    "no such list": lambda m, a: m["model"].update({"class": [0, 0, 7, 0, 0]}),
    "too few steps": lambda m, a: m["model"].update({"class": [0]}),
    "no class": lambda m, a: m["model"].pop("class"),
    "a larger probability of failure": lambda m, a: m["model"].update(delta=0.2),
    "no such collection": lambda m, a: m["model"].update(collection="all"),
    "a constant in words": lambda m, a: m["model"].update(c="8"),
}


@pytest.mark.parametrize("case", FORGED)
def test_forged_classes_fail_the_check(tmp_path, case):
    _, path = _saved(tmp_path)
    rewrite(path, FORGED[case])
    with pytest.raises((bd.ArchiveError, bd.CertificateError)):
        bd.check(path)


def test_looks_and_results_say_how_many_candidates_are_left():
    found = _learn(LowRank(PHIS, MUS))
    assert [look.episodes for look in found.history] == [16, 32, 64, 120]
    for look in found.history:
        assert look.candidates.of == (6,) * H
        assert all(1 <= left <= 6 for left in look.candidates.left)
    assert (
        found.candidates.left
        == tuple(found.knowledge.left)
        == tuple(found.knowledge.build_confidence_set().inside.sum(axis=1))
    )
    assert found.to_dict()["candidates"] == {"left": list(found.candidates.left), "of": [6] * H}
    words = f"{' '.join(map(str, found.candidates.left))} of 6 at the steps may still be true"
    assert f"  candidates   {words}\n" in found.describe()
    assert words in found._repr_html_()


def test_counts_have_no_candidates():
    found = _learn(bd.models.Tabular(RIVER.mdp), 20)
    assert found.to_dict()["candidates"] is found.history[-1].candidates is None
    assert "candidates" not in str(found)


@pytest.mark.parametrize(
    ("left", "of", "words"),
    [
        ((1, 12, 3), (576, 576, 576), "1 12 3 of 576 at the steps"),
        ((1, 12, 3), (576, 64, 3), "1/576 12/64 3/3 at the steps"),
        ((1, 12) * 8, (576,) * 16, "12/576 at the worst step, and a single one at 8 of 16 steps"),
    ],
)
def test_candidates_in_words(left, of, words):
    assert str(bd.models.Candidates(left, of)) == words


def test_the_worst_step_is_told_with_its_own_class():
    assert bd.models.Candidates((1, 12, 3), (576, 64, 3)).worst == "12/64 at the worst step"
