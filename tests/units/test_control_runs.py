"""Runs of controls: policies are journalled once, and whoever goes on must go on with the same model."""

import json

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual._base import archive
from bidual.cli import main
from bidual.learning.runs._policies import Journal
from bidual.models import KNR
from bidual.planners import control
from bidual.planners.control import Given
from bidual.problem.features import computed, fourier, linear, signal
from bidual.world.policies import AffineFeedback, ControlPolicy, RandomControls
from tests.control_envs import Slider
from tests.units.test_control_files import FEATURES, HIGH, LOW, MAPPED, POLICIES, H, _affine, _receding

GIVEN = Given(FEATURES, MAPPED)
EXECUTED = [POLICIES[name] for name in ("random", "receding", "affine", "receding", "mapped", "hallucinated", "random")]
MODEL = KNR(linear(), noise=0.02)
QUICK = bd.explorers.Controls(control.Mean(), control.icem(16, 2), control.OpenLoop(), rollouts=4)


def test_policies_of_a_run_come_back(tmp_path):
    """In two parts, the second of which names policies and arrays of the first."""
    journal = Journal(tmp_path)
    journal.write(EXECUTED[:3])
    journal.write(EXECUTED)
    again = Journal(tmp_path, journal.parts, GIVEN)
    assert [one.fingerprint for one in again.policies] == [one.fingerprint for one in EXECUTED]
    assert len(again.distinct) == 5
    more = [*EXECUTED, _affine(5), EXECUTED[1]]
    again.write(more)
    last = Journal(tmp_path, again.parts, GIVEN)
    assert [one.fingerprint for one in last.policies] == [one.fingerprint for one in more]
    assert last.policies[1].controller.features is FEATURES


def test_an_array_is_written_once_in_a_run(tmp_path):
    """All episodes share map and limits: a second plan in the same dynamics adds its theta and its sequence."""
    journal, first = Journal(tmp_path), _receding()
    one = first.controller
    second = ControlPolicy(control.Receding(one.dynamics, one.theta + 1, one.nominal, FEATURES, one.sampler), LOW, HIGH)
    journal.write([first])
    journal.write([first, second])
    _, arrays = archive.read(journal.folder / journal.parts[1].name, "policies")
    assert sorted(array.shape for name, array in arrays.items() if name != "order") == [(H, 4)]


def _forged(journal, change):
    (part,) = journal.parts
    manifest, arrays = archive.read(journal.folder / part.name, "policies")
    words = {key: manifest[key] for key in ("first", "num_actions", "controls")}
    words, arrays = change(words, arrays)
    sha256 = archive.write(journal.folder / part.name, "policies", words, arrays)
    return [part._replace(sha256=sha256)]


@pytest.mark.parametrize(
    "change",
    [
        lambda words, arrays: (words | {"controls": words["controls"][:1]}, arrays),
        lambda words, arrays: (words | {"controls": None}, arrays),
        lambda words, arrays: (words | {"controls": [{}]}, arrays),
        lambda words, arrays: (words, arrays | {"1": arrays["0"]}),
        lambda words, arrays: (words, arrays | {"0": arrays["0"] + np.nan}),
        lambda words, arrays: (words, {name: array for name, array in arrays.items() if name != "2"}),
        lambda words, arrays: (words, arrays | {"order": arrays["order"] + 50}),
    ],
)
def test_forged_journals_are_refused(tmp_path, change):
    journal = Journal(tmp_path)
    journal.write(EXECUTED)
    with pytest.raises(bd.ArchiveError, match="does not hold the policies it should"):
        Journal(tmp_path, _forged(journal, change), GIVEN)


def _problem(high=4.0):
    x = computed(distance=signal(lambda x, u, y: x[0] ** 2, 0.0, high)).embedding(6, total=True)
    return bd.Problem(cp.Minimize(x.distance))


def _learned(folder, problem=None, model=MODEL, episodes=4):
    folder = bd.runs.Folder(folder, resume=True, every=2)
    settings = {"evaluation": 3, "explorer": QUICK, "run": folder}
    return bd.learn(problem or _problem(), Slider(), model, episodes=episodes, **settings)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "slider"
    return folder, _learned(folder)


def test_a_run_of_controls_is_listed_read_and_loaded(stored):
    folder, solution = stored
    (told,) = bd.runs.listed(folder.parent)
    assert (told.status, told.episodes, told.gap) == ("finished", 4, None)
    assert bd.runs.read(folder)["objective"].shape == (4,)
    policy = bd.load(folder)
    assert isinstance(policy.controller, AffineFeedback)
    assert policy.fingerprint == solution.policy.fingerprint
    assert bd.check(folder).claims["value"] == solution.value
    first, second = (bd.evaluate(_problem(), Slider(), one, MODEL, episodes=5) for one in (policy, solution.policy))
    assert first.objective == second.objective


def test_what_a_plan_expected_is_stored_beside_what_happened(stored):
    """Controls at random expect nothing; a plan in the estimate expects what comes, up to noise of .02 and the cost.

    Six steps from 1: the squared position of a step is at most about 1, and 4 paths see it to a few hundredths each.
    """
    folder, _ = stored
    table = bd.runs.read(folder)
    planned, paid = table["planned objective"], table["objective"]
    assert np.isnan(planned[0])
    assert np.isfinite(planned[1:]).all()
    np.testing.assert_allclose(planned[2:], paid[2:], atol=0.5)


def test_a_longer_run_is_what_it_would_have_been(stored, tmp_path):
    folder, _ = stored
    longer, whole = _learned(folder, episodes=7), _learned(tmp_path / "whole", episodes=7)
    assert longer.value == whole.value
    assert [one.fingerprint for one in longer.executed] == [one.fingerprint for one in whole.executed]
    assert isinstance(longer.executed[0].controller, RandomControls)
    assert longer.knowledge.moments.gram.tobytes() == whole.knowledge.moments.gram.tobytes()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"model": KNR(linear(), noise=0.03)}, "another noise: 0.02 then, 0.03 now"),
        ({"model": KNR(linear(), noise=0.02, ridge=1.0)}, "another ridge"),
        ({"model": KNR(linear(), noise=0.02, bound=1.0)}, "another bound"),
        ({"model": KNR(linear(), noise=0.02, box=((-1.0, -1.0), (1.0, 1.0)))}, "another box"),
        ({"model": KNR(fourier(d=8), noise=0.02)}, "another map of the model"),
        ({"problem": _problem(high=5.0)}, "another (features|signals)"),
    ],
)
def test_another_model_is_refused(stored, settings, words):
    with pytest.raises(bd.RunError, match=words):
        _learned(stored[0], **settings, episodes=9)


def test_numbered_actions_are_learned_and_stored(tmp_path):
    """Plans answer with numbers too: an environment of numbered actions takes nothing else."""
    learned = bd.learn(_problem(), Slider(discrete=True), MODEL, episodes=2, evaluation=2, explorer=QUICK)
    assert [one.discrete for one in learned.executed] == [True, True]
    learned.save(tmp_path / "p.bidual", signals={})
    policy = bd.load(tmp_path / "p.bidual")
    assert policy.discrete
    assert policy.reset(0).act(np.zeros(2)) in (0, 1, 2)


FILE = """\
from tests.units.test_control_runs import MODEL, Slider, _problem

problem, env, model = _problem(), Slider(), MODEL
"""


def test_the_command_line_evaluates_and_exports_controls(stored, tmp_path, capsys):
    folder, _ = stored
    (tmp_path / "slider.py").write_text(FILE)
    assert main(["evaluate", str(folder), str(tmp_path / "slider.py"), "--episodes", "5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["episodes"] == 5
    assert main(["export", str(folder), "--out", str(tmp_path / "p.json")]) == 0
    told = json.loads((tmp_path / "p.json").read_text())
    assert told["kind"] == "affine control"
    assert np.shape(told["controls"]) == (1, 6, 1)
    assert main(["export", str(folder), "--format", "csv", "--out", str(tmp_path / "p.csv")]) != 0
    assert "a csv has no place for them" in capsys.readouterr().err


def test_the_command_line_gives_signals_to_what_plans_with_them(stored, tmp_path, capsys):
    world, problem = stored[1].knowledge.world, _problem()
    features = problem.embedding.features
    plan = control.Receding(world.dynamics(), np.ones((6, 1)), np.zeros((6, 1), np.float32), features, QUICK.sampler, 6)
    ControlPolicy(plan, LOW, HIGH).save(tmp_path / "p.bidual", signals={})
    (tmp_path / "slider.py").write_text(FILE)
    assert main(["evaluate", str(tmp_path / "p.bidual"), str(tmp_path / "slider.py"), "--episodes", "2"]) == 0
    assert main(["export", str(tmp_path / "p.bidual"), "--out", str(tmp_path / "p.json")]) != 0
    assert "Other programs can run a policy of bd.control.Feedback()" in capsys.readouterr().err
