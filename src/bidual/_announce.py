"""What estimates and bounds mean to the user: a status, intervals and assumptions, in their names, senses and units."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bidual._prepare import Setting
from bidual._status import Status
from bidual.certificate import Certificate
from bidual.constraints import Conflict, ConstraintResult, constraint_results, find_conflict, status_of_learned
from bidual.convex import AffineProgram
from bidual.learned import Interval, Output
from bidual.models import (
    AbstractCounted,
    AbstractKnowledge,
    ClassKnowledge,
    ControlKnowledge,
    LatentKnowledge,
    LinearKnowledge,
    LinearLaws,
)
from bidual.outputs import Estimates, Made, Shown
from bidual.policies import AbstractPolicy, Mixture, Played, distinct


class Verdict(NamedTuple):
    """What is shown about the policy that learning returns."""

    status: Status
    value: float
    lower: float | None
    upper: float | None
    constraints: tuple[ConstraintResult, ...]
    conflict: Conflict | None


def verdict(setting: Setting, shown: Shown, made: Made, estimates: Estimates, *, goal: float | None = None) -> Verdict:
    """Status, bounds and constraints of the policy."""
    over, g = setting.over(estimates), estimates.mean[1:]
    certificate = Certificate(
        value=float(estimates.mean[0]),
        upper=float(estimates.upper[0]),
        lower=shown.lower,
        conflict=shown.conflict,
        g=g,
        violations=setting.program.violations(g),
        violations_upper=over,
        embedding=made.embedding,
        visits=made.visits,
    )
    lines = setting.problem.lines()
    conflict = None
    if shown.record is not None and shown.conflict is not None:
        conflict = find_conflict(lines, setting.program, certificate, shown.record)
    pays = certificate.upper if np.isfinite(certificate.upper) else None
    ends = (None if end is None else setting.sense * end for end in (shown.lower, pays))
    lower, upper = ends if setting.sense > 0 else reversed(list(ends))
    gap = None if lower is None or upper is None else upper - lower
    return Verdict(
        status=status_of_learned(certificate, gap, goal),
        value=float(setting.sense * estimates.mean[0]) + 0.0,
        lower=lower,
        upper=upper,
        constraints=constraint_results(lines, certificate, made.gamma),
        conflict=conflict,
    )


def constraints_at(setting: Setting, estimates: Estimates) -> tuple[ConstraintResult, ...]:
    """The constraints of a policy of which nothing is known but estimates."""
    g, nothing = estimates.mean[1:], np.zeros((0, 0))
    certificate = Certificate(
        value=float(estimates.mean[0]),
        upper=float(estimates.upper[0]),
        lower=None,
        conflict=None,
        g=g,
        violations=setting.program.violations(g),
        violations_upper=setting.over(estimates),
        embedding=nothing,
        visits=nothing,
    )
    return constraint_results(setting.problem.lines(), certificate, None)


def output_of(setting: Setting, name: str, policy: AbstractPolicy, estimates: Estimates) -> Output:
    """A policy with its intervals."""
    constraints, start = {}, 1
    for line in setting.problem.lines():
        rows = slice(start, start + line.bounds.size)
        start = rows.stop
        score = np.abs(estimates.mean[rows]) if line.sense == "==" else estimates.mean[rows]
        worst = int(np.argmax(score))
        numbers = [part[rows][worst] for part in (estimates.mean, estimates.lower, estimates.upper)]
        constraints[line.name] = _interval(*(line.bounds[worst] + line.sign * number for number in numbers))
    objective = _interval(*(setting.sense * part[0] for part in (estimates.mean, estimates.lower, estimates.upper)))
    return Output(name, policy, objective, constraints, estimates.episodes)


def _interval(value: float, *ends: float) -> Interval:
    low, high = sorted(float(end) for end in ends)
    return Interval(float(value) + 0.0, low if np.isfinite(low) else None, high if np.isfinite(high) else None)


def mixture_of_policies(policies: Sequence[Played]) -> Mixture:
    """The uniform mixture of the policies of single episodes, each distinct one once.

    Distinct by what they do: a run that was stored has its policies as other objects.
    """
    members, order = distinct(policies)
    weights = np.bincount(order, minlength=len(members)).astype(np.float64)
    return Mixture(weights / weights.sum(), tuple(members))


def _class_in_words(knowledge: ClassKnowledge) -> str:
    sizes = [one.count for one in knowledge.factors]
    if not knowledge.certifies:
        return (
            f"the set of laws has the constant {knowledge.c:g} < 8 and may have lost the true one: no bound is claimed"
        )
    return f"the true law of every step is one of {max(sizes)} candidates, and nothing seen so far excludes that"


def _laws_in_words(knowledge: AbstractCounted) -> list[str]:
    if isinstance(knowledge, ClassKnowledge):
        return [_class_in_words(knowledge)]
    support = knowledge.counts.support
    words = [_linear_in_words(knowledge)] if isinstance(knowledge, LinearKnowledge) else []
    sizes = support.sizes[~support.absorbing[:, None] & support.allowed]
    if support.open or (words and sizes.min(initial=len(support.sizes)) == len(support.sizes)):
        return [*words, "no successors were declared: any state may follow any other"]
    return [*words, f"only declared successors follow: at most {int(support.sizes.max())} for each state and action"]


def _linear_in_words(knowledge: LinearKnowledge) -> str:
    shared = "with one mu for all steps" if knowledge.stationary else "with a mu of its own at every step"
    return (
        f"the law is phi . mu, linear in {knowledge.phi.shape[-1]} known features, {shared}; no sum of mu(s') over "
        f"states is longer than {knowledge.bound:.4g}; and nothing seen so far excludes that"
    )


def _latents_in_words(setting: Setting, knowledge: LatentKnowledge) -> tuple[str, ...]:
    """What a learned decoder is worth: nothing is proved, and what it leaves open of the signals is said."""
    sizes = [0 if emission is None else emission.size for emission in knowledge.decoder.steps[:-1]]
    words = [
        f"latents are a heuristic: {min(sizes)} to {max(sizes)} at a step were told apart, of "
        f"{knowledge.declared.latents} at most; no bound on other policies is claimed",
    ]
    for (name, _), left, varied in zip(
        setting.problem.embedding.features.observed, *knowledge.seen.errors(), strict=True
    ):
        words.append(
            f"signal {name!r} is regressed on latent and action: the root mean square error is {left:.3g}, "
            f"of a deviation of {varied:.3g}"
        )
    total = setting.split.delta
    words.append(
        f"intervals of the policies' own episodes hold together with probability {1 - total:.6g}, whatever the latents"
    )
    return tuple(words)


def exploration_of(setting: Setting) -> str:
    """How episodes were chosen, and what is proved of that."""
    if isinstance(setting.knowledge, LatentKnowledge):
        return "among decoded latents, with optimism about those never seen: a heuristic, no rate is proved"
    if isinstance(setting.knowledge, ClassKnowledge):
        # Beyond 10 000 combinations the cheapest one is searched for and not always found.
        plans = "of plans, if they are the cheapest over the class; every rollout has one action at random"
        return f"{setting.explorer.guarantee}, {plans}"
    return setting.explorer.guarantee


def _bound_in_words(setting: Setting, knowledge: ControlKnowledge) -> str:
    """What a bound on other policies rests on, or why there is none: sampled plans prove nothing."""
    if knowledge.missing is not None:
        return f"no lower bound: {knowledge.missing}"
    if knowledge.laws is None or not _quadratic(setting, knowledge.laws):
        return "no lower bound: heuristic planner, and costs that were not declared as quadratic"
    return (
        f"the bound on other policies is Riccati's over all linear laws that may be true: the change of the state is "
        f"linear in state and control, by a matrix no longer than {knowledge.declared.bound:g}, plus normal noise of "
        f"the declared deviation; every episode begins in {list(knowledge.declared.first or ())} and lasts "
        f"{knowledge.horizon} steps; and nothing seen so far excludes that (probability {1 - setting.split.model:.6g})"
    )


def _quadratic(setting: Setting, laws: LinearLaws) -> bool:
    """Whether all that is paid for is quadratic, where multipliers have the sign that they can have."""
    program = setting.program
    if not isinstance(program, AffineProgram):
        return False
    signed = np.concatenate([program.objective[None], program.rows, -program.rows[program.equality]])
    return all(laws.underestimates(row) for row in signed)


def _controls_in_words(setting: Setting, knowledge: ControlKnowledge) -> tuple[str, ...]:
    """What a regression is worth."""
    n, _, d = knowledge.phi.sizes
    noise = "declared" if knowledge.declared.noise is not None else "estimated"
    deviations = ", ".join(f"{one:.3g}" for one in knowledge.posterior.deviation[:6])
    words = [
        _bound_in_words(setting, knowledge),
        f"the change of {n} state variables is regressed on {d} features of state and control; the deviation of the "
        f"noise, {noise}: {deviations}{', ...' if n > 6 else ''}",
        "after the end of an episode every signal is 0",
    ]
    if knowledge.broken:
        words.append(
            f"{knowledge.broken} of {knowledge.episodes} episodes were broken off: the environment gave numbers that "
            "were not finite, or beyond 1e8"
        )
    low, high = knowledge.features.bounds
    free = [
        part.name
        for part in knowledge.features.parts
        if not np.isfinite([low[part.position], high[part.position]]).all()
    ]
    if free:
        words.append(f"nothing is certified of what this policy pays for {', '.join(free)}: no bounds were declared")
    words.append(
        f"intervals of the policies' own episodes hold together with probability {1 - setting.split.delta:.6g}, "
        "whatever the model"
    )
    return tuple(words)


def assumptions_of(setting: Setting, knowledge: AbstractKnowledge) -> tuple[str, ...]:
    """What the bounds take for granted, in words."""
    if isinstance(knowledge, ControlKnowledge):
        return _controls_in_words(setting, knowledge)
    if isinstance(knowledge, LatentKnowledge):
        return _latents_in_words(setting, knowledge)
    assert isinstance(knowledge, AbstractCounted)  # all others have words of their own
    support, split = knowledge.counts.support, setting.split
    words = ["what follows depends on state and action alone, alike at every step of every episode"]
    if len(knowledge.counts.pairs) > 1:
        words = ["what follows depends on step, state and action alone, alike in every episode"]
    words += _laws_in_words(knowledge)
    if support.absorbing.any():
        ends = int(support.absorbing.sum())
        words.append("one declared state is never left" if ends == 1 else f"{ends} declared states are never left")
    words.append("the start law is known" if knowledge.initial is not None else "the start law is learned too")
    for (name, one), steady in zip(setting.problem.embedding.features.observed, knowledge.counts.steady, strict=True):
        if one.noisy:
            words.append(f"signal {name!r} has one mean for every transition, and its noise is independent")
        elif steady:
            words.append(f"signal {name!r} is a function of the transition: so it was in every episode")
        else:
            words.append(f"signal {name!r} is no function of the transition: no bound on other policies is claimed")
    total = split.delta
    words.append(
        f"all bounds hold together with probability {1 - total:.6g}: of {total:.3g}, {split.model:.3g} is for the "
        f"model, {total * 3 / 8:.3g} for evaluation and {total / 8:.3g} for the mixtures"
    )
    return tuple(words)
