"""The start of commands: what is imported, what is compiled, and where that is kept."""

import os
import subprocess
import sys

import pytest

from bidual.cli._compiled import keep_compiled_code

KEPT = "JAX_COMPILATION_CACHE_DIR"
SETTINGS = (KEPT, "JAX_ENABLE_COMPILATION_CACHE")


@pytest.fixture
def _no_settings(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "environ", {"XDG_CACHE_HOME": str(tmp_path)})


@pytest.mark.usefixtures("_no_settings")
def test_compiled_code_is_kept_in_the_users_folder(tmp_path):
    keep_compiled_code()
    assert os.environ[KEPT] == str(tmp_path / "bidual" / "compiled")
    assert (tmp_path / "bidual" / "compiled").stat().st_mode & 0o777 == 0o700


@pytest.mark.usefixtures("_no_settings")
@pytest.mark.parametrize("setting", SETTINGS)
def test_settings_of_the_user_stay(setting):
    os.environ[setting] = "own"
    before = dict(os.environ)
    keep_compiled_code()
    assert os.environ == before


@pytest.mark.usefixtures("_no_settings")
def test_without_a_folder_nothing_is_kept(tmp_path):
    (tmp_path / "bidual").write_text("a file in the place of the folder")
    keep_compiled_code()
    assert KEPT not in os.environ


_SOLVE = """
import sys
from importlib import import_module
from bidual.cli import main

assert main(["solve", "rover"]) == 0
unused = {"scipy.stats", "matplotlib", "gymnasium", "pandas", "bidual.planners.control", "bidual.learning"}
assert not unused & set(sys.modules), unused & set(sys.modules)
from jax._src.xla_bridge import backends_are_initialized
assert not backends_are_initialized()

assert abs(import_module("cvxpy.atoms.quantum_rel_entr").entropy([0.5, 0.5]) - 0.6931471805599453) < 1e-15
import scipy.stats
assert scipy.stats is sys.modules["scipy.stats"]
assert scipy.stats.norm.cdf(0) == 0.5
"""


def test_solving_a_small_model_compiles_nothing_and_imports_no_statistics():
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", _SOLVE], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
