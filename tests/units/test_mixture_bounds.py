"""The bounds of many mixtures of the same plans, against rational arithmetic and slacks by hand."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import bidual as bd
from bidual.certificate import _mixtures
from bidual.certificate._mixtures import Mixtures, certify_mixtures
from bidual.certificate.rounding import EPS, bound_value_slack
from bidual.problem.features import Psi
from tests.units.test_checker import A, D, H, S, exact, exact_bound, exactly, small

WEIGHTS = np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]])
LIMITS = np.array([[0.3, -0.2], [-1.5, 0.8]])
GAMMA = np.array([[0.4, -1.5], [0.0, 2.0]])


def embedding_of(evidence, table):
    """The embedding of a policy, number by number."""
    units = np.eye(H * D).reshape(H * D, H, D)
    return np.array([float(exact(evidence, unit, table)) for unit in units]).reshape(H, D)


def mixtures(seed=0, *, stationary=True):
    """Three plans over the small random model, in two mixtures."""
    evidence, rng = small(seed, stationary=stationary), np.random.default_rng(seed)
    actions = rng.integers(0, A, (3, H, S))
    tables = np.eye(A)[actions]
    embeddings = np.array([embedding_of(evidence, table) for table in tables])
    parts = evidence.program, evidence.psi, evidence.mdp, actions, embeddings, WEIGHTS, LIMITS, GAMMA
    return Mixtures(*parts), evidence, tables


@pytest.mark.parametrize("stationary", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_all_mixtures_are_exact_up_to_their_slack(seed, stationary):
    given, evidence, tables = mixtures(seed, stationary=stationary)
    found, program = certify_mixtures(given), given.program
    rows = np.concatenate([program.objective[None], program.rows])
    plans = [[exact(evidence, row, table) for row in rows] for table in tables]
    largest = np.abs(np.array(plans, dtype=float)).max(axis=0)
    slack = bound_value_slack(given.mdp, given.psi, np.abs(rows), 1) + (5 * 3 + 2) * EPS * largest
    for i, (weights, limits, gamma) in enumerate(zip(WEIGHTS, LIMITS, GAMMA, strict=True)):
        means = [sum(Fraction(w) * plan[j] for w, plan in zip(weights, plans, strict=True)) for j in range(3)]
        value = means[0] + Fraction(program.offset)
        assert abs(Fraction(found.value[i]) - value) <= Fraction(slack[0])
        assert found.upper[i] - found.value[i] == pytest.approx(slack[0] + 2 * EPS * 0.7, rel=0.02, abs=0.0)
        over = means[1] - Fraction(limits[0])
        assert abs(Fraction(found.g[i, 0]) - over) <= Fraction(slack[1])
        apart = abs(means[2] - Fraction(limits[1]))
        for j, violation in enumerate((max(over, Fraction(0)), apart)):
            room = slack[1 + j] + 2 * EPS * abs(limits[j])
            assert violation <= Fraction(found.violations_upper[i, j]) <= violation + 2 * Fraction(room)
            excess = found.violations_upper[i, j] - (abs(found.g[i, 1]) if j else max(found.g[i, 0], 0.0))
            assert excess == pytest.approx(room, rel=0.02, abs=0.0) or found.g[i, 0] < 0
        one = replace(evidence.program, limits=limits)
        bound = exact_bound(replace(evidence, program=one, record=replace(evidence.record, gamma=gamma)))
        room = dual_slack(given, gamma, limits)
        assert bound - 2 * Fraction(room) <= Fraction(found.lower[i]) <= bound


def dual_slack(given, gamma, limits):
    """(H (A + K + 4) + d + terms + 4) roundings of what may be paid, and four of the constants."""
    program, size = given.program, np.abs(gamma)
    magnitude = np.abs(program.objective) + np.einsum("i,ihd->hd", size, np.abs(program.rows))
    constants = abs(program.offset) + 3 * size @ np.abs(limits)
    return bound_value_slack(given.mdp, given.psi, magnitude[None], 3)[0] + 4 * EPS * constants


@pytest.fixture
def still():
    """A model in which nothing is paid and all is 0: what is left of the bounds is constants and slacks."""
    given, _, _ = mixtures()
    program = replace(given.program, objective=np.zeros((H, D)), rows=np.zeros((2, H, D)), offset=-3.0)
    return replace(given, program=program)


def test_slacks_of_constants(still):
    found = certify_mixtures(still)
    assert found.value.tolist() == [-3.0, -3.0]
    assert (found.upper + 3.0).tolist() == [6 * EPS, 6 * EPS]
    assert found.g.tolist() == (-LIMITS).tolist()
    assert found.violations_upper - np.abs(LIMITS) * [[0, 1], [1, 1]] == pytest.approx(
        2 * EPS * np.abs(LIMITS) * [[0, 1], [1, 1]], rel=0.3, abs=0.0
    )
    large = replace(still, limits=1e3 * LIMITS)
    room = 4 * EPS * (3 + 3e3 * np.sum(np.abs(GAMMA) * np.abs(LIMITS), axis=1))
    lost = -3 - 1e3 * np.sum(GAMMA * LIMITS, axis=1) - certify_mixtures(large).lower
    assert lost == pytest.approx(room, rel=0.15, abs=0.0)


def test_slacks_of_rows_are_those_of_the_largest_plan():
    """Of 1e6 that two plans pay and one does not, in a mixture of all."""
    given, evidence, tables = mixtures()
    huge = replace(given.program, objective=1e6 * given.program.objective)
    found = certify_mixtures(replace(given, program=huge))
    plans = [abs(float(exact(evidence, huge.objective, table))) for table in tables]
    slack = bound_value_slack(given.mdp, given.psi, np.abs(huge.objective)[None], 1)[0] + 17 * EPS * max(plans)
    assert found.upper - found.value == pytest.approx(slack, rel=5e-3, abs=0.0)


def test_a_bound_above_what_a_mixture_proves_is_an_error(monkeypatch):
    """A policy beyond its limits may be better than the bound by what its violations are worth, and by no more."""
    given, _, _ = mixtures()
    found = certify_mixtures(given)
    room = found.upper + np.sum(np.abs(GAMMA) * found.violations_upper, axis=1)
    monkeypatch.setattr(_mixtures, "_bound_duals", lambda _: room)
    assert certify_mixtures(given).lower.tolist() == room.tolist()
    for i in range(2):
        more = room + np.eye(2)[i] * 1e-9
        monkeypatch.setattr(_mixtures, "_bound_duals", lambda _, more=more: more)
        with pytest.raises(bd.CertificateError, match=f"{float(more[i])!r} exceeds what the mixture proves"):
            certify_mixtures(given)


@pytest.mark.parametrize("plan", [0, 2])
def test_two_evaluations_that_disagree_are_an_error(plan):
    """By 2 + S slacks, here of a row over one number: less is rounding."""
    given, _, _ = mixtures()
    objective = np.zeros((H, D))
    objective[0, 0] = 1e3
    given = replace(given, program=replace(given.program, objective=objective, rows=np.zeros((2, H, D))))
    slack = bound_value_slack(given.mdp, given.psi, np.abs(objective)[None], 1)[0]
    for share, fails in ((0.9, False), (1.1, True)):
        moved = given.embeddings.copy()
        moved[plan, 0, 0] -= share * (2 + S) * slack / 1e3
        other = replace(given, embeddings=moved)
        if not fails:
            certify_mixtures(other)
            continue
        with pytest.raises(bd.CertificateError, match=f"evaluations of plan {plan} disagree"):
            certify_mixtures(other)


def test_plans_are_evaluated_in_groups_of_any_size(monkeypatch):
    given, _, _ = mixtures()
    whole, calls, evaluate = certify_mixtures(given), [], _mixtures._evaluate_group

    def count(evidence, rows, actions):
        calls.append(len(actions))
        return evaluate(evidence, rows, actions)

    monkeypatch.setattr(_mixtures, "_evaluate_group", count)
    for entries, sizes in ((24, [2, 1]), (1, [1, 1, 1]), (36, [3])):  # of 12 in the model
        calls.clear()
        monkeypatch.setattr(_mixtures, "_ENTRIES", entries)
        found = certify_mixtures(given)
        assert calls == sizes
        assert found.value.tolist() == whole.value.tolist()


def test_the_matrix_of_a_step_is_that_of_its_actions():
    """Signals and rows that change with the step, laws that do and do not."""
    for steps in (1, H):
        given, evidence, tables = mixtures(stationary=steps == 1)
        signals = np.random.default_rng(5).normal(size=(H, D, S, A))
        other = replace(evidence, psi=Psi(signals, visits=False, occupancy=False))
        rows = np.concatenate([given.program.objective[None], np.ones((1, H, D))])
        rows[1, -1] = 2.0  # and one that pays the same at all steps but the last
        found = _mixtures._evaluate(replace(given, psi=other.psi), rows)
        expected = [[float(exact(other, row, table)) for row in rows] for table in tables]
        assert found == pytest.approx(np.array(expected), rel=1e-12)


def test_costs_that_change_with_the_step():
    """Two steps cost the same and the last another, and the other way round."""
    given, evidence, tables = mixtures()
    for costs in ([1.0, 1.0, 2.0], [2.0, 1.0, 1.0]):
        objective = np.repeat(np.array(costs)[:, None], D, axis=1)
        program = replace(given.program, objective=objective, rows=np.zeros((2, H, D)))
        one = replace(given, program=program)
        found = _mixtures._evaluate(one, objective[None])[:, 0]
        assert found == pytest.approx([float(exact(evidence, objective, table)) for table in tables], rel=1e-12)
        constants = program.offset - np.sum(GAMMA * LIMITS, axis=1)
        bound = float(exact(evidence, objective)) + constants
        assert _mixtures._bound_duals(one) == pytest.approx(bound, rel=1e-12)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_slack_of_a_bound_by_hand(sign):
    """What only an unreachable state pays counts in the slack, and in nothing else."""
    mdp = bd.TabularMDP((np.zeros((2, 2, 1), int), np.ones((2, 2, 1))), 0, 3)
    psi = Psi(np.array([[[[0.0, 0.0], [1.0, 1.0]]]]), visits=False, occupancy=False)
    one, none = np.array([1.0]), np.array([0.0])
    program = replace(
        mixtures()[0].program,
        objective=sign * np.ones((3, 1)),
        offset=0.0,
        rows=sign * 5 * np.ones((1, 3, 1)),
        limits=none,
        equality=np.array([True]),
        units=one,
        resolution=none,
    )
    parts = np.zeros((1, 3, 2), int), np.zeros((1, 3, 1)), np.ones((1, 1)), np.zeros((1, 1)), np.full((1, 1), -2.0)
    found = certify_mixtures(Mixtures(program, psi, mdp, *parts))
    assert found.lower == exactly(-(3 * (2 + 1 + 4) + 1 + 2 + 4) * EPS * 3 * (1 + 2 * 5))
    assert found.upper == exactly((3 * (2 + 1 + 4) + 1 + 1 + 4) * EPS * 3)


def test_two_steps_have_two_laws():
    lists = np.array([[[[0], [1]], [[0], [1]]], [[[1], [0]], [[1], [0]]]])  # where actions lead, the other way later
    mdp = bd.TabularMDP((lists, np.ones((2, 2, 2, 1))), 0, 2)
    pay = np.array([[[1.0, 2.0], [4.0, 8.0]]])
    psi = Psi(np.stack([10 * pay, pay]), visits=False, occupancy=False)
    given, _, _ = mixtures()
    actions = np.array([[[0, 0], [0, 0]], [[1, 1], [1, 1]]])
    embeddings = np.array([[[10.0], [1.0]], [[20.0], [8.0]]])
    none = {name: np.zeros(0) for name in ("limits", "units", "resolution")}
    program = replace(
        given.program,
        objective=np.ones((2, 1)),
        offset=0.0,
        rows=np.zeros((0, 2, 1)),
        equality=np.zeros(0, bool),
        **none,
    )
    found = certify_mixtures(
        Mixtures(program, psi, mdp, actions, embeddings, np.eye(2), np.zeros((2, 0)), np.zeros((2, 0)))
    )
    assert found.value.tolist() == [11.0, 28.0]
    assert found.lower == pytest.approx(11.0, rel=1e-13)


BROKEN = {
    "objective": lambda given: replace(given, program=replace(given.program, objective=np.full((H, D), np.nan))),
    "offset": lambda given: replace(given, program=replace(given.program, offset=np.inf)),
    "limits": lambda given: replace(given, limits=np.full((2, 2), np.inf)),
    "multipliers": lambda given: replace(given, gamma=np.full((2, 2), np.nan)),
    "weights that are no numbers": lambda given: replace(given, weights=WEIGHTS * np.nan),
}


@pytest.mark.parametrize("part", BROKEN)
def test_mixtures_with_nan_or_infinity_certify_nothing(part):
    with pytest.raises(bd.CertificateError, match="NaN or infinity"):
        certify_mixtures(BROKEN[part](mixtures()[0]))


def test_what_proves_nothing_is_refused():
    given, _, _ = mixtures()
    negative = GAMMA - [[0.5, 0.0], [0.0, 0.0]]
    with pytest.raises(bd.CertificateError, match="negative: it proves nothing"):
        certify_mixtures(replace(given, gamma=negative))
    for weights, right in (
        (WEIGHTS * (1 + 10 * EPS), True),
        (WEIGHTS * (1 + np.array([[14 * EPS], [0.0]])), False),
        (WEIGHTS * (1 - np.array([[14 * EPS], [0.0]])), False),
        (np.array([[0.75, -0.25, 0.5], [0.0, 1.0, 0.0]]), False),
    ):
        if right:
            certify_mixtures(replace(given, weights=weights))
            continue
        with pytest.raises(bd.CertificateError, match="not a distribution"):
            certify_mixtures(replace(given, weights=weights))
    lists = given.mdp.successors
    longer = bd.TabularMDP((lists.states[0], lists.probabilities[0]), given.mdp.initial, H + 1)
    below, above = given.actions.copy(), given.actions.copy()
    below[1, 1, 1], above[1, 1, 1] = -1, A
    for part in ({"actions": below}, {"actions": above}, {"mdp": longer}):
        with pytest.raises(bd.CertificateError, match="the plans have shape"):
            certify_mixtures(replace(given, **part))
    without = replace(given, program=replace(given.program, equality=np.array([False, False])))
    with pytest.raises(bd.CertificateError, match="negative: it proves nothing"):
        certify_mixtures(without)


def test_a_plan_takes_only_actions_that_are_allowed():
    given, evidence, _ = mixtures()
    lists = given.mdp.successors
    allowed = np.ones((S, A), dtype=bool)
    allowed[0, 1] = False
    mdp = bd.TabularMDP((lists.states[0], lists.probabilities[0]), given.mdp.initial, H, actions=allowed)
    good = np.zeros((3, H, S), dtype=int)
    cheap = given.psi.signals.copy()
    cheap[..., 0, 1] = -1e3  # what is not allowed counts in no bound
    one = replace(given, mdp=mdp, actions=good, psi=Psi(cheap, visits=False, occupancy=False))
    bad = good.copy()
    bad[2, 1, 0] = 1
    with pytest.raises(bd.CertificateError, match="does not allow"):
        certify_mixtures(replace(one, actions=bad))
    assert np.all(_mixtures._bound_duals(one) > -1e3)
    values = [embedding_of(replace(evidence, mdp=mdp), table) for table in np.eye(A)[good]]
    assert np.all(certify_mixtures(replace(one, embeddings=np.array(values))).lower > -1e3)
