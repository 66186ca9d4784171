"""Classes of laws on the command line: those of tasks, and those that a file declares."""

import csv
import json
import math

import pytest

import bidual as bd
from bidual.cli._options import Options, load_declared
from bidual.models import LowRank

LOCK = ("lock-discrete", "--set", "horizon=2", "--episodes", "20", "--evaluation", "5")
CLASS = """\
import cvxpy as cp, gymnasium as gym, numpy as np
import bidual as bd

# A coin lies on its head, 0, or its tail. Tossed it shows heads with one of three probabilities; left alone it stays.
STATES = 2
phi = np.zeros((STATES, 2, 1 + STATES))
phi[:, 0, 0] = 1.0  # tossed
phi[:, 1, 1:] = np.eye(STATES)  # left alone
mus = [np.eye(1 + STATES, STATES, -1) for _ in range(3)]
for p, mu in zip((0.2, 0.5, 0.8), mus):
    mu[0, :2] = p, 1 - p
heads, tosses = np.zeros((STATES, 2, STATES)), np.zeros((STATES, 2))
heads[:, :, 0], tosses[:, 0] = 1.0, 1.0
x = bd.features.signals(heads=heads, tosses=tosses).embedding(horizon=3)
problem = bd.Problem(cp.Maximize(cp.sum(x.heads)), {"tosses": cp.sum(x.tosses) <= cp.Parameter(name="b", value=1)})
"""
MODEL = "model = bd.models.LowRank([phi], mus, initial=1)\n"
SIMULATED = "mdp = bd.TabularMDP(phi @ mus[2], 1, horizon=3)\n"
GYMNASIUM = """\
class Coin(gym.Env):
    observation_space, action_space = gym.spaces.Discrete(2), gym.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.side = 1
        return 1, {}
    def step(self, action):
        if action == 0:
            self.side = int(self.np_random.random() < 0.2)
        return self.side, 0.0, False, False, {}

env = Coin()
"""


def test_a_lock_is_solved_in_its_known_model(bidual_here):
    code, words, _ = bidual_here("solve", "lock-discrete")
    assert code == 0
    assert "maximize: 1 reached by the policy" in words


def test_a_lock_is_learned_with_its_class(bidual_here, tmp_path):
    code, words, told = bidual_here("learn", *LOCK, "--out", "here", "--history", "looks.csv", "--verbose")
    assert code == 0, told
    assert (tmp_path / "here" / "candidates.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / "looks.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["episodes"] for row in rows if row["candidates_left"]] == ["16", "20"]
    assert "the true law of every step is one of 576 candidates" in words
    assert " of 576 at the steps may still be true" in words
    assert words.endswith("the optimum there is 1\n")


@pytest.mark.parametrize("dual", ["corrective", pytest.param("paper", marks=pytest.mark.slow), "ftl"])
def test_ways_of_exploring_a_class(bidual_here, dual):
    settings = ("lock-discrete-spread", *LOCK[1:], "--dual", dual, "--json")
    code, text, _ = bidual_here("learn", *settings)
    result = json.loads(text)
    assert (code, result["episodes"]) == (0, 20)
    # With two steps C has at most a tenth of the time: (1/3 - 0.1) sqrt(3/2).
    exact = (1 / 3 - 0.1) * math.sqrt(3 / 2)
    assert result["lower"] <= exact <= result["upper"] + 1e-9


def test_the_papers_loop_over_a_class_is_its_algorithm():
    """Its rollouts, and its set unless another one is asked for; other loops leave both as they are declared."""
    loops = {
        "paper": "paper",
        "paper-literal": "paper",
        "corrective": "one-rollout",
        "ftl": "one-rollout",
        None: "one-rollout",
    }
    for dual, collection in loops.items():
        model = load_declared(Options("lock-discrete", dual=dual)).model
        assert isinstance(model, LowRank)
        assert (model.collection, model.set) == (collection, "paper" if collection == "paper" else "likelihood")
    likely = load_declared(Options("lock-discrete", dual="paper", confidence="likelihood")).model
    assert isinstance(likely, LowRank)
    assert (likely.collection, likely.set) == ("paper", "likelihood")


def test_sets_belong_to_what_is_learned(bidual_here):
    # The set of the paper shrinks more slowly: 25 episodes leave all candidates in it that differ at one action only.
    paper, likely = (
        json.loads(bidual_here("learn", *LOCK, "--confidence", one, "--json")[1])["candidates"]["left"]
        for one in ("paper", "likelihood")
    )
    assert paper > likely
    code, _, told = bidual_here("learn", *LOCK, "--confidence", "ball")
    assert code == 2
    assert "--confidence ball does not go with a class of laws: it must be one of likelihood, paper" in told
    code, _, told = bidual_here("learn", "media", "--confidence", "likelihood")
    assert code == 2
    assert "--confidence likelihood does not go with counts: it must be one of ball, box, bernstein, l1" in told


def test_what_can_follow_is_said_by_the_class(bidual_here):
    code, _, told = bidual_here("learn", *LOCK, "--support", "unknown")
    assert code == 2
    assert "task 'lock-discrete' defines a class of laws, which says what can follow. Leave --support out" in told


# Tossed at once, and left alone: three times on its head with probability 0.8.
BEST = 2.4


def test_a_file_may_declare_a_class(bidual_here, tmp_path):
    (tmp_path / "coin.py").write_text(CLASS + MODEL + SIMULATED)
    code, words, _ = bidual_here("learn", "coin.py", "--episodes", "100", "--set", "b=0.5", "--verbose")
    assert code == 0
    assert "the true law of every step is one of 3 candidates" in words
    assert words.endswith(f"the optimum there is {BEST / 2:g}\n")
    code, _, told = bidual_here("learn", "coin.py", "--support", "declared")
    assert code == 2
    assert "coin.py defines 'model', which says what can follow" in told


def test_a_class_over_an_environment_has_its_end_too(bidual_here, tmp_path):
    """There is one state more, where ended episodes stay; the last row of mu, which leads there, is that of staying."""
    text = CLASS.replace("STATES = 2", "STATES = 3") + GYMNASIUM
    (tmp_path / "coin.py").write_text(text + "phi = phi[:2]\n" + MODEL)
    code, _, told = bidual_here("learn", "coin.py")
    assert code == 2
    assert "phis are over (2, 2) states and actions, the environment has (3, 2)" in told
    (tmp_path / "coin.py").write_text(text + "phi[2] = np.eye(4)[3]\n" + MODEL)
    code, text, told = bidual_here("learn", "coin.py", "--episodes", "100", "--json")
    assert code == 0, told
    assert json.loads(text)["upper"] >= BEST - 1e-6


def test_a_class_is_stored_resumed_and_evaluated(bidual_here, tmp_path):
    """Its numbers have the candidates left at the worst step; a run that goes on is that which never stopped."""
    whole = json.loads(bidual_here("learn", *LOCK, "--seed", "3", "--json")[1])
    half = ("learn", *LOCK[:-3], "12", "--evaluation", "5", "--seed", "3", "--run", "run", "--json")
    assert json.loads(bidual_here(*half)[1])["episodes"] == 12
    code, text, told = bidual_here("learn", "--run", "run", "--resume", "--episodes", "20", "--json")
    assert code == 0, told
    resumed = json.loads(text)
    assert resumed["candidates"]["of"] == [576, 576]
    # Of an evaluation that was asked for in between there are other fresh episodes.
    assert {key: resumed[key] for key in ("upper", "episodes")} == {key: whole[key] for key in ("upper", "episodes")}
    columns = bd.runs.read(tmp_path / "run")
    left = dict(zip(columns["episode"], columns["candidates_left"], strict=True))
    assert left[16] >= left[20] >= 1
    code, text, _ = bidual_here("evaluate", "run", "--episodes", "10", "--json")
    assert (code, json.loads(text)["task"]) == (0, "lock-discrete")
