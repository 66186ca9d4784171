"""How learning went where nothing is bounded: what every episode paid, or all of them so far where that is curved."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from bidual._prepare import Setting
from bidual._types import Episode
from bidual.certificate import at_embedding
from bidual.convex import AffineProgram
from bidual.learned import Paid
from bidual.outputs import Sums, mean_embedding

_ENTRIES = 4  # of a vector constraint that are told apart; of longer ones nothing is


def paid_by_each(setting: Setting, before: Sums | None, episodes: Sequence[Episode]) -> Float[np.ndarray, "k rows"]:
    """Objective and constraints after every one of some episodes; curved ones at the mean of these and all `before`."""
    program, pieces = setting.program, setting.knowledge.pieces
    each = np.stack([mean_embedding(pieces, [episode]) for episode in episodes])
    if isinstance(program, AffineProgram):
        return np.array([at_embedding(program, one) for one in each])
    paid = np.zeros((len(episodes), 1 + program.equality.size))
    if before is not None:
        counts = before.count + np.arange(1, len(episodes) + 1)
        means = (before.whole + np.cumsum(each, axis=0)) / counts[:, None, None]
        paid[:] = [at_embedding(program, mean) for mean in means]
    paid[:, setting.linear.numbers] = setting.linear.payments(episodes)
    return paid


def told_of_each(setting: Setting, paid: Float[np.ndarray, "n rows"]) -> Paid:
    """The same under the user's names, in their sense and units."""
    straight = set(setting.linear.numbers.tolist())
    if isinstance(setting.program, AffineProgram):  # also what has no bounds
        straight = set(range(paid.shape[1]))
    values, averaged = {"objective": setting.sense * paid[:, 0]}, [] if 0 in straight else ["objective"]
    start = 1
    for line in setting.problem.lines():
        size = line.bounds.size
        for entry in range(size if size <= _ENTRIES else 0):
            name = line.name if size == 1 else f"{line.name}[{entry}]"
            name = f"{name} (constraint)" if name in values else name
            values[name] = line.bounds[entry] + line.sign * paid[:, start + entry]
            averaged += [] if start + entry in straight else [name]
        start += size
    return Paid(values, tuple(averaged))
