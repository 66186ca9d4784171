"""A learned result as text: the few lines that are printed, and everything that is known of it."""

from typing import TYPE_CHECKING

import numpy as np

from bidual._base.status import Status
from bidual.learning.summary import describe_constraint
from bidual.solving.outcome import Facts

if TYPE_CHECKING:
    from bidual.learning.learned import Learned

_MOST_LINES = 5  # of the short text of a result: values, constraints and what to do next
_MOST_SUGGESTIONS = 2
_MORE = "all with --verbose, .describe()"


def summarise_learned(learned: "Learned", totals: Facts) -> Facts:
    """Describe a result and its totals in at most seven lines: constraints without a line of their own share one."""
    values, lines = [*_describe_values(learned), *totals], _describe_constraints(learned)
    following = [("next", text) for text in learned.suggestions[:_MOST_SUGGESTIONS]]
    following = following[: max(1, _MOST_LINES - len(values) - len(lines))]
    room = max(_MOST_LINES - len(values) - len(following), 1)
    if len(lines) > room:
        left = learned.constraints[room - 1 :]
        worst = max(one.violation_upper for one in left)
        bound = f"violated by at most {max(worst, 0.0):.3g}" if np.isfinite(worst) else "not all are bounded"
        lines[room - 1 :] = [("constraint", f"{len(left)} more, {bound} ({_MORE})")]
    count = len(learned.assumptions)
    assumes = f"{count} condition{'' if count == 1 else 's'}, at confidence {1 - learned.delta:.6g} ({_MORE})"
    return [*values, *lines, *following, ("assumes", assumes), ("effort", _describe_effort(learned))]


def list_learned_facts(learned: "Learned", totals: Facts) -> Facts:
    """Describe everything that is known of a result and its totals, with all policies and assumptions."""
    facts = [*_describe_values(learned), *_describe_constraints(learned), *totals]
    facts += [("next", text) for text in learned.suggestions]
    facts += [("also", str(output)) for output in learned.outputs[1:]]
    facts += [("assumes", assumption) for assumption in learned.assumptions]
    facts += [] if learned.candidates is None else [("candidates", f"{learned.candidates} may still be true")]
    facts += [("explored", learned.exploration), ("effort", _describe_effort(learned))]
    return facts


def _describe_values(learned: "Learned") -> list[tuple[str, str]]:
    conflict = [] if learned.conflict is None else [("conflict", str(learned.conflict))]
    return [*conflict, ("objective", _describe_objective(learned)), ("certificate", _describe_certificate(learned))]


def _describe_objective(learned: "Learned") -> str:
    own = learned.outputs[0]
    if not own.episodes:
        return f"{learned.sense}: {own.objective.value:.6g} in the learned model: no episode was spent on the policy"
    left = "" if learned.candidates is None else " and the candidates that are left"
    return f"{learned.sense}: {own.objective}, from {own.episodes} fresh episodes{left}"


def _describe_certificate(learned: "Learned") -> str:
    """Describe what no policy can beat, and how far from it the policy is at most."""
    side, bound = ("above", learned.upper) if learned.sense == "maximize" else ("below", learned.lower)
    if bound is None:
        return "no bound on what other policies can reach is claimed"
    text = f"no policy that keeps the constraints can be {side} {bound:.6g}"
    if learned.gap is None:
        return text
    # A policy that may violate something may also be beyond the optimum.
    what = "that" if learned.status is Status.UNDECIDED else "optimal"
    return f"{text}: the policy is at most {max(learned.gap, 0.0):.3g} from {what}"


def _describe_constraints(learned: "Learned") -> list[tuple[str, str]]:
    observed = learned.outputs[0].constraints
    return [("constraint", describe_constraint(one, observed[one.name])) for one in learned.constraints]


def _describe_effort(learned: "Learned") -> str:
    return (
        f"{learned.episodes} episodes of learning and {learned.evaluation_episodes} of evaluation, {learned.plans} "
        f"plans, {learned.seconds:.1f} s, seed {learned.seed}"
    )
