"""Saved solutions: what comes back is what went in, and damage is noticed."""

import json
import zipfile

import numpy as np
import pytest

import bidual as bd
from bidual._base.archive import digest


@pytest.fixture(scope="module")
def solution():
    task = bd.tasks.find("media").build()
    return bd.solve(task.problem, task.mdp)


@pytest.fixture
def path(solution, tmp_path):
    target = tmp_path / "media.bidual"
    solution.save(target)
    return target


def _rewrite(path, change):
    """Change the manifest as a forger would: with a checksum that fits again."""
    with zipfile.ZipFile(path) as archive:
        manifest, arrays = json.loads(archive.read("manifest.json")), archive.read("arrays.safetensors")
    manifest.pop("sha256", None)
    change(manifest)
    manifest.setdefault("sha256", digest(manifest, arrays))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        archive.writestr("arrays.safetensors", arrays)


def test_the_policy_comes_back_bit_by_bit(solution, path):
    np.testing.assert_array_equal(bd.load(path).table, solution.policy.table)
    assert bd.load(path).reset(0).act(0) in (0, 1)


def test_the_check_derives_the_same_numbers(solution, path):
    check = bd.check(path)
    written = json.loads(json.dumps(solution.to_dict()))
    assert check.claims == {key: written[key] for key in check.claims}
    assert "check passed: optimal" in str(check)


def test_an_infeasible_solution_can_be_checked_too(tmp_path):
    task = bd.tasks.find("media").build(budget=-1.0)
    solution = bd.solve(task.problem, task.mdp)
    assert solution.status == "infeasible"
    solution.save(tmp_path / "x.bidual")
    assert "prove that no policy keeps all constraints" in str(bd.check(tmp_path / "x.bidual"))


@pytest.mark.parametrize(
    ("claim", "value", "message"),
    [
        ("value", 6.0, "claims value"),
        ("lower", 6.9, "claims lower"),
        ("upper", 6.0, "claims upper"),
        ("gap", -1.0, "claims gap"),
        ("gap", float("nan"), "claims gap"),
        ("value", float("nan"), "claims value"),
        ("value", "6.7", "claims value"),
        ("value", 10**400, "claims value"),
        ("lower", None, "claims lower"),
        ("constraints", [], "claims constraints"),
    ],
)
def test_a_false_claim_fails_the_check(path, claim, value, message):
    _rewrite(path, lambda manifest: manifest["claims"].update({claim: value}))
    with pytest.raises(bd.CertificateError, match=message):
        bd.check(path)


@pytest.mark.parametrize("key", ["name", "value", "limit", "violation", "violation_upper", "price"])
def test_a_false_constraint_fails_the_check(path, key):
    _rewrite(path, lambda manifest: manifest["claims"]["constraints"][0].update({key: -1.0}))
    with pytest.raises(bd.CertificateError, match=f"claims constraints {key}"):
        bd.check(path)


@pytest.mark.parametrize("key", ["lower", "upper"])
def test_an_infeasible_problem_may_claim_no_bounds(tmp_path, key):
    task = bd.tasks.find("media").build(budget=-1.0)
    bd.solve(task.problem, task.mdp).save(tmp_path / "x.bidual")
    _rewrite(tmp_path / "x.bidual", lambda manifest: manifest["claims"].update({key: 1.0}))
    with pytest.raises(bd.CertificateError, match=f"claims {key}"):
        bd.check(tmp_path / "x.bidual")


@pytest.mark.parametrize("status", ["infeasible", "undecided", "feasible"])
def test_a_false_status_fails_the_check(path, status):
    _rewrite(path, lambda manifest: manifest["claims"].update(status=status))
    with pytest.raises(bd.CertificateError, match="claims status"):
        bd.check(path)


def test_a_loose_solution_cannot_pass_for_optimal(tmp_path):
    task = bd.tasks.find("rover").build()
    bd.solve(task.problem, task.mdp, max_plans=4).save(tmp_path / "x.bidual")
    _rewrite(tmp_path / "x.bidual", lambda manifest: manifest["claims"].update(status="optimal"))
    with pytest.raises(bd.CertificateError, match="claims status"):
        bd.check(tmp_path / "x.bidual")


@pytest.mark.parametrize(
    "line",
    [
        ["fast", "=<", 1.0, [5.0]],
        ["fast", "==", 1.0, [5.0]],
        ["fast", "<=", 100.0, [5.0]],
        ["fast", "<=", None, [5.0]],
        ["fast", "<=", 1.0, [[5.0]]],
        ["fast", "<=", 1.0, []],
        [7, "<=", 1.0, [5.0]],
        ["fast", "<=", 1.0, [5.0, 6.0]],
    ],
)
def test_constraints_that_do_not_fit_the_rows_are_refused(path, line):
    _rewrite(path, lambda manifest: manifest.update(lines=[line]))
    with pytest.raises(bd.ArchiveError, match="not a complete solution"):
        bd.check(path)


def test_a_flipped_bit_is_noticed(path):
    with zipfile.ZipFile(path) as archive:
        manifest, arrays = archive.read("manifest.json"), bytearray(archive.read("arrays.safetensors"))
    arrays[-5] ^= 1
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", manifest)
        archive.writestr("arrays.safetensors", bytes(arrays))
    for read in (bd.load, bd.check):
        with pytest.raises(bd.ArchiveError, match="checksum"):
            read(path)


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04 broken"])
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "x.bidual").write_bytes(content)
    with pytest.raises(bd.ArchiveError, match="not a readable bidual file"):
        bd.load(tmp_path / "x.bidual")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(bd.ArchiveError, match="is not a file"):
        bd.load(tmp_path / "nothing.bidual")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(format=99), "upgrade bidual"),
        (lambda m: m.update(format=0), "save it again"),
        (lambda m: m.update(kind="run"), "holds a run"),
        (lambda m: m.update(sha256="0"), "checksum"),
        (lambda m: m.update(format=1.9), "not a readable"),
        (lambda m: m.update(format=None), "not a readable"),
    ],
)
def test_other_formats_are_refused(path, change, message):
    _rewrite(path, change)
    with pytest.raises(bd.ArchiveError, match=message):
        bd.load(path)


def test_an_incomplete_solution_is_refused(path):
    for change in (lambda m: m.pop("horizon"), lambda m: m.update(lines=[]), lambda m: m.update(claims={})):
        _rewrite(path, change)
        with pytest.raises(bd.ArchiveError, match="not a complete solution"):
            bd.check(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m["claims"].update(sense="banana"),
        lambda m: m.update(horizon=float("inf")),
        lambda m: m.update(goal=None),
    ],
)
def test_nonsense_is_refused(path, change):
    _rewrite(path, change)
    with pytest.raises(bd.ArchiveError, match="not a complete solution"):
        bd.check(path)


def test_a_failed_save_leaves_the_old_file(solution, path, monkeypatch):
    before = path.read_bytes()

    def full_disk(*_):
        raise OSError("no space left")

    monkeypatch.setattr("os.replace", full_disk)
    with pytest.raises(OSError, match="no space left"):
        solution.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]
