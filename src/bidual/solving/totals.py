"""The search of linear problems with at most one limit: plans of which only the totals are computed.

Over large models it begins in single precision. Where its gap seems closed, the plans in use are evaluated in double
precision, and the search goes on in double from them; mostly it is over there and then. What single precision lost on
these plans is measured, and four times as much is taken off the bound that the search has; the certificate knows
nothing of either.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bidual.dual import Bound, Duals, FullyCorrective, Interpolating, Reply, list_origins
from bidual.loop.primal_dual import Iteration, carry_totals
from bidual.models import Known, Layout
from bidual.planners import BackwardInduction, is_large, lay_out_totals
from bidual.problem.convex import AffineProgram

_SAFETY = 4.0  # times what single precision was seen to lose
_PATIENCE = 3  # plans in a row that may leave the gap as it is before precision is blamed

_SMOOTH = 20_000  # entries of the successor lists from which the dual function is nearly smooth

IsOver = Callable[[Iteration[Any]], bool]


def iterate_by_totals(
    program: AffineProgram, psi: Layout, model: Known, known: Sequence[Reply], is_over: IsOver
) -> Iterator[Iteration[Any]]:
    """Iterate over plans, in single precision first where the model is large; `is_over` is where the caller stops."""
    dual = Interpolating() if is_nearly_smooth(model) else FullyCorrective()
    duals = dual.restart(program, known) if known else dual.init(program)
    last = Iteration(0, None, duals, tuple(known))
    if known:
        yield last
    if is_large(model) and isinstance(dual, Interpolating) and program.limits.size:
        replies = list(known)
        rough = lay_out_totals(program, psi, model, single=True)
        waited, least = 0, np.inf
        for last in carry_totals(program, rough, dual, duals):
            assert last.reply is not None  # every plan is new
            replies.append(last.reply)
            gap = last.duals.f - last.duals.optimum.value if last.duals.feasible else np.inf
            waited, least = (0, gap) if gap <= 0.5 * least else (waited + 1, least)
            if is_over(last) or (least < np.inf and waited > _PATIENCE):
                break
            yield last
        last = _refine(program, psi, model, dual, replace(last, known=tuple(replies)))
        duals = last.duals
        yield last
    exact = lay_out_totals(program, psi, model, single=False)
    yield from carry_totals(program, exact, dual, duals, last.number)


def is_nearly_smooth(model: Known) -> bool:
    """Check whether so many states matter that single corners of the dual function do not."""
    return model.states[0].size >= _SMOOTH


def complete(psi: Layout, model: Known, replies: Sequence[Reply | None], duals: Duals[Any]) -> list[Reply | None]:
    """Return the plans, those in use with their embeddings."""
    used = set(np.flatnonzero(duals.weights).tolist())
    return [
        _complete(psi, model, reply) if i in used and reply is not None else reply for i, reply in enumerate(replies)
    ]


def _complete(psi: Layout, model: Known, reply: Reply) -> Reply:
    if reply.plan.image is None:
        return reply
    return reply._replace(plan=BackwardInduction().with_embedding(model, psi, reply.plan))


def _refine(
    program: AffineProgram, psi: Layout, model: Known, dual: Interpolating, rough: Iteration[Any]
) -> Iteration[Any]:
    """Return the state of the plans in use, and of others until one keeps the limit, evaluated in double precision."""
    duals, replies = rough.duals, rough.known
    used: list[Reply] = []
    images, lost = [], 0.0
    for i in _order_by_use(duals):
        if len(used) >= np.count_nonzero(duals.weights) and min(g[0] for _, g in images) <= 0:
            break
        used.append(_complete(psi, model, replies[i]))
        images.append(program.values(used[-1].plan.embedding))
        image, gamma = replies[i].plan.image, replies[i].gamma
        if image is not None and gamma is not None:
            exact = np.append(images[-1][0] - program.offset, images[-1][1] + program.limits)
            lost = max(lost, abs(float(np.append(1.0, gamma) @ (exact - image))))
    f, g = np.array([f for f, _ in images]), np.array([g[0] for _, g in images])
    gammas, fits = list_origins(program, used)
    bound = Bound(duals.optimum.value - _SAFETY * lost, duals.optimum.gamma)
    return Iteration(
        rough.number, None, dual.resume(program, f, g, np.where(fits, gammas[:, 0], np.nan), bound), tuple(used)
    )


def _order_by_use(duals: Duals[Any]) -> list[int]:
    """Order plans: those in use, then the others that keep the limit, the cheapest first."""
    memory = duals.memory
    used = np.flatnonzero(duals.weights).tolist()
    others = [i for i in np.argsort(memory.f).tolist() if memory.g[i] <= 0 and i not in used]
    return used + others
