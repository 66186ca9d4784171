"""Accuracy must not depend on a global flag: once with 64-bit mode off, once with it on."""

import subprocess
import sys

import pytest

SCRIPT = """
import jax, jax.numpy as jnp
flag = {flag}
jax.config.update("jax_enable_x64", flag)
import bidual as bd
task = bd.tasks.find("rover").build()
solution = bd.solve(task.problem, task.mdp, gap=1e-10)
assert solution.status == "optimal", solution
assert solution.gap <= 1e-10, solution.gap
assert abs(solution.value - 1.5362885) <= 1e-6
assert solution.policy.table.dtype == "float64"
assert jax.config.jax_enable_x64 is flag
assert jnp.ones(3).dtype == ("float64" if flag else "float32")
"""


@pytest.mark.parametrize("flag", [False, True])
def test_a_gap_far_below_single_precision(flag):
    process = subprocess.run([sys.executable, "-c", SCRIPT.format(flag=flag)], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
