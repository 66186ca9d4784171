"""Names of states and actions: in results, tables, figures, files and errors."""

import csv
import json

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import bidual as bd
from bidual._base import archive

STATES, ACTIONS, H = ("dock", "shelf", "charger"), ("wait", "drive"), 4


def _model(**settings):
    transitions = np.zeros((3, 2, 3))
    transitions[:, 0] = np.eye(3)
    transitions[:, 1] = [[0.2, 0.8, 0.0], [0.0, 0.3, 0.7], [0.9, 0.0, 0.1]]
    return bd.TabularMDP(
        transitions, **({"initial": "dock", "horizon": H, "states": STATES, "actions": ACTIONS} | settings)
    )


def _problem(mdp):
    x = mdp.embedding(picked=np.array([0.0, 1.0, 0.0]), driven=np.array([[0.0, 1.0]] * 3))
    return bd.Problem(cp.Maximize(cp.sum(x.picked)), {"driven": cp.sum(x.driven) <= 1.5})


@pytest.fixture(scope="module")
def solution():
    mdp = _model()
    return bd.solve(_problem(mdp), mdp)


def test_names_have_numbers():
    mdp = _model()
    assert (mdp.state("shelf"), mdp.action("drive")) == (1, 1)
    np.testing.assert_array_equal(mdp.initial, [1, 0, 0])
    with pytest.raises(bd.ModelError, match="no state is called 'shelv'; did you mean 'shelf'"):
        mdp.state("shelv")
    with pytest.raises(bd.ModelError, match="no action is called 'x'; there are wait, drive"):
        mdp.action("x")


@pytest.mark.unchecked_shapes(reason="the subject is bad input")
@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"states": ["dock", "shelf"]}, "states has 2 names, but the model has 3 states"),
        ({"actions": ["wait", "drive", "fly"]}, "actions has 3 names, but the model has 2 actions"),
        ({"states": ["dock", "shelf", "dock"]}, r"states\[0\] and states\[2\] are both called 'dock'"),
        ({"states": ["dock", "shelf", 3]}, r"states\[2\] is 3: the name of a state must be printable text"),
        ({"states": ["dock", "", "charger"]}, r"states\[1\] is ''"),
        ({"states": "abc"}, "states must be a list of names, one for each state; got 'abc'"),
        ({"initial": "dok"}, "did you mean 'dock'"),
        ({"initial": [1.5, -0.5, 0.0]}, r"initial\[1\], of 'shelf', is -0.5"),
        ({"actions": np.ones((3, 2), bool), "allowed": np.ones((3, 2), bool)}, "both a mask"),
        ({"allowed": np.array([[1, 1], [0, 0], [1, 1]], bool)}, "state 1 'shelf' allows no action"),
    ],
)
def test_bad_names(given, text):
    with pytest.raises(bd.ModelError, match=text):
        _model(**given)


def test_errors_about_rows_use_names():
    transitions = np.tile(np.eye(3)[:, None], (1, 2, 1))
    transitions[1, 1] = [0.5, 0.6, 0.0]
    for law in (transitions, [sp.csr_array(transitions[:, a]) for a in range(2)]):
        with pytest.raises(bd.ModelError, match="state 1 'shelf', action 1 'drive'"):
            bd.TabularMDP(law, 0, H, states=STATES, actions=ACTIONS)


def test_names_and_a_mask_go_together():
    allowed = np.array([[True, True], [True, True], [False, True]])
    mdp = _model(allowed=allowed)
    np.testing.assert_array_equal(mdp.actions, allowed)
    np.testing.assert_array_equal(_model(actions=allowed).actions, allowed)
    assert _model(actions=np.array(ACTIONS)).action("drive") == 1


def test_a_policy_answers_names_with_names(solution):
    actor = solution.policy.reset(0)
    assert actor.act("charger") in ACTIONS
    assert actor.act(0) in (0, 1)
    with pytest.raises(bd.PolicyError, match="no state is called 'shelve'; did you mean 'shelf'"):
        actor.act("shelve")
    with pytest.raises(bd.PolicyError, match="states have no names here"):
        bd.policies.MarkovPolicy(solution.policy.table).reset(0).act("shelf")


def test_tables_use_names(solution, tmp_path):
    frame = solution.policy.to_frame()
    assert set(frame.state) == set(STATES)
    assert set(frame.action) <= set(ACTIONS)
    assert solution.to_frame().state.iloc[0] == "dock"
    html = solution.policy._repr_html_()
    assert "shelf" in html
    assert "drive" in html
    written = bd.policies.write_table(solution.policy, tmp_path / "policy.csv", "csv")
    rows = list(csv.DictReader(written.read_text().splitlines()))
    assert {row["state"] for row in rows} == set(STATES)
    assert [float(row["probability"]) for row in rows] == frame.probability.tolist()


def test_other_formats_have_names_beside_the_numbers(solution, tmp_path):
    from safetensors import safe_open

    paths = {one: bd.policies.write_table(solution.policy, tmp_path / f"p.{one}", one) for one in ("json", "npz")}
    assert json.loads(paths["json"].read_text())["states"] == list(STATES)
    assert tuple(np.load(paths["npz"])["actions"]) == ACTIONS
    path = bd.policies.write_table(solution.policy, tmp_path / "p.safetensors", "safetensors")
    with safe_open(path, "np") as file:
        assert json.loads(file.metadata()["states"]) == list(STATES)


def test_names_survive_files(solution, tmp_path):
    solution.save(tmp_path / "named.bidual")
    policy = bd.load(tmp_path / "named.bidual")
    assert isinstance(policy, bd.policies.MarkovPolicy)
    assert policy.names == solution.policy.names
    assert policy.reset(0).act("dock") in ACTIONS
    assert bd.check(tmp_path / "named.bidual").certificate.lower is not None


@pytest.mark.parametrize("forged", [{"states": ["a"]}, {"states": [1, 2, 3]}, {"states": "abc"}, {"s": []}, [], 3])
def test_malformed_names_in_a_file(solution, tmp_path, forged):
    path = tmp_path / "named.bidual"
    solution.save(path)
    manifest, arrays = archive.read(path, "solution")
    archive.write(path, "solution", manifest | {"names": forged}, arrays)
    with pytest.raises(bd.ArchiveError, match="holds no policy"):
        bd.load(path)


def test_a_file_without_names_is_as_before(tmp_path):
    mdp = _model(states=None, actions=None, initial=0)
    bd.solve(_problem(mdp), mdp).save(tmp_path / "plain.bidual")
    assert "names" not in archive.read(tmp_path / "plain.bidual", "solution")[0]


def test_learned_policies_have_the_names_of_the_simulated_model(tmp_path):
    mdp = _model()
    learned = bd.learn(_problem(mdp), mdp, bd.models.Tabular(support=mdp), episodes=16, evaluation=4)
    assert set(learned.policy.to_frame().state) == set(STATES)
    assert learned.to_frame().state.iloc[0] == "dock"
    learned.save(tmp_path / "learned.bidual")
    assert bd.load(tmp_path / "learned.bidual").names == mdp.names
    assert bd.check(tmp_path / "learned.bidual").episodes == 4


def test_models_from_gymnasium_can_be_named():
    mdp = bd.TabularMDP.from_gymnasium("FrozenLake-v1", horizon=5)
    named = mdp.with_names([f"cell {i}" for i in range(16)], ["left", "down", "right", "up"])
    assert named.state("ended") == 16
    assert mdp.names.states is None
    x = named.embedding(goal=lambda t: t.reward)
    policy = bd.solve(bd.Problem(cp.Maximize(cp.sum(x.goal))), named).policy
    assert policy.reset(0).act("cell 0") in ("left", "down", "right", "up")


def test_figures_use_names(solution):
    policy, visits = bd.report.policy_figure(solution), bd.report.visits_figure(solution)
    for figure in (policy, visits):
        assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == list(STATES)
    assert [text.get_text() for text in policy.legends[0].get_texts()] == [*ACTIONS, "never there"]
