"""Files of model checkers: what is read and written, and every kind of malformed line with its place."""

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual._base.errors import ModelError
from bidual.cli import main
from tests.endless import absorbed_instance, dense_kernel

DRN = """// a robot that moves, or waits
@type: MDP
@parameters

@reward_models
steps energy
@nr_states
3
@nr_choices
4
@model
state 0 [1, 0] init
\taction go [0, 2]
\t\t1 : 0.5
\t\t2 : 1/2
\taction wait [0, 0.5]
\t\t0 : 1
state 1 [1, 0] lost
\taction go [0, 2]
\t\t2 : 1
state 2 [0, 0] done
\taction wait [0, 0]
\t\t2 : 1
"""
PRISM = {
    "m.tra": "3 4 5\n0 0 1 0.5 go\n0 0 2 0.5 go\n0 1 0 1 wait\n1 0 2 1 go\n2 0 2 1 wait\n",
    "m.lab": '0="init" 1="deadlock" 2="lost" 3="done"\n0: 0\n1: 2\n2: 3\n',
    "m.srew": '# Reward structure "steps"\n3 2\n0 1\n1 1\n',
    "m.trew": "3 4 4\n0 0 1 2\n0 0 2 2\n0 1 0 0.5\n1 0 2 2\n",
}


@pytest.fixture
def drn(tmp_path):
    path = tmp_path / "robot.drn"
    path.write_text(DRN)
    return path


@pytest.fixture
def prism(tmp_path):
    for name, text in PRISM.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def _read_prism(folder, **more):
    trew = {"energy": folder / "m.trew"}
    return bd.TabularMDP.from_prism(folder / "m.tra", folder / "m.lab", folder / "m.srew", trew, until="done", **more)


def _least_energy(mdp):
    x = mdp.embedding(**mdp.signals)
    return bd.solve(bd.Problem(cp.Minimize(x.energy), {"steps": x.steps <= 1.6}), mdp)


def test_both_formats_say_the_same(drn, prism):
    """Going at once: 2 + 0.5 * 2 = 3 of energy and 1.5 steps."""
    for mdp in (bd.TabularMDP.from_drn(drn, until="done"), _read_prism(prism)):
        assert set(mdp.signals) == {"steps", "energy"}
        assert {name: mask.tolist() for name, mask in mdp.labels.items() if mask.any()} == {
            "lost": [False, True, False],
            "done": [False, False, True],
        }
        assert mdp.initial.tolist() == [1, 0, 0]
        assert mdp.names.actions == ("go", "wait")
        solution = _least_energy(mdp)
        assert abs(solution.value - 3) <= 1e-9
        assert abs(solution.totals["steps"] - 1.5) <= 1e-9


def test_chains_are_read(tmp_path):
    (tmp_path / "c.tra").write_text("2 2\n0 1 1\n1 1 1\n")
    mdp = bd.TabularMDP.from_prism(tmp_path / "c.tra", initial=0, horizon=3)
    assert mdp.successors.shape == (3, 2, 1)
    (tmp_path / "c.drn").write_text("@type: DTMC\n@nr_states\n1\n@model\nstate 0 init\n\taction 0\n\t\t0 : 1\n")
    assert bd.TabularMDP.from_drn(tmp_path / "c.drn", 2).num_states == 1


def test_what_is_written_is_read_again(tmp_path):
    instance, path = absorbed_instance(3, (6, 3, 3)), tmp_path / "m.drn"
    lists = instance.mdp.successors
    mdp = bd.TabularMDP((lists.states[0], lists.probabilities[0]), 2, 5)
    mdp.to_drn(path, labels={"done": np.arange(6) == 5}, reward=instance.signals[0])
    again = bd.TabularMDP.from_drn(path, 5)
    np.testing.assert_allclose(dense_kernel(again), dense_kernel(mdp), rtol=1e-15)  # rows are divided by their sums
    np.testing.assert_array_equal(again.signals["reward"], instance.signals[0])
    np.testing.assert_array_equal(again.labels["done"], np.arange(6) == 5)
    np.testing.assert_array_equal(again.initial, mdp.initial)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("@type: MDP", "@type: CTMC", r"line 2: read '@type: CTMC', expected '@type: MDP'"),
        ("\n3\n@nr_choices", "\nthree\n@nr_choices", r"line 8: read 'three', expected the number of states"),
        ("1 : 0.5", "7 : 0.5", r"line 14: read '7 : 0.5', expected the number of a state.*from 0 to 2, not '7'"),
        ("1 : 0.5", "1 : half", r"line 14: .*a probability, a finite number, not 'half'"),
        ("1 : 0.5", "1 : 1/0", r"line 14: .*not '1/0'"),
        ("1 : 0.5", "1 0.5", r"line 14: .*expected 'state N', 'action NAME' or"),
        ("state 1 [1, 0]", "state 2 [1, 0]", r"line 18: .*expected state 1"),
        ("state 1 [1, 0]", "state 1 [1]", r"line 18: .*expected 2 rewards, one for each of steps, energy"),
        ("state 1 [1, 0]", "state 1 !4 [1, 0]", r"line 18: .*without a rate"),
        ("\taction go [0, 2]\n\t\t1", "\taction\n\t\t1", r"line 13: read 'action', expected 'action NAME"),
        ("@model\n", "", r"there is no line '@model'|no parameters|line 11"),
        ("@parameters\n", "@parameters\np\n", r"line 4: .*no parameters"),
        ("1 : 0.5", "1 : 0.4", r"sum to 0.9, not 1"),
    ],
)
def test_a_malformed_drn_is_refused_with_its_line(drn, before, after, message):
    assert before in DRN
    drn.write_text(DRN.replace(before, after, 1))
    with pytest.raises(ModelError, match=message):
        bd.TabularMDP.from_drn(drn, until="done")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("m.tra", "3 x 5\n", r"m.tra, line 1: .*a whole number, not 'x'"),
        ("m.tra", "3 4 6\n0 0 0 1\n", r"says 6 transitions, but there are 1"),
        ("m.tra", "3 4 1\n0 0 0\n", r"m.tra, line 2: .*'STATE CHOICE NEXT PROBABILITY"),
        ("m.tra", "3 4 1\n0 0 3 1\n", r"m.tra, line 2: .*from 0 to 2, not '3'"),
        ("m.tra", "", r"first line has the numbers"),
        ("m.lab", "nothing\n", r"m.lab, line 1: .*names of the labels"),
        ("m.lab", '0="init"\n0: 4\n', r"m.lab, line 2: .*with labels of init"),
        ("m.srew", "3 1\n0\n", r"m.srew, line 2: .*'STATE REWARD'"),
        ("m.trew", "3 4 1\n0 5 1 2\n", r"m.trew, line 2: .*a transition that the model has"),
    ],
)
def test_malformed_files_of_prism_are_refused_with_their_line(prism, name, text, message):
    (prism / name).write_text(text)
    with pytest.raises(ModelError, match=message):
        _read_prism(prism)


def test_other_mistakes_are_named(drn, tmp_path):
    with pytest.raises(ModelError, match="no label 'end'; its labels are lost, done"):
        bd.TabularMDP.from_drn(drn, until="end")
    with pytest.raises(ModelError, match="cannot be read as a model"):
        bd.TabularMDP.from_drn(tmp_path / "none.drn", 3)
    drn.write_text(DRN.replace(" init", ""))
    with pytest.raises(ModelError, match="initial=0"):
        bd.TabularMDP.from_drn(drn, 3)
    per_step = bd.TabularMDP(np.ones((2, 1, 1, 1)), 0, 2)
    with pytest.raises(ModelError, match="a law that changes with the step"):
        per_step.to_drn(tmp_path / "x.drn")


def test_the_command_solves_a_model_file(drn, tmp_path, capsys):
    out = tmp_path / "out"
    words = ["solve", str(drn), "--minimize", "energy", "--limit", "steps <= 1.6", "--until", "done", "--out", str(out)]
    assert main(words) == 0
    assert "minimize: 3 reached by the policy" in capsys.readouterr().out
    assert main(["check", str(out)]) == 0
    for wrong, message in {
        "steps < 2": "write it as 'NAME <= NUMBER'",
        "stpes <= 2": "did you mean 'steps'",
    }.items():
        assert main(["solve", str(drn), "--minimize", "energy", "--limit", wrong, "--until", "done"]) == 2
        assert message in capsys.readouterr().err
    assert main(["solve", str(drn), "--until", "done"]) == 2
    assert "--maximize NAME or --minimize NAME" in capsys.readouterr().err
    assert main(["solve", "rover", "--until", "done"]) == 2
    assert "--until states a problem over" in capsys.readouterr().err
