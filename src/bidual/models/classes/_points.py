"""A finite class of continuous low-rank laws as one over sample points, for planning.

With points x_n drawn from a mixture q of all densities of the class,

    integral mu_z(s') V(s') ds'  ~  sum_n w_zn V(x_n),      w_zn proportional to mu_z(x_n) / q(x_n),

so that the class over vectors becomes a class of factors over points: phi at the points, and w in the place of mu. The
likelihoods of what is observed are those of the densities themselves; only plans are made among points, and an
observation is acted on like the point that is nearest to it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float, Int
from scipy.special import logsumexp, softmax

from bidual._base.brief import describe_briefly
from bidual._base.errors import ModelError
from bidual._base.types import Episode
from bidual.models.classes._densities import AbstractDensities
from bidual.models.classes._factors import Factors
from bidual.world.policies import Decoder, GaussianEmission

Mixing = Callable[[Float[np.ndarray, "n D"]], Float[np.ndarray, "n A d"]]  # phi at some observations
_ROUNDING = 1e-6  # by which the numbers of a user's phi may miss a law: they are normalised


@final
@dataclass(frozen=True, eq=False)
class DensityClass:
    """The candidates of all steps, and the points; `mixing` are the candidates for phi."""

    __repr__ = describe_briefly

    mixing: tuple[Mixing, ...]
    densities: tuple[AbstractDensities, ...]
    points: Float[np.ndarray, "N D"]
    shares: Float[np.ndarray, "J d"]  # of the points that were drawn from every density
    num_actions: int

    def decoder(self, horizon: int) -> Decoder:
        """Return the map from an observation to its nearest point, for every step and after the last one."""
        N, D = self.points.shape
        nearest = GaussianEmission(self.points, 1.0, np.full(N, 1 / N))
        return Decoder((nearest,) * (horizon + 1), D)

    def factors(self) -> Factors:
        """Return the factors over the points, an idle state and the end, where an episode stays."""
        N, d, A = len(self.points), self.shares.shape[1], self.num_actions
        phis = np.zeros((len(self.mixing), N + 2, A, d + 2))
        for i in range(len(self.mixing)):
            phis[i, :N, :, :d] = self.mix(i, self.points)
        phis[:, N, :, d] = phis[:, N + 1, :, d + 1] = 1.0
        mus = np.zeros((len(self.densities), d + 2, N + 2))
        logs = np.stack([one.log_density(self.points) for one in self.densities])  # J N d
        with np.errstate(divide="ignore"):
            proposal = logsumexp(logs + np.log(self.shares)[:, None], axis=(0, 2))
        mus[:, :d, :N] = softmax(logs.swapaxes(1, 2) - proposal, axis=-1)
        mus[:, d, N] = mus[:, d + 1, N + 1] = 1.0
        return Factors(phis, mus)

    def mix(self, i: int, observations: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n A d"]:
        """Evaluate candidate i for phi, and check that it gives laws."""
        found = np.asarray(self.mixing[i](observations), dtype=np.float64)
        shape = (len(observations), self.num_actions, self.shares.shape[1])
        if found.shape != shape:
            raise ModelError(
                f"phis[{i}] of {len(observations)} observations must have shape {shape}; got {found.shape}"
            )
        total = found.sum(axis=-1, keepdims=True)
        if not (np.all(found >= -_ROUNDING) and np.all(np.abs(total - 1) <= _ROUNDING)):
            n, a = np.argwhere((found.min(axis=-1) < -_ROUNDING) | ~(np.abs(total[..., 0] - 1) <= _ROUNDING))[0]
            raise ModelError(
                f"phis[{i}] gives {found[n, a].tolist()} for action {a} after the observation "
                f"{observations[n].tolist()}: it must give the probabilities of the {shape[2]} densities"
            )
        found = np.maximum(found, 0.0)
        return found / found.sum(axis=-1, keepdims=True)

    def log_likelihoods(self, episodes: Sequence[Episode], h: int) -> Float[np.ndarray, "n"]:
        """Compute the log-likelihoods of all pairs from one step of episodes that did not end there."""
        before, action, after = _list_transitions(episodes, h, self.points.shape)
        if not len(before):
            return np.zeros(len(self.mixing) * len(self.densities))
        phi = np.stack([self.mix(i, before)[np.arange(len(before)), action] for i in range(len(self.mixing))])
        logs = np.stack([one.log_density(after) for one in self.densities])  # J t d
        most = logs.max(axis=-1)
        most = np.where(np.isfinite(most), most, 0.0)  # where all densities are 0
        with np.errstate(divide="ignore"):
            each = np.log(np.einsum("itd,jtd->ijt", phi, np.exp(logs - most[..., None]))) + most
        return each.sum(axis=-1).ravel()


def _list_transitions(
    episodes: Sequence[Episode], h: int, shape: tuple[int, int]
) -> tuple[Float[np.ndarray, "t D"], Int[np.ndarray, "t"], Float[np.ndarray, "t D"]]:
    """Return observation, action and next observation of a step, of the episodes to learn it from."""
    N, D = shape
    kept = [one for one in episodes if one.only in (None, h) and one.states[h + 1] != N + 1]
    vectors = [one.observations[h : h + 2] for one in kept if one.observations is not None]
    both = np.array(vectors, dtype=np.float64).reshape(len(kept), 2, D)
    return both[:, 0], np.array([one.actions[h] for one in kept], dtype=np.int64), both[:, 1]


def draw_points(
    densities: Sequence[AbstractDensities], count: int, seed: int
) -> tuple[Float[np.ndarray, "N D"], Float[np.ndarray, "J d"]]:
    """Draw points from all densities of a class, equally many from each, and return the shares."""
    rng = np.random.default_rng(seed)
    probe = [np.asarray(one.sample(rng, 1), dtype=np.float64) for one in densities]
    shapes = {one.shape for one in probe}
    if len(shapes) != 1 or len(next(iter(shapes))) != 3:
        raise ModelError(f"mus must draw arrays (d, count, D) of one d and one D; for count=1 they gave {shapes}")
    ((d, _, _),) = shapes
    total = len(densities) * d
    if count < total:
        raise ModelError(f"points must be at least {total}, one for every density of the class; got {count}")
    sizes = np.full(total, count // total) + (np.arange(total) < count % total)
    drawn = [one.sample(rng, int(sizes.max())) for one in densities]
    parts = [drawn[k // d][k % d, : sizes[k]] for k in range(total)]
    return np.concatenate(parts), (sizes / count).reshape(len(densities), d)
