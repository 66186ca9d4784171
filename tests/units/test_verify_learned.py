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

import bidual as bd
from bidual.certificate import verify, verify_bets, verify_laws
from bidual.certificate.verify_learned import LearnedAnswer, read_learned
from bidual.cli import main
from bidual.tasks.riverswim import riverswim
from bidual.world.envs import Simulator
from tests.units.test_verify import double_above, double_below, rewrite

SOURCE = Path(verify.__file__)
GOLDEN = Path(__file__).parents[1] / "golden" / "files"
RIVER = riverswim(budget=2.5, states=3, horizon=5)


def learn(limits=None, model=None, env=RIVER.mdp, **arguments):
    x = RIVER.problem.embedding
    problem = RIVER.problem if limits is None else bd.Problem(cp.Maximize(cp.sum(x.reward)), limits(cp.sum(x.right)))
    arguments = {"episodes": 40, "evaluation": 30, "seed": 1, **arguments}
    return bd.learn(problem, env, model or bd.models.Tabular(support=RIVER.mdp), **arguments)


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
    assert {claim for claim, outcome in found.items() if outcome == "granted"} == GRANTED
    assert {outcome for claim, outcome in found.items() if claim not in GRANTED} == {"proved"}, found
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
    "the set 'box'": lambda m: m["model"].update(set="box"),
    "a class of laws": lambda m: m["model"].update({"class": {}}),
    "known features": lambda m: m["model"].update(linear=[]),
    "signals that only the environment shows": lambda m: m["model"].update(observed=[[0, 0.0, 1.0, False, False]]),
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


# What it rests on.


@pytest.mark.parametrize("seed", range(5))
def test_rows_are_bounded_by_every_dual_point_and_tightly_by_the_best(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    counts, W = rng.integers(1, 50, 4).tolist(), [verify.span(float(x))[0] for x in rng.normal(size=4)]
    counts[0] *= seed % 2
    q, w = np.array(counts) / sum(counts), np.array([x / verify.ONE for x in W])
    r = float(rng.uniform(0.01, 1))
    bound = verify_laws.row_minimum(counts, verify.span(r)[1], W)
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
        monkeypatch.setattr(verify_laws, "find_dual", lambda *_, y=y: y)
        assert verify_laws.row_minimum(counts, verify.span(r)[1], W) <= bound + (verify.ONE >> 40)


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
        found = verify_laws.divergence(counts, K, verify_laws.ln(verify.span(share)))
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
