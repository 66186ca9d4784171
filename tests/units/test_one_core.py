"""Controls on one core: what the compiler does to a program there depends on how many threads it finds."""

import re
import subprocess
import sys

import jax
import numpy as np
import pytest

from bidual._base.keys import Draw, Purpose
from bidual.planners.control import Descent, Receding
from bidual.planners.control._rollouts import _average_features
from tests.units.test_execution import FAMILY, FEATURES, PSI, STILL, THETA, H

EMPTY = re.compile(r"stablehlo\.slice .*-> tensor<(\d+x)*0x")


@pytest.mark.parametrize("dynamics", [STILL, FAMILY], ids=["no extras", "extras"])
def test_no_compiled_code_takes_a_slice_without_entries(dynamics):
    """Where there are none, extras would be such a slice, and the compiler of jaxlib 0.10 to 0.12 fails at it."""
    law = Receding(dynamics, THETA, np.zeros((H, 1 + dynamics.extras)), FEATURES, Descent(1))
    words = Draw(0, Purpose.PLAN, 0).seed_words()
    with jax.enable_x64(False):
        program = _average_features.lower(law, dynamics, FEATURES, H, 2, PSI.starts, words).as_text()
    assert "lapack_ssyevd" in program
    assert not EMPTY.search(program)


def test_a_task_of_controls_is_learned_on_one_core():
    """In a process of its own: the compiler counts cores when it is imported."""
    done = subprocess.run([sys.executable, "-m", "tests.one_core"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr[-2000:]
