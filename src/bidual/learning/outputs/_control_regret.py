"""Regret and violation of policies of controls: by exact moments, or paired on the same noise.

Values of single policies by plain Monte Carlo make positive parts of nothing but noise: over 200 near-optimal laws of a
double integrator with 64 paths each they add up to 16 where 3 is true. Where law and policies are affine the moments of
every step are exact. Else every policy is run with the seeds of a reference policy, and differences are averaged.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from bidual._base.errors import ProblemError
from bidual._base.keys import Draw, Purpose
from bidual.learning.outputs._regret import Regret, sum_regret
from bidual.planners.control import LinearQuadratic, RiccatiLaws, expected
from bidual.problem.convex import AbstractProgram
from bidual.problem.features import Computed
from bidual.world.envs import AbstractEnvironment
from bidual.world.policies import AffineFeedback, ControlPolicy, Played, RandomControls

_DEVIATIONS = 5.0  # that a control keeps from its limits: beyond are 6e-7 of its values


def drop_random_controls(executed: Sequence[Played]) -> list[ControlPolicy]:
    """Return the policies that were planned: the first episodes of a run have random controls, and no plan."""
    planned = [one for one in executed if isinstance(one, ControlPolicy)]
    kept = [one for one in planned if not isinstance(one.controller, RandomControls)]
    if not kept:
        raise ProblemError("no policy was planned yet, only random controls were run: learn longer")
    return kept


def compute_exact_regret(
    program: AbstractProgram,
    features: Computed,
    truth: LinearQuadratic,
    first: Float[np.ndarray, "n"],
    executed: Sequence[ControlPolicy],
    optimum: float,
) -> Regret:
    """Compute the regret against `optimum` (minimising) of affine policies in a linear law with quadratic signals."""
    seen = {id(one): _compute_embedding(one, features, truth, first) for one in executed}
    return sum_regret(program, seen, [id(one) for one in executed], optimum)


def estimate_paired_regret(
    program: AbstractProgram,
    env: AbstractEnvironment,
    executed: Sequence[ControlPolicy],
    reference: Played,
    *,
    paths: int = 64,
    seed: int = 0,
) -> Regret:
    """Estimate the regret against a reference policy, on the same noise, with the standard errors of its sums."""
    if not program.is_linear:
        raise ProblemError("episodes are paired where the problem is linear in the signals: this one is not")
    if paths < 2:
        raise ProblemError(f"paths must be at least 2, for a standard error; got {paths!r}")

    def run(policy: Played) -> Float[np.ndarray, "paths rows"]:
        episodes = [env.collect(policy, Draw(seed, Purpose.SHOW, i + 1)) for i in range(paths)]
        values = [program.at(np.asarray(episode.observed)) for episode in episodes if episode.observed is not None]
        return np.array([np.append(*value) for value in values])

    known, base = {id(one): one for one in executed}, run(reference)
    differences = {key: run(policy) - base for key, policy in known.items()}
    means = np.stack([differences[id(one)].mean(axis=0) for one in executed])
    sums = np.cumsum(np.stack([differences[id(one)][:, 0] for one in executed]), axis=0)
    levels = np.stack([(differences[id(one)] + base)[:, 1:].mean(axis=0) for one in executed])
    return Regret(
        episodes=np.arange(1, len(executed) + 1),
        regret=np.cumsum(means[:, 0]),
        violation=np.cumsum(levels, axis=0),
        positive_regret=np.cumsum(np.maximum(means[:, 0], 0.0)),
        positive_violation=np.cumsum(program.violations(levels), axis=0),
        error=sums.std(axis=1, ddof=1) / np.sqrt(paths),
    )


def _compute_embedding(
    policy: ControlPolicy, features: Computed, truth: LinearQuadratic, first: Float[np.ndarray, "n"]
) -> Float[np.ndarray, "H p"]:
    """Compute the embedding of an affine policy exactly; refused where its controls come near their limits."""
    law = policy.controller
    if not isinstance(law, AffineFeedback):
        raise ProblemError("exact moments are those of affine laws: give reference=..., for paired episodes")
    forms = [signal.quadratic for signal in features.signals if signal.quadratic is not None]
    if len(forms) < len(features.signals):
        raise ProblemError("exact moments are those of quadratic signals: give reference=..., for paired episodes")
    (_, n, m), still = law.sizes, (np.zeros((first.size, first.size)), np.zeros(first.size), 0.0)
    offsets = law.controls - np.einsum("hmn,hn->hm", law.gains, law.states)
    means, covariances = truth.moments(RiccatiLaws(law.gains, offsets, *still), first)
    u, spread = means[:, n : n + m], np.sqrt(np.diagonal(covariances, axis1=1, axis2=2)[:, n : n + m])
    if np.any(u - _DEVIATIONS * spread < policy.low) or np.any(u + _DEVIATIONS * spread > policy.high):
        raise ProblemError(
            f"a control comes within {_DEVIATIONS:g} deviations of its limits, and a clipped law has no exact moments: "
            "give reference=..., for paired episodes"
        )
    parts = [np.stack([np.asarray(form[i]) for form in forms]) for i in range(3)]
    return expected(means, covariances, *parts)
