"""Learning by counting, part by part: what is declared, counted, drawn, smoothed, and paid by episodes."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import bidual as bd
from bidual.learning.outputs import Payments, average_embedding, compute_regret
from bidual.learning.setup import set_up
from bidual.models import Tabular
from bidual.models.counts._posterior import draw_posterior
from bidual.models.counts._support import NOBODY, read_absorbing, read_support
from bidual.problem.features import Pieces
from bidual.world.envs import Simulator
from bidual.world.policies import DeterministicPolicy, embedding
from tests.learning import SHAPE, after, beginning, episode, random_episodes, random_world

H, S, A = SHAPE
PLAIN = bd.features.signals(a=np.arange(8.0).reshape(S, A))
SHOWN = bd.features.signals(a=np.arange(8.0).reshape(S, A), o=bd.features.observed(lambda step: step.reward, -1.0, 2.0))
EVERYTHING = np.ones((S, A), dtype=bool)


# Support.


def _lists(support):
    """As Python lists, checked for order and padding."""
    rows = {}
    for s, a in np.ndindex(support.allowed.shape):
        row = support.states[s, a].tolist()
        size = int(support.sizes[s, a])
        assert row[size:] == [NOBODY] * (len(row) - size)
        rows[s, a] = row[:size]
    return rows


WORLD = random_world(0)
DECLARED = {(s, a): WORLD.lists[s][a] for s, a in np.ndindex(S, A)}
MESSY = np.concatenate([WORLD.padded[..., ::-1], WORLD.padded], axis=-1)  # every state twice, padding everywhere


def _by_step():
    """A model whose two steps have half of the successors each."""
    law = np.zeros((2, S, A, S))
    for (s, a), row in DECLARED.items():
        law[0, s, a, row[0]], law[1, s, a, row] = 1.0, 1.0 / len(row)
    return bd.TabularMDP(law, 0, 2)


def _sparse():
    matrices = [sp.csr_array(_dense(WORLD.mdp)[:, a]) for a in range(A)]
    return bd.TabularMDP(matrices, 0, H)


def _dense(mdp):
    dense = np.zeros((mdp.num_states, mdp.num_actions, mdp.num_states))
    for s, a in np.ndindex(dense.shape[:2]):
        np.add.at(dense[s, a], mdp.successors.states[0, s, a], mdp.successors.probabilities[0, s, a])
    return dense


FORMS = {
    "array": WORLD.padded,
    "nested lists": WORLD.padded.tolist(),
    "disorderly array": MESSY,
    "small integers": WORLD.padded.astype(np.int8),
    "model": WORLD.mdp,
    "model by step": _by_step(),
    "sparse model": _sparse(),
    "function": lambda s, a: WORLD.lists[s][a],
}


@pytest.mark.parametrize("form", FORMS)
def test_support_is_the_same_in_every_form(form):
    support = read_support(FORMS[form], np.zeros(0, dtype=int), EVERYTHING)
    assert _lists(support) == DECLARED
    assert not support.open
    np.testing.assert_array_equal(support.possible, [[len(WORLD.lists[s][a]) for a in range(A)] for s in range(S)])
    np.testing.assert_array_equal(support.unsure, support.sizes > 1)
    assert support.filled.min() >= 0


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (3, r"support\(0, 0\) must return the next states"),
        ([], "at least one"),
        ([9], "from 0 to 3"),
        ([0.5], "numbers"),
    ],
)
def test_a_function_that_returns_no_successors_is_refused(answer, complaint):
    with pytest.raises(bd.ModelError, match=complaint):
        read_support(lambda s, a: answer, np.zeros(0, dtype=int), EVERYTHING)


def test_support_of_states_is_that_of_each_action():
    support = read_support([[0, 1], [1, -1], [3, 2], [-1, 3]], np.zeros(0, dtype=int), EVERYTHING)
    assert _lists(support) == {(s, a): row for s, row in enumerate([[0, 1], [1], [2, 3], [3]]) for a in range(A)}


def test_without_support_every_state_is_possible():
    support = read_support(None, np.zeros(0, dtype=int), EVERYTHING)
    assert support.open
    assert support.unsure.all()
    np.testing.assert_array_equal(support.possible, S)
    np.testing.assert_array_equal(support.sizes, 0)


@pytest.mark.parametrize("declared", [None, WORLD.padded], ids=["open", "declared"])
def test_absorbing_states_have_themselves_only(declared):
    support = read_support(declared, np.array([1, 3]), EVERYTHING)
    assert [_lists(support)[s, a] for s in (1, 3) for a in range(A)] == [[1], [1], [3], [3]]
    assert not support.unsure[[1, 3]].any()
    np.testing.assert_array_equal(support.possible[[1, 3]], 1)


def test_actions_that_are_not_allowed_need_no_successor_and_teach_nothing():
    allowed = EVERYTHING.copy()
    allowed[2, 1] = False
    lists = WORLD.padded.copy()
    lists[2, 1] = -1
    support = read_support(lists, np.zeros(0, dtype=int), allowed)
    assert not support.unsure[2, 1]
    assert read_support(None, np.zeros(0, dtype=int), allowed).unsure.sum() == S * A - 1


def _without(s, a):
    lists = WORLD.padded.copy()
    lists[s, a] = -1
    return lists


BAD = {
    "fractions": (dict(support=np.zeros((S, A, 2))), "integer array of next states.*got dtype float64"),
    "words": (dict(support="ab"), "integer array of next states.*got dtype <U2 and shape"),
    "one axis": (dict(support=np.zeros(S, dtype=int)), r"integer array.*shape \(4,\)"),
    "ragged": (dict(support=[[0], [1, 2], [3], [0]]), "rectangular array, short lists padded with -1"),
    "other states": (dict(support=np.zeros((S + 1, A, 2), dtype=int)), r"over \(S, A\) = \(4, 2\); got \(5, 2\)"),
    "other actions": (dict(support=np.zeros((S, A + 1, 2), dtype=int)), r"over \(S, A\) = \(4, 2\); got \(4, 3\)"),
    "too large": (dict(support=np.full((S, A, 1), 4)), r"support\[0, 0, 0\] is 4: states are numbered 0 to 3"),
    "too small": (dict(support=np.full((S, A, 1), -2)), r"support\[0, 0, 0\] is -2: .* padding is -1"),
    "empty row": (dict(support=_without(2, 1)), r"support\[2, 1\] lists no successor"),
    "no columns": (dict(support=np.zeros((S, A, 0), dtype=int)), r"support\[0, 0\] lists no successor"),
    "another model": (dict(support=bd.TabularMDP(np.eye(3)[:, None], 0, 2)), r"a model of \(3, 1\) .* has \(4, 2\)"),
    "absorbing beyond": (dict(absorbing=[0, 4]), "absorbing names state 4: states are 0 to 3"),
    "absorbing below": (dict(absorbing=[-1]), "absorbing names state -1: states are 0 to 3"),
    "absorbing mask": (dict(absorbing=np.array([True, False, False, True])), "not a mask"),
    "absorbing fractions": (dict(absorbing=np.array([1.5])), "state numbers.*got dtype float64"),
    "start beyond": (dict(initial=4), "initial state 4 does not exist"),
    "start of another size": (dict(initial=[0.5, 0.5]), r"of shape \(S,\) = \(4,\)"),
    "start that is no law": (dict(initial=[0.5, 0.5, 0.5, 0.0]), "initial sums to 1.5, not 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_mistakes_in_what_is_declared_are_named(name):
    """The checks of types in test runs stand before some of ours: `read_absorbing` is called without them."""
    declared, words = BAD[name]
    with pytest.raises(bd.ModelError, match=words):
        _started(**declared)


def _started(**declared):
    if "absorbing" not in declared:
        return beginning(PLAIN, SHAPE, Tabular(**declared))
    return getattr(read_absorbing, "__wrapped__", read_absorbing)(declared["absorbing"], S)


def test_an_environment_and_the_user_may_both_declare_absorbing_states():
    knowledge = beginning(PLAIN, SHAPE, Tabular(absorbing=[3]), absorbing=[1])
    np.testing.assert_array_equal(knowledge.counts.support.absorbing, [False, True, False, True])


def test_a_declared_start_law_stands_before_that_of_the_environment():
    told = np.full(S, 0.25)
    assert beginning(PLAIN, SHAPE).initial is None
    np.testing.assert_array_equal(beginning(PLAIN, SHAPE, initial=told).initial, told)
    np.testing.assert_array_equal(beginning(PLAIN, SHAPE, Tabular(initial=2), initial=told).initial, [0, 0, 1, 0])


# Counts.


def _plain_counts(episodes):
    n, starts, sums = {}, {}, {}
    for one in episodes:
        starts[int(one.states[0])] = starts.get(int(one.states[0]), 0) + 1
        for h in range(len(one.actions)):
            key = int(one.states[h]), int(one.actions[h]), int(one.states[h + 1])
            n[key] = n.get(key, 0) + 1
            sums[key] = sums.get(key, 0.0) + float(one.observed[h].sum())
    return n, starts, sums


@pytest.mark.parametrize("declared", [None, WORLD.padded], ids=["open", "declared"])
def test_counts_are_those_of_a_plain_loop(declared):
    episodes = random_episodes(WORLD.mdp, 30, 0, [WORLD.shown])
    counts = after(beginning(SHOWN, SHAPE, Tabular(declared)), episodes).counts
    n, starts, sums = _plain_counts(episodes)
    found, told = {}, {}
    for s, a, k in np.ndindex(counts.pooled.shape):
        if counts.pooled[s, a, k]:
            key = s, a, int(counts.support.states[s, a, k])
            found[key], told[key] = counts.pooled[s, a, k], counts.sums[s, a, k, 0]
    assert found == n
    assert told == pytest.approx(sums, abs=1e-12)
    assert {s: count for s, count in enumerate(counts.starts) if count} == starts
    assert counts.episodes == 30
    assert counts.pairs.sum() == 30 * H
    assert counts.steady.all()


def test_open_lists_grow_for_all_actions_and_keep_their_counts():
    """A river of 12 states; the width of the lists goes from 4 to 8, and what was counted stays where it was."""
    features = bd.features.signals(a=np.zeros((12, 2)))
    knowledge = beginning(features, (3, 12, 2))
    assert knowledge.counts.support.states.shape == (12, 2, 4)
    for arrival in range(1, 7):
        before = knowledge.counts
        knowledge = knowledge.update(episode([0, arrival, 0, arrival], [0, 1, 0]))
        now = knowledge.counts
        old = before.transitions.shape[3]
        assert now.support.states.shape[2] == (4 if arrival <= 4 else 8)
        np.testing.assert_array_equal(now.support.states[0, :, :arrival], [list(range(1, arrival + 1))] * 2)
        kept = now.pooled[:, :, :old].copy()
        kept[0, 0, arrival - 1 : arrival] -= 2  # the new ones
        kept[arrival, 1, 0] -= 1
        if arrival - 1 >= old:
            kept[0, 0, arrival - 1 :] = 0
        np.testing.assert_array_equal(kept, before.pooled)
    assert knowledge.counts.pooled[0, 1].sum() == 0  # seen by the other action only
    assert knowledge.counts.pairs[0, 0, 0] == 12


@pytest.mark.parametrize("at_once", [True, False], ids=["in one call", "one by one"])
@pytest.mark.parametrize("declared", [None, WORLD.padded], ids=["open", "declared"])
def test_counts_per_step_are_those_of_a_plain_loop_over_the_steps(declared, at_once):
    episodes = random_episodes(WORLD.mdp, 30, 0, [WORLD.shown])
    empty = beginning(SHOWN, SHAPE, Tabular(declared, stationary=False))
    counts = (empty.update(*episodes) if at_once else after(empty, episodes)).counts
    shared = after(beginning(SHOWN, SHAPE, Tabular(declared)), episodes).counts
    n = np.zeros((H, S, A, S))
    for one in episodes:
        for h in range(H):
            n[h, one.states[h], one.actions[h], one.states[h + 1]] += 1
    found = np.zeros_like(n)
    for h, s, a, k in np.ndindex(counts.transitions.shape):
        if counts.support.states[s, a, k] >= 0:
            found[h, s, a, counts.support.states[s, a, k]] = counts.transitions[h, s, a, k]
    np.testing.assert_array_equal(found, n)
    np.testing.assert_array_equal(counts.pairs, n.sum(axis=-1))
    np.testing.assert_array_equal(counts.pooled, shared.pooled)
    np.testing.assert_allclose(counts.sums, shared.sums, atol=1e-12)
    assert counts.steady.all()


def test_laws_per_step_are_made_from_the_counts_of_the_step():
    knowledge = beginning(PLAIN, SHAPE, Tabular(WORLD.padded, stationary=False), initial=WORLD.mdp.initial)
    knowledge = after(knowledge, random_episodes(WORLD.mdp, 30, 0))
    law = knowledge.smoothed_model().successors.probabilities
    n, real = knowledge.counts.transitions, WORLD.padded >= 0
    np.testing.assert_allclose(law, (n + 1) * real / ((n + 1) * real).sum(axis=-1, keepdims=True), atol=1e-15)
    drawn = knowledge.laws(np.random.default_rng(0), 1)[0].successors.probabilities
    assert drawn.shape == law.shape
    assert np.all(drawn[:, ~real] == 0)


def test_updates_leave_what_was_known_alone():
    knowledge = beginning(SHOWN, SHAPE)
    first = after(knowledge, random_episodes(WORLD.mdp, 2, 0, [WORLD.shown]))
    before = [np.array(part) for part in (first.counts.transitions, first.counts.starts, first.counts.sums)]
    after(first, random_episodes(WORLD.mdp, 5, 1, [WORLD.shown]))
    for old, part in zip(before, (first.counts.transitions, first.counts.starts, first.counts.sums), strict=True):
        np.testing.assert_array_equal(old, part)


def _impossible(s, a):
    return next(t for t in range(S) if t not in WORLD.lists[s][a])


def test_a_transition_outside_the_declared_support_is_an_error_with_its_place():
    s, a = next((s, a) for s, a in np.ndindex(S, A) if len(WORLD.lists[s][a]) == 2)
    t = _impossible(s, a)
    possible = WORLD.lists[t][0][0]
    knowledge = beginning(PLAIN, SHAPE, Tabular(WORLD.padded))
    words = rf"action {a} in state {s} led to state {t}, but its declared successors are \{WORLD.lists[s][a]}: add it"
    with pytest.raises(bd.EnvError, match=words):
        knowledge.update(episode([s, t, possible], [a, 0]))
    assert knowledge.counts.episodes == 0


@pytest.mark.parametrize("declared", [None, WORLD.padded], ids=["open", "declared"])
def test_an_absorbing_state_that_is_left_is_an_error(declared):
    knowledge = beginning(PLAIN, SHAPE, Tabular(declared, absorbing=[1]))
    with pytest.raises(bd.EnvError, match=r"action 1 in state 1 led to state 2, but state 1 was declared absorbing"):
        knowledge.update(episode([1, 1, 2], [0, 1]))
    assert knowledge.update(episode([1, 1, 1], [0, 1])).counts.pairs[0, 1].sum() == 2


def test_an_episode_that_starts_where_it_cannot_is_an_error():
    knowledge = beginning(PLAIN, SHAPE, Tabular(initial=[0.5, 0.5, 0.0, 0.0]))
    with pytest.raises(bd.EnvError, match="began in state 2, which has probability 0 in the start law"):
        knowledge.update(episode([2, 1], [0]))
    assert knowledge.update(episode([1, 2], [0])).counts.episodes == 1


@pytest.mark.parametrize(
    ("values", "steady"),
    [
        ([0.3, 0.3, 0.3], True),
        ([0.1 + 0.2, 0.3, 0.3], True),  # the same but for rounding
        ([0.3, 0.3, 0.3001], False),
        ([0.3, -0.3, 0.0], False),  # 0 is the mean of those before it
    ],
)
@pytest.mark.parametrize("at_once", [True, False], ids=["in one episode", "in several"])
def test_a_signal_is_steady_while_every_transition_shows_one_value(values, steady, at_once):
    knowledge = beginning(SHOWN, SHAPE)
    shown = np.array(values)[:, None]
    if at_once:
        knowledge = knowledge.update(replace(episode([0, 0, 0, 0], [1, 1, 1]), observed=shown))
    else:
        for row in shown:
            knowledge = knowledge.update(replace(episode([0, 0], [1]), observed=row[None]))
    assert bool(knowledge.counts.steady[0]) is steady
    # Once unsteady, always; and other transitions may show other values.
    later = knowledge.update(replace(episode([0, 1], [1]), observed=np.array([[1.5]])))
    assert bool(later.counts.steady[0]) is steady


# Single laws.


@pytest.mark.parametrize("declared", [None, WORLD.padded], ids=["open", "declared"])
def test_the_smoothed_law_has_one_more_of_every_successor(declared):
    """(n + 1) / (N + K), with K the declared successors, or those seen to follow the state by any action."""
    episodes = random_episodes(WORLD.mdp, 6, 2)
    knowledge = after(beginning(PLAIN, SHAPE, Tabular(declared)), episodes)
    n, starts, _ = _plain_counts(episodes)
    seen = {s: {t for (i, _, t) in n if i == s} for s in range(S)}
    law = _dense(knowledge.smoothed_model())
    for s, a in np.ndindex(S, A):
        states = WORLD.lists[s][a] if declared is not None else sorted(seen[s]) or [s]
        total = sum(n.get((s, a, t), 0) for t in states) + len(states)
        expected = [(n.get((s, a, t), 0) + 1) / total if t in states else 0.0 for t in range(S)]
        np.testing.assert_allclose(law[s, a], expected, atol=1e-15)
    np.testing.assert_allclose(knowledge.smoothed_model().initial, [starts.get(s, 0) / 6 for s in range(S)], atol=1e-15)


@pytest.mark.parametrize("declared", [None, WORLD.padded], ids=["open", "declared"])
def test_draws_from_the_posterior_are_laws_on_the_same_lists(declared):
    knowledge = after(beginning(PLAIN, SHAPE, Tabular(declared)), random_episodes(WORLD.mdp, 6, 2))
    possible = _dense(knowledge.smoothed_model()) > 0
    laws = [_dense(mdp) for mdp in knowledge.laws(np.random.default_rng(0), 20)]
    for law in laws:
        assert law.min() >= 0
        np.testing.assert_allclose(law.sum(axis=-1), 1.0, atol=1e-14)
        assert not law[~possible].any()
    unsure = possible.sum(axis=-1) > 1
    assert np.std(laws, axis=0)[unsure].max(axis=-1).min() > 0


def test_draws_from_the_posterior_have_the_mean_and_spread_of_a_dirichlet_law():
    """n = (30, 10) with prior 1/2 each: Beta(30.5, 10.5), mean 0.744, deviation 0.0674. Of 2000 draws the mean is
    within 5 deviations / sqrt(2000) and the standard deviation within 5 / sqrt(4000) of it, relatively: both fail with
    probability below 1e-6.
    """
    features = bd.features.signals(a=np.zeros((2, 1)))
    knowledge = beginning(features, (1, 2, 1), Tabular([[0, 1], [0, 1]]), initial=np.eye(2)[0])
    counts = replace(knowledge.counts, transitions=np.array([[[[30.0, 10.0]], [[0.0, 0.0]]]]))
    rng = np.random.default_rng(0)
    drawn = np.array([draw_posterior(counts, rng)[0, 0, 0, 0] for _ in range(2000)])
    deviation = np.sqrt(30.5 * 10.5 / 41**2 / 42)
    assert abs(drawn.mean() - 30.5 / 41) <= 5 * deviation / np.sqrt(2000)
    assert abs(drawn.std() / deviation - 1) <= 5 / np.sqrt(4000)


class Underflowing(np.random.Generator):
    """Whose draws with shapes below 1 are all 0, as tiny shapes can be."""

    def standard_gamma(self, shape, **_):  # pyright: ignore[reportIncompatibleMethodOverride]: without its overloads
        return np.where(np.asarray(shape) < 1, 0.0, shape)


def test_draws_that_underflow_are_replaced_by_the_smoothed_law():
    knowledge = beginning(PLAIN, SHAPE, Tabular(WORLD.padded), initial=WORLD.mdp.initial)
    knowledge = knowledge.update(episode([0, WORLD.lists[0][0][0]], [0]))
    law = draw_posterior(knowledge.counts, Underflowing(np.random.PCG64(0)))
    np.testing.assert_array_equal(law.sum(axis=-1), 1.0)
    assert law[0, 0, 0, 0] == 1.0  # the only weight that did not underflow
    s, a = next((s, a) for s, a in np.ndindex(S, A) if len(WORLD.lists[s][a]) == 2)
    np.testing.assert_array_equal(law[0, s, a], [0.5, 0.5, 0.0])


def test_nothing_is_known_of_the_start_before_the_first_episode():
    with pytest.raises(bd.ModelError, match="nothing is known of where episodes start: run at least one"):
        beginning(PLAIN, SHAPE).smoothed_model()


def test_features_under_a_law_are_expected_over_it():
    """What is paid on arrival as its mean over the law; an observed signal as seen, else as by other actions, else the
    middle of its bounds.
    """
    paid = np.random.default_rng(1).random((S, A, S))
    features = bd.features.signals(c=paid, o=bd.features.observed(lambda step: step.reward, -1.0, 2.0))
    episodes = random_episodes(WORLD.mdp, 6, 3, [WORLD.shown])
    n, _, _ = _plain_counts(episodes)
    for declared in (None, WORLD.padded):
        knowledge = after(beginning(features, SHAPE, Tabular(declared)), episodes)
        mdp = knowledge.smoothed_model()
        psi, law = knowledge.features(mdp), _dense(mdp)
        _, same = knowledge.estimate
        np.testing.assert_allclose(psi.signals, same.signals, atol=1e-15)
        for s, a in np.ndindex(S, A):
            likely = np.full(S, 0.5)
            for t in range(S):
                by_others = [(n[s, b, t], WORLD.shown[s, b, t]) for b in range(A) if (s, b, t) in n]
                if (s, a, t) in n:
                    likely[t] = WORLD.shown[s, a, t]
                elif by_others and declared is None:
                    likely[t] = np.average([v for _, v in by_others], weights=[k for k, _ in by_others])
            expected = [law[s, a] @ paid[s, a], law[s, a] @ likely]
            np.testing.assert_allclose(psi.signals[0, :, s, a], expected, atol=1e-12)


# What episodes pay.


def _all_kinds():
    """Every kind of feature at once, some of them changing with the step."""
    rng = np.random.default_rng(6)
    named = bd.features.signals(
        a=rng.normal(size=(H, S, A)),
        c=rng.normal(size=(S, A, S)),
        o=bd.features.observed(lambda step: step.reward, -1.0, 2.0),
        d=rng.normal(size=(H, S, A, S)),
        e=rng.normal(size=S),
    )
    return bd.features.concat(named, bd.features.visits(S), bd.features.occupancy(S, A)), named


def _features_of(named, one, h):
    """The features of one step of one episode, by hand."""
    s, a, t = int(one.states[h]), int(one.actions[h]), int(one.states[h + 1])
    by_step, paid, _, paid_by_step, of_state = named.arrays
    signals = [by_step[h, s, a], paid[s, a, t], one.observed[h, 0], paid_by_step[h, s, a, t], of_state[s]]
    return np.concatenate([signals, np.eye(S)[s], np.eye(S * A)[s * A + a]])


def test_payments_and_mean_embedding_are_those_of_a_plain_loop():
    features, named = _all_kinds()
    pieces = features.pieces(SHAPE)
    episodes = random_episodes(WORLD.mdp, 7, 4, [WORLD.shown])
    rng = np.random.default_rng(7)
    rows, constants = rng.normal(size=(3, H, features.dimension)), rng.normal(size=3)
    psi = np.array([[_features_of(named, one, h) for h in range(H)] for one in episodes])
    expected = np.einsum("nhd,rhd->nr", psi, rows) + constants
    np.testing.assert_allclose(Payments(pieces, rows, constants)(episodes), expected, atol=1e-12)
    np.testing.assert_allclose(average_embedding(pieces, episodes), psi.mean(axis=0), atol=1e-14)


RANGES = {"open": (None, True), "declared": (WORLD.padded, True), "declared, start known": (WORLD.padded, False)}


@pytest.mark.parametrize("name", RANGES)
def test_ranges_enclose_every_episode_and_are_reached(name):
    """1000 episodes find the paths at both ends of the range, where the planner leaves a slack of 1e-9 of numbers of
    size 10.
    """
    declared, hidden = RANGES[name]
    rng = np.random.default_rng(8)
    named = {"a": rng.normal(size=(H, S, A)), "c": rng.normal(size=(S, A, S))}
    x = bd.features.concat(bd.features.signals(**named), bd.features.visits(S)).embedding(H)
    problem = bd.Problem(
        cp.Minimize(cp.sum(x.a) + 2.0 * x.c[1] + 0.5),
        {"c": cp.sum(x.c) >= -100.0, "v": x.visits[2, 1] <= 2.0, "both": cp.sum(x.a) - cp.sum(x.c) <= 100.0},
    )
    env = Simulator(WORLD.mdp, hidden_start=hidden)
    linear = set_up(problem, env, Tabular(declared), None, delta=0.1, seed=0).linear
    paid = linear.payments(random_episodes(WORLD.mdp, 1000, 5))
    np.testing.assert_array_equal(linear.numbers, [0, 1, 2, 3])
    assert np.all(paid >= linear.low)
    assert np.all(paid <= linear.high)
    if declared is not None:  # with nothing declared there are paths that the model never takes
        np.testing.assert_allclose(paid.min(axis=0), linear.low, atol=1e-6)
        np.testing.assert_allclose(paid.max(axis=0), linear.high, atol=1e-6)


# Regret.


def _program(x):
    limits = {"b": cp.sum(x.b) <= 0.25, "e": cp.sum(x.a) + cp.sum(x.b) == 0.5}
    return {
        "linear": bd.Problem(cp.Minimize(cp.sum(x.a)), limits),
        "curved": bd.Problem(cp.Minimize(cp.sum_squares(cp.sum(x, axis=0))), limits),
        "free": bd.Problem(cp.Minimize(cp.sum(x.a))),
    }


@pytest.mark.parametrize("kind", ["linear", "curved", "free"])
def test_regret_is_that_of_brute_force(kind):
    """Each policy evaluated in the true model, the mixture of the first t of them anew for every t."""
    rng = np.random.default_rng(9)
    x = WORLD.mdp.embedding(a=rng.normal(size=(S, A)), b=rng.normal(size=(S, A)))
    problem = _program(x)[kind]
    program, psi = problem.program(), x.features.stage(WORLD.mdp.successors)
    policies = [DeterministicPolicy(rng.integers(0, A, (H, S)), A) for _ in range(4)]
    executed = [policies[i] for i in (0, 0, 1, 2, 1, 3, 3, 0)]
    optimum = -0.7
    found = compute_regret(program, psi, WORLD.mdp, executed, optimum)
    embeddings = [embedding(WORLD.mdp, psi, policy) for policy in executed]

    def values(psi_mean):
        totals = psi_mean.sum(axis=0)
        f = float(totals @ totals) if kind == "curved" else totals[0]
        return f, np.zeros(0) if kind == "free" else np.array([totals[1] - 0.25, totals.sum() - 0.5])

    each = [values(one) for one in embeddings]
    np.testing.assert_array_equal(found.episodes, np.arange(1, 9))
    for t in range(1, 9):
        f, g = values(np.mean(embeddings[:t], axis=0))
        assert abs(found.regret[t - 1] - t * (f - optimum)) <= 1e-9
        np.testing.assert_allclose(found.violation[t - 1], t * g, atol=1e-9)
        positive = sum(max(f - optimum, 0.0) for f, _ in each[:t])
        assert abs(found.positive_regret[t - 1] - positive) <= 1e-9
        over = [np.array([max(g[0], 0.0), abs(g[1])]) if g.size else g for _, g in each[:t]]
        np.testing.assert_allclose(found.positive_violation[t - 1], np.sum(over, axis=0), atol=1e-9)


def test_pieces_without_signals_pay_nothing():
    """Only visits: the signals have no column."""
    pieces = bd.features.visits(S).pieces(SHAPE)
    assert isinstance(pieces, Pieces)
    rows = np.ones((1, H, S))
    paid = Payments(pieces, rows, np.zeros(1))(random_episodes(WORLD.mdp, 3, 0))
    np.testing.assert_allclose(paid, H)
