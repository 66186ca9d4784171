"""The command line's contract: JSON, exit codes, messages, files."""

import json
from pathlib import Path

import pytest

import bidual as bd
from bidual._base.archive import digest
from bidual.cli.tasks import FAMILIES


def _json(process):
    """Stdout must hold one JSON object and nothing else."""
    return json.loads(process.stdout)


def test_solve_rover_as_json(bidual):
    process = bidual("solve", "rover", "--gap", "1e-6", "--json")
    assert process.returncode == 0, process.stderr
    result = _json(process)
    assert abs(result["value"] - 1.536288) <= 2e-6
    assert result["gap"] <= 1e-6
    assert abs(result["constraints"][0]["price"] - 0.19298) <= 2e-3
    assert (result["task"], result["status"], result["sense"]) == ("rover", "optimal", "maximize")
    assert result["episodes"] is None
    assert process.stderr == ""


@pytest.mark.parametrize(
    ("task", "dual", "optimum"), [("rover", "paper", 1.536288), ("rover-entropy", "ftl", 4.108622)]
)
def test_the_paper_players_from_the_command_line(bidual_here, task, dual, optimum):
    process = bidual_here("solve", task, "--dual", dual, "--plans", "300", "--json")
    assert process.returncode == 0, process.stderr
    result = _json(process)
    assert result["status"] == "feasible"
    assert result["plans"] == 300
    assert result["lower"] - 1e-6 <= optimum <= result["upper"] + 1e-6
    assert result["gap"] <= 0.2


def test_what_a_player_cannot_do_is_exit_2(bidual_here):
    process = bidual_here("solve", "rover-entropy", "--dual", "paper")
    assert process.returncode == 2
    assert "use FollowTheLeader" in process.stderr


def test_settings_change_the_problem(bidual_here):
    result = _json(bidual_here("solve", "inventory", "--set", "budget=3.5", "--json"))
    assert abs(result["value"] - 0.879822) <= 2e-6


def test_infeasible_is_exit_3_and_named(bidual_here):
    process = bidual_here("solve", "rover", "--set", "budget=0", "--json")
    assert process.returncode == 3
    assert _json(process)["status"] == "infeasible"
    assert _json(process)["upper"] is None
    assert "constraint 'pits' cannot hold: every policy violates it by at least 4.0057" in process.stderr


def test_a_spent_budget_is_exit_4_with_the_best_policy(bidual_here):
    process = bidual_here("solve", "rover", "--plans", "1", "--json", "--out", "here")
    assert process.returncode == 4
    assert _json(process)["status"] == "undecided"
    assert _json(process)["plans"] == 1
    process = bidual_here("check", "here/solution.bidual")
    assert process.returncode == 0, process.stderr


def test_a_time_limit_ends_it(bidual_here):
    process = bidual_here("solve", "rover", "--time-limit", "0.000001")
    assert process.returncode == 4
    assert "undecided" in process.stdout


def test_relative_gap(bidual_here):
    process = bidual_here("solve", "media", "--gap", "0.01", "--rel-gap", "--json")
    assert process.returncode == 0
    assert _json(process)["gap"] <= 0.07


def test_check_only_solves_nothing(bidual_here):
    process = bidual_here("solve", "rover-two", "--check-only")
    assert process.returncode == 0
    assert "nothing was solved" in process.stdout
    assert "64 states, 4 actions, horizon 30" in process.stdout
    assert process.stdout.splitlines()[2:] == [
        "  features     3: x.reward, x.cost, x.inside",
        "  objective    maximize sum(x.reward)",
        "  constraint   pits: sum(x.cost) <= budget (now 0.3)",
        "  constraint   quadrant: sum(x.inside) <= quadrant (now 0.06)",
    ]
    text = bidual_here("solve", "rover-match", "--check-only").stdout
    assert "  objective    minimize pnorm(sum(x.visits, axis=0) / 30.0 - [...], 2)\n" in text
    bidual_here("new", "mine.py")
    text = bidual_here("solve", "mine.py", "--check-only").stdout
    assert "  constraint   broken: x.broken <= 0.2, 20 of them\n" in text
    facts = _json(bidual_here("solve", "rover-two", "--check-only", "--json"))
    assert facts["rows"] == 3


def test_out_writes_solution_json_and_figures(bidual_here, tmp_path):
    process = bidual_here("solve", "riverswim", "--out", "a/b")
    assert process.returncode == 0
    names = ["solution.bidual", "solution.json", "visits.png", "policy.png", "bounds.png"]
    wrote = [line for line in process.stderr.splitlines() if line.startswith("wrote ")]
    assert wrote == [f"wrote {Path('a/b') / name}" for name in names]
    assert sorted(p.name for p in (tmp_path / "a/b").iterdir()) == sorted(names)
    assert json.loads((tmp_path / "a/b/solution.json").read_text())["task"] == "riverswim"
    assert bd.load(tmp_path / "a/b/solution.bidual").shape == (20, 6, 2)
    process = bidual_here("check", "a/b/solution.bidual")
    assert process.returncode == 0
    assert process.stdout.startswith("check passed: optimal")


def test_an_impossible_folder_fails_before_the_work(bidual_here, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "sweep.toml").write_text("tasks = ['rover']")
    for out in ("file", "file/below"):
        for command in ("solve rover", "learn rover", "price rover", "demo", "sweep sweep.toml"):
            process = bidual_here(*command.split(), "--out", out)
            assert (process.returncode, process.stdout) == (5, ""), command
            assert "file is a file, and results go into a folder: name another one, or move the file" in process.stderr
    assert (tmp_path / "file").read_text() == ""


def test_price_of_the_rover_as_json_and_files(bidual_here, tmp_path):
    process = bidual_here("price", "rover", "--points", "6", "--json", "--out", "here")
    assert process.returncode == 0, process.stderr
    curve = _json(process)
    assert (curve["task"], curve["constraint"], curve["relation"]) == ("rover", "pits", "<=")
    assert abs(curve["least"]["lower"] - 4.005757e-06) <= 1e-11
    assert abs(curve["free_optimum"]["lower"] - 1.816822) <= 2e-6
    assert len(curve["points"]) == 6
    assert all(point["status"] == "optimal" and point["upper"] - point["lower"] <= 1e-6 for point in curve["points"])
    assert json.loads((tmp_path / "here/curve.json").read_text()) == curve
    assert (tmp_path / "here/curve.png").read_bytes().startswith(b"\x89PNG")
    assert process.stderr.splitlines() == [f"wrote {Path('here') / name}" for name in ("curve.json", "curve.png")]


def test_price_between_limits_of_a_file(bidual_here):
    bidual_here("new", "mine.py")
    process = bidual_here("price", "mine.py", "--constraint", "repairs", "--from", "0", "--to", "2", "--points", "3")
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith("what the limit of 'repairs' is worth: maximize with 'repairs' <= limit")
    assert bidual_here("price", "mine.py", "--constraint", "broken").returncode == 2


def test_price_where_no_limit_can_be_kept_is_exit_3(bidual_here):
    process = bidual_here("price", "rover", "--from", "-2", "--to", "-1", "--points", "2")
    assert process.returncode == 3
    assert process.stdout.count("infeasible") == 2


def test_demo_tells_its_story(bidual, tmp_path):
    process = bidual("demo", "--episodes", "150")
    assert process.returncode == 0, process.stderr
    assert "It is sure of this, with probability 95%, all at once:\n  its policy earns at least 1." in process.stdout
    assert "no policy that keeps the damage within 0.3 can earn more than 1.5" in process.stdout
    assert "no policy that keeps the damage within 0.3 earns more than 1.536289" in process.stdout
    for name in ("learning.png", "visits.png", "known/visits.png", "known/policy.png", "known/bounds.png"):
        assert (tmp_path / "bidual-demo" / name).read_bytes().startswith(b"\x89PNG")
        assert f"  {Path('bidual-demo') / name}\n" in process.stdout
    assert json.loads((tmp_path / "bidual-demo" / "solution.json").read_text())["episodes"] == 150
    process = bidual("check", "bidual-demo/known/solution.bidual")
    assert process.stdout.startswith("check passed: optimal")


def test_tasks_are_a_table_with_filters(bidual_here):
    head, *lines = bidual_here("tasks").stdout.splitlines()
    assert [line.split()[0] for line in lines] == [entry.name for entry in bd.tasks.ENTRIES]
    starts = [head.index(column) for column in ("name", "family", "objective", "limits", "optimum")]
    assert all(line[start - 1] == " " != line[start] for line in lines for start in starts[1:])
    assert "max reward                   pits <= 0.3" in lines[0]
    for entry, line in zip(bd.tasks.ENTRIES, lines, strict=True):
        assert line.split()[-1] == ("unknown" if entry.optimum is None else f"{entry.optimum:.6f}")
    assert {task["name"] for task in json.loads(bidual_here("tasks", "--json").stdout)} == {
        entry.name for entry in bd.tasks.ENTRIES
    }
    for family in FAMILIES:
        listed = json.loads(bidual_here("tasks", "--family", family, "--json").stdout)
        assert listed
        assert {task["family"] for task in listed} == {family}
    one = bidual_here("tasks", "lock-discrete-").stdout
    assert len(one.split("\n\n")[0].splitlines()) == 2
    assert "--set budget=0.8 horizon=5 actions=5 seed=1; constraints: goal >= budget" in one
    nothing = bidual_here("tasks", "pendulm")
    assert (nothing.returncode, nothing.stdout) == (2, "")
    assert "no task is called 'pendulm'; did you mean 'pendulum'? Possible: rover, " in nothing.stderr


def test_new_writes_a_file_that_solves_and_never_overwrites(bidual_here, tmp_path):
    assert bidual_here("new", "my_problem.py").returncode == 0
    process = bidual_here("solve", "my_problem.py", "--json")
    assert process.returncode == 0, process.stderr
    assert _json(process)["status"] == "optimal"
    lower = _json(bidual_here("solve", "my_problem.py", "--set", "budget=1", "--json"))
    assert lower["value"] < _json(process)["value"]
    before = (tmp_path / "my_problem.py").read_text()
    process = bidual_here("new", "my_problem.py")
    assert process.returncode == 5
    assert "left alone" in process.stderr
    assert (tmp_path / "my_problem.py").read_text() == before


def test_version(bidual_here):
    assert bidual_here("--version").stdout == f"bidual {bd.__version__}\n"


def test_help_imports_nothing_heavy(bidual):
    """What makes `--help` fast, without a clock: none of the numerical stack is loaded."""
    process = bidual("--help", env={"PYTHONPROFILEIMPORTTIME": "1"})
    assert process.returncode == 0
    assert "usage: bidual" in process.stdout
    loaded = {line.rsplit("|", 1)[-1].strip().split(".")[0] for line in process.stderr.splitlines()}
    assert not loaded & {"numpy", "jax", "scipy", "cvxpy", "matplotlib", "rich", "jaxtyping", "gymnasium"}


FILES = {
    "nothing.py": ("x = 1\n", "does not define problem and mdp"),
    "raises.py": ("a = 1\nb = a / 0\n", "raises.py, line 2: the file raised ZeroDivisionError"),
    "syntax.py": ("a = = 1\n", "syntax.py, line 1: the file raised SyntaxError"),
    "exits.py": ("import sys\nsys.exit('bye')\n", "exits.py, line 2: the file raised SystemExit: bye"),
    "wrong.py": ("problem = 3\nmdp = 4\n", "'problem' must be a bidual.Problem; got int"),
    "model.py": (
        "import bidual as bd\nimport numpy as np\n\nmdp = bd.TabularMDP(np.ones((2, 1, 2)), 0, 3)\n",
        "model.py, line 4: the probabilities of state 0, action 0 sum to 2, not 1",
    ),
    "dcp.py": (
        "import bidual as bd, cvxpy as cp, numpy as np\n"
        "mdp = bd.TabularMDP(np.ones((1, 1, 1)), 0, 3)\n"
        "x = mdp.embedding(r=np.ones(1))\n"
        "problem = bd.Problem(cp.Maximize(cp.sum_squares(x.r)))\n",
        "dcp.py, line 4: the objective is not convex by CVXPY's rules (DCP)",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_problem_files_that_do_not_work(bidual_here, tmp_path, name):
    text, message = FILES[name]
    (tmp_path / name).write_text(text)
    process = bidual_here("solve", name, "--json")
    assert process.returncode == 2
    assert message in process.stderr
    assert process.stdout == ""
    assert "Traceback" not in process.stderr


def test_prints_of_a_problem_file_stay_out_of_the_json(bidual_here, tmp_path):
    bidual_here("new", "loud.py")
    (tmp_path / "loud.py").write_text("print('hello')\n" + (tmp_path / "loud.py").read_text())
    process = bidual_here("solve", "loud.py", "--json")
    assert _json(process)["status"] == "optimal"
    assert "hello" in process.stderr


def test_a_problem_file_may_import_its_neighbours(bidual_here, tmp_path):
    (tmp_path / "sub").mkdir()
    bidual_here("new", "sub/mine.py")
    (tmp_path / "sub" / "mine.py").rename(tmp_path / "sub" / "parts.py")
    (tmp_path / "sub" / "mine.py").write_text("from parts import mdp, problem\n")
    assert bidual_here("solve", "sub/mine.py").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["solve", "mars"], "there is no task 'mars'. Possible: rover, "),
        (["solve", "rovr"], "there is no task 'rovr'; did you mean 'rover'? Possible: rover, "),
        (["learn", "rovr"], "there is no task 'rovr'; did you mean 'rover'? Possible: rover, "),
        (["sovle", "rover"], "; did you mean 'solve'?"),
        (["solve", "rover", "--dual", "papr"], "; did you mean 'paper'?"),
        (["learn", "rover", "--explorer", "tompson"], "; did you mean 'thompson'?"),
        (["learn", "rover", "--epsiodes=3"], "unrecognized arguments: --epsiodes=3; did you mean '--episodes'?"),
        (["learn", "rover", "--epsiodes", "3"], "unrecognized arguments: --epsiodes 3; did you mean '--episodes'?"),
        (["solve", "rover", "rover"], "usage: bidual solve "),
        (["solve", "missing.py"], "there is no file missing.py"),
        (
            ["solve", "rover", "--set", "bugdet=1"],
            "no parameter 'bugdet'; did you mean 'budget'? Possible: budget, slip, horizon",
        ),
        (["solve", "rover", "--set", "budget"], "write it as NAME=VALUE"),
        (["solve", "rover", "--set", "budget=much"], "must be a number"),
        (["solve", "rover", "--set", "budget=nan"], "has the limit nan"),
        (["solve", "rover", "--set", "budget=inf"], "has the limit inf"),
        (["solve", "rover", "--set", "horizon=0"], "horizon must be"),
        (["solve", "riverswim", "--set", "states=1"], "at least 2 states"),
        (["solve", "rover", "--gap", "0"], "gap must be a positive number"),
        (["solve", "rover", "--gap", "x"], "invalid float value"),
        (["solve", "rover", "--dual", "magic"], "invalid choice"),
        (["price", "rover", "--constraint", "pots"], "no constraint 'pots'; did you mean 'pits'? Possible: pits"),
        (["price", "cliffwalking"], "several constraints: name one of falls, goal"),
        (["price", "rover", "--from", "0.1"], "--from and --to go together"),
        (["price", "rover", "--from", "1", "--to", "0"], "the limits must increase"),
        (["price", "rover", "--points", "0"], "number of points must be"),
        (["solve"], "the following arguments are required"),
        (["frobnicate"], "invalid choice"),
        ([], "the following arguments are required"),
        (["new", "my_problem.txt"], "the file name must end in .py"),
        (["new", "no/such/folder.py"], "does not exist: create it first"),
    ],
)
def test_usage_errors_are_exit_2(bidual_here, arguments, message):
    process = bidual_here(*arguments)
    assert process.returncode == 2
    assert message in process.stderr
    assert "Traceback" not in process.stderr


def test_unreadable_solutions_are_exit_5_and_false_ones_exit_1(bidual_here, tmp_path):
    assert bidual_here("check", "nothing.bidual").returncode == 5
    (tmp_path / "junk.bidual").write_bytes(b"junk")
    process = bidual_here("check", "junk.bidual")
    assert process.returncode == 5
    assert "not a readable bidual file" in process.stderr
    bidual_here("solve", "media", "--out", "here")
    import zipfile

    path = tmp_path / "here" / "solution.bidual"
    with zipfile.ZipFile(path) as archive:
        manifest, arrays = json.loads(archive.read("manifest.json")), archive.read("arrays.safetensors")
    manifest["claims"]["upper"] -= 0.1
    manifest.pop("sha256")
    manifest["sha256"] = digest(manifest, arrays)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        archive.writestr("arrays.safetensors", arrays)
    process = bidual_here("check", path)
    assert process.returncode == 1
    assert "claims upper" in process.stderr


def test_a_missing_extra_is_named_as_ours(bidual_here, monkeypatch):
    """Gymnasium's error for a machine without MuJoCo, word for word, names an extra of its own."""
    import gymnasium

    def fail(*arguments, **options):
        raise gymnasium.error.DependencyNotInstalled('MuJoCo is not installed, run `pip install "gymnasium[mujoco]"`')

    monkeypatch.setattr(gymnasium, "make", fail)
    process = bidual_here("learn", "inverted-pendulum", "--episodes", "2")
    assert process.returncode == 2
    assert "needs an extra: pip install 'bidual[mujoco]'" in process.stderr
    assert "gymnasium[" not in process.stderr
