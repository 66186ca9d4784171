"""`bidual sweep` as other processes: results, reruns, failures, Ctrl-C, and workers that are killed.

However a sweep goes, its results must be those of runs that were left in peace, to the bit.
"""

import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from bidual import cli
from bidual.learning import runs
from tests.sweeps import SPEC, Arena, ended, kill_workers, running, told, workers, writer

EPISODES = 300
NAMES = [f"riverswim_dual={dual}_seed={seed}" for dual in ("corrective", "paper") for seed in range(3)]
ALONE = {"NPROC": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
BAD = "raise RuntimeError('no such river')\n"
TALKS = """\
import cvxpy as cp, numpy as np
import bidual as bd

print("thinking")
mdp = bd.TabularMDP(np.full((2, 2, 2), 0.5), 0, 3)
x = mdp.embedding(reward=np.array([0.0, 1.0]))
problem = bd.Problem(cp.Maximize(cp.sum(x.reward)))
"""


@pytest.fixture(scope="module")
def arena(tmp_path_factory):
    return Arena(tmp_path_factory.mktemp("sweeps"))


@pytest.fixture(scope="module")
def swept(arena):
    """Six cells on two processes, left in peace: the sweep, its folder, and what it said."""
    spec = arena.spec("six", SPEC.format(episodes=EPISODES, seeds=3))
    return spec, arena.folder / "runs" / "six", arena.run("sweep", spec, "--workers", 2)


@pytest.fixture
def sweep(arena, monkeypatch, capfd):
    """A function that runs ``bidual sweep ...`` in this process, which is not so long in starting."""
    monkeypatch.chdir(arena.folder)
    for name, value in arena.cache.items():
        monkeypatch.setenv(name, value)

    def run(*arguments):
        code = cli.main(["sweep", *map(str, arguments)])
        told = capfd.readouterr()
        assert "Traceback" not in told.err
        return code, told.out, told.err

    return run


def test_a_sweep_of_six_cells(swept):
    _, folder, (code, out, err) = swept
    assert code == 0, err
    head, *lines = out.splitlines()
    assert head.split("  ")[-1] == "certified feasible"
    assert [line.split()[:2] for line in lines] == [["riverswim_dual=corrective", "3"], ["riverswim_dual=paper", "3"]]
    logged = [line for line in err.splitlines() if line.startswith("[")]
    assert [line[:6] for line in logged] == [f"[{place}/6] " for place in range(1, 7)]
    assert sorted(line[6:].split(":")[0] for line in logged) == NAMES
    assert sorted(told(folder)) == NAMES
    assert err.splitlines()[-1] == f"stored in {folder}"


def test_a_sweep_that_is_done_is_not_done_again(sweep, swept):
    spec, folder, _ = swept
    before = {one.name: one.updated for one in runs.listed(folder)}
    code, out, err = sweep(spec, "--json")
    assert (code, err) == (0, "6 of 6 cells were finished before\n")
    found = json.loads(out)
    assert [(cell["name"], cell["status"], cell["attempts"]) for cell in found["cells"]] == [
        (name, "finished", 0) for name in NAMES
    ]
    assert {one.name: one.updated for one in runs.listed(folder)} == before
    assert found["cells"][0]["result"]["task"] == "riverswim"
    assert [line["runs"] for line in found["summary"]] == [3, 3]


def test_a_cell_is_the_run_that_learn_makes(arena, swept):
    """To the bit, with one thread, as workers have."""
    options = ["--episodes", EPISODES, "--evaluation", 20, "--seed", 1, "--dual", "paper"]
    settings = ["--set", "states=3", "--set", "horizon=5", "--set", "budget=2.5"]
    code, _, err = arena.run("learn", "riverswim", *options, *settings, "--run", "learn/alone", **ALONE)
    assert code == 0, err
    assert told(arena.folder / "learn")["alone"] == told(swept[1])[NAMES[4]]


def test_what_would_be_done(arena, sweep, swept):
    spec, folder, _ = swept
    code, out, _ = sweep(spec, "--dry-run")
    assert code == 0
    assert out.splitlines() == [
        *(f"{name:{len(NAMES[0])}}  finished" for name in NAMES),
        f"6 cells, 6 of them finished; they are in {folder}",
    ]
    more = arena.spec("more", SPEC.format(episodes=EPISODES, seeds=4))
    code, out, _ = sweep(more, "--out", folder, "--workers", 2, "--dry-run", "--json")
    plan = json.loads(out)
    assert [cell["status"] for cell in plan["cells"]] == ["finished", "finished", "finished", "new"] * 2
    assert (plan["left"], plan["workers"]) == (2, 2)
    assert plan["estimated_seconds"] > 0
    assert "the mean of 6 finished runs of it" in plan["estimate_rests_on"][0]
    assert sorted(one.name for one in runs.listed(folder)) == NAMES
    code, out, _ = arena.run("sweep", more, "--out", "elsewhere", "--dry-run")
    assert "for the 8 that are left on " in out
    assert "from a pilot of 20 episodes of riverswim_dual=corrective_seed=0" in out
    assert not (arena.folder / "elsewhere").exists()


def test_other_options_are_told_before_anything_is_started(arena, sweep, swept):
    text = SPEC.format(episodes=EPISODES, seeds=4).replace("evaluation = 20", "evaluation = 21")
    other = arena.spec("other", text)
    code, out, err = sweep(other, "--out", swept[1])
    assert (code, out) == (5, "")
    assert f"{NAMES[0]} holds a run with other options (evaluation was 20 and is 21): nothing was started" in err
    assert sorted(one.name for one in runs.listed(swept[1])) == NAMES


def test_a_cell_that_fails_does_not_stop_the_others(arena, sweep):
    """What a file prints is not on stdout, which is JSON; and trouble with the store has an exit code of its own."""
    (arena.folder / "bad.py").write_text(BAD)
    (arena.folder / "talks.py").write_text(TALKS)
    (arena.folder / "full.py").write_text(TALKS)
    spec = arena.spec("mixed", 'tasks = ["bad.py", "talks.py", "full.py"]\nepisodes = 5\nevaluation = 0\n')
    stranger = arena.folder / "runs" / "mixed" / "full_seed=0" / "letter.txt"
    stranger.parent.mkdir(parents=True)
    stranger.write_text("dear")
    code, out, err = sweep(spec, "--workers", 1, "--json")
    bad, talks, stored = json.loads(out)["cells"]
    assert code == 5
    assert bad["error"].endswith("bad.py, line 1: the file raised RuntimeError: no such river")
    assert (bad["status"], bad["result"]) == ("failed", None)
    assert (talks["status"], talks["error"], talks["result"]["episodes"]) == ("finished", None, 5)
    assert "holds other files (letter.txt): use an empty folder" in stored["error"]
    assert "thinking" in err
    assert "[1/3] bad_seed=0: failed: " in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.toml"], "there is no file none.toml"),
        (["six.toml", "--workers", "0"], "--workers must be at least 1; got 0"),
        (["six.toml", "--workers", "2", "--cluster", "tcp://127.0.0.1:9"], "--workers is for processes of this mach"),
    ],
)
def test_usage(sweep, swept, arguments, message):
    code, out, err = sweep(*arguments)
    assert (code, out) == (2, "")
    assert message in err


def _until(condition):
    last = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < last, "nothing happens any more"
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("number", "expected", "word"),
    [(signal.SIGINT, 130, "interrupted"), pytest.param(signal.SIGTERM, 143, "terminated", marks=pytest.mark.slow)],
)
def test_ctrl_c_stops_the_workers(arena, number, expected, word):
    process = arena.start("sweep", arena.spec(word, SPEC.format(episodes=90_000, seeds=1)), "--workers", 1)
    _until(lambda: running(arena.folder / "runs" / word))
    pids = workers(process.pid)
    process.send_signal(number)
    code, out, err = ended(process)
    assert (code, out) == (expected, "")
    assert "0 of 2 cells are finished" in err
    assert f"run the same command again to go on\nbidual: {word}\n" in err
    assert len(pids) == 1
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_killed_workers_change_nothing(arena, swept):
    """The writers of two runs are killed in the middle of their work, and nobody can tell in the end."""
    spec, peace, _ = swept
    war = arena.folder / "war"
    process = arena.start("sweep", spec, "--workers", 2, "--out", war, "--checkpoint-every", 50, "--json")
    killed = set()
    while len(killed) < 2:
        assert process.poll() is None, process.communicate()
        for one in running(war):
            if one.name not in killed and one.episodes and len(killed) < 2:
                killed.add(one.name)
                os.kill(writer(one.folder), signal.SIGKILL)
        time.sleep(0.05)
    code, out, err = ended(process)
    assert code == 0, err
    assert sum(cell["attempts"] for cell in json.loads(out)["cells"]) == len(NAMES) + 2
    assert told(war) == told(peace)


SLOW = SPEC.format(episodes=4000, seeds=12)


@pytest.fixture(scope="module")
def peace(arena):
    """24 cells that were left in peace."""
    code, _, err = arena.run("sweep", arena.spec("many", SLOW), "--workers", 2, "--out", "many-peace")
    assert code == 0, err
    return told(arena.folder / "many-peace")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_five_kills_in_a_sweep_of_24_cells(arena, peace, seed):
    out = f"many-war-{seed}"
    process = arena.start("sweep", arena.spec("many", SLOW), "--workers", 2, "--out", out, "--json")
    assert kill_workers(process, arena.folder / out, 5, np.random.default_rng(seed)) == 5
    code, words, err = ended(process)
    assert code == 0, err
    assert sum(cell["attempts"] - 1 for cell in json.loads(words)["cells"]) >= 3  # a worker may have had nothing to do
    assert told(arena.folder / out) == peace


@pytest.mark.slow
def test_dask_gives_the_same_also_with_killed_workers(arena, peace):
    pytest.importorskip("distributed")
    out = "many-dask"
    cluster = ("--cluster", "local", "--workers", 2, "--checkpoint-every", 500)
    process = arena.start("sweep", arena.spec("many", SLOW), *cluster, "--out", out, "--json")
    assert kill_workers(process, arena.folder / out, 2, np.random.default_rng(2)) == 2
    code, words, err = ended(process)
    assert code == 0, err
    assert len(json.loads(words)["cells"]) == 24
    assert told(arena.folder / out) == peace
