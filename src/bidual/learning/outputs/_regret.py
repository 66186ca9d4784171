"""Regret and violation of the policies that were run, where the true model is known: both definitions.

The paper's are those of the mixture: T (f(Psi of the mixture) - f*) and T g(Psi of the mixture), where good episodes
make up for bad ones. The stronger ones add up positive parts, episode by episode.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int

from bidual._base.brief import describe_briefly
from bidual._base.errors import ProblemError
from bidual.problem.convex import AbstractProgram
from bidual.problem.features import Psi
from bidual.world.mdp import TabularMDP
from bidual.world.policies import DecodedPolicy, DeterministicPolicy
from bidual.world.policies import embedding as embedding_of

_MOST_TIMES = 200  # times at curved problems, where each takes an evaluation of the mixture


@final
@dataclass(frozen=True, eq=False)
class Regret:
    """Sums over the first `episodes` episodes; the objective in its minimising form, one column per constraint row."""

    __repr__ = describe_briefly

    episodes: Int[np.ndarray, "n"]
    regret: Float[np.ndarray, "n"]
    violation: Float[np.ndarray, "n m"]
    positive_regret: Float[np.ndarray, "n"]
    positive_violation: Float[np.ndarray, "n m"]
    error: Float[np.ndarray, "n"] | None = None  # the standard error of regret, where it is estimated

    @property
    def series(self) -> dict[str, Float[np.ndarray, "n"]]:
        """All sums, by name; of several constraint rows the worst."""
        return {
            "regret": self.regret,
            "violation": self.violation.max(axis=1, initial=-np.inf) if self.violation.size else 0.0 * self.regret,
            "positive regret": self.positive_regret,
            "positive violation": self.positive_violation.max(axis=1, initial=0.0),
        }

    def slopes(self, first: int = 1) -> dict[str, float]:
        """Fit their growth: exponents from logarithms from episode `first` on; theory promises 0.5.

        Sums are raised to at least the most that a single episode can add: a sum that stays there has the slope 0.
        """
        late = self.episodes >= first
        t = np.log(self.episodes[late])
        if t.size < 2:
            raise ProblemError(f"a slope needs two times from episode {first} on; there are {t.size}")
        return {name: _fit_slope(t, sums, late) for name, sums in self.series.items()}


def _fit_slope(t: Float[np.ndarray, "n"], sums: Float[np.ndarray, "all"], late: Bool[np.ndarray, "all"]) -> float:
    floor = max(float(np.abs(np.diff(sums, prepend=0.0)).max()), 1e-12)
    # Times are many at the end: equally many per octave count alike.
    weights = np.sqrt(np.diff(t, prepend=t[0] - (t[1] - t[0])))
    return round(float(np.polyfit(t, np.log(np.maximum(sums[late], floor)), 1, w=weights)[0]), 9) + 0.0  # no -0.0


def compute_regret(
    program: AbstractProgram,
    psi: Psi,
    truth: TabularMDP,
    executed: Sequence[DeterministicPolicy | DecodedPolicy],
    optimum: float,
) -> Regret:
    """Compute the regret against `optimum` (minimising) of the policies in the order they were run."""
    distinct = {id(policy): policy for policy in executed}
    embeddings = {key: embedding_of(truth, psi, policy) for key, policy in distinct.items()}
    return sum_regret(program, embeddings, [id(policy) for policy in executed], optimum)


def sum_regret(
    program: AbstractProgram, embeddings: Mapping[int, Float[np.ndarray, "..."]], order: Sequence[int], optimum: float
) -> Regret:
    """Add up regret and violation against `optimum` (minimising) over policies that are named by their embeddings."""
    values = {key: program.at(one) for key, one in embeddings.items()}
    f = np.array([values[key][0] for key in order])
    g = np.stack([values[key][1] for key in order])
    T = len(order)
    times = np.arange(1, T + 1)
    if program.is_linear:
        mixed_f, mixed_g = np.cumsum(f), np.cumsum(g, axis=0)
    else:
        times = np.unique(np.geomspace(1, T, _MOST_TIMES).astype(np.int64))
        names = list(embeddings)
        places = np.array([names.index(key) for key in order])
        stacked = np.stack(list(embeddings.values()))
        shares = [np.bincount(places[:t], minlength=len(names)) / t for t in times]
        mixed = [program.at(np.tensordot(share, stacked, axes=1)) for share in shares]
        mixed_f, mixed_g = times * [one[0] for one in mixed], times[:, None] * np.stack([one[1] for one in mixed])
    over = program.violations(g)
    return Regret(
        episodes=times,
        regret=mixed_f - times * optimum,
        violation=mixed_g,
        positive_regret=np.cumsum(np.maximum(f - optimum, 0.0))[times - 1],
        positive_violation=np.cumsum(over, axis=0)[times - 1],
    )
