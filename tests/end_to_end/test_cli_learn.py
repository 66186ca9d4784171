"""`bidual learn`: JSON, exit codes, files, seeds, and every kind of file that defines what to learn.

What must hold for other processes is run as one; the rest calls the same entry point, which spares compiling anew.
"""

import csv
import json
from pathlib import Path

import pytest

import bidual as bd
from bidual import cli
from tests.end_to_end.last_lines import check_last_lines

DETAILS = ["outputs", "assumptions", "exploration", "evaluation_episodes", "suggestions"]
KEYS = [
    *("task", "status", "sense", "value", "lower", "upper", "gap", "constraints"),
    *("episodes", "plans", "seconds", "seed", "delta", "version", "candidates"),
]
CONSTRAINT = ["name", "sense", "value", "limit", "violation", "violation_upper", "price"]


@pytest.fixture
def learn(tmp_path, monkeypatch, capsys):
    """A function that runs ``bidual learn ...`` in an empty folder and returns exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        code = cli.main(["learn", *arguments])
        told = capsys.readouterr()
        assert "Traceback" not in told.err
        return code, told.out, told.err

    return run


def test_counts_per_step_are_a_choice(learn):
    code, out, _ = learn("media", "--episodes", "60", "--per-step", "--verbose")
    assert code == 0
    assert "Markov dynamics: the next state depends on (step, state, action) only" in out


def _timeless(text):
    return {key: value for key, value in json.loads(text).items() if key != "seconds"}


def test_json_is_the_contracts_and_belongs_to_the_seed(bidual_here, tmp_path):
    command = ("learn", "media", "--episodes", "60", "--seed", "3", "--json")
    process = bidual_here(*command, "--out", "here")
    assert process.returncode == 0, process.stderr
    result = json.loads(process.stdout)
    assert list(result) == [*KEYS, *DETAILS]
    assert [list(constraint) for constraint in result["constraints"]] == [CONSTRAINT]
    assert (result["task"], result["sense"], result["episodes"], result["seed"], result["delta"]) == (
        "media",
        "minimize",
        60,
        3,
        0.05,
    )
    assert result["lower"] <= 6.746704 + 1e-6
    assert result["gap"] == result["upper"] - result["lower"]
    names = ["solution.bidual", "solution.json", "learning.png"]
    assert process.stderr.splitlines()[-5:-2] == [f"wrote {Path('here') / name}" for name in names]
    assert sorted(path.name for path in (tmp_path / "here").iterdir()) == sorted(names)
    assert json.loads((tmp_path / "here" / "solution.json").read_text()) == result
    assert _timeless(bidual_here(*command).stdout) == _timeless(process.stdout)


@pytest.mark.parametrize("words", [("media", "--set", "budget=7"), ("mine.py",), ("lock", "--set", "horizon=2")])
def test_the_last_two_lines_load_and_run_what_was_learned(learn, bidual_here, tmp_path, words):
    (tmp_path / "mine.py").write_text(MDP)
    code, _, told = learn(*words, "--episodes", "20", "--evaluation", "0", "--out", "here")
    assert code == 0, told
    observation = bd.tasks.find("lock").build(horizon=2).env.reset(seed=0)[0] if words[0] == "lock" else 0
    check_last_lines(told, observation, bidual_here)


def test_another_seed_is_another_run(learn):
    one, other = (learn("media", "--episodes", "20", "--seed", seed, "--json") for seed in ("1", "2"))
    assert _timeless(one[1]) != _timeless(other[1])


def test_words_end_with_what_is_true(learn):
    code, words, _ = learn("media", "--episodes", "20")
    assert code == 0
    assert words.startswith("undecided: the episodes do not show yet")
    policy, optimum = words.splitlines()[-2:]
    assert policy.startswith("  true model   the policy reaches ")
    assert " <= 5 (holds)" in policy or " <= 5 (violated)" in policy
    assert optimum == "  true model   the optimum there is 6.7467"


def test_a_map_is_drawn_and_an_unknown_support_is_said_to_be(learn, tmp_path):
    rover = ("rover", "--episodes", "3", "--evaluation", "0", "--support", "unknown", "--out", "here", "--verbose")
    code, words, _ = learn(*rover)
    assert code == 0
    assert "no successors were declared" in words
    assert "9 declared states are never left" in words  # eight pits and the goal
    assert "no episode was spent on the policy" in words
    assert (tmp_path / "here" / "visits.png").read_bytes().startswith(b"\x89PNG")


def test_exit_codes(learn):
    spent = ("media", "--episodes", "20", "--json")
    assert learn(*spent)[0] == 0
    assert learn(*spent, "--require-certificate")[0] == 4
    # The limit ends it before the episodes are spent: nothing was shown, and not all was tried.
    code, text, _ = learn("media", "--time-limit", "1e-9", "--json")
    assert (code, json.loads(text)["episodes"]) == (4, 1)
    # More than ten uses there cannot be: every policy keeps this limit, and that needs no episode to show.
    assert learn(*spent, "--set", "budget=11", "--require-certificate")[0] == 0
    code, text, told = learn(*spent, "--set", "budget=-1")
    assert (code, json.loads(text)["status"]) == (3, "infeasible")
    assert "constraint 'fast' cannot hold" in told


def test_a_gap_that_is_certified_ends_it_early(learn):
    code, text, _ = learn("media", "--set", "budget=11", "--episodes", "400", "--stop-gap", "9", "--json")
    result = json.loads(text)
    assert (code, result["status"], result["episodes"]) == (0, "optimal", 128)
    assert result["gap"] <= 9


ENV = """\
import cvxpy as cp, gymnasium as gym, numpy as np
import bidual as bd

class Coin(gym.Env):
    observation_space, action_space = gym.spaces.Discrete(2), gym.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}
    def step(self, action):
        FAULT
        side = int(self.np_random.random() < (0.3, 0.6)[action])
        return side, float(side), False, False, {}

env = Coin()
x = bd.features.signals(heads=lambda t: t.reward, costs=lambda t: t.action).embedding(horizon=3)
problem = bd.Problem(cp.Maximize(cp.sum(x.heads)), {"costs": cp.sum(x.costs) <= cp.Parameter(name="b", value=2)})
"""
MDP = """\
import cvxpy as cp, numpy as np
import bidual as bd

mdp = bd.TabularMDP(np.full((2, 2, 2), 0.5), 0, 3)
x = mdp.embedding(reward=np.array([0.0, 1.0]))
problem = bd.Problem(cp.Maximize(cp.sum(x.reward)))
"""


def test_a_file_with_an_environment(learn, tmp_path):
    (tmp_path / "coin.py").write_text(ENV.replace("FAULT", "print('thinking')"))
    code, text, told = learn("coin.py", "--episodes", "40", "--set", "b=1", "--json")
    assert code == 0
    result = json.loads(text)  # what the environment prints is not there
    assert "thinking" in told
    assert (result["task"], result["constraints"][0]["limit"]) == ("coin.py", 1.0)
    # 0.6 once and 0.3 twice is the best for one costly throw.
    assert result["lower"] - 1e-6 <= 1.2 <= result["upper"] + 1e-6


def test_the_template_is_learned(bidual_here, tmp_path):
    process = bidual_here("new", "--env", "green.py")
    assert process.stdout == "wrote green.py; learn it with: bidual learn green.py\n"
    process = bidual_here("learn", "green.py", "--episodes", "60", "--out", "here", "--verbose")
    assert process.returncode == 0, process.stderr
    assert "only declared successors follow" in process.stdout
    assert "true model" not in process.stdout
    names = ["learning.png", "solution.bidual", "solution.json"]
    assert sorted(path.name for path in (tmp_path / "here").iterdir()) == names
    process = bidual_here("solve", "green.py")
    assert process.returncode == 2
    assert "green.py defines 'env' but no 'mdp', and this command needs a known model" in process.stderr
    assert "'bidual learn green.py'" in process.stderr


@pytest.mark.parametrize(
    "how",
    [pytest.param(("--dual", "paper"), marks=pytest.mark.slow), ("--dual", "ftl"), ("--explorer", "bonus")],
    ids=" ".join,
)
def test_ways_of_exploring_and_a_history(bidual_here, tmp_path, how):
    """The table has regret, because the model is known here, and bounds at the looks."""
    history = tmp_path / "history.csv"
    command = ("learn", "riverswim", "--episodes", "40", "--confidence", "box", "--history", history, "--json")
    process = bidual_here(*command, *how)
    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout)["episodes"] == 40
    with history.open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["episodes"]) for row in rows] == list(range(1, 41))
    assert all(row["positive_regret"] for row in rows)
    assert [row["episodes"] for row in rows if row["bound"]] == ["16", "32", "40"]


def test_two_ways_of_exploring_are_refused(bidual_here):
    process = bidual_here("learn", "riverswim", "--dual", "paper", "--explorer", "greedy")
    assert process.returncode == 2
    assert "leave out --explorer greedy" in process.stderr


def test_a_file_with_a_model_is_simulated(learn, tmp_path):
    (tmp_path / "mine.py").write_text(MDP)
    _, words, _ = learn("mine.py", "--episodes", "5", "--verbose")
    assert "only declared successors follow: at most 2 for each" in words
    assert words.endswith("the optimum there is 1\n")
    assert "no successors were declared" in learn("mine.py", "--episodes", "5", "--support", "unknown", "--verbose")[1]
    (tmp_path / "mine.py").write_text(MDP + "model = bd.models.Tabular()\n")
    assert "no successors were declared" in learn("mine.py", "--episodes", "5", "--verbose")[1]
    code, _, told = learn("mine.py", "--support", "declared")
    assert code == 2
    assert "mine.py defines 'model', which says what can follow. Leave --support out" in told


def test_an_environment_wins_over_a_model_that_only_solve_needs(learn, tmp_path):
    (tmp_path / "both.py").write_text(ENV.replace("FAULT", "pass") + "mdp = bd.TabularMDP(np.ones((1, 1, 1)), 0, 3)\n")
    code, words, _ = learn("both.py", "--episodes", "5")
    assert code == 0
    assert "true model" not in words


FILES = {
    "nothing.py": ("x = 1\n", "does not define problem and env"),
    "no_env.py": ("import bidual as bd\n" + MDP.replace("mdp = ", "m = ").replace("mdp.", "m."), "not define env"),
    "wrong_problem.py": ("problem = 3\nenv = 'FrozenLake-v1'\n", "'problem' must be a bidual.Problem; got int"),
    "wrong_model.py": (
        ENV.replace("FAULT", "pass") + "model = 'tabular'\n",
        "'model' must be a bidual.models.Tabular, LinearMDP, LowRank, Latent or KNR; got str",
    ),
    "wrong_env.py": (ENV.replace("FAULT", "pass") + "env = 7\n", "must be a gymnasium.Env, or the name of one; got a"),
    "no_such_env.py": (ENV.replace("FAULT", "pass") + "env = 'Nowhere-v0'\n", "gymnasium cannot make 'Nowhere-v0'"),
    "fails.py": (ENV.replace("FAULT", "1 / 0"), "env.step(0) failed at step 1 of 3, episode 1: ZeroDivisionError"),
    "raises.py": ("a = 1\nb = a / 0\n", "raises.py, line 2: the file raised ZeroDivisionError"),
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_do_not_work(learn, tmp_path, name):
    text, message = FILES[name]
    (tmp_path / name).write_text(text)
    code, out, told = learn(name, "--json")
    assert (code, out) == (2, "")
    assert message in told


def test_ctrl_c_is_exit_130(learn, tmp_path):
    (tmp_path / "coin.py").write_text(ENV.replace("FAULT", "raise KeyboardInterrupt"))
    code, out, told = learn("coin.py")
    assert (code, out, told) == (130, "", "bidual: interrupted\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mars"], "there is no task 'mars'"),
        (["missing.py"], "there is no file missing.py"),
        (["media", "--set", "bugdet=1"], "no parameter 'bugdet'"),
        (["media", "--episodes", "0"], "episodes must be a whole number, at least 1; got 0"),
        (["media", "--evaluation", "-1"], "evaluation must be a whole number, at least 0"),
        (["media", "--seed", "-1"], "the seed must be a whole number from 0"),
        (["media", "--delta", "1"], "delta must be strictly between 0 and 1"),
        (["media", "--stop-gap", "0"], "stop_when needs gap > 0"),
        (["media", "--time-limit", "nan"], "the time limit must be positive seconds"),
    ],
)
def test_settings_that_make_no_sense(learn, arguments, message):
    code, out, told = learn(*arguments)
    assert (code, out) == (2, "")
    assert message in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["media", "--support", "guessed"], "invalid choice: 'guessed'"),
        (["media", "--episodes", "many"], "invalid int value"),
        (["media", "--plans", "3"], "unrecognized arguments: --plans 3"),
    ],
)
def test_usage_errors_are_exit_2(arguments, message, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["learn", *arguments])
    assert end.value.code == 2
    assert message in capsys.readouterr().err


def test_an_impossible_folder_fails_before_the_work(learn, tmp_path):
    (tmp_path / "file").write_text("")
    assert learn("media", "--out", "file/below")[:2] == (5, "")


def test_an_unknown_environment_error_names_the_episodes_that_are_kept(learn, tmp_path):
    """Exit code 2, not a crash: the environment broke its contract after a while."""
    (tmp_path / "coin.py").write_text(ENV.replace("FAULT", "assert self.np_random.random() < 0.99"))
    code, _, told = learn("coin.py", "--episodes", "500")
    assert code == bd.EnvError.exit_code == 2
    assert "AssertionError" in told
