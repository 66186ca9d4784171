"""Bad input on the command line: exit code 2 (5 for files), a message with the remedy, no traceback, no output."""

import pytest

FILES = {
    "empty.py": "",
    "syntax.py": "def (",
    "raises.py": "raise ValueError('no data')",
    "exit.py": "import sys; sys.exit(3)",
    "types.py": "problem = 3\nmdp = 4\n",
    "file.txt": "hello",
    "bad.toml": "tasks = [",
    "empty.toml": "",
    "unknown.toml": "tasks = ['rovr']\n",
    "key.toml": "task = ['rover']\n",
    "damaged.bidual": "not one",
}
# The command, its exit code, and parts of the message: what is wrong, and the remedy.
COMMANDS = [
    ("", 2, "required: COMMAND", "usage"),
    ("sovle rover", 2, "'sovle'", "did you mean 'solve'"),
    ("solve", 2, "required: TASK|FILE", "usage"),
    ("solve rovr", 2, "'rovr'", "did you mean 'rover'"),
    ("solve rover --gap x", 2, "--gap", "'x'", "float"),
    ("solve rover --gap 0", 2, "gap", "0.0", "positive"),
    ("solve rover --gap nan", 2, "gap", "nan", "positive"),
    ("solve rover --plans 0", 2, "plans", "0", "at least 1"),
    ("solve rover --plans 1.5", 2, "--plans", "'1.5'", "int"),
    ("solve rover --time-limit 0", 2, "time limit", "0.0", "positive"),
    ("solve rover --dual paperr", 2, "'paperr'", "did you mean 'paper'"),
    ("solve rover --set budget", 2, "'budget'", "NAME=VALUE"),
    ("solve rover --set budgt=1", 2, "'budgt'", "did you mean 'budget'"),
    ("solve rover --set budget=x", 2, "budget=x", "must be a number"),
    ("solve rover --set budget=nan", 2, "budget=nan", "finite"),
    ("solve rover --set horizon=0", 2, "horizon=0", "at least 1"),
    ("solve rover --optoin", 2, "--optoin", "did you mean"),
    ("solve missing.py", 2, "no file missing.py", "bidual new missing.py"),
    ("solve empty.py", 2, "empty.py", "define problem and mdp", "bidual new"),
    ("solve syntax.py", 2, "syntax.py, line 1", "SyntaxError"),
    ("solve raises.py", 2, "raises.py, line 1", "no data"),
    ("solve exit.py", 2, "exit.py, line 1", "SystemExit: 3"),
    ("solve types.py", 2, "'problem' must be a bidual.Problem", "got int"),
    ("solve file.txt", 2, "'file.txt'", "ends in .py"),
    ("solve pendulum", 2, "needs a known model", "bidual learn pendulum"),
    ("price rover --points 0", 2, "points", "0", "at least 1"),
    ("price rover --constraint pit", 2, "'pit'", "did you mean 'pits'"),
    ("price rover --from 1 --to 0", 2, "--from 1 --to 0", "increase"),
    ("learn rover --episodes 0", 2, "episodes", "0", "at least 1"),
    ("learn rover --delta 2", 2, "delta", "2.0", "0.05 for instance"),
    ("learn rover --seed -1", 2, "seed", "-1", "from 0"),
    ("learn rover --explorer optimsitic", 2, "'optimsitic'", "did you mean 'optimistic'"),
    ("learn rover --confidence circle", 2, "'circle'", "choose from 'ball'"),
    ("learn rover --resume", 2, "--resume", "--run DIR"),
    ("learn --run nowhere --resume", 5, "nowhere is not the folder of a run", "bidual runs"),
    ("learn rover --batch 0", 2, "batch", "0", "at least 1"),
    ("learn rover --evaluation -1", 2, "evaluation", "-1", "at least 0"),
    ("learn pendulum --support unknown --episodes 1", 2, "--support unknown", "support=..."),
    ("check missing.bidual", 5, "missing.bidual is not a file", "solution.save or --out"),
    ("check damaged.bidual", 5, "damaged.bidual is not a readable", "save it again"),
    ("check --exact damaged.bidual", 5, "damaged.bidual is not a readable", "save it again"),
    ("evaluate nowhere", 5, "no run and no policy at nowhere", "bidual runs"),
    ("export nowhere --format csv", 5, "nowhere is not a file", "solution.save or --out"),
    ("export damaged.bidual --format xls", 2, "'xls'", "choose from 'json'"),
    ("finish nowhere", 5, "nowhere is not the folder of a run", "bidual runs"),
    ("runs nowhere", 5, "no runs in nowhere", "bidual learn TASK --run"),
    ("sweep bad.toml", 2, "bad.toml", "not valid TOML"),
    ("sweep empty.toml", 2, "names no tasks", "write tasks"),
    ("sweep unknown.toml", 2, "'rovr'", "did you mean 'rover'"),
    ("sweep key.toml", 2, "'task' is not set here", "write tasks"),
    ("sweep missing.toml", 2, "no file missing.toml", "examples/sweep.toml"),
    ("tasks rovr", 2, "'rovr'", "did you mean 'rover'"),
    ("tasks --family nope", 2, "'nope'", "choose from 'tabular'"),
    ("new file.txt", 2, "file.txt", "must end in .py"),
    ("demo --out file.txt", 5, "file.txt is a file", "name another one"),
]


@pytest.mark.parametrize(("command", "code", "parts"), [(command, code, parts) for command, code, *parts in COMMANDS])
def test_a_bad_command_is_answered_with_a_remedy(bidual_here, tmp_path, command, code, parts):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    process = bidual_here(*command.split())
    missing = [part for part in parts if part not in process.stderr]
    assert not missing, process.stderr
    assert (process.returncode, process.stdout) == (code, "")
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == sorted(FILES)


def test_there_are_forty_of_them():
    assert len({command for command, *_ in COMMANDS}) >= 40
