"""Claims about learned policies of controls, derived again from their files; forged ones are refused."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import bidual as bd
from bidual._base import archive
from bidual.world.policies import CONTROLS

pytest.importorskip("gymnasium")


@cache
def _learn(name):
    """Learn one with a bound on all policies and a limit that is bounded, or one with a curved objective."""
    task = bd.tasks.find(name).build()
    few = bd.control.icem(16, 3)
    if isinstance(task.explorer, bd.explorers.Riccati):
        explorer = replace(task.explorer, otherwise=replace(task.explorer.otherwise, sampler=few))
    else:
        explorer = replace(task.explorer, sampler=few)
    return bd.learn(task.problem, task.env, task.model, episodes=3, evaluation=6, explorer=explorer)


@pytest.mark.parametrize("name", ["lqr-effort", "pointmass-match"])
def test_what_was_saved_is_derived_again(tmp_path, name):
    solution = _learn(name)
    solution.save(tmp_path / "x.bidual")
    check = bd.check(tmp_path / "x.bidual")
    assert check.claims["value"] == solution.value
    assert check.certificate.lower == solution.lower
    assert (solution.lower is not None) == (name == "lqr-effort")
    assert "check passed" in str(check)
    assert bd.load(tmp_path / "x.bidual").shape == solution.policy.shape
    again = solution.certify(episodes=4)
    again.save(tmp_path / "y.bidual")
    assert bd.check(tmp_path / "y.bidual").episodes == 10


def test_without_evaluation_the_value_is_the_models(tmp_path):
    task = bd.tasks.find("lqr").build()
    solution = bd.learn(task.problem, task.env, task.model, episodes=2, evaluation=0, explorer=task.explorer)
    solution.save(tmp_path / "x.bidual")
    check = bd.check(tmp_path / "x.bidual")
    assert check.claims["value"] == solution.value
    assert "estimated and not certified" in str(check)


def test_a_policy_alone_claims_nothing(tmp_path):
    _learn("lqr-effort").policy.save(tmp_path / "x.bidual")
    with pytest.raises(bd.CertificateError, match="without claims that could be checked"):
        bd.check(tmp_path / "x.bidual")


def _scaled(name, factor):
    return lambda words, arrays: arrays.update({name: factor * arrays[name]})


FORGED = {
    "a higher bound": lambda words, arrays: words["claims"].update(lower=words["claims"]["lower"] * 1.001),
    "a better value": lambda words, arrays: words["claims"].update(value=1.0),
    "an upper bound": lambda words, arrays: words["claims"].update(upper=9.0),
    "a negative deviation": _scaled("noise", -1.0),
    "a longer W": lambda words, arrays: words["laws"].update(bound=100.0),
    "less was seen": _scaled("gram", 0.25),
    "another start": _scaled("first", 0.5),
    "cheaper states": _scaled("form_0", 0.5),
    "other multipliers": _scaled("gamma", 0.5),
    "a narrower range": _scaled("high", 0.5),
    "narrower signals": _scaled("signal_ends", 0.5),
    "other samples": _scaled("paid_0", 0.5),
    "another limit": _scaled("problem_limits", 2.0),
    "a narrower confidence": lambda words, arrays: words["claims"].update(delta=0.001),
    "a clipped cost": lambda words, arrays: arrays.update(signal_ends=np.array([[0.0, 20.0], [0.0, 25.0]])),
    "stronger controls": _scaled("control_high", 2.0),
    "more numbers": lambda words, arrays: words["signals"].pop(),
    "a round twice": lambda words, arrays: words.update(rounds=[1, 1], policies=[None, None]),
    "no linear laws": lambda words, arrays: words.update(laws=None),
    "the set of the net": lambda words, arrays: words["laws"].pop("set"),
    "another set": lambda words, arrays: words["laws"].update(set="narrow"),
    "negative squares": _scaled("squares", -1.0),
    "a skew gram": lambda words, arrays: arrays.update(gram=arrays["gram"] + np.triu(np.ones((3, 3)), 1)),
}


@pytest.mark.parametrize("forgery", FORGED)
def test_forged_claims_and_evidence_are_refused(tmp_path, forgery):
    """Each changes something that the claims rest on: either they are no longer what follows, or it makes no sense."""
    _learn("lqr-effort").save(tmp_path / "x.bidual")
    words, arrays = archive.read(tmp_path / "x.bidual", CONTROLS)
    words = {key: value for key, value in words.items() if key not in ("format", "kind", "sha256")}
    FORGED[forgery](words, arrays)
    archive.write(tmp_path / "x.bidual", CONTROLS, words, arrays)
    with pytest.raises((bd.CertificateError, bd.ArchiveError)):
        bd.check(tmp_path / "x.bidual")
