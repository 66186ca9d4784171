"""`Stationary`: a known law over an unbounded time, restricted to the states that some policy can reach.

What is left of the law once only the steps that count are kept (`TabularMDP.steps`) is a kernel M whose powers vanish,
and everything that is planned is (I - M)^-1 of it. It stays in NumPy and SciPy: a system is solved in tens of sparse
products, too few to compile anything for.
"""

from dataclasses import dataclass
from typing import cast, final

import numpy as np
import scipy.sparse as sp
from jaxtyping import Array, Bool, Float, Int

from bidual._base.brief import describe_briefly
from bidual.models._base import AbstractModel, Layout
from bidual.problem.features import Psi
from bidual.world.mdp import TabularMDP, find_reachable
from bidual.world.policies import DeterministicPolicy


@final
@dataclass(frozen=True, eq=False)
class Stationary(AbstractModel):
    """A known law over an unbounded time, over its R reachable states; constructed by `stationary`."""

    __repr__ = describe_briefly

    kernel: sp.csr_array  # (R A, R): the law of the next state, as far as that counts
    allowed: Bool[np.ndarray, "R A"]
    initial: Float[np.ndarray, "R"]  # where counting begins
    kept: Int[np.ndarray, "R"]
    fallback: Int[np.ndarray, "S"]
    proper: Int[np.ndarray, "R"] | None  # actions of a policy that ends, where some policies do not
    anchor: int | None  # the state between whose visits averages are taken

    def restrict(self, psi: Psi) -> Layout:
        """Return features over the reachable states."""
        return Layout(psi, cast("Array", psi.signals[:, :, self.kept].swapaxes(2, 3)), self.kept)

    def policy(self, actions: Int[np.ndarray, "1 R"]) -> DeterministicPolicy:
        """Return the planned actions, and the first allowed one where no policy arrives."""
        full = self.fallback.astype(actions.dtype)[None].copy()
        full[:, self.kept] = actions
        return DeterministicPolicy(full, self.allowed.shape[1], stationary=True)

    def spread(self, table: Float[np.ndarray, "1 A R"]) -> Float[np.ndarray, "1 S A"]:
        """Extend a table over the reachable states to all states, with 0 elsewhere."""
        full = np.zeros((1, self.fallback.size, table.shape[1]))
        full[:, self.kept] = table.swapaxes(1, 2)
        return full


def stationary(mdp: TabularMDP) -> Stationary:
    """Return the model that holds `mdp`, which has no horizon, and nothing else."""
    steps, A = mdp.steps, mdp.num_actions
    kept = np.flatnonzero(steps.live & find_reachable(mdp))
    return Stationary(
        kernel=sp.csr_array(steps.kernel[(kept[:, None] * A + np.arange(A)).ravel()][:, kept]),
        allowed=steps.pairs[kept],
        initial=steps.start[kept],
        kept=kept,
        fallback=np.argmax(mdp.actions, axis=1),
        proper=None if steps.proper is None else steps.proper[kept],
        anchor=None if steps.anchor is None else int(np.searchsorted(kept, steps.anchor)),
    )
