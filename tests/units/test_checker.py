"""The checker against other accounts: exact values of small models in rational arithmetic, and slacks by hand."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import bidual as bd
from bidual.certificate import Certificate, Evidence, Record, _affine, certify
from bidual.certificate._cuts import cut_of
from bidual.certificate._evaluate import bound_forward_error, check_policy, list_kernels, roll_out
from bidual.certificate.constraints import (
    Conflict,
    Goal,
    derive_learned_status,
    derive_status,
    find_conflict,
    find_constraint,
    list_constraint_results,
)
from bidual.certificate.rounding import (
    EPS,
    bound_value_slack,
    with_planner_resolution,
    with_resolution,
    with_rounding,
    with_sampled_resolution,
)
from bidual.problem.convex import TOLERANCE, AffineProgram, Cones
from bidual.problem.features import Psi
from bidual.problem.modelling import Line
from bidual.solving.search import bind
from bidual.world.policies import MarkovPolicy

S, A, K, H, D = 3, 2, 2, 3, 2


def exactly(expected):
    """Slacks are of the size of the default tolerance of `approx`, which would let every one pass."""
    return pytest.approx(expected, rel=1e-9, abs=0.0)


def small(seed, *, stationary=True):
    """A random model with dyadic probabilities, so that rational arithmetic sees the same law."""
    rng = np.random.default_rng(seed)
    steps = 1 if stationary else H
    next_states = np.stack([[[rng.permutation(S)[:K] for _ in range(A)] for _ in range(S)] for _ in range(steps)])
    first = rng.integers(1, 8, (steps, S, A)) / 8
    law = np.stack([first, 1 - first], axis=-1)
    lists = (next_states[0], law[0]) if stationary else (next_states, law)
    mdp = bd.TabularMDP(lists, np.array([0.5, 0.25, 0.25]), H)
    signals = rng.normal(size=(1 if stationary else H, D, S, A))
    psi = Psi(signals, visits=False, occupancy=False)
    table = rng.integers(1, 4, (H, S, A)) / 4
    table[..., 1] = 1 - table[..., 0]
    program = AffineProgram(
        objective=rng.normal(size=(H, D)),
        offset=0.7,
        rows=rng.normal(size=(2, H, D)),
        limits=np.array([0.3, -0.2]),
        equality=np.array([False, True]),
        units=np.ones(2),
        resolution=np.zeros(2),
    )
    record = Record(np.array([0.4, -1.5]), 1.0)
    return Evidence(with_rounding(program, psi, mdp), psi, mdp, MarkovPolicy(table), record)


def exact(evidence, theta, table=None):
    """The value of theta . Psi for a policy, or its least over all policies, in rational arithmetic."""
    mdp, psi, lists = evidence.mdp, evidence.psi, evidence.mdp.successors
    V = [Fraction(0)] * S
    for h in reversed(range(H)):
        states, law = lists.states[h % len(lists.states)], lists.probabilities[h % len(lists.probabilities)]
        signals = psi.signals[h % len(psi.signals)]
        Q = [
            [
                sum(Fraction(float(theta[h, d])) * Fraction(float(signals[d, s, a])) for d in range(D))
                + sum(Fraction(float(law[s, a, k])) * V[int(states[s, a, k])] for k in range(K))
                for a in range(A)
            ]
            for s in range(S)
        ]
        V = [
            min(row) if table is None else sum(Fraction(float(table[h, s, a])) * row[a] for a in range(A))
            for s, row in enumerate(Q)
        ]
    return sum(Fraction(float(p)) * v for p, v in zip(mdp.initial, V, strict=True))


def exact_bound(evidence):
    """The bound of the record without any rounding."""
    program, record = evidence.program, evidence.record
    gamma = [Fraction(float(g)) for g in record.gamma]
    rows = zip(gamma, program.rows, strict=True)
    weight = Fraction(record.objective_weight)
    theta = np.array(
        [[weight * Fraction(float(program.objective[h, d])) for d in range(D)] for h in range(H)], dtype=object
    )
    for g, row in rows:
        theta = theta + np.array([[g * Fraction(float(row[h, d])) for d in range(D)] for h in range(H)], dtype=object)
    constant = weight * Fraction(program.offset) - sum(
        g * Fraction(float(b)) for g, b in zip(gamma, program.limits, strict=True)
    )
    return _least(evidence, theta) + constant


def _least(evidence, theta):
    lists, psi = evidence.mdp.successors, evidence.psi
    V = [Fraction(0)] * S
    for h in reversed(range(H)):
        states, law = lists.states[h % len(lists.states)], lists.probabilities[h % len(lists.probabilities)]
        signals = psi.signals[h % len(psi.signals)]
        V = [
            min(
                sum(theta[h, d] * Fraction(float(signals[d, s, a])) for d in range(D))
                + sum(Fraction(float(law[s, a, k])) * V[int(states[s, a, k])] for k in range(K))
                for a in range(A)
            )
            for s in range(S)
        ]
    return sum(Fraction(float(p)) * v for p, v in zip(evidence.mdp.initial, V, strict=True))


@pytest.mark.parametrize("stationary", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_a_linear_certificate_is_exact_up_to_its_slack(seed, stationary):
    evidence = small(seed, stationary=stationary)
    certificate, program = certify(evidence), evidence.program
    table = evidence.policy.table
    value = exact(evidence, program.objective, table) + Fraction(program.offset)
    slack = certificate.resolution.value
    assert abs(Fraction(certificate.value) - value) <= Fraction(slack)
    assert certificate.upper == certificate.value + slack
    g = [exact(evidence, row, table) - Fraction(float(b)) for row, b in zip(program.rows, program.limits, strict=True)]
    for i, (one, equality) in enumerate(zip(g, program.equality, strict=True)):
        room = Fraction(float(certificate.resolution.g[i]))
        assert abs(Fraction(float(certificate.g[i])) - one) <= room
        violation = abs(one) if equality else max(one, Fraction(0))
        assert certificate.violations[i] == (abs(certificate.g[i]) if equality else max(certificate.g[i], 0.0))
        assert violation <= Fraction(float(certificate.violations_upper[i])) <= violation + 2 * room
    bound = exact_bound(evidence)
    lower, room = Fraction(float(certificate.lower)), Fraction(certificate.resolution.lower)
    assert bound - 2 * room <= lower <= bound
    assert certificate.conflict is None


def test_slacks_are_what_the_sums_need():
    """(H (A + K + 4) + d + terms + 4) roundings of the largest payments, and the constants' own."""
    evidence = small(0)
    program, psi = evidence.program, evidence.psi
    factor = H * (A + K + 4) + D + 1 + 4
    peaks = np.abs(psi.signals).max(axis=(0, 2, 3))
    largest = np.sum(np.abs(program.objective) * peaks)
    assert bound_value_slack(evidence.mdp, psi, np.abs(program.objective)[None], 1)[0] == exactly(
        factor * EPS * largest
    )
    resolution = certify(evidence).resolution
    assert resolution.value == exactly(factor * EPS * largest + 2 * EPS * program.offset)
    rows = np.sum(np.abs(program.rows) * peaks, axis=(1, 2))
    assert resolution.g == exactly(factor * EPS * rows + 2 * EPS * np.abs(program.limits))
    assert program.resolution == exactly(factor * EPS * rows + 4 * EPS * np.abs(program.limits))
    gamma = np.abs(evidence.record.gamma)
    magnitude = largest + gamma @ rows
    constants = program.offset + 3 * gamma @ np.abs(program.limits)
    assert resolution.lower == exactly((factor + 2) * EPS * magnitude + 4 * EPS * constants)
    negative = replace(evidence, program=replace(program, offset=-program.offset))
    assert certify(negative).resolution.lower == resolution.lower


def test_units_and_resolutions():
    program = small(0).program
    resolution = np.array([1e-15, 2e-3])
    changed = with_resolution(replace(program, limits=np.array([-7.0, 0.1])), resolution)
    assert changed.units.tolist() == [7.0, 4 * 2e-3 / TOLERANCE]
    assert np.array_equal(changed.resolution, resolution)
    assert with_resolution(replace(program, limits=np.array([0.5, -0.5])), 0 * resolution).units.tolist() == [1.0, 1.0]
    sampled = with_sampled_resolution(replace(program, units=np.array([2.0, 1.0]), limits=np.array([-1.0, 5.0])))
    assert sampled.resolution.tolist() == [2e-9, 5e-9]
    assert with_sampled_resolution(replace(program, limits=np.array([-3.0, 0.5]))).resolution[0] == exactly(3e-9)


@pytest.mark.parametrize("steps", [1, 2, H])
def test_units_are_what_a_row_can_pay_or_its_limit(steps):
    """The smaller of the two; the resolution where both are smaller than that, and 1 where there is none either."""
    rng, d = np.random.default_rng(steps), 1 if steps == 2 else D
    horizon = max(2, steps) if steps > 1 else H
    mdp = bd.TabularMDP(rng.dirichlet(np.ones(S), (S, A)), 0, horizon)
    psi = Psi(rng.normal(size=(steps, d, S, A)), visits=False, occupancy=False)
    rows = np.zeros((7, horizon, d))
    rows[:4] = rng.normal(size=(horizon, d))
    if steps == 1:  # what a row pays at a step is not what it pays at the one before, or two before
        rows[:4, 1], rows[:4, 2] = 3 * rows[:4, 1], rows[:4, 0]
    else:
        rows[:4] = rows[:4, :1]
    rows[1] /= 1024
    rows[5] = 1e-300
    program = replace(
        small(0).program,
        objective=np.zeros((horizon, d)),
        rows=rows,
        limits=np.array([1e3, -100.0, -0.2, 1e-30, 0.0, 0.0, 0.2]),
        equality=np.zeros(7, dtype=bool),
        units=np.ones(7),
        resolution=np.zeros(7),
    )
    signals = np.broadcast_to(psi.signals, (horizon, d, S, A))
    paid = sum(np.abs(np.einsum("d,dsa->sa", rows[0, h], signals[h])).max() for h in range(horizon))
    found = with_rounding(program, psi, mdp)
    assert found.units[:3] == exactly([paid, paid / 1024, 0.2])
    assert found.units[3] == exactly(4 * found.resolution[3] / TOLERANCE)
    assert found.units[4] == 1.0
    assert found.units[5] == exactly(4 * found.resolution[5] / TOLERANCE)
    assert found.units[6] == 0.2


def test_units_of_convex_constraints():
    """At most 1 or the limit, what g can be, and the limit, down to a thousandth of what g can be."""
    signal = np.array([[-1.0, 0.0], [-3.0, -2.0]])
    mdp = bd.TabularMDP(np.full((2, 2, 2), 0.5), 0, 2)
    square = cp.square(cp.sum(mdp.embedding(pay=signal).pay))  # in [0, 36], as the enclosure sees it
    for function, limit, unit in (
        (square, 0.5, 0.5),
        (square, 1e-3, 0.035999),
        (0.01 * square, -0.1, 0.1),
        (square, 0.0, 1.0),
        (square, 50.0, 50.0),
        (1e-3 * square, 0.0, 0.036),
        (0.0 * square, 0.0, 1.0),
    ):
        program, _ = bind(bd.Problem(cp.Minimize(square), [function <= limit]), mdp)
        assert program.units == pytest.approx([unit], rel=1e-9, abs=0.0), (str(function), limit)


def test_a_signal_that_overflows_is_refused():
    evidence = small(0)
    huge = Psi(1e308 * np.ones_like(evidence.psi.signals), visits=False, occupancy=False)
    program = evidence.program
    for changed in (
        program,
        replace(program, objective=0 * program.objective),
        replace(program, rows=0 * program.rows),
    ):
        with pytest.raises(bd.ProblemError, match="overflow"):
            with_rounding(changed, huge, evidence.mdp)


@pytest.mark.parametrize("part", ["objective", "rows", "limits", "offset"])
def test_a_problem_with_a_nan_certifies_nothing(part):
    evidence = small(0)
    changed = replace(evidence.program, **{part: getattr(evidence.program, part) * np.nan})
    with pytest.raises(bd.CertificateError, match="the problem itself contains NaN"):
        certify(replace(evidence, program=changed))


def test_a_ray_proves_a_violation():
    evidence = small(1)
    units = evidence.program.units
    ray = replace(evidence, record=Record(np.array([0.5, -0.5]) / units, 0.0))
    certificate = certify(ray)
    assert certificate.lower is None
    bound, room = exact_bound(ray), Fraction(certificate.resolution.lower)
    assert bound - 2 * room <= Fraction(float(certificate.conflict)) <= bound
    # A positive multiple proves the same, and nothing proves nothing.
    for factor in (0.25, 3.0):
        other = certify(replace(evidence, record=replace(ray.record, gamma=factor * ray.record.gamma)))
        assert other.conflict == pytest.approx(certificate.conflict, rel=1e-12)
        assert Fraction(float(other.conflict)) <= bound
    with pytest.raises(bd.CertificateError, match="a positive sum in units; they sum to 0"):
        certify(replace(evidence, record=Record(np.zeros(2), 0.0)))


def test_the_multipliers_of_a_ray_sum_to_at_most_one():
    """The sum of m products, the factor and the quotient are rounded: m + 4 roundings are taken off."""
    program = replace(small(1).program, units=np.ones(2))
    found = _affine.normalise_record(Record(np.array([0.5, -0.5]), 0.0), program).gamma
    assert 1 - np.abs(found).sum() == pytest.approx((2 + 4) * EPS, abs=EPS)


@pytest.mark.parametrize("weights", [(1.0, 0.0), (0.0, 1.0)])
def test_two_evaluations_that_disagree_are_an_error(weights, monkeypatch):
    """In the objective or in a row; they agree where there is nothing to pay and no slack."""
    evidence = small(0)
    program = evidence.program
    rows, limits = weights[1] * program.rows, weights[1] * program.limits
    rows[1], limits[1] = 0.0, 0.0
    changed = replace(program, objective=weights[0] * program.objective, offset=0.0, rows=rows, limits=limits)
    certificate = certify(replace(evidence, program=changed))
    assert certificate.upper == certificate.value + certificate.resolution.value
    visits, embedding = roll_out(evidence, list_kernels(evidence.mdp))
    f, g = changed.values(embedding)
    backward, slack = (certificate.value, certificate.resolution.value) if weights[0] else (certificate.g[0], None)
    forward, slack = (f, slack) if weights[0] else (g[0], certificate.resolution.g[0])
    row = changed.objective if weights[0] else changed.rows[0]
    for side in (-1, 1):
        for part, fine in ((0.98, True), (1.02, False)):
            moved = embedding.copy()  # where no other row pays
            moved[0, 0] += (backward - forward + side * part * (2 + S) * slack) / row[0, 0]
            monkeypatch.setattr(_affine, "roll_out", lambda *_, moved=moved: (visits, moved))
            if fine:
                certify(replace(evidence, program=changed))
            else:
                with pytest.raises(bd.CertificateError, match="two evaluations of the policy disagree"):
                    certify(replace(evidence, program=changed))


def test_visits_that_lose_mass_are_an_error():
    evidence = small(0)
    for factor, text in (
        (0.999, "at step 2 sum to 0.998001"),
        (1.001, "at step 2 sum to 1.002001"),
        (1 - 0.75e-9, "at step 2"),
    ):
        kernels = [factor * kernel for kernel in list_kernels(evidence.mdp)]
        with pytest.raises(bd.CertificateError, match=text):
            roll_out(evidence, kernels)
    roll_out(evidence, [(1 - 0.25e-9) * kernel for kernel in list_kernels(evidence.mdp)])


def test_each_step_is_paid_by_its_own_signals_and_rows():
    """Two evaluations disagree where one of them keeps what was paid at another step."""
    evidence = small(0, stationary=False)
    program, mdp, psi = evidence.program, evidence.mdp, evidence.psi
    two = bd.TabularMDP((mdp.successors.states[:2], mdp.successors.probabilities[:2]), mdp.initial, 2)
    short = replace(program, objective=program.objective[[0, 0]], rows=program.rows[:, [0, 0]])
    table, signals = evidence.policy.table[:2], replace(psi, signals=psi.signals[:2])
    certify(replace(evidence, program=short, mdp=two, psi=signals, policy=MarkovPolicy(table)))
    one = replace(program, objective=program.objective[[0, 0, 0], :1], rows=program.rows[:, [0, 0, 0], :1])
    certify(replace(evidence, program=one, psi=replace(psi, signals=psi.signals[:, :1])))
    same = small(0)
    rows, objective = same.program.rows[:, [0, 1, 0]], same.program.objective[[0, 1, 0]]
    certify(replace(same, program=replace(same.program, objective=objective, rows=rows)))


def test_laws_of_every_step_over_the_same_successors():
    mdp = small(0).mdp
    first = mdp.successors.probabilities[0]
    law = np.stack([first, first[..., ::-1], first])
    changing = bd.TabularMDP((mdp.successors.states[0], law), mdp.initial, H)
    kernels = list_kernels(changing)
    assert len(kernels) == H
    for s, a, k in np.ndindex(S, A, K):
        assert kernels[1][s * A + a, mdp.successors.states[0, s, a, k]] == law[1, s, a, k]


def test_a_distribution_sums_to_one_up_to_its_rounding():
    """Four roundings for every action."""
    evidence = small(0)
    for roundings, fine in ((8, True), (9, False), (-8, True), (-9, False)):
        table = evidence.policy.table.copy()
        table[1, 2] = [0.5, 0.5 + roundings * EPS]
        policy = replace(evidence, policy=MarkovPolicy(table))
        if fine:
            check_policy(policy)
        else:
            with pytest.raises(bd.CertificateError, match="do not sum to 1"):
                check_policy(policy)


def test_every_row_of_a_policy_is_a_distribution():
    evidence = small(0)
    table = evidence.policy.table.copy()
    table[1, 2] *= 1 - 1e-12
    with pytest.raises(bd.CertificateError, match="do not sum to 1"):
        certify(replace(evidence, policy=MarkovPolicy(table)))


def test_a_bound_above_what_the_policy_proves_is_an_error(monkeypatch):
    """It would be a fault of the checker, which says so instead of printing it."""
    evidence = small(0)
    certificate = certify(evidence)
    room = certificate.upper + float(np.abs(evidence.record.gamma) @ certificate.violations_upper)
    monkeypatch.setattr(_affine, "_bound_dual", lambda *_: (room, 0.0))
    assert certify(evidence).lower == room
    monkeypatch.setattr(_affine, "_bound_dual", lambda *_: (room + 1e-12, 0.0))
    with pytest.raises(bd.CertificateError, match="exceeds what the policy proves"):
        certify(evidence)


def test_the_visits_are_those_of_the_policy():
    evidence = small(2)
    certificate = certify(evidence)
    lists, table = evidence.mdp.successors, evidence.policy.table
    mu = evidence.mdp.initial
    for h in range(H):
        assert certificate.visits[h] == pytest.approx(mu, rel=1e-14)
        expected = np.einsum("s,sa,dsa->d", mu, table[h], evidence.psi.signals[0])
        assert certificate.embedding[h] == pytest.approx(expected, rel=1e-13)
        after = np.zeros(S)
        for s, a, k in np.ndindex(S, A, K):
            after[lists.states[0, s, a, k]] += mu[s] * table[h, s, a] * lists.probabilities[0, s, a, k]
        mu = after
    for stationary in (True, False):
        mdp = small(5, stationary=stationary).mdp
        ways = max(np.bincount(states.ravel()).max() for states in mdp.successors.states)
        assert bound_forward_error(mdp, list_kernels(mdp)) == exactly(H * (ways + A + 4) * EPS)


def _certificate(**parts):
    known = {
        "value": 1.0,
        "upper": 1.5,
        "lower": 1.0,
        "conflict": None,
        "g": np.array([-1.0, 0.0]),
        "violations": np.zeros(2),
        "violations_upper": np.zeros(2),
        "embedding": np.zeros((0, 0)),
        "visits": np.zeros((0, 0)),
    }
    return Certificate(**{**known, **parts})


def test_bounds_in_the_users_sense():
    program = small(0).program
    one = _certificate()
    assert one.bounds(program, maximises=False) == (1.0, 1.5)
    assert one.bounds(program, maximises=True) == (-1.5, -1.0)
    within, beyond = TOLERANCE * program.units, 1.01 * TOLERANCE * program.units
    assert _certificate(violations_upper=within).feasible(program)
    assert not _certificate(violations_upper=beyond).feasible(program)
    assert _certificate(violations_upper=beyond).bounds(program, maximises=False) == (1.0, None)
    assert _certificate(lower=2.0).bounds(program, maximises=False) == (1.5, 1.5)
    assert _certificate(lower=None).bounds(program, maximises=True) == (-1.5, None)
    assert _certificate(conflict=0.5).bounds(program, maximises=False) == (None, None)


def test_a_status_is_what_is_proved():
    program = small(0).program
    beyond = 2 * TOLERANCE * program.units
    cases = {
        "optimal": [({}, 0.5), ({"lower": 1.5}, 0.0), ({"lower": 2.0}, 0.5)],
        "feasible": [({}, 0.49), ({"lower": None}, 9.0), ({"lower": 2.1}, 0.5), ({"conflict": 0.0}, 0.1)],
        "undecided": [({"violations_upper": beyond}, 0.5), ({"conflict": 0.0, "violations_upper": beyond}, 9.0)],
        "infeasible": [({"conflict": 1e-12}, 0.5)],
    }
    for status, parts in cases.items():
        for part, gap in parts:
            assert str(derive_status(program, _certificate(**part), Goal(gap, relative=False))) == status, (part, gap)
    assert Goal(0.5, relative=True).is_met(1.0, 2.0)
    assert Goal(0.5, relative=True).is_met(-2.0, -1.0)
    assert not Goal(0.5, relative=False).is_met(1.0, 2.0)
    assert not Goal(0.49, relative=True).is_met(1.0, 2.0)
    assert not Goal(np.inf, relative=True).is_met(-np.inf, 2.0)


def test_a_relative_goal_is_of_the_larger_bound():
    goal = Goal(0.5, relative=True)
    assert goal.allowed(-1.0, -2.0) == goal.allowed(-2.0, -1.0) == goal.allowed(1.0, 2.0) == 1.0
    assert goal.settled(1.0, 2.0) == goal
    assert Goal(2.0, relative=True, floor=4.0).reduce_goal() == Goal(0.99 * 2.0, relative=True, floor=0.99 * 4.0)
    assert goal.floor == 0.0
    floor = Goal(0.5, relative=True, floor=3.0)
    assert floor.settled(-1.0, 1.5) == Goal(3.0 * (1 + 1e-9), relative=False)
    assert floor.settled(1.0, 2.0) == Goal(1.0 * (1 + 1e-9), relative=False)  # close enough without the floor
    assert floor.settled(None, 2.0) == floor.settled(1.0, None) == floor
    assert Goal(0.5, relative=False, floor=3.0).settled(1.0, 2.0).gap == 0.5


@pytest.mark.parametrize(("scale", "bound"), [(1.0, 0.0), (1.0, 0.5), (1e6, -1e6)])
def test_of_entries_that_differ_by_rounding_the_first_is_named(scale, bound):
    for difference, entry in ((0.9e-11, 1), (1.1e-11, 2)):
        g = np.array([0.0, scale * (1 - difference), scale])
        line = Line("a", "<=", 1.0, np.array([0.0, bound, 0.0]))
        both = {"g": g, "violations": g, "violations_upper": g}
        (found,) = list_constraint_results([line], _certificate(**both), None)
        assert found.value == (line.bounds + g)[entry]
        assert found.violation == found.violation_upper == g.max()


def test_a_vector_constraint_is_reported_by_its_worst_entry():
    g, room = np.array([-2.0, 1.0]), np.array([3e-9, 1e-9])
    parts = {"g": g, "violations": np.abs(g), "violations_upper": np.abs(g)}
    for sense, sign, value in (("==", 1.0, -2.0), ("<=", 1.0, 1.0), (">=", -1.0, -1.0)):
        line = Line("a", sense, sign, np.zeros(2))
        found, *_ = list_constraint_results([line], _certificate(**parts), np.array([0.5, 0.25]), room)
        assert (found.value, found.tolerance, found.price) == (value, 3e-9, 0.75)
        (plain,) = list_constraint_results([line], _certificate(**parts), None)
        assert (plain.tolerance, plain.price, plain.prices) == (0.0, None, None)
    large = {name: 1e6 * np.abs(g[::-1]) for name in parts}  # a tie is nothing beside it
    (found,) = list_constraint_results([Line("a", "<=", 1.0, np.zeros(2))], _certificate(**large), None)
    assert found.value == 2e6


def test_a_learned_status_has_no_tolerance():
    tiny = np.array([1e-300, 0.0])
    assert str(derive_learned_status(_certificate(violations_upper=tiny), 0.1, 0.5)) == "undecided"
    assert str(derive_learned_status(_certificate(conflict=0.1), 0.1, 0.5)) == "infeasible"
    assert str(derive_learned_status(_certificate(), 0.5, 0.5)) == "optimal"
    for gap, goal in ((0.51, 0.5), (None, 0.5), (0.1, None)):
        assert str(derive_learned_status(_certificate(), gap, goal)) == "feasible"


def test_a_conflict_names_those_with_a_multiplier():
    program = replace(small(0).program, units=np.array([2.0, 4.0]))
    lines = [Line("a", "<=", 1.0, np.zeros(1)), Line("b", "==", 1.0, np.zeros(1))]
    record = Record(np.array([0.0, -0.25]), 0.0)
    conflict = find_conflict(lines, program, _certificate(conflict=0.5), record)
    assert conflict.least == {"b": 2.0}
    assert find_conflict(lines, program, _certificate(), record) is None
    vector = [Line("c", "<=", 1.0, np.zeros(2))]
    assert find_conflict(vector, program, _certificate(conflict=0.5), record).least == {"c": 2.0}
    both = Record(np.array([0.5, 0.25]), 0.0)
    assert find_conflict(vector, program, _certificate(conflict=0.5), both).least == {"c": 1.0}
    assert "cannot hold: every policy violates it by at least 2" in str(conflict)
    assert "one of them by at least 1" in str(Conflict({"a": 1.0, "b": 1.0}))
    assert "'a' by at least 1 or 'b' by at least 2" in str(Conflict({"a": 1.0, "b": 2.0}))


def test_a_constraint_is_found_by_its_name():
    results = bd.solve(*_river()).constraints
    assert find_constraint("right", results).name == "right"
    with pytest.raises(KeyError, match="no constraint 'left'"):
        find_constraint("left", results)


def _river():
    task = bd.tasks.find("riverswim").build(states=3, horizon=5, budget=2.5)
    return task.problem, task.mdp


# Convex problems: multipliers of the cone form.


@pytest.fixture(scope="module")
def convex():
    """The stored convex solution, and its evidence."""
    from bidual._base import archive
    from bidual.storage._saved import _read_evidence

    path = Path(__file__).parents[1] / "golden" / "files" / "convex.bidual"
    manifest, arrays = archive.read(path, "solution")
    return _read_evidence(manifest, arrays)


def test_multipliers_prove_the_bound_and_nothing_more(convex):
    certificate = certify(convex)
    assert 0 <= certificate.upper - certificate.lower <= 1.1e-4
    program, lam = convex.program, convex.record.gamma
    form = program.main
    worse = lam.copy()
    worse[form.cones.zero] -= 1.0  # the first inequality: outside its dual cone
    for record, message in (
        (Record(worse, 1.0), "dual cone|0 multipliers"),
        (Record(lam[:-1], 1.0), "do not fit"),
        (Record(np.full_like(lam, np.nan), 1.0), "finite multipliers"),
        (Record(lam, 0.5), "weight 0 or 1"),
        (Record(1.001 * lam, 1.0), "dual cone"),
    ):
        with pytest.raises(bd.CertificateError, match=message):
            certify(replace(convex, record=record))
    nothing = certify(replace(convex, record=Record(np.zeros(0), 1.0)))
    assert nothing.lower == 0.0  # a sum of squares, whatever proves it
    assert nothing.resolution.lower == 0.0


def test_no_multipliers_are_needed_only_where_nothing_else_costs(convex):
    """A form without rows: min c_y . y, and other variables of which any may fall for ever if it has a cost."""
    main, program = convex.program.main, convex.program
    n = main.c_y.size
    nothing = replace(
        main,
        G_y=sp.csr_array((0, n)),
        G_u=sp.csc_array((0, 2)),
        h=np.zeros(0),
        cones=Cones(0, 0, (), 0, ()),
        owner=np.zeros(0, dtype=np.int64),
        sign=np.zeros(0),
        c_y=np.ones(n),
    )
    for cost, provable in (([0.0, 0.0], True), ([0.0, 1.0], False), ([1.0, 1.0], False)):
        changed = replace(program, main=replace(nothing, c_u=np.array(cost)))
        cut = cut_of(changed, Record(np.zeros(0), 1.0), np.ones(n))
        assert (cut is not None) == provable
        assert cut is None or (cut.slack == 4 * EPS * abs(main.offset) and np.array_equal(cut.slope, np.ones(n)))


def test_planner_resolutions_are_of_all_steps_and_signals():
    evidence = small(0)
    pieces = bd.tasks.find("riverswim").build(states=3, horizon=H).problem.embedding.features.pieces((H, 3, 2))
    rows = np.zeros((3, H, pieces.psi.dimension))
    three = {"equality": np.zeros(3, dtype=bool), "units": np.ones(3), "resolution": np.zeros(3)}
    rows[0], rows[1:, 0, 0] = 1.0, -3.0
    program = replace(evidence.program, objective=rows[0], rows=rows, limits=np.array([0.0, -100.0, 0.0]), **three)
    for factor in (1.0, 5.0):
        larger = replace(pieces, stage=factor * pieces.stage)
        peaks = np.broadcast_to(larger.peaks(), rows[0].shape)
        found = with_planner_resolution(program, larger).resolution
        assert found == exactly([1e-12 * peaks.sum(), 1e-10, 3e-12 * peaks[0, 0]])
