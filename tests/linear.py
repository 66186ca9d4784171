"""Linear models for tests: phi(s, a) is a law over d kinds of moves, and every row of mu a law over S."""

from dataclasses import dataclass

import numpy as np

import bidual as bd


@dataclass(frozen=True)
class World:
    """A model, its features, and the mu of every step (one where all share it)."""

    mdp: bd.TabularMDP
    phi: np.ndarray
    mu: np.ndarray

    @property
    def laws(self):
        """(1 or H, S, A, S)."""
        return _product(self.phi, self.mu)


def _product(phi, mu):
    phi = phi[None] if phi.ndim == 3 else phi
    return np.matmul(phi, mu[:, None])


def world(seed, size=(6, 2, 3), horizon=3, *, stationary=True, moving=False, spread=1.0):
    """`moving` features change with the step; a small `spread` makes moves lead to few states."""
    rng = np.random.default_rng(seed)
    S, A, d = size
    phi = rng.dirichlet(np.ones(d), (horizon, S, A) if moving else (S, A))
    mu = rng.dirichlet(np.full(S, spread), (1 if stationary else horizon, d))
    law = _product(phi, mu)
    law /= law.sum(axis=-1, keepdims=True)
    return World(bd.TabularMDP(law[0] if len(law) == 1 else law, rng.dirichlet(np.ones(S)), horizon), phi, mu)


def truth_is_inside(model, laws):
    """Whether the true law of every row, and of the start where it is learned, is in its set."""
    support = model.counts.support
    listed = np.take_along_axis(laws, np.broadcast_to(support.filled, (len(laws), *support.filled.shape)), axis=-1) * (
        support.states >= 0
    )
    over = np.maximum(listed - model.centre, 0.0).sum(axis=-1)
    return bool(np.all((over <= model.gain + 1e-12)[:, support.unsure]))
