"""The checker of convex problems: its slacks by hand, and that it refuses what does not hold."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual.certificate import Record, _convex, certify
from bidual.certificate._convex import bound_floor, bound_image
from bidual.certificate._cuts import cut_of, read_multipliers
from bidual.certificate._evaluate import bound_forward_error, compute_minimum, list_kernels
from bidual.certificate.rounding import EPS, bound_value_slack
from bidual.problem.convex import bound_movement
from bidual.solving.search import bind
from tests.units.test_checker import H, exactly, small


def choose_multipliers(form):
    """Return multipliers far inside their cones, in a direction at random: they prove a bound, if no sharp one."""
    lam, inside = cp.Variable(form.h.size), cp.Variable()
    limits, start = [form.G_u.T @ lam == -form.c_u, cp.abs(lam) <= 10], form.cones.zero + form.cones.nonneg
    limits.append(lam[form.cones.zero : start] >= inside)
    for size in form.cones.second_order:
        limits.append(cp.norm(lam[start + 1 : start + size]) + inside <= lam[start])
        start += size
    tilt = np.random.default_rng(4).normal(size=form.h.size)
    cp.Problem(cp.Maximize(100 * inside + tilt @ lam), limits).solve(solver="CLARABEL")
    assert inside.value > 0.01
    return np.array(lam.value)


def _evidence(limit, total=False, weight=1.0):
    """Squares and a norm of two signals, with an equality, constants and offsets."""
    evidence = small(0)
    a, b = np.random.default_rng(3).normal(size=(2, H, 3, 2))
    x = evidence.mdp.embedding(a=a[0], b=b[0]) if total else evidence.mdp.embedding(a=a, b=b)
    first, second = (cp.sum(x.a), 2 * cp.sum(x.b)) if total else (x.a, x.b)
    objective = cp.Minimize(cp.sum_squares(first - 0.25) + 0.3 * cp.sum(x.b) - 0.7)
    problem = bd.Problem(objective, [cp.norm(0.1 - second) <= limit, cp.sum(x.a) == 0.2])
    program, psi = bind(problem, evidence.mdp)
    record = Record(choose_multipliers(program.form(weight)), weight)
    return replace(evidence, program=program, psi=psi, record=record)


@pytest.fixture(scope="module", params=["steps", "total"])
def known(request):
    """Evidence for a problem; over the steps or over sums of them."""
    return _evidence(0.5 if request.param == "steps" else 6.0, total=request.param == "total")


@pytest.fixture(scope="module")
def clash():
    """Evidence for a problem that no policy can solve: a norm of at most -0.1."""
    return _evidence(-0.1, weight=0.0)


def test_images_stay_within_their_reach(known):
    image, peaks = known.program.image, np.broadcast_to(known.psi.peaks(), (H, known.psi.dimension))
    matrix = np.abs(image.matrix.toarray())
    size = peaks.sum(axis=0) if image.total else peaks.ravel()
    assert bound_image(known, known.program) == exactly(np.abs(image.offset) + matrix @ size)


def _slack_of_cut(form, lam, reach):
    G = np.abs(form.G_y.toarray())
    rounding = (lam.size + 4) * EPS * (abs(form.offset) + np.abs(lam) @ np.abs(form.h))
    return rounding + bound_movement(form, lam) @ (np.abs(form.h) + G @ reach)


def test_a_cut_by_hand(known):
    lam, reach = known.record.gamma, bound_image(known, known.program)
    form = replace(known.program.main, c_y=-known.program.main.c_y)
    cut, G = cut_of(replace(known.program, main=form), known.record, reach), form.G_y.toarray()
    assert cut.constant == exactly(form.offset - lam @ form.h)
    assert cut.slope == pytest.approx(form.c_y + G.T @ lam, rel=1e-9)
    assert cut.magnitude == exactly(np.abs(form.c_y) + np.abs(G).T @ np.abs(lam))
    assert cut.terms == (G != 0).sum(axis=0).max() + 2
    assert cut.slack == exactly(_slack_of_cut(form, lam, reach))


def test_a_dual_bound_by_hand(known, monkeypatch):
    """The error of the cut; of theta, which sums products of its terms; and of the constants."""
    monkeypatch.setattr(_convex, "bound_floor", lambda *_: -np.inf)  # these multipliers are worse
    program, image = known.program, known.program.image
    cut = cut_of(program, known.record, bound_image(known, program))
    certificate = certify(known)
    matrix = np.abs(image.matrix.toarray())
    magnitude = cut.magnitude @ matrix
    magnitude = np.tile(magnitude, (H, 1)) if image.total else magnitude.reshape(H, -1)
    terms = cut.terms + int((matrix != 0).sum(axis=0).max())
    shifts = abs(cut.constant) + cut.magnitude @ np.abs(image.offset)
    slack = cut.slack + bound_value_slack(known.mdp, known.psi, magnitude[None], terms)[0]
    slack += (cut.slope.size + terms + 8) * EPS * shifts
    assert certificate.resolution.lower == exactly(slack)
    least = compute_minimum(known, list_kernels(known.mdp), image.adjoint(cut.slope))
    slack = certificate.resolution.lower
    assert certificate.lower == least + cut.constant + float(cut.slope @ image.offset) - slack
    room = np.abs(read_multipliers(program, known.record)) @ certificate.violations_upper
    assert certificate.lower <= certificate.upper + room


def test_the_error_of_an_image_by_hand(known):
    """A signal's sums err by a part of its largest value, and each entry of the image sums terms of them."""
    program, image, kernels = known.program, known.program.image, list_kernels(known.mdp)
    embedding = certify(known).embedding
    size = np.broadcast_to(known.psi.peaks(), embedding.shape)
    size = size.sum(axis=0) if image.total else size.ravel()
    matrix = image.matrix.toarray()
    terms = (matrix != 0).sum(axis=1) + 2
    relative = bound_forward_error(known.mdp, kernels)
    expected = relative * np.abs(matrix) @ size + terms * EPS * (np.abs(matrix) @ size + np.abs(image.offset))
    assert _convex._bound_image_error(known, program, kernels, embedding) == exactly(expected)


def test_values_are_enclosed_with_their_rounding(known):
    program, kernels = known.program, list_kernels(known.mdp)
    certificate = certify(known)
    error = _convex._bound_image_error(known, program, kernels, certificate.embedding)
    y = program.image(certificate.embedding)
    low, high = program.functions.enclosures(y, known.auxiliary, error)
    room = np.append(certificate.resolution.value, certificate.resolution.g)
    values = np.append(certificate.value, certificate.g)
    sides = np.where(np.append(False, program.equality), np.maximum(high - values, values - low), high - values)
    assert room == exactly(np.maximum(sides, 0.0) + 4 * EPS * np.abs(values))
    over = np.where(program.equality, np.abs(certificate.g), certificate.g) + room[1:]
    assert np.array_equal(certificate.violations_upper, np.maximum(over, 0.0))


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_an_equality_errs_to_both_sides(known, side, monkeypatch):
    """An enclosure that reaches farther below than above counts for an equality only."""
    program, functions = known.program, type(known.program.functions)
    original = functions.enclosures

    def lopsided(self, *args):
        low, high = original(self, *args)
        return (low - 1e-3, high) if side < 0 else (low, high + 1e-3)

    before = certify(known).resolution
    monkeypatch.setattr(functions, "enclosures", lopsided)
    after = certify(known).resolution
    moved = np.append(after.value, after.g) - np.append(before.value, before.g)
    expected = np.where(np.append(False, program.equality), 1e-3, 0.0 if side < 0 else 1e-3)
    assert moved == pytest.approx(expected, rel=1e-6, abs=1e-13)


def test_an_enclosure_that_misses_the_value_takes_nothing_off(known, monkeypatch):
    """It would be a fault of the enclosure; what rounding of the value needs stays."""
    monkeypatch.setattr(type(known.program.functions), "enclosures", lambda *_: (np.full(3, 99.0), np.full(3, -99.0)))
    certificate = certify(known)
    assert certificate.resolution.value == exactly(4 * EPS * abs(certificate.value))


def test_a_clash_is_proved_in_any_units_of_its_multipliers(clash):
    """Files may hold multipliers that sum to another number: they are scaled, and prove the same."""
    certificate, record = certify(clash), clash.record
    assert certificate.lower is None
    assert certificate.conflict <= certificate.violations_upper.max() / clash.program.units.min()
    for factor in (0.5, 3.0):
        other = certify(replace(clash, record=replace(record, gamma=factor * record.gamma)))
        assert other.conflict == pytest.approx(certificate.conflict, rel=1e-9)
    # What differs by rounding is as it was stored; no multiple of -1 or 0 proves anything.
    reach = bound_image(clash, clash.program)
    slack = _slack_of_cut(clash.program.violation, record.gamma, reach)
    assert cut_of(clash.program, record, reach).slack == exactly(slack)
    for excess, kept in ((0.5e-6, True), (-0.5e-6, True), (1.5e-6, False), (-1.5e-6, False)):
        near = replace(record, gamma=(1 + excess) * record.gamma)
        assert (cut_of(clash.program, near, reach).slack > 1e-8) == kept
    assert np.any(read_multipliers(clash.program, record) != 0)
    for gamma in (-record.gamma, np.zeros_like(record.gamma)):
        with pytest.raises(bd.CertificateError, match="dual cone"):
            certify(replace(clash, record=replace(record, gamma=gamma)))


def test_a_clash_that_the_policy_refutes_is_an_error(clash, monkeypatch):
    program = clash.program
    clash = replace(clash, program=replace(program, units=1e3 * program.units))  # so that no violation is a unit
    worst = np.max(certify(clash).violations_upper / clash.program.units)
    monkeypatch.setattr(_convex, "_bound_dual", lambda *_: (worst, 0.0))
    assert certify(clash).conflict == worst
    monkeypatch.setattr(_convex, "_bound_dual", lambda *_: (worst * (1 + 4 * EPS), 0.0))
    with pytest.raises(bd.CertificateError, match="this one does not"):
        certify(clash)


def test_a_bound_above_what_the_policy_proves_is_an_error(known, monkeypatch):
    certificate = certify(known)
    room = certificate.upper + np.abs(read_multipliers(known.program, known.record)) @ certificate.violations_upper
    monkeypatch.setattr(_convex, "_bound_dual", lambda *_: (room, 0.0))
    assert certify(known).lower == room
    monkeypatch.setattr(_convex, "_bound_dual", lambda *_: (room + 1e-12, 0.0))
    with pytest.raises(bd.CertificateError, match="exceeds what the policy proves"):
        certify(known)


def test_a_floor_by_hand(known):
    """No square is below 0, and the rest is linear: 0.3 b less 0.7, or twice 0.3 b where b is counted twice."""
    program, (low, _) = known.program, known.psi.ends()
    floor = bound_floor(program, known.psi, known.mdp)
    least = 0.3 * np.broadcast_to(low, (H, 2))[:, 1].sum() - 0.7
    assert least - 200 * EPS * (1 + abs(least)) <= floor <= least - 64 * EPS * abs(least)
    bare = replace(known, record=Record(np.zeros(0), 1.0))
    certificate = certify(bare)
    assert certificate.lower == floor
    assert certificate.resolution.lower == 64 * EPS * abs(floor)
    assert not np.any(read_multipliers(program, bare.record))
    assert certify(known).lower >= floor


def test_the_better_of_floor_and_multipliers_counts(known, monkeypatch):
    proved = bound_floor(known.program, known.psi, known.mdp)
    for bound in (proved - 1e-9, proved + 1e-9):
        monkeypatch.setattr(_convex, "_bound_dual", lambda *_, bound=bound: (bound, 1e-3))
        certificate = certify(known)
        assert certificate.lower == max(bound, proved)
        assert certificate.resolution.lower == (1e-3 if bound > proved else 64 * EPS * abs(proved))


def test_a_floor_above_the_value_is_an_error(known, monkeypatch):
    upper = certify(known).upper
    monkeypatch.setattr(_convex, "bound_floor", lambda *_: upper)
    assert certify(replace(known, record=Record(np.zeros(0), 1.0))).lower == upper
    monkeypatch.setattr(_convex, "bound_floor", lambda *_: upper * (1 + 4 * EPS) + 1e-15)
    with pytest.raises(bd.CertificateError, match="is never below"):
        certify(known)


def test_no_floor_bounds_a_violation(clash, monkeypatch):
    monkeypatch.setattr(_convex, "bound_floor", lambda *_: np.inf)
    assert certify(clash).lower is None


def test_two_evaluations_that_disagree_are_an_error(known, monkeypatch):
    program = known.program
    theta = program.image.adjoint(cut_of(program, known.record, bound_image(known, program)).slope)
    slack = bound_value_slack(known.mdp, known.psi, np.abs(theta)[None], 1)[0]
    forward = np.vdot(theta, certify(known).embedding)
    for factor in (-1.0, 1.0):
        moved = float(forward + factor * (2 + known.mdp.num_states) * slack * 0.98)
        monkeypatch.setattr(_convex, "evaluate_backward", lambda *_, moved=moved: moved)
        certify(known)
        moved = float(forward + factor * (2 + known.mdp.num_states) * slack * 1.02)
        monkeypatch.setattr(_convex, "evaluate_backward", lambda *_, moved=moved: moved)
        with pytest.raises(bd.CertificateError, match="two evaluations of the policy disagree"):
            certify(known)


@pytest.mark.parametrize("part", ["matrix", "offset", "limits", "signals", "auxiliary"])
def test_a_problem_with_a_nan_certifies_nothing(known, part):
    program, image = known.program, known.program.image
    broken = {
        "matrix": replace(known, program=replace(program, image=replace(image, matrix=np.nan * image.matrix))),
        "offset": replace(known, program=replace(program, image=replace(image, offset=np.nan * image.offset))),
        "limits": replace(known, program=replace(program, main=replace(program.main, h=np.nan * program.main.h))),
        "signals": replace(known, psi=replace(known.psi, signals=np.nan * known.psi.signals)),
        "auxiliary": replace(known, auxiliary=np.array([np.nan])),
    }
    with pytest.raises(bd.CertificateError, match="contains NaN"):
        certify(broken[part])


@pytest.mark.parametrize("broken", [(np.nan, 0.0), (np.inf, 0.0), (0.0, np.nan), (0.0, -np.inf)])
def test_functions_that_are_not_defined_at_the_policy_certify_nothing(known, broken, monkeypatch):
    f, g = broken
    values = f, np.array([0.0, g])
    monkeypatch.setattr(type(known.program.functions), "values", lambda *_: values)
    with pytest.raises(bd.ProblemError, match="not defined at any policy"):
        certify(known)


def test_auxiliary_numbers_are_as_many_as_the_problem_has(known):
    with pytest.raises(bd.CertificateError, match="has 0 auxiliary numbers, the record 1"):
        certify(replace(known, auxiliary=np.zeros(1)))


def test_a_record_at_a_point_proves_nothing(known):
    record = Record(known.record.gamma, 1.0, np.zeros(known.program.image.size))
    with pytest.raises(bd.CertificateError, match="derivatives at a point"):
        certify(replace(known, record=record))
