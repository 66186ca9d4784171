"""The policy of a saved file."""

import numpy as np

from bidual.policies import MarkovPolicy


def read_policy(arrays: dict[str, np.ndarray]) -> MarkovPolicy:
    """The policy among the arrays of a file; `ValueError` where there is none."""
    table = arrays.get("policy", np.zeros(0))
    whole = table.ndim == 3 and table.size > 0 and table.dtype == np.float64
    # Written so that a NaN fails.
    if not (whole and table.min() >= 0 and np.abs(table.sum(axis=-1) - 1).max() <= 1e-9):
        raise ValueError("it holds no policy, a table of probabilities")
    return MarkovPolicy(table)
