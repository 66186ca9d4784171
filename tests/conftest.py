"""Every test runs as users run: 64-bit mode off globally. Promotion is strict so that nothing widens by accident."""

import jax
import pytest
from hypothesis import HealthCheck, settings

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

# The same examples every time; no deadline, because the first example of a shape compiles its planner.
settings.register_profile(
    "bidual", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=False
)
settings.load_profile("bidual")


@pytest.fixture(autouse=True)
def _leaves_the_global_precision_alone():
    yield
    assert not jax.config.jax_enable_x64, "a library must not switch its user's precision"
