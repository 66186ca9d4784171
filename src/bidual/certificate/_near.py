"""The least mean over the laws near a centre, from below.

With the successors in the order of W, P . W = W_1 + sum_j (W_{j+1} - W_j) P(beyond the j-th). A law that exceeds the
centre by at most `gain` in all, sum (P - centre)+ <= gain, gives the first j at most their centre and the gain, so that

    P . W >= W_1 + sum_j (W_{j+1} - W_j) (1 - gain - centre_1 - ... - centre_j)+,

term by term. The law that gives the gain to the first attains all of them at once.
"""

import numpy as np
from jaxtyping import Float

from bidual.rounding import EPS


def near_minimum(
    centre: Float[np.ndarray, "*rows k"], gain: Float[np.ndarray, "*rows"], W: Float[np.ndarray, "*rows k"]
) -> tuple[Float[np.ndarray, "*rows"], Float[np.ndarray, "*rows"]]:
    """The least P . W over {sum (P - centre)+ <= gain}, and what rounding can have added."""
    order = np.argsort(W, axis=-1)
    W, centre = (np.take_along_axis(array, order, axis=-1) for array in (W, centre))
    beyond = np.maximum(1 - gain[..., None] - np.cumsum(centre, axis=-1)[..., :-1], 0.0)
    total = W[..., 0] + np.sum(np.diff(W, axis=-1) * beyond, axis=-1)
    # Every share misses at most k + 2 roundings of what it is a sum of, and every layer one: together a range of W.
    size = np.maximum(1.0, np.sum(np.abs(centre), axis=-1))
    return total, (4 * W.shape[-1] + 8) * EPS * np.abs(W).max(axis=-1) * size
