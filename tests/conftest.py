"""Every test runs as users run: 64-bit mode off globally. Promotion is strict so that nothing widens by accident."""

import os
from pathlib import Path

# What was compiled once is kept for all workers, for the commands that tests start, and for the next run in any clone,
# as compilers' caches do. JAX reads these names when it is imported, so they come first.
os.environ.setdefault("XDG_CACHE_HOME", str(Path.home() / ".cache"))
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", os.environ["XDG_CACHE_HOME"] + "/bidual/compiled-for-tests")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.05")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

# Workers share the processors: threads that wait for each other there take twice the CPU time for the same numbers.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

import jax
import pytest
from hypothesis import HealthCheck, settings

from tests import shapes
from tests.gate import CpuTimes

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

shapes.install()  # before anything of bidual is imported

# The same examples every time; no deadline, because the first example of a shape compiles its planner.
settings.register_profile(
    "bidual", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=False
)
settings.load_profile("bidual")

# Where shapes are checked; elsewhere the same calls are made on larger problems, and checking would double their time.
CHECKED = ("contracts", "units")
TESTS = Path(__file__).parent


def checks_shapes(path, marked):
    """Return whether shapes are checked in a file of tests, from its path and whether the test opts out."""
    return path.relative_to(TESTS).parts[0] in CHECKED and not marked


def pytest_configure(config):
    config.pluginmanager.register(CpuTimes(), "cpu times")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    """Decide before every test, its fixtures included, whether shapes are checked in it."""
    del nextitem
    shapes.TESTS.begin(checks_shapes(item.path, item.get_closest_marker("unchecked_shapes") is not None))
    return (yield)


_MAPS, _MOST_MAPS = Path("/proc/self/maps"), 30_000


@pytest.fixture(autouse=True, scope="module")
def _forgets_what_was_compiled():
    """Every compiled program maps some pages, and Linux allows a process 65530 mappings: beyond them XLA crashes."""
    yield
    if _MAPS.exists() and _MAPS.read_bytes().count(b"\n") > _MOST_MAPS:
        jax.clear_caches()


@pytest.fixture(autouse=True)
def _leaves_the_global_precision_alone():
    yield
    assert not jax.config.jax_enable_x64, "a library must not switch its user's precision"
