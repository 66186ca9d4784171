"""The verifier of learned answers: honest files are proved, forged ones are not, and what it does not know it names.

Its parts are compared with rational arithmetic and plain formulas written here, and with no number of bidual.
"""

import ast
import math
import shutil
import subprocess
import sys
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import linprog

import bidual as bd
from bidual._base import archive
from bidual.certificate import verify, verify_bets, verify_numbers, verify_sets, verify_signals
from bidual.certificate._lower import lower_bound
from bidual.certificate.verify_learned import LearnedAnswer, read_learned
from bidual.cli import main
from bidual.storage._arrays import StoredArrays
from bidual.storage._learned import _read_evidence
from bidual.tasks.riverswim import riverswim
from bidual.world.envs import Simulator
from tests.units.test_saved_learned import Walk
from tests.units.test_verify import double_above, double_below, rewrite

SETS = ("ball", "box", "bernstein", "l1")
SOURCE = Path(verify.__file__)
GOLDEN = Path(__file__).parents[1] / "golden" / "files"
RIVER = riverswim(budget=2.5, states=3, horizon=5)


def learn(limits=None, model=None, env=RIVER.mdp, **arguments):
    x = RIVER.problem.embedding
    problem = RIVER.problem if limits is None else bd.Problem(cp.Maximize(cp.sum(x.reward)), limits(cp.sum(x.right)))
    arguments = {"episodes": 40, "evaluation": 30, "seed": 1, **arguments}
    return bd.learn(problem, env, model or bd.models.Tabular(support=RIVER.mdp), **arguments)


LISTS = [[[0, -1], [0, 1]], [[0, -1], [0, 2]], [[2, -1], [2, -1]]]


def walk(pays=lambda rng: 0.8, model=None, **options):
    """A reward that only the environment shows; the end of an episode is a third state."""
    reward, right = bd.features.observed(lambda step: step.reward, **options), np.array([[0.0, 1.0]] * 3)
    x = bd.features.signals(reward=reward, right=right).embedding(5)
    problem = bd.Problem(cp.Maximize(cp.sum(x.reward)), {"right": cp.sum(x.right) <= 4.0})
    return bd.learn(problem, Walk(pays), model or bd.models.Tabular(LISTS), episodes=30, evaluation=20, seed=4)


@pytest.fixture(scope="module")
def river(tmp_path_factory):
    path = tmp_path_factory.mktemp("learned") / "river.bidual"
    learn().certify(30).save(path)
    return path


def outcomes(path):
    return {claim: outcome for outcome, claim, _ in verify.verify(str(path), learned=read_learned)}


def forged(path, tmp_path, change):
    copy = tmp_path / "forged.bidual"
    shutil.copy(path, copy)
    rewrite(copy, change)
    return outcomes(copy)


GRANTED = {"environment", "counts", "samples", "prices"}


def is_proved(path):
    found = outcomes(path)
    granted = {claim for claim, outcome in found.items() if outcome == "granted"}
    assert GRANTED <= granted <= GRANTED | {"signals"}
    assert {outcome for claim, outcome in found.items() if claim not in granted} == {"proved"}, found
    return set(found)


@pytest.mark.parametrize("name", ["corrective", "paper"])
def test_stored_files_are_proved(name):
    assert is_proved(GOLDEN / f"{name}.bidual") >= {"delta", "value", "lower", "upper", "gap"}


def test_every_claim_of_a_learned_answer_is_proved(river, capsys):
    assert is_proved(river) >= {"delta", "upper", "lower", "gap", "constraint 'right' violation_upper"}
    assert main(["check", "--exact", str(river)]) == 0
    assert "granted      counts: they are of" in capsys.readouterr().out


KINDS = {
    "equality": lambda: learn(lambda right: {"right": right == 2.0}),
    "infeasible": lambda: learn(lambda right: {"less": right <= 2.0, "more": right >= 3.0}),
    "feasible": lambda: learn(lambda right: {"right": right <= 5.0}),
    "nothing declared": lambda: learn(model=bd.models.Tabular(), env=Simulator(RIVER.mdp, hidden_start=True)),
    "counts of every step": lambda: learn(model=bd.models.Tabular(support=RIVER.mdp, stationary=False), episodes=16),
    **{
        kind: lambda kind=kind: learn(model=bd.models.Tabular(support=RIVER.mdp, set=kind), episodes=16)
        for kind in SETS
    },
    "observed": walk,
    "observed at the end": lambda: walk(at_end=True),
    "observed, nothing declared": lambda: walk(model=bd.models.Tabular()),
    "noisy": lambda: walk(lambda rng: float(rng.random()), noisy=True),
    "noisy coin": lambda: walk(lambda rng: float(rng.random() < 0.5), noisy=True),
    "noisy box": lambda: walk(lambda rng: float(rng.random()), bd.models.Tabular(LISTS, set="box"), noisy=True),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_tabular_answer_is_proved(kind, tmp_path):
    learned = KINDS[kind]()
    learned.save(tmp_path / "x.bidual")
    assert (f"status {kind}" in is_proved(tmp_path / "x.bidual")) == (learned.status == kind)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["rover", "riverswim", "media"])
def test_every_claim_on_a_task_is_proved(task, tmp_path):
    task = bd.tasks.find(task).with_settings({})
    model = bd.models.Tabular(support=task.mdp)
    bd.learn(task.problem, task.mdp, model, episodes=300, seed=0).certify(100).save(tmp_path / "x.bidual")
    is_proved(tmp_path / "x.bidual")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_random_models_in_any_unit_are_proved(seed, tmp_path):
    rng = np.random.default_rng(seed)
    states = np.array([[rng.choice(5, 3, replace=False) for _ in range(2)] for _ in range(5)])
    mdp = bd.TabularMDP((states, rng.dirichlet(np.ones(3), (5, 2))), 0, 6)
    x = mdp.embedding(r=rng.normal(size=(5, 2)) * 10.0 ** rng.integers(-8, 9), c=rng.random((5, 2)))
    problem = bd.Problem(cp.Minimize(cp.sum(x.r)), {"c": cp.sum(x.c) <= 2.7})
    bd.learn(problem, mdp, bd.models.Tabular(support=mdp), episodes=60, evaluation=30, seed=seed).save(
        tmp_path / "x.bidual"
    )
    is_proved(tmp_path / "x.bidual")


# What is forged.


def test_a_bound_that_is_a_double_too_good_is_refuted(river, tmp_path):
    bound = Fraction(LearnedAnswer(*verify.read(str(river))).bound, verify.ONE)  # of the negated maximum
    for number, outcome in ((-double_above(bound), "refuted"), (-double_below(bound), "proved")):
        assert forged(river, tmp_path, lambda m, _, x=number: m["claims"].update(upper=x))["upper"] == outcome


def test_bounds_from_samples_are_the_best_to_what_is_printed(river, tmp_path):
    """A bound by betting is halved to 2^-33 of its range; three of these steps are more than the samples prove."""
    claims, answer = verify.read(str(river))[0]["claims"], LearnedAnswer(*verify.read(str(river)))
    slack = [3 * ends.half / 2**32 for ends in answer.ends]
    better = {"lower": claims["lower"] + slack[0], "gap": claims["gap"] - slack[0]}
    for claim, number in better.items():
        assert forged(river, tmp_path, lambda m, _, c=claim, x=number: m["claims"].update({c: x}))[claim] == "refuted"
    tight = claims["constraints"][0]["violation_upper"] - slack[1]
    found = forged(river, tmp_path, lambda m, _: m["claims"]["constraints"][0].update(violation_upper=tight))
    assert found["constraint 'right' violation_upper"] == "refuted"


@pytest.mark.parametrize("shift", [1e-6, -1e-6])
def test_rounded_numbers_are_right_to_nine_digits(river, tmp_path, shift):
    found = forged(river, tmp_path, lambda m, _: m["claims"].update(value=m["claims"]["value"] + shift))
    assert found["value"] == "refuted"
    for key in ("value", "violation"):

        def change(manifest, _, key=key):
            manifest["claims"]["constraints"][0][key] += shift

        assert forged(river, tmp_path, change)[f"constraint 'right' {key}"] == "refuted"


def repeat_a_round(manifest, arrays):
    manifest["rounds"] = [1, 1]


def shrink_delta(manifest, arrays):
    manifest["claims"]["delta"] /= 2


def narrow_a_range(manifest, arrays):
    arrays["low"][0] += 0.1


def leave_a_range(manifest, arrays):
    arrays["paid_0"][3, 0] = arrays["high"][0] + 1


def worsen_samples(manifest, arrays):
    arrays["paid_0"][:, 1] += 0.5
    arrays["paid_1"][:, 1] += 0.5


def negate_a_multiplier(manifest, arrays):
    arrays["gamma"][:] = -1.0


def forget_the_multipliers(manifest, arrays):
    arrays["gamma"][:] = 0.0


def claim_feasible(manifest, arrays):
    manifest["claims"]["status"] = "feasible"


def claim_infeasible(manifest, arrays):
    manifest["claims"]["status"] = "infeasible"
    manifest["objective_weight"] = 0.0


@pytest.mark.parametrize(
    ("change", "claim"),
    [
        (repeat_a_round, "delta"),
        (shrink_delta, "upper"),
        (shrink_delta, "lower"),
        (narrow_a_range, "lower"),
        (leave_a_range, "lower"),
        (worsen_samples, "constraint 'right' violation_upper"),
        (negate_a_multiplier, "upper"),
        (forget_the_multipliers, "upper"),
        (claim_feasible, "status feasible"),
        (claim_infeasible, "status infeasible"),
    ],
)
def test_forged_evidence_is_refuted(river, tmp_path, change, claim):
    assert forged(river, tmp_path, change)[claim] == "refuted"


def test_samples_in_a_range_that_is_too_narrow_prove_nothing(river, tmp_path):
    shutil.copy(river, tmp_path / "x.bidual")
    rewrite(tmp_path / "x.bidual", narrow_a_range)
    found = {claim: reason for _, claim, reason in verify.verify(str(tmp_path / "x.bidual"), learned=read_learned)}
    assert "only shown to stay in" in found["lower"]


def test_an_equality_is_bounded_from_both_sides(river, tmp_path):
    def change(manifest, arrays):
        manifest["lines"][0][1] = manifest["claims"]["constraints"][0]["sense"] = "=="
        manifest["claims"]["constraints"][0]["violation_upper"] = 2.4  # more than any mean above the limit
        arrays["problem_equality"][:] = True
        for i in range(2):
            arrays[f"paid_{i}"][:, 1] = -2.5  # nobody goes right

    assert forged(river, tmp_path, change)["constraint 'right' violation_upper"] == "refuted"


def test_ranges_are_those_of_the_best_and_the_worst_episode(river):
    """Five steps, each of them to the right (1) or not, where at most 2.5 are allowed."""
    tops = LearnedAnswer(*verify.read(str(river))).tops
    for sign in (1, -1):
        assert 0 <= tops[1, sign] - Fraction(5, 2) < Fraction(1, 2**200)
    assert tops[0, 1] == 0


def lose_a_step(manifest, arrays):
    arrays["transitions"].flat[np.flatnonzero(arrays["transitions"])[0]] -= 1


def halve_a_count(manifest, arrays):
    arrays["starts"][0] -= 0.5


def use_another_policy(manifest, arrays):
    arrays["policy"][:] = 0.5


def move_a_successor(manifest, arrays):
    arrays["successors"][0, 0, 0] = 7


@pytest.mark.parametrize("change", [lose_a_step, halve_a_count, use_another_policy, move_a_successor])
def test_parts_that_do_not_belong_together_cannot_be_read(river, tmp_path, change, capsys):
    shutil.copy(river, tmp_path / "x.bidual")
    rewrite(tmp_path / "x.bidual", change)
    assert verify.main([str(tmp_path / "x.bidual")], learned=read_learned) == 5
    assert capsys.readouterr().out == ""


UNKNOWN = {
    "the set 'other'": lambda m: m["model"].update(set="other"),
    "a class of laws": lambda m: m["model"].update({"class": {}}),
    "known features": lambda m: m["model"].update(linear=[]),
    "expressions in learned problems": lambda m: m["problem"].update(functions={}),
    "a row with": None,
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_what_is_not_known_is_named(river, tmp_path, what):
    def change(manifest, arrays):
        if UNKNOWN[what] is None:
            arrays["transitions"] *= 1e9
            arrays["starts"] *= 1e9
        else:
            UNKNOWN[what](manifest)

    shutil.copy(river, tmp_path / "x.bidual")
    rewrite(tmp_path / "x.bidual", change)
    found = verify.verify(str(tmp_path / "x.bidual"), learned=read_learned)
    assert any(outcome == "not decided" and what in reason for outcome, _, reason in found)
    assert "upper" not in {claim for outcome, claim, _ in found if outcome in ("proved", "refuted")}


def test_without_a_fresh_episode_the_value_is_not_decided(river, tmp_path):
    def change(manifest, arrays):
        manifest.update(rounds=[], uniform=[], policies=[])
        manifest["claims"].update(lower=None, gap=None)
        manifest["claims"]["constraints"][0].update(violation_upper=None)

    found = forged(river, tmp_path, change)
    assert found["value"] == "not decided"
    assert found["upper"] == "proved"


# Sets of laws, and signals that only the environment shows.


@pytest.mark.parametrize("kind", SETS)
def test_every_set_gives_the_bound_of_the_checker(river, tmp_path, kind):
    """The checker sums in floating-point numbers and subtracts its rounding: the exact bound is a little better."""
    shutil.copy(river, tmp_path / "x.bidual")
    rewrite(tmp_path / "x.bidual", lambda m, _: m["model"].update(set=kind))
    exact = LearnedAnswer(*verify.read(str(tmp_path / "x.bidual"))).bound / verify.ONE
    manifest, arrays = archive.read(tmp_path / "x.bidual", "learned")
    evidence = _read_evidence(manifest, StoredArrays(arrays))
    assert evidence.record is not None
    rounded = lower_bound(
        evidence.program, evidence.record, evidence.knowledge.confidence_set, evidence.knowledge.pieces
    )
    assert rounded <= exact <= rounded + 1e-11
    assert (rounded < -1.5) == (kind == "bernstein")  # after 40 episodes it allows nearly anything


def test_other_laws_are_the_least_over_their_sets():
    """Hand-computed, and for the box as a linear program of another library."""
    one, W = verify.ONE, [3 * verify.ONE, verify.ONE, 2 * verify.ONE]
    assert verify_sets.NearLaws([2, 1, 1], one // 4).minimum(W) == 7 * one // 4  # (1/4, 1/2, 1/4)
    assert verify_sets.NearLaws([2, 1, 1], one).minimum(W) == one
    assert verify_sets.NearLaws([2, 1, 1], 0).minimum(W) == 9 * one // 4
    assert (
        verify_sets.NearLaws([2, 1, 1], one // 4).minimum([*W, 0]) == 3 * one // 2
    )  # 1/4 elsewhere, (1/4, 1/4, 1/4) here
    assert verify_sets.NearLaws([0, 0, 0], one).minimum(W) == one
    box = verify_sets.BoxLaws([(one // 4, one), (0, one // 2), (0, one // 8)])
    assert box.minimum(W) == 3 * (3 * one // 8) + one // 2 + one // 4  # (3/8, 1/2, 1/8)
    rng = np.random.default_rng(1)
    for _ in range(20):
        low = rng.dirichlet(np.ones(4)) * rng.random()
        high, w = low + rng.random(4), rng.normal(size=4)
        if high.sum() > 1:
            best = linprog(w, A_eq=[[1.0] * 4], b_eq=[1.0], bounds=list(zip(low, high, strict=True))).fun
            ends = [(verify.span(a)[0], verify.span(b)[1]) for a, b in zip(low, high, strict=True)]
            found = verify_sets.BoxLaws(ends).minimum([verify.span(x)[0] for x in w]) / one
            assert abs(found - best) <= 1e-12


def digits(x):
    return Decimal(x) / Decimal(verify.ONE)


@pytest.mark.parametrize(("c", "misses"), [(3, 1), (0, 7), (7, 0), (1, 400), (40, 300)])
def test_ends_of_a_coin_are_where_its_likelihood_ratio_is_the_share(c, misses):
    """The mixture is Beta (1/2, 1/2): c factors 1/2, 3/2, ... for one side, `misses` for the other, over n!."""
    mixture, share = Fraction(1, math.factorial(c + misses)), Fraction(40)
    for j in [*range(c), *range(misses)]:
        mixture *= Fraction(2 * j + 1, 2)
    low, high = verify_sets.coin(c, misses, verify_sets.log(share))
    assert (low == 0, high == verify.ONE) == (c == 0, misses == 0)
    with localcontext() as context:
        context.prec = 60
        largest = Decimal((share / mixture).numerator).ln() - Decimal((share / mixture).denominator).ln()
        for end, free in ((low, c == 0), (high, misses == 0)):
            p = digits(end)
            if not free:
                ratio = -(c * p.ln() if c else 0) - (misses * (1 - p).ln() if misses else 0)
                assert 0 < ratio - largest < Decimal("1e-25")
    if c:
        n, bits = c + misses, math.log(share / mixture)
        assert -c * math.log(c / n) - (misses * math.log(misses / n) if misses else 0) < bits


@pytest.mark.parametrize("end", [1.0, 0.5, 0.0])
def test_a_coin_is_bounded_from_any_start(end, monkeypatch):
    """Floating-point numbers only say where to look: ends found from bad starts are never inside."""
    right = verify_sets.coin_least(5, 20, (30 * verify.ONE, 30 * verify.ONE))
    monkeypatch.setattr(math, "log1p", lambda x: -end)
    found = verify_sets.coin_least(5, 20, (30 * verify.ONE, 30 * verify.ONE))
    assert 0 <= found <= right + (verify.ONE >> 90)


def test_gamma_functions_are_enclosed():
    half, one = verify_numbers.ln_gamma(Fraction(1, 2)), verify_numbers.ln_gamma(Fraction(1))
    with localcontext() as context:
        context.prec = 50
        pi = Decimal("3.14159265358979323846264338327950288419716939937510")
        assert digits(half[0] - one[1]) <= pi.ln() / 2 <= digits(half[1] - one[0])
        for k in (1, 5, 30, 300):
            low, high = verify_numbers.minus(verify_numbers.ln_gamma(Fraction(k + 1)), one)
            assert digits(low) <= Decimal(math.factorial(k)).ln() <= digits(high)
            assert digits(high - low) < Decimal("1e-28")
    for x in (0.3, 7.25, 1000.5):
        found = verify_numbers.ln_gamma(Fraction(x))[0] / verify.ONE
        assert found == pytest.approx(math.lgamma(x) - math.log(2 * math.pi) / 2, rel=1e-13, abs=1e-13)
    noisy, near = (verify_sets.level(c, 9 - c, verify_sets.log(7)) for c in (Fraction(4), 4 + Fraction(1, 2**100)))
    assert abs(noisy[0] - near[0]) < verify.ONE >> 90  # two formulas


def test_bernstein_and_l1_are_their_formulas():
    share = verify_sets.log(1000)
    low, high = (x / verify.ONE for x in verify_sets.bernstein(400, 600, share))
    L = math.log(1000) + math.log(4 * 1000 * 1001)
    width = math.sqrt(2 * 0.4 * 0.6 * L / 999) + 7 * L / (3 * 999)
    assert low == pytest.approx(0.4 - width, rel=1e-14)
    assert high == pytest.approx(0.4 + width, rel=1e-14)
    assert verify_sets.bernstein(1, 0, share) == (0, verify.ONE)
    assert verify_sets.bernstein(2, 0, share) == (0, verify.ONE)
    distance = math.sqrt(2 * (math.log(2**3 - 2) + math.log(1000 * 1001) + math.log(1000)) / 1000)
    assert verify_sets.l1_gain(1000, 3, share) / verify.ONE == pytest.approx(distance / 2, rel=1e-14)
    assert verify_sets.l1_gain(0, 3, share) == verify_sets.l1_gain(3, 3, share) == verify.ONE


def test_rows_have_the_set_that_was_asked_for():
    """With 3 and 37 samples of two listed successors, and two more that are not listed."""
    share, counts = verify_sets.log(40), [3, 37]
    for kind, limits in (("box", verify_sets.coin), ("bernstein", verify_sets.bernstein)):
        row, listed = verify_sets.read_row(kind, counts, 4, share), verify_sets.read_row(kind, counts, 2, share)
        ends = [limits(3, 37, share), limits(37, 3, share)]
        most = min(2 * limits(0, 40, share)[1], verify.ONE)  # of both others together
        assert (row.ends, listed.ends) == ([*ends, (0, most)], ends)
    assert verify_sets.read_row("l1", counts, 4, share) == (counts, verify_sets.l1_gain(40, 4, share))
    assert verify_sets.read_row("ball", counts, 4, share) == (counts, verify_sets.divergence(counts, 4, share))
    assert verify_sets.read_row("box", [1, 0], 4, share).ends[2] == (0, verify.ONE)  # after one sample anything


SEEN = verify_signals.ObservedSignal.of(0, -1.0, 3.0, False, False)


def test_what_a_transition_pays_is_its_average_or_the_mean_of_a_coin():
    share = verify_sets.log(100)
    assert SEEN.mean(Fraction(3), 4, share) == verify.span(Fraction(3, 4))
    noisy = SEEN._replace(noisy=True)
    low, high = verify_sets.coin(7, 13, share)  # 20 samples in [-1, 3] with the sum 8: 7 in units of the width
    assert noisy.mean(Fraction(8), 20, share) == (4 * low - verify.ONE, 4 * high - verify.ONE)
    assert noisy._replace(high=Fraction(-1)).mean(Fraction(-20), 20, share) == (-verify.ONE, -verify.ONE)
    for total in (Fraction(13), Fraction(-5)):
        with pytest.raises(ValueError, match="outside its ends"):
            SEEN.mean(total, 4, share)
    with pytest.raises(ValueError, match="lies between"):
        verify_signals.ObservedSignal.of(0, 1.0, 0.0, False, False)


def signals(one, steady=True, sums=(0.0, 3.0, 1.5, 0.0)):
    """Two states with one action each: 0 leads to 0 or 1, and 1 is never left."""
    header = {"arrivals": [], "observed": [[one.feature, float(one.low), float(one.high), one.noisy, one.at_end]]}
    arrays = {
        "absorbing": ((2,), [False, True]),
        "stage": ((1, 1, 2, 1), [0.0, 0.0]),
        "steady": ((1,), [steady]),
        "successors": ((2, 1, 2), [0, 1, 1, -1]),
        "sums": ((2, 1, 2, 1), list(sums)),
    }
    found = verify_signals.ArrivalSignals(header, arrays, (4, 2, 1))
    found.learn(arrays, [[0, 1], [1]], [[0, 2], [2, 0]], verify_sets.log(100))
    return found


def test_signals_that_were_seen_are_known_and_others_are_anywhere():
    def costs(one, i, s, free=False):
        found = signals(one)
        return [found.least(0, i, s, {0: (c * verify.ONE, c * verify.ONE)}, free) / verify.ONE for c in (1, -1)]

    assert costs(SEEN, 0, 1) == [1.5, -1.5]
    assert costs(SEEN, 0, 1, free=True) == costs(SEEN, 0, 0) == [-1.0, -3.0]
    assert costs(SEEN, 1, 1) == [0.75, -0.75]
    positive = SEEN._replace(low=Fraction(1, 2))
    assert costs(positive, 1, 1) == [0.0, -0.75]  # it may be after the end
    assert costs(positive, 1, 1, free=True) == [0.0, -3.0]
    ending = SEEN._replace(at_end=True)
    assert costs(ending, 0, 1) == [1.5, -1.5]
    assert costs(ending, 0, 0) == costs(ending, 1, 1) == [0.0, 0.0]
    assert signals(SEEN).least(0, 0, 1, {}, False) == 0


def test_a_signal_that_is_no_function_of_the_transition_proves_nothing():
    signals(SEEN).check()
    signals(SEEN._replace(noisy=True), steady=False).check()
    with pytest.raises(ValueError, match="no function of the transition"):
        signals(SEEN, steady=False).check()


def test_signals_in_another_place_cannot_be_read():
    with pytest.raises(ValueError, match="do not fit"):
        signals(SEEN._replace(feature=1))
    with pytest.raises(ValueError, match="outside its ends"):
        signals(SEEN, sums=(0.0, 7.0, 0.0, 0.0))


def test_noise_is_shared_over_all_transitions_and_takes_a_quarter(tmp_path):
    walk(lambda rng: float(rng.random()), noisy=True).save(tmp_path / "x.bidual")
    assert "signals" in is_proved(tmp_path / "x.bidual")
    laws = LearnedAnswer(*verify.read(str(tmp_path / "x.bidual"))).laws
    one, (place, found) = laws.signals.observed[0], next(iter(laws.signals.seen[0].items()))
    share = verify_sets.log(8 * 7 / laws.delta)  # of delta / 8, for the 7 transitions that are possible
    i, k = place[0], laws.next[place[0]].index(place[1])
    _, arrays = verify.read(str(tmp_path / "x.bidual"))
    total = Fraction(arrays["sums"][1][2 * i + k])
    assert one.mean(total, laws.counts[0][i][k], share) == found


# What it rests on.


@pytest.mark.parametrize("seed", range(5))
def test_rows_are_bounded_by_every_dual_point_and_tightly_by_the_best(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    counts, W = rng.integers(1, 50, 4).tolist(), [verify.span(float(x))[0] for x in rng.normal(size=4)]
    counts[0] *= seed % 2
    q, w = np.array(counts) / sum(counts), np.array([x / verify.ONE for x in W])
    r = float(rng.uniform(0.01, 1))
    bound = verify_sets.BallLaws(counts, verify.span(r)[1]).minimum(W)
    seen = q > 0

    def diverge(P):
        return float(np.sum(q[seen] * np.log(q[seen] / P[seen])))

    tried = [(1 - s) * q + s * P for P in rng.dirichlet(np.ones(4), 200) for s in (0.1, 0.3, 0.6, 0.9)]
    assert min(float(P @ w) for P in tried if diverge(P) <= r) >= bound / verify.ONE
    low, high = -20.0, 20.0  # the laws that lean to small w, by how far they lean
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if diverge(lean(q, w, math.exp(middle))) <= r else (low, middle)
    assert abs(float(lean(q, w, math.exp(low)) @ w) - bound / verify.ONE) <= 1e-9
    for y in 10.0 ** rng.uniform(-3, 3, 20):
        monkeypatch.setattr(verify_sets, "find_dual", lambda *_, y=y: y)
        assert verify_sets.BallLaws(counts, verify.span(r)[1]).minimum(W) <= bound + (verify.ONE >> 40)


def lean(q, w, y):
    """Return q / (1 + y d), with the rest at the least w where q is 0 there."""
    P = q / (1 + y * (w - w.min()))
    P[np.argmin(w)] += 1 - P.sum() if q[np.argmin(w)] == 0 else 0.0
    return P / P.sum()


@pytest.mark.parametrize(("counts", "K"), [([3, 1], 3), ([0, 7, 2], 3), ([1], 2), ([40, 0, 25, 300], 5)])
def test_divergences_are_logarithms_of_rationals(counts, K):
    n, share = sum(counts), Fraction(10, 3)
    mixture = Fraction(1, math.factorial(n))
    for j in (j for c in counts for j in range(c)):
        mixture *= Fraction(1, K) + j
    largest = math.prod(Fraction(c, n) ** c for c in counts)
    with localcontext() as context:
        context.prec = 60
        ratio = share * largest / mixture
        truth = (Decimal(ratio.numerator).ln() - Decimal(ratio.denominator).ln()) / n
        found = verify_sets.divergence(counts, K, verify_numbers.ln(verify.span(share)))
        assert truth - Decimal("1e-50") <= Decimal(found) / Decimal(verify.ONE) <= truth + Decimal("1e-50")


def capital(z, m, share, lengths):
    """The largest capital over time, in rationals: the average of one kind of bets for every length."""
    past = np.concatenate([[0.5], np.array(z, dtype=float)])
    kinds = [Fraction(1)] * len(lengths)
    most, variance = Fraction(0), 0.25
    for t, x in enumerate(z):
        bets = [Fraction(math.sqrt(2 * math.log(1 / share) / (length * variance))) for length in lengths]
        factors = [1 + min(bet, Fraction(3, 4) / (1 - m)) * (m - x) for bet in bets]
        kinds = [kind * factor for kind, factor in zip(kinds, factors, strict=True)]
        most = max(most, sum(kinds) / len(kinds))
        errors = [past[i] - past[: i + 1].sum() / (i + 1) for i in range(1, t + 2)]
        variance = (0.25 + sum(error**2 for error in errors)) / (t + 2)
    return most


SPREAD = (np.random.default_rng(3).integers(0, 5, 25) / 4).tolist()


@pytest.mark.parametrize(("samples", "uniform"), [(SPREAD, False), (SPREAD, True), ([0.25] * 25, False)])
def test_bets_refute_what_their_capital_refutes(samples, uniform):
    share = Fraction(1, 20)
    ends = verify_bets.SampleRange(0.5, 0.5)
    lengths = verify_bets.LENGTHS if uniform else [25]
    decided = []
    for m in (Fraction(k, 80) for k in range(1, 80)):
        most = capital(list(map(Fraction, samples)), m, float(share), lengths)
        decided.append(most * share >= 1)
        assert verify_bets.refutes(samples, ends, m, share, uniform) == decided[-1]
    assert decided == sorted(decided)
    assert True in decided
    assert False in decided


def test_undeclared_successors_leave_more_possible(river, tmp_path):
    """Forgetting what was declared can only widen the bound."""
    declared = LearnedAnswer(*verify.read(str(river))).bound
    shutil.copy(river, tmp_path / "x.bidual")
    rewrite(tmp_path / "x.bidual", lambda m, _: m["model"].update(open=True))
    answer = LearnedAnswer(*verify.read(str(tmp_path / "x.bidual")))
    assert answer.bound < declared
    assert abs(answer.tops[0, -1] - Fraction(0.005) - 4) < Fraction(1, 2**200)  # at the right end after one step


def test_shares_sum_to_at_most_three_eighths_of_delta():
    total = sum(3 * sum(verify_bets.shares(0.1, k, 3)) for k in range(1, 2000))
    assert Fraction(0.1) * 3 / 8 * Fraction(999, 1000) < total < Fraction(0.1) * 3 / 8
    low, high = verify_bets.shares(0.1, 1, 1)
    assert high == 9 * low


def test_it_runs_alone_with_the_standard_library(river, tmp_path):
    for path in SOURCE.parent.glob("verify*.py"):
        shutil.copy(path, tmp_path)
    shutil.copy(river, tmp_path / "x.bidual")
    code = "import runpy, sys; sys.path.insert(0, '.'); sys.argv = ['', 'x.bidual']\ntry:\n    runpy.run_path("
    code += "'verify_learned.py', run_name='__main__')\nfinally:\n    print(sorted(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    modules = {name.split(".")[0] for name in ast.literal_eval(done.stderr)}
    assert modules <= {*sys.stdlib_module_names, "__main__", *(path.stem for path in tmp_path.glob("verify*.py"))}
