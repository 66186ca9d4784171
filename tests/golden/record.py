"""Record the golden files: ``python -m tests.golden.record`` writes them into ``tests/golden/files``.

They fix the formats. Files of an earlier version must still load, check, and go on; so they are recorded again only
when a format changes on purpose, and the CHANGELOG says so. Bits depend on the processor and on the versions of the
numerical libraries: `machine_digest` is stored with them, and they are compared to the last bit where it is the same.
"""

import contextlib
import hashlib
import io
import json
import platform
import shutil
from pathlib import Path

import cvxpy as cp
import jax
import numpy as np

import bidual as bd
from bidual.cli import main
from tests.killed import CASES, RIVER, outcome

FILES = Path(__file__).parent / "files"
STOP_AFTER = 16  # episodes, of 60 (20 where controls are learned)
COMMANDS = {
    "solve-rover": "solve rover",
    "solve-match": "solve rover-match --set horizon=10",
    "solve-cliff": "solve cliffwalking --set horizon=30",
    "price-media": "price media --points 5",
    "learn-riverswim": "learn riverswim --episodes 60",
    "learn-class": "learn lock-discrete --set horizon=3 --episodes 20",
    "learn-latent": "learn lock --set horizon=3 --episodes 40",
    "learn-control": "learn pendulum-effort --set horizon=20 --episodes 2 --evaluation 5",
}
VARYING = {"seconds", "cpu_seconds", "version"}


def machine_digest():
    """Digest some results whose last bits depend on the processor and the libraries."""
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(60, 60))
    with jax.enable_x64(True):
        x = jax.numpy.asarray(rng.normal(size=1000))
        values = jax.jit(lambda x: (jax.numpy.exp(x).sum(), jax.numpy.cos(x) @ x, jax.numpy.cumsum(x)[-1]))(x)
        parts = [np.asarray(value) for value in values]
    parts += [matrix @ matrix, np.linalg.eigh(matrix @ matrix.T)[1], np.exp(matrix), np.linalg.solve(matrix, matrix.T)]
    return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()


def convex_problem():
    """Build a convex problem over the small river: a distance of visits with a limit."""
    mdp = RIVER.mdp
    x = mdp.embedding(visits=True, total=True)
    return bd.Problem(cp.Minimize(cp.sum_squares(x.visits - 1.0)), {"last": x.visits[2] <= 1.5}), mdp


def without_times(value):
    """Drop what differs from call to call."""
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key not in VARYING}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def command_output(line):
    """Run a command in this process and return its JSON without times."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        code = main([*line.split(), "--json"])
    return {"exit": code, "output": without_times(json.loads(out.getvalue()))}


def stop_run(case, folder):
    """Interrupt a case in the middle, so that its folder holds a checkpoint to go on from."""

    def interrupt(progress):
        if progress.episodes >= STOP_AFTER:
            raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        CASES[case](bd.runs.Folder(folder), progress=interrupt)


def save_results(case, folder, solution):
    """Write what a case ends with: the solution or, of latents, the policy alone."""
    solution.save(folder / f"{case}.bidual")
    if case == "controls":
        solution.policy.save(folder / f"{case}-policy.bidual")
    return outcome(solution)


def record():
    """Write all files."""
    platform.node = lambda: "recorder"  # names of machines are nobody's business
    shutil.rmtree(FILES, ignore_errors=True)
    FILES.mkdir()
    bd.solve(RIVER.problem, RIVER.mdp).save(FILES / "linear.bidual")
    bd.solve(*convex_problem(), gap=1e-4).save(FILES / "convex.bidual")
    outcomes = {}
    for case in CASES:
        if case == "batches":
            continue  # the same classes as "corrective"
        stop_run(case, FILES / "runs" / case)
        outcomes[case] = save_results(case, FILES, CASES[case](None))
    commands = {name: command_output(line) for name, line in COMMANDS.items()}
    records = {"machine": machine_digest(), "outcomes": outcomes, "commands": commands}
    (FILES / "records.json").write_text(json.dumps(records, indent=1, sort_keys=True) + "\n")
    for left in FILES.rglob("lock"):
        left.unlink()


if __name__ == "__main__":
    record()
