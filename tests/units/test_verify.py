"""The verifier that trusts nobody: every claim of an honest file is proved, and none that is forged.

Forgeries are written with a checksum that fits, so that only arithmetic can find them. Bounds are moved by one double
across the exact number, which the verifier's own arithmetic encloses to 2^-200.
"""

import ast
import json
import math
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from safetensors.numpy import load, save

import bidual as bd
from bidual._base.archive import digest
from bidual.certificate import verify, verify_functions, verify_numbers
from bidual.certificate.verify_convex import read_convex, read_expressions
from bidual.certificate.verify_expressions import Tree
from bidual.cli import main
from tests.helpers import SHAPES, random_instance

SOURCE = Path(verify.__file__)


def linear_problem(seed):
    """Some linear problem with limits in every sense; about a third of them have no feasible policy."""
    rng = np.random.default_rng(seed)
    instance = random_instance(seed, SHAPES[seed % 4], per_step=seed % 3 == 0, masked=seed % 5 == 0)
    x, H = instance.embedding(total=bool(seed % 2)), instance.mdp.horizon
    limits = {"at most": cp.sum(x.s1) <= rng.normal() * H / 2}
    if seed % 3:
        limits["at least"] = cp.sum(x.s2) >= rng.normal() * H / 2
    if seed % 7 == 1:
        limits["equal"] = cp.sum(x.s3) == rng.normal() * 0.3
    if seed % 4 == 0:
        limits["step by step"] = x.s3 <= 1.0
    sense = cp.Maximize if seed % 2 else cp.Minimize
    return bd.Problem(sense(cp.sum(x.s0) + 0.5), limits), instance.mdp


def saved(path, seed, **options):
    solution = bd.solve(*linear_problem(seed), **options)
    solution.save(path)
    return solution


def rewrite(path, change):
    """Change manifest and arrays as a forger would: with a checksum that fits again."""
    with zipfile.ZipFile(path) as archive:
        manifest, arrays = json.loads(archive.read("manifest.json")), load(archive.read("arrays.safetensors"))
    manifest.pop("sha256")
    change(manifest, arrays)
    blob = save(arrays)
    manifest["sha256"] = digest(manifest, blob)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        archive.writestr("arrays.safetensors", blob)


def outcomes(path, **options):
    return {claim: outcome for outcome, claim, _ in verify.verify(str(path), **options)}


def forged(path, tmp_path, change):
    copy = tmp_path / "forged.bidual"
    shutil.copy(path, copy)
    rewrite(copy, change)
    return outcomes(copy)


def double_above(x):
    """Return the least double above a rational number."""
    found = float(x)
    return found if Fraction(found) > x else math.nextafter(found, math.inf)


def double_below(x):
    return -double_above(-x)


@pytest.fixture(scope="module")
def optimal(tmp_path_factory):
    path = tmp_path_factory.mktemp("verify") / "optimal.bidual"
    assert saved(path, 2).status == "optimal"
    return path


@pytest.fixture(scope="module")
def infeasible(tmp_path_factory):
    path, seed = tmp_path_factory.mktemp("verify") / "infeasible.bidual", 0
    while saved(path, seed).status != "infeasible":
        seed += 1
    return path


def test_every_claim_of_forty_problems_is_proved(tmp_path):
    statuses = set()
    for seed in range(40):
        solution = saved(tmp_path / "x.bidual", seed, max_plans=3 if seed % 8 == 7 else None)
        found = outcomes(tmp_path / "x.bidual")
        assert set(found.values()) == {"proved"}, (seed, found)
        statuses.add(str(solution.status))
    assert {"optimal", "infeasible"} <= statuses


@pytest.mark.parametrize("seed", range(6))
def test_bounds_that_are_a_double_too_good_are_refuted(seed, tmp_path):
    path = tmp_path / "x.bidual"
    solution = saved(path, seed)
    manifest, arrays = verify.read(str(path))
    problem = verify.Answer(manifest, arrays)
    sign = -1 if solution.sense == "maximize" else 1
    reach, beat = ("upper", "lower")[::sign]
    low, high = (Fraction(x, verify.ONE) for x in problem.enclose(problem.forms[0]))
    bound = Fraction(problem.bound, verify.ONE)
    if solution.status == "optimal":
        for side, false, true in (
            (reach, sign * double_below(low), sign * double_above(high)),
            (beat, sign * double_above(bound + Fraction(1, 2**200)), sign * double_below(bound)),
            ("gap", double_below(low - bound - Fraction(1, 2**200)), double_above(high - bound)),
        ):
            assert forged(path, tmp_path, lambda m, _, s=side, x=false: m["claims"].update({s: x}))[side] == "refuted"
            assert forged(path, tmp_path, lambda m, _, s=side, x=true: m["claims"].update({s: x}))[side] == "proved"
    for i, line in enumerate(manifest["claims"]["constraints"]):
        claim = f"constraint {line['name']!r} violation_upper"
        start = 1 + sum(len(x[3]) for x in manifest["lines"][:i])
        spans = [problem.enclose(form) for form in problem.forms[start : start + len(manifest["lines"][i][3])]]
        ends = [max(low, -high) if line["sense"] == "==" else low for low, high in spans]
        false = double_below(Fraction(max(0, *ends), verify.ONE))
        edit = {"violation_upper": false}
        found = forged(path, tmp_path, lambda m, _, i=i, e=edit: m["claims"]["constraints"][i].update(e))
        assert found[claim] == "refuted"


@pytest.mark.parametrize("shift", [1e-6, -1e-6])
def test_rounded_numbers_are_right_to_nine_digits(optimal, tmp_path, shift):
    for key in ("value", "violation", "price"):
        found = forged(
            optimal,
            tmp_path,
            lambda m, _, k=key: m["claims"]["constraints"][0].update({k: m["claims"]["constraints"][0][k] + shift}),
        )
        (name,) = [claim for claim in found if claim.endswith(f"most' {key}")]
        assert found[name] == "refuted"
    found = forged(optimal, tmp_path, lambda m, _: m["claims"].update(value=m["claims"]["value"] + shift))
    assert found["value"] == "refuted"


@pytest.mark.parametrize("number", [float("nan"), float("inf"), "0", None])
def test_claims_that_are_no_numbers_are_refuted(optimal, tmp_path, number):
    found = forged(optimal, tmp_path, lambda m, _: m["claims"].update(value=number))
    assert found["value"] == "refuted"


def test_a_negative_multiplier_proves_nothing(optimal, tmp_path):
    found = forged(optimal, tmp_path, lambda m, arrays: arrays["gamma"].__isub__(1.0))
    assert "refuted" in (found["lower"], found["upper"])


def test_a_policy_that_is_not_optimal_is_refuted(optimal, tmp_path):
    def spoil(manifest, arrays):
        arrays["policy"][:] = np.eye(arrays["policy"].shape[2])[-1]

    assert "refuted" in forged(optimal, tmp_path, spoil).values()


def test_a_feasible_problem_cannot_pass_for_infeasible(optimal, infeasible, tmp_path):
    assert outcomes(infeasible)["status infeasible"] == "proved"

    def forge(manifest, arrays):
        manifest["claims"]["status"] = "infeasible"
        manifest["objective_weight"] = 0.0

    assert forged(optimal, tmp_path, forge)["status infeasible"] == "refuted"
    found = forged(infeasible, tmp_path, lambda m, a: a["problem_limits"].__iadd__(100.0))
    assert found["status infeasible"] == "refuted"


def test_a_violated_limit_cannot_pass_for_feasible(infeasible, tmp_path):
    found = forged(infeasible, tmp_path, lambda m, _: m["claims"].update(status="feasible"))
    assert found["status feasible"] == "refuted"


def test_a_loose_solution_cannot_pass_for_optimal(optimal, tmp_path):
    found = forged(optimal, tmp_path, lambda m, _: m.update(goal=[0.0, False]))
    assert found["status optimal"] == "refuted"


def test_rows_are_divided_by_their_sums(tmp_path):
    """A policy that takes each action with the double nearest to a third has the value of thirds, exactly."""
    mdp = bd.TabularMDP((np.zeros((1, 3, 1), int), np.ones((1, 3, 1))), 0, 1)
    x = mdp.embedding(r=np.array([[1.0, 2.0, 4.0]]))
    bd.solve(bd.Problem(cp.Maximize(cp.sum(x.r))), mdp).save(tmp_path / "x.bidual")
    rewrite(tmp_path / "x.bidual", lambda m, arrays: arrays["policy"].__setitem__(slice(None), 1 / 3))
    problem = verify.Answer(*verify.read(str(tmp_path / "x.bidual")))
    low, high = problem.values[0, 0]
    assert Fraction(low, verify.ONE) <= Fraction(7, 3) <= Fraction(high, verify.ONE)
    assert high - low < 1 << 10


def damage_row(manifest, arrays):
    arrays["policy"][0, 0, 0] += 1e-6


def damage_state(manifest, arrays):
    arrays["next_states"][0, 0, 0, 0] = -1


def damage_lines(manifest, arrays):
    manifest["lines"] = []


@pytest.mark.parametrize("change", [damage_row, damage_state, damage_lines])
def test_files_that_make_no_sense_cannot_be_read(optimal, tmp_path, change, capsys):
    shutil.copy(optimal, tmp_path / "x.bidual")
    rewrite(tmp_path / "x.bidual", change)
    assert verify.main([str(tmp_path / "x.bidual")]) == 5
    assert "cannot be read" in capsys.readouterr().err


def test_a_flipped_bit_is_noticed(optimal, tmp_path, capsys):
    copy = bytearray(optimal.read_bytes())
    copy[copy.index(b'"value"') + 12] ^= 1
    (tmp_path / "x.bidual").write_bytes(bytes(copy))
    assert verify.main([str(tmp_path / "x.bidual")]) == 5
    assert capsys.readouterr().out == ""


def stored(path, header, data=b"", text='{"kind": "solution"}', method=zipfile.ZIP_STORED):
    """Write a file with the right checksum and any list of arrays."""
    blob = len(header).to_bytes(8, "little") + header.encode() + data
    manifest = text[:-1] + f', "sha256": "{digest(json.loads(text), blob)}"}}'
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("manifest.json", manifest)
        archive.writestr("arrays.safetensors", blob)
    return str(path)


def arrays_of(*entries):
    kinds = (f'"{i}": {{"dtype": "F64", "shape": {shape}, "data_offsets": {place}}}' for i, shape, place in entries)
    return "{" + ", ".join(kinds) + "}"


SWELLING = {
    "a shape without numbers": (arrays_of((0, [10**12, 0], [0, 0])), "cannot have the shape"),
    "a negative shape": (arrays_of((0, [-1, -1], [0, 8])), "cannot have the shape"),
    "the same numbers twice": (arrays_of((0, [1], [0, 8]), (1, [1], [0, 8])), "cannot have the shape"),
    "a place before the first": (arrays_of((0, [1], [-8, 0]), (1, [1], [0, 8])), "cannot have the shape"),
    "a place that ends before it begins": (arrays_of((0, [0], [8, 0]), (1, [1], [0, 8])), "cannot have the shape"),
    "many arrays": ("{" + "," * 1_000_001 + "}", "million values"),
}


@pytest.mark.parametrize("name", SWELLING)
def test_a_small_file_cannot_become_a_large_one(tmp_path, name):
    header, message = SWELLING[name]
    path = stored(tmp_path / "x.bidual", header, bytes(8))
    with pytest.raises(ValueError, match=message):
        verify.read(path)
    assert verify.main([path]) == 5


@pytest.mark.parametrize("kind", ["F16", "U64", "[]"])
def test_numbers_of_other_kinds_are_refused_in_plain_words(tmp_path, kind, capsys):
    header = arrays_of((0, [1], [0, 8])).replace("F64", kind)
    path = stored(tmp_path / "x.bidual", header, bytes(8))
    assert verify.main([path]) == 5
    assert f"0 is not readable: it has the kind {kind}" in capsys.readouterr().err


def test_texts_and_parts_that_swell_are_refused(tmp_path):
    good = arrays_of((0, [1], [0, 8]))
    assert verify.read(stored(tmp_path / "x.bidual", good, bytes(8)))[1] == {"0": ((1,), [0.0])}
    values = '{"x": [' + "[], " * 500_000 + "[]]}"
    with pytest.raises(ValueError, match="million values"):
        verify.read(stored(tmp_path / "x.bidual", good, bytes(8), values))
    with pytest.raises(ValueError, match="compressed"):
        verify.read(stored(tmp_path / "x.bidual", good, bytes(10**6), method=zipfile.ZIP_DEFLATED))
    path = tmp_path / "x.bidual"
    stored(path, good, bytes(8))
    longer = path.read_bytes().replace((16 + len(good)).to_bytes(4, "little"), (1 << 30).to_bytes(4, "little"))
    path.write_bytes(longer)
    with pytest.raises(ValueError, match="longer than FILE"):
        verify.read(str(path))


Y = {"variable": 0}


def atom(name, arguments, data):
    return {"atom": f"cvxpy.{name}", "arguments": arguments, "data": {"list": data}}


@pytest.mark.parametrize(
    "tree",
    [
        atom("Promote", [{"constant": 1.0}], [{"tuple": [10**6, 10**6]}]),
        atom("reshape", [Y], [{"tuple": [10**12, 0]}, "F"]),
        atom("NegExpression", [atom("Promote", [atom("Sum", [Y], [None, False])], [{"tuple": [1000, 1]}])], []),
        atom("AddExpression", [Y, atom("reshape", [Y], [{"tuple": [1, 2000]}, "F"])], []),
        atom("MulExpression", [atom("reshape", [Y], [{"tuple": [2000, 1]}, "F"]), {"constant": {"array": "row"}}], []),
        atom("Hstack", [atom("Promote", [{"constant": 1.0}], [{"tuple": [300_000]}])] * 3, []),
    ],
)
def test_expressions_that_swell_are_not_decided(tree):
    """Each is some hundred bytes over an image of 2000 numbers, and would have more than a million coefficients."""
    arrays = {"problem_row": ((1, 2000), [1.0] * 2000)}
    with pytest.raises(verify.NotDecidedError, match="coefficients"):
        Tree({"images": [[2000, 1]], "auxiliary": []}, arrays).read(tree)
    with pytest.raises(verify.NotDecidedError, match="coefficients"):
        Tree({"images": [[10**6, 10**6]], "auxiliary": []}, arrays)


PROBE = """
import runpy, sys
sys.path.insert(0, ".")
sys.argv = ["", "x.bidual"]
try:
    runpy.run_path(SCRIPT, run_name="__main__")
except SystemExit:
    print(sorted({name.split(".")[0] for name in sys.modules}), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("script", "flags"), [("verify.py", ["-I", "-S"]), ("verify_convex.py", ["-E", "-s", "-S"])]
)  # isolated (-I), a script cannot import the file beside it
def test_it_runs_alone_with_the_standard_library(optimal, tmp_path, script, flags):
    beside = SOURCE.parent.glob("verify*.py") if script != "verify.py" else [SOURCE]
    for path in beside:
        shutil.copy(path, tmp_path)
    shutil.copy(optimal, tmp_path / "x.bidual")
    done = subprocess.run([sys.executable, *flags, script, "x.bidual"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {line.split()[0] for line in done.stdout.splitlines()} == {"proved"}
    probe = PROBE.replace("SCRIPT", repr(script))
    done = subprocess.run([sys.executable, "-I", "-S", "-c", probe], cwd=tmp_path, capture_output=True, text=True)
    ours = {path.stem for path in tmp_path.glob("verify*.py")}
    assert set(ast.literal_eval(done.stderr)) <= {*sys.stdlib_module_names, "__main__", *ours}


def test_all_files_are_short_and_the_first_imports_nothing_of_ours():
    source = SOURCE.read_text()
    assert "import bidual" not in source
    assert "from bidual" not in source
    assert all(len(path.read_text().splitlines()) <= 300 for path in SOURCE.parent.glob("verify*.py"))


def test_the_command_line_runs_it(optimal, tmp_path, capsys):
    assert main(["check", "--exact", str(optimal)]) == 0
    assert "proved       status optimal" in capsys.readouterr().out
    shutil.copy(optimal, tmp_path / "solution.bidual")
    rewrite(tmp_path / "solution.bidual", lambda m, _: m["claims"].update(value=1e6))
    assert main(["check", "--exact", str(tmp_path)]) == 1
    assert "refuted      value" in capsys.readouterr().out
    assert main(["check", "--exact", str(tmp_path / "nothing")]) == 5


def test_learned_answers_are_not_decided(capsys):
    golden = Path(__file__).parents[1] / "golden" / "files" / "linear.bidual"
    assert main(["check", "--exact", str(golden)]) == 4
    assert "not decided" in capsys.readouterr().out


# --- Convex problems ---


def convex_problem(name):
    """Some convex problem over one small model: every kind of function, kinks and free variables included."""
    instance = random_instance(3, (4, 3, 3, 5))
    x = instance.mdp.embedding(visits=True, a=instance.signals[0], b=instance.signals[1])
    mean, a, b = cp.sum(x.visits, axis=0) / 5, cp.sum(x.a), cp.sum(x.b)
    parts: Any = {"mean": mean, "squares": cp.sum(cp.square(x.visits), axis=1)}  # CVXPY's types know no index of a sum
    target, v, w = np.array([0.1, 0.2, 0.3, 0.4]), cp.Variable(), cp.Variable(4)
    objective, limits = {
        "norms": (cp.norm(mean - target) + cp.norm1(x.a) + cp.norm_inf(x.b), {"ball": cp.norm(x.a) <= 3.0}),
        "kink": (cp.norm(a), {"b": b <= 1.0}),
        "squares": (cp.sum_squares(mean - target) + cp.square(a) + cp.quad_over_lin(x.b, 20 + a), {"b": b == 0.1}),
        "entropy": (-cp.sum(cp.entr(mean)), {"log": cp.log(parts["mean"][0] + 0.1) >= -3.0}),
        "divergences": (cp.sum(cp.kl_div(mean, target)) + cp.sum(cp.rel_entr(target, mean + 0.1)), {}),
        "exponentials": (cp.exp(a / 5) + cp.logistic(b) + cp.log_sum_exp(x.a), {}),
        "pieces": (cp.max(x.a) + cp.sum(cp.pos(x.b)) + cp.sum_largest(mean, 1.5) - cp.min(x.b), {}),
        "huber": (cp.sum(cp.huber(x.a - 0.3, 0.5)), {}),
        "nested": (cp.square(cp.norm(mean - target)) + cp.maximum(cp.norm(x.a), cp.abs(b), 0.1), {}),
        "affine": (np.arange(4) @ cp.square(mean) + parts["squares"][0] / 2 + cp.square(a), {}),
        "quadratic": (cp.quad_form(mean, np.diag([1.0, 2.0, 3.0, 0.0]) + 0.1), {}),
        "spread": (cp.std(x.a) + cp.tv(mean), {}),
        "shortfall": (v + 2 * cp.sum(cp.pos(x.a - v)) / 5, {}),
        "ball": (cp.norm1(mean - w), {"ball": cp.norm(w - target) <= 0.05}),
        "box": (cp.norm(mean - w), {"low": w >= 0.1, "high": w <= 0.3}),
        "feasible": (0 * a, {"square": cp.sum_squares(mean) <= 0.9}),
        "infeasible": (a, {"ball": cp.norm(mean) <= 0.1, "b": b <= 100.0}),
        "infeasible entropy": (a, {"spread": cp.sum(cp.entr(mean)) >= 1.5}),
    }[name]
    return bd.Problem(cp.Minimize(objective), limits), instance.mdp


CONVEX = (
    *("norms", "kink", "squares", "entropy", "divergences", "exponentials", "pieces", "huber", "nested", "affine"),
    *("quadratic", "spread", "shortfall", "ball", "box", "feasible", "infeasible", "infeasible entropy"),
)


@pytest.mark.parametrize("name", CONVEX)
def test_every_claim_on_a_convex_problem_is_proved_and_no_better_one(name, tmp_path):
    path = tmp_path / "x.bidual"
    solution = bd.solve(*convex_problem(name), gap=1e-5)
    solution.save(path)
    assert solution.status == ("infeasible" if "infeasible" in name else "optimal")
    found = outcomes(path, convex=read_convex)
    assert set(found.values()) == {"proved"}, found
    answer = verify.Answer(*verify.read(str(path)), read_expressions)
    if solution.status == "infeasible":
        rewrite(path, lambda m, arrays: arrays["multipliers"].__imul__(0.0))
        assert outcomes(path, convex=read_convex)["status infeasible"] == "refuted"
        return
    false = {
        "upper": double_below(Fraction(answer.enclose(answer.forms[0])[0], verify.ONE)),
        "lower": double_above(Fraction(answer.bound, verify.ONE) + Fraction(1, 2**200)),
        "value": solution.value - 1e-6,
    }
    for claim, number in false.items():
        rewrite(path, lambda m, _, c=claim, x=number: m["claims"].update({c: x}))
        assert outcomes(path, convex=read_convex)[claim] == "refuted", claim


def test_a_record_without_multipliers_can_be_saved_and_claims_no_bound(tmp_path):
    problem, mdp = convex_problem("norms")
    solution = bd.solve(problem, mdp)
    record = replace(solution.evidence.record, gamma=np.zeros(0), point=None)
    bare = replace(solution, evidence=replace(solution.evidence, record=record), status=bd.Status.FEASIBLE, lower=None)
    bare = replace(bare, constraints=tuple(replace(c, price=None) for c in bare.constraints))
    bare.save(tmp_path / "x.bidual")
    found = outcomes(tmp_path / "x.bidual", convex=read_convex)
    assert set(found.values()) == {"proved"}
    assert "lower" not in found


@pytest.mark.parametrize("name", ["norms", "squares", "entropy", "pieces", "ball"])
def test_any_slopes_prove_something_true(name, tmp_path):
    """Weak duality: whatever slopes and multipliers a file has, what they prove is below every policy."""
    path, rng = tmp_path / "x.bidual", np.random.default_rng(0)
    solution = bd.solve(*convex_problem(name))
    solution.save(path)
    for _ in range(10):
        noise = rng.choice([1e-12, 1e-3, 1.0])

        def shake(manifest, arrays, noise=noise):
            arrays["slopes"][:] += noise * rng.normal(size=arrays["slopes"].shape)
            arrays["multipliers"][:] = abs(arrays["multipliers"] + noise * rng.normal(size=arrays["multipliers"].shape))

        rewrite(path, shake)
        try:
            bound = verify.Answer(*verify.read(str(path)), read_expressions).bound / verify.ONE
        except verify.NotDecidedError:
            continue
        assert bound <= solution.upper + 1e-9  # limits hold to 1e-9


def test_unknown_functions_are_named(tmp_path):
    instance = random_instance(3, (4, 3, 3, 5))
    x = instance.mdp.embedding(visits=True)
    problem = bd.Problem(cp.Minimize(cp.norm(cp.sum(x.visits, axis=0) / 5, 3)))
    bd.solve(problem, instance.mdp).save(tmp_path / "x.bidual")
    ((outcome, _, reason),) = verify.verify(str(tmp_path / "x.bidual"), convex=read_convex)
    assert outcome == "not decided"
    assert "Pnorm with the exponent 3" in reason
    ((outcome, _, reason),) = verify.verify(str(tmp_path / "x.bidual"))
    assert outcome == "not decided"
    assert "the files beside it" in reason


LEAST = {
    "norm": (None, 2),
    "norm1": (None, 2),
    "norm_inf": (None, 2),
    "quad": (None, 2),
    "exp": (None, 1),
    "log": (None, 1),
    "entropy": (None, 1),
    "rel_entr": (None, 2),
    "kl_div": (None, 2),
    "logistic": (None, 1),
    "log_sum_exp": (None, 2),
    "huber": (Fraction(1, 2), 1),
    "max": (None, 3),
    "sum_largest": (Fraction(3, 2), 3),
}


@pytest.mark.parametrize("name", verify_functions.FUNCTIONS)
def test_the_least_value_between_ends_is_below_all_and_reached(name):
    """On grids of boxes: below every value in the box, and no lower than a finer grid finds."""
    p, number = LEAST[name]
    rng, positive = np.random.default_rng(5), name in ("log", "entropy", "rel_entr", "kl_div", "quad")
    for _ in range(12):
        low = rng.choice([0.05, 0.3, 1.0], number) if positive else rng.choice([-1.0, -0.2, 0.3], number)
        high = low + rng.choice([0.0, 0.25, 2.0], number)
        ends = [(verify.span(a)[0], verify.span(b)[1]) for a, b in zip(low.tolist(), high.tolist(), strict=True)]
        found = verify_functions.least(name, ends, p) / verify.ONE
        values = []
        for t in [*np.ndindex(*(2,) * number), *rng.random((30, number))]:
            place = [verify.span(float(x)) for x in low + np.array(t) * (high - low)]
            values.append(verify_functions.FUNCTIONS[name].value(place, p)[1] / verify.ONE)
        assert found <= min(values)
        assert found >= min(values) - 0.5 * (high - low).sum() * (np.abs(values).max() + 1) - 1e-70


def test_what_is_not_known_has_no_least_value():
    nothing, least = (None, None), verify_functions.least
    known = (verify.ONE, 2 * verify.ONE)
    assert {least(name, [nothing, nothing], Fraction(1)) for name in verify_functions.NEVER_NEGATIVE} == {0}
    assert least("max", [nothing, nothing], None) is None
    assert least("max", [nothing, known], None) == verify.ONE  # the largest of both is no less
    assert least("sum_largest", [nothing, known], 1) is None
    assert least("log", [(verify.ONE, None)], None) is None
    assert least("rel_entr", [known, (verify.ONE, None)], None) is None
    assert abs(least("entropy", [nothing], None) / verify.ONE + math.exp(-1)) < 1e-15
    assert least("norm", [known, nothing], None) in (verify.ONE, verify.ONE - 1)


def exact(function, *numbers):
    low, high = function(*(verify.span(x) for x in numbers))
    assert high - low < 1 << 60
    return Fraction(low, verify.ONE), Fraction(high, verify.ONE)


@pytest.mark.parametrize("x", [1e-20, 1e-3, 0.5, 0.999, 1.0, 1.5, 2.0, 10.0, 1e9, 1e60])
def test_logarithms_and_exponentials_are_enclosed(x):
    """By 60 digits of the decimal module, which rounds correctly."""
    with localcontext() as context:
        context.prec = 60
        margin = Fraction(1, 10**50)
        low, high = exact(verify_numbers.ln, x)
        assert abs(Fraction(Decimal(x).ln()) - low) <= margin * max(1, abs(low))
        assert low <= high
        for y in (math.log(x) / 2, -math.log(x) / 2):
            low, high = (Fraction(end, verify.ONE) for end in verify_numbers.exp(verify.span(y)))
            truth = Fraction(Decimal(y).exp())
            assert low - margin * truth <= truth <= high + margin * truth
            assert high - low <= margin * max(1, truth)


def test_an_enclosure_holds_between_its_ends():
    """ln(exp(x)) and sqrt(x)^2 hold x, for rounding is outward."""
    for x in np.random.default_rng(0).normal(size=50) * 5:
        low, high = verify_numbers.ln(verify_numbers.exp(verify.span(float(x))))
        assert low <= verify.span(float(x))[0] <= high
        root = verify_numbers.root(verify.span(abs(float(x))))
        low, high = verify.times(root, root)
        assert low <= verify.span(abs(float(x)))[0] <= high
