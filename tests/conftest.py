"""Every test runs as users run: 64-bit mode off globally. Promotion is strict so that nothing widens by accident."""

import os
import threading
from pathlib import Path

# What one process has compiled the others need not: workers, and the commands that tests start. JAX reads these names
# when it is imported, so they come first.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

import jax
import jaxtyping
import pytest
from hypothesis import HealthCheck, settings

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

# The same examples every time; no deadline, because the first example of a shape compiles its planner.
settings.register_profile(
    "bidual", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=False
)
settings.load_profile("bidual")


_SECONDS_OF_SHAPES = 1.0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    """Shapes are checked in the first second of every test, its fixtures included.

    What a long test calls later it has mostly called before, and checking every call of it doubles its time or worse.
    """
    del item, nextitem
    jaxtyping.config.update("jaxtyping_disable", False)
    enough = threading.Timer(_SECONDS_OF_SHAPES, jaxtyping.config.update, ("jaxtyping_disable", True))
    enough.daemon = True
    enough.start()
    try:
        return (yield)
    finally:
        enough.cancel()


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
