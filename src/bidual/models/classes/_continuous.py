"""`LowRankDensities`: a finite class of low-rank laws over vectors, with densities of the user's own."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

import numpy as np

from bidual._base.brief import describe_briefly
from bidual._base.errors import ModelError
from bidual.models._declaration import AbstractDeclaration, EnvironmentFacts, Needs
from bidual.models.classes._collection import COLLECTIONS
from bidual.models.classes._continuous_knowledge import DensityKnowledge
from bidual.models.classes._densities import AbstractDensities
from bidual.models.classes._factors import list_class_support
from bidual.models.classes._knowledge import ClassKnowledge
from bidual.models.classes._likelihood import start_likelihoods
from bidual.models.classes._points import DensityClass, Mixing, draw_points
from bidual.models.counts._counts import start_counts
from bidual.problem.features import Pieces


@final
@dataclass(frozen=True, eq=False)
class LowRankDensities(AbstractDeclaration):
    """A finite class of low-rank laws over vectors: P_h(s' | s, a) = sum_z phi_z(s, a) mu_z(s'), mu_z densities.

    The true phi and the true mu of every step are among the candidates. What is excluded is excluded for good, by the
    likelihoods of the densities themselves. Plans are made among sample points, so no bound on other policies is
    claimed; what `learn` prints of its policy comes from fresh episodes of it.

    Args:
        phis: candidates for phi, functions from observations (n, D) to probabilities (n, A, d).
        mus: candidates for mu, each an `AbstractDensities` of d densities, such as `NormalDensities(means, 0.1)`.
        points: the number of sample points to plan with. An observation is acted on like the nearest of them, so there
            should be many in the space of observations, whose entries should be of one size.
        collection: the rollouts of a plan, as of `LowRank`.
        seed: of the points.
    """

    __repr__ = describe_briefly

    phis: Iterable[Mixing]
    mus: Iterable[AbstractDensities]
    points: int = 256
    collection: str = "one-rollout"
    seed: int = 0

    subject = "a class of densities"

    def __post_init__(self) -> None:
        """Check the settings and the kinds of the candidates."""
        if isinstance(self.points, bool) or not isinstance(self.points, int | np.integer) or self.points < 1:
            raise ModelError(f"points must be a whole number, at least 1; got {self.points!r}")
        if self.collection not in COLLECTIONS:
            raise ModelError(f"collection must be one of {', '.join(COLLECTIONS)}; got {self.collection!r}")
        for name, wanted in (("phis", "functions"), ("mus", "AbstractDensities")):
            given = getattr(self, name)
            kept = tuple(given) if isinstance(given, Iterable) else ()
            fits = [callable(one) if name == "phis" else isinstance(one, AbstractDensities) for one in kept]
            if not fits or not all(fits):
                raise ModelError(f"{name} must be a list of {wanted}, at least one; got {given!r:.80}")
            object.__setattr__(self, name, kept)

    @property
    def needs(self) -> Needs:
        """Observations, which are represented by points for planning."""
        return Needs("observations", latents=int(self.points))

    def start(self, facts: EnvironmentFacts) -> DensityKnowledge:
        """Return what is known before the first episode."""
        points, shares = draw_points(tuple(self.mus), int(self.points), self.seed)
        if points.shape[1] != facts.dimension:
            raise ModelError(
                f"the densities are over {points.shape[1]} numbers, the environment shows {facts.dimension}: give mus "
                "over its observations"
            )
        A = facts.allowed.shape[1]
        hypotheses = DensityClass(tuple(self.phis), tuple(self.mus), points, shares, A)
        factors, H = (hypotheses.factors(),) * facts.horizon, facts.horizon
        support = list_class_support(factors, np.array([len(points) + 1]), facts.allowed)
        counts = start_counts(support, np.zeros(0, dtype=bool), H)
        planned = _evaluate_signals(facts, points)
        known = counts, planned, H, None, facts.delta, "likelihood"
        inner = ClassKnowledge(*known, factors, start_likelihoods(factors), 8.0, self.collection, facts.seed)
        return DensityKnowledge(counts, facts.pieces, H, None, facts.delta, "likelihood", inner, hypotheses)


def _evaluate_signals(facts: EnvironmentFacts, points: np.ndarray) -> Pieces:
    """Evaluate all signals at the points: by point and action, or by next point too where they depend on that."""
    assert facts.signal is not None  # environments of observations have it
    S, A = facts.allowed.shape
    N, d = len(points), facts.pieces.stage.shape[1]
    stage, arrivals = np.zeros((1, d, S, A)), []
    for number, (position, _) in enumerate(facts.pieces.observed):
        values = np.array([[facts.signal(number, x, a, None) for a in range(A)] for x in points])
        if np.isfinite(values).all():
            stage[0, position, :N] = values
            continue
        ahead = np.array([[[facts.signal(number, x, a, y) for y in points] for a in range(A)] for x in points])
        if not np.isfinite(ahead).all():
            raise ModelError(
                "plans over vectors compute every signal from observation, action and next observation, but a signal "
                "gives no number for them: write it without reward and info, as in "
                "bd.features.observed(lambda step: step.next_obs[0], low, high), and without at_end"
            )
        table = np.zeros((1, S, A, S))
        table[0, :N, :, :N] = ahead
        arrivals.append((position, table))
    return Pieces(stage, tuple(arrivals))
