"""A regression of controlled vectors in conditions: its assumptions, and signals as JSON values."""

from typing import TYPE_CHECKING, Any

import numpy as np

from bidual.models.regression._linear_laws import LinearLaws
from bidual.problem.convex import AbstractProgram
from bidual.problem.features import Computed, LinearMap

if TYPE_CHECKING:
    from bidual.models.regression._knr import ControlKnowledge


def describe_signals(features: Computed) -> list[list[Any]]:
    """Return name, least and largest value (None: no end) and size of every signal."""
    ends = ([one.low, one.high] for one in features.signals)
    limits = [[float(end) if np.isfinite(end) else None for end in pair] for pair in ends]
    return [[name, *pair, one.size] for name, pair, one in zip(features.names, limits, features.signals, strict=True)]


def list_assumptions(
    knowledge: "ControlKnowledge", program: AbstractProgram, delta: float, share: float
) -> tuple[str, ...]:
    """Return the assumptions behind bounds and intervals, and the parts of the model that are estimates."""
    n, _, d = knowledge.phi.sizes
    noise = "declared" if knowledge.declared.noise is not None else "estimated"
    deviations = ", ".join(f"{one:.3g}" for one in knowledge.posterior.deviation[:6])
    conditions = [
        _describe_bound(knowledge, program, share),
        f"the change of {n} state variables is regressed on {d} features of state and control; the deviation of the "
        f"noise, {noise}: {deviations}{', ...' if n > 6 else ''}",
        "after the end of an episode every signal is 0",
    ]
    if knowledge.broken:
        conditions.append(
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
        conditions.append(
            f"nothing is certified of what this policy pays for {', '.join(free)}: no bounds were declared"
        )
    conditions.append(
        f"intervals of the policies' own episodes hold together with probability {1 - delta:.6g}, whatever the model"
    )
    return tuple(conditions)


def explain_missing_bound(knowledge: "ControlKnowledge") -> str | None:
    """Return why nothing bounds other policies, from what is declared and what happened; None where a bound is."""
    declared = knowledge.declared
    settings = (("noise", declared.noise), ("bound", declared.bound), ("first", declared.first))
    absent = [name for name, value in settings if value is None]
    if not isinstance(knowledge.phi, LinearMap) or knowledge.discrete:
        return "heuristic planner"
    if np.isfinite(knowledge.declared_box).any():
        return "heuristic planner, and states are held to a box"
    if absent:
        return f"heuristic planner, and {' and '.join(absent)} of the linear model not declared"
    if knowledge.moments.count < knowledge.episodes * knowledge.horizon:
        return "heuristic planner, and episodes ended before their time"
    return None


def _describe_bound(knowledge: "ControlKnowledge", program: AbstractProgram, share: float) -> str:
    """Return the assumptions of a bound on other policies, or why there is none: sampled plans prove nothing."""
    if knowledge.missing is not None:
        return f"no lower bound: {knowledge.missing}"
    if knowledge.laws is None or not _has_quadratic_costs(program, knowledge.laws):
        return "no lower bound: heuristic planner, and costs that were not declared as quadratic"
    return (
        f"the bound on other policies is Riccati's over all linear laws that may be true: the change of the state is "
        f"linear in state and control, by a matrix no longer than {knowledge.declared.bound:g}, plus normal noise of "
        f"the declared deviation; every episode begins in {list(knowledge.declared.first or ())} and lasts "
        f"{knowledge.horizon} steps; and nothing seen so far excludes that (probability {1 - share:.6g})"
    )


def _has_quadratic_costs(program: AbstractProgram, laws: LinearLaws) -> bool:
    """Return whether every cost is quadratic, for multipliers of the signs that they can have."""
    rows = program.linear
    if rows is None:
        return False
    signed = np.concatenate([rows.objective[None], rows.rows, -rows.rows[rows.equality]])
    return all(laws.underestimates(row) for row in signed)
