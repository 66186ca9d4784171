"""Knowledge of a class of densities: exact likelihoods of the observations, and plans among sample points."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np
from jaxtyping import Float

from bidual._base.brief import describe_briefly
from bidual._base.checksum import compute_checksum
from bidual._base.errors import EnvError
from bidual._base.types import Episode
from bidual.models._base import Layout
from bidual.models._known import Known
from bidual.models.classes._collection import Rollout
from bidual.models.classes._knowledge import ClassKnowledge
from bidual.models.classes._plausible import Candidates, Plausible
from bidual.models.classes._points import DensityClass
from bidual.models.counts._counted import AbstractCounted, TablePolicy
from bidual.problem.convex import AbstractProgram
from bidual.problem.features import Psi
from bidual.world.mdp import TabularMDP
from bidual.world.policies import DecodedPolicy, Decoder, DeterministicPolicy, Played


@final
@dataclass(frozen=True, eq=False)
class DensityKnowledge(AbstractCounted):
    """Likelihoods of all pairs of candidates at every step, with a class over the points to plan with."""

    __repr__ = describe_briefly

    points: ClassKnowledge
    hypotheses: DensityClass

    def update(self, *episodes: Episode) -> "DensityKnowledge":
        """Learn from episodes; raise where every candidate gives one of them the density 0."""
        if not episodes:
            return self
        self._check_ends(episodes)
        inner, plain = self.points, [_simplify(one, self.shape[1] - 1) for one in episodes]
        added = np.stack([self.hypotheses.log_likelihoods(episodes, h) for h in range(self.horizon)])
        likelihoods, counts = inner.likelihoods + added, inner.counts.update(*plain)
        excluded = np.flatnonzero(likelihoods.max(axis=1) == -np.inf)
        if excluded.size:
            raise EnvError(
                f"the class is misspecified: at step {excluded[0] + 1} every candidate gives something that was seen "
                "the density 0: add candidates, or learn with bd.models.Latent"
            )
        start = counts.starts / counts.starts.sum()
        return replace(
            self, counts=counts, points=replace(inner, counts=counts, likelihoods=likelihoods, initial=start)
        )

    def _check_ends(self, episodes: Sequence[Episode]) -> None:
        end = self.shape[1] - 1
        for one in episodes:
            if np.any(one.states[:-1] == end):
                h = int(np.argmax(one.states == end))
                raise EnvError(
                    f"an episode ended after {h} of {self.horizon} steps, but densities of observations say nothing of "
                    "ends: let the environment stay where it is instead, with signals of 0"
                )

    @property
    def rollouts(self) -> int:
        """The number of rollouts per plan."""
        return self.points.rollouts

    @property
    def inserts_actions(self) -> bool:
        """Whether rollouts have a random action."""
        return self.points.inserts_actions

    def rollout(self, policy: Played, number: int) -> Rollout:
        """Return the policy with one action at random."""
        assert isinstance(policy, DecodedPolicy)  # of a table over the points
        assert isinstance(policy.table_policy, DeterministicPolicy)
        run = self.points.rollout(policy.table_policy, number)
        assert isinstance(run.policy, DeterministicPolicy)
        return run._replace(policy=replace(policy, table_policy=run.policy))

    def build_confidence_set(self) -> Plausible:
        """Return all combinations of candidates that may be true, over the points."""
        return self.points.list_plausible()

    @cached_property
    def layout(self) -> Layout:
        """The features at the points."""
        return self.confidence_set.restrict(self.points.pieces)

    def features(self, mdp: TabularMDP) -> Psi:
        """Return the features at the points."""
        return self.points.features(mdp)

    def single(self, law: Float[np.ndarray, "law S A K"]) -> tuple[Known, Psi]:
        """Return a law over the points for the exact planner, and the features under it."""
        return self.points.single(law)

    def model(self, law: Float[np.ndarray, "law S A K"]) -> TabularMDP:
        """Return a law over the points as a model."""
        return self.points.model(law)

    def draw_posterior_sample(self, rng: np.random.Generator) -> tuple[Known, Psi]:
        """Draw one combination by the likelihoods of its candidates."""
        return self.points.draw_posterior_sample(rng)

    def laws(self, rng: np.random.Generator, number: int) -> list[TabularMDP]:
        """Draw several such combinations, as models over the points."""
        return self.points.laws(rng, number)

    def compute_smoothed_estimate(self) -> Float[np.ndarray, "law S A K"]:
        """Return the mean of the candidates over the points, weighted by their likelihoods."""
        return self.points.compute_smoothed_estimate()

    @cached_property
    def decoder(self) -> Decoder:
        """The map from an observation to its nearest point."""
        return self.hypotheses.decoder(self.horizon)

    def to_environment_policy(self, policy: TablePolicy) -> DecodedPolicy:
        """Convert a table over the points to a policy for observations."""
        return DecodedPolicy(policy, self.decoder)

    @property
    def observation_size(self) -> int:
        """The length of an observation."""
        return self.hypotheses.points.shape[1]

    @property
    def certifies(self) -> bool:
        """Whether a bound is proved: never, for plans are made among points."""
        return False

    @property
    def all_supported_laws(self) -> None:
        """None: only the bounds of signals are known of an episode."""
        return

    @property
    def candidates(self) -> Candidates:
        """The numbers of candidates of every step that may still be true."""
        return self.points.candidates

    def law_settings(self) -> str:
        """Return the checksum of the candidates at the points."""
        return f"densities {self.points.law_settings()} {compute_checksum([], self.hypotheses.points)}"

    def assumptions(
        self, program: AbstractProgram, signals: Sequence[str], delta: float, share: float
    ) -> tuple[str, ...]:
        """Return that the truth is in the class, and that plans are made among points."""
        del program, signals
        most = max(one.count for one in self.points.factors)
        return (
            f"the true law of every step is one of {most} candidates; those that were excluded are false with "
            f"probability {1 - share:.6g}, if it is",
            f"plans are made among {len(self.hypotheses.points)} sample points, and an observation is acted on like "
            "the nearest of them: no bound on other policies is claimed",
            f"intervals of the policies' own episodes hold together with probability {1 - delta:.6g}, whatever the "
            "class",
        )

    def exploration(self, guarantee: str) -> str:
        """Return that there is no guarantee, whatever the explorer."""
        del guarantee
        return "among sample points, one action of every rollout at random: a heuristic, no rate is proved"

    def check_evidence(self, first: AbstractCounted, check_stored: Callable[[AbstractCounted], None]) -> None:
        """Check that candidates, likelihoods and counts are those of the declaration; raise `ValueError`."""
        del check_stored  # likelihoods are of observations, which are not kept
        now, then = self.points, first.points if isinstance(first, DensityKnowledge) else None
        if then is None or now.factors is not then.factors or now.seed not in (0, then.seed):
            raise ValueError("its candidates are not those of the model")
        likely, counts = now.likelihoods, now.counts
        if likely.shape != then.likelihoods.shape or np.isnan(likely).any() or (likely.max(axis=1) == -np.inf).any():
            raise ValueError("its likelihoods are none")
        same = counts.pairs.shape == then.counts.pairs.shape and np.array_equal(
            counts.transitions.sum(-1), counts.pairs
        )
        if not same or counts.starts.sum() != counts.episodes or self.counts is not counts or (counts.pairs < 0).any():
            raise ValueError("its counts are not those of its episodes")


def _simplify(episode: Episode, end: int) -> Episode:
    """Return an episode to count: without signals, and at a point in the end, which is of no consequence."""
    states = episode.states.copy()
    states[-1] = states[-2] if states[-1] == end else states[-1]
    return replace(episode, states=states, observed=np.zeros((len(episode.actions), 0)))
