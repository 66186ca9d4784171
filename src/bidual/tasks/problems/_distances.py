"""Problems of closeness: to an expert's embedding, or to a convex set of embeddings."""

from collections.abc import Mapping, Sequence
from typing import TypeGuard

import cvxpy as cp
import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from bidual._base.errors import ProblemError
from bidual.problem.features import Psi
from bidual.problem.features.embedding import Embedding
from bidual.problem.modelling import Problem
from bidual.tasks.problems._declare import AnySignal, Limits, declare, merge
from bidual.tasks.problems._sets import AbstractSet, ConvexSet, Distance, list_constraints, measure_vector
from bidual.tasks.problems._sources import Quantities, Source, known_model, sum_over_time
from bidual.world.mdp import TabularMDP, find_reachable

Episode = Sequence[Sequence[int]] | Sequence[tuple[int, int]] | Int[np.ndarray, "n 2"]
Demonstrations = Sequence[Episode] | Int[np.ndarray, "episodes n 2"]

FORM = "demonstrations are a sequence of episodes, each a sequence of (state, action) pairs"


def is_demonstrations(expert: object) -> TypeGuard[Demonstrations]:
    """Return whether a value is nested like episodes of pairs, and is no array of at most two dimensions."""
    try:
        array = np.asarray(expert)
    except ValueError:  # episodes of different lengths
        return True
    return array.ndim == 3 or array.size == 0


def read_demonstrations(mdp: TabularMDP, psi: Psi, demonstrations: Demonstrations) -> Float[np.ndarray, "H d"]:
    """Average psi over the episodes.

    An episode that is shorter than the horizon counts nothing after its end; in a model from Gymnasium it stays in
    the added state, as the model's own ended episodes do.
    """
    episodes = [_check_episode(mdp, number, episode) for number, episode in enumerate(demonstrations)]
    if not episodes:
        raise ProblemError(f"there are no demonstrations: give at least one episode; {FORM}")
    steps = []
    for h in range(mdp.horizon):
        occupancy = np.zeros(mdp.actions.shape)
        for pairs in episodes:
            if h < len(pairs):
                occupancy[tuple(pairs[h])] += 1 / len(episodes)
        steps.append(psi.expect(occupancy, h))
    return np.stack(steps)


def _check_episode(mdp: TabularMDP, number: int, episode: Episode) -> Int[np.ndarray, "n 2"]:
    """Return the pairs as an array, checked, and completed where the model defines the end of episodes."""
    try:
        pairs = np.asarray(episode)
    except ValueError:
        raise ProblemError(f"episode {number} has entries that are no pairs: {FORM}") from None
    if pairs.size == 0:
        raise ProblemError(f"episode {number} is empty: drop it, or give its (state, action) pairs")
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise ProblemError(
            f"episode {number} must hold pairs of whole numbers; got shape {pairs.shape} of {pairs.dtype}: {FORM}"
        )
    if len(pairs) > mdp.horizon:
        raise ProblemError(f"episode {number} has {len(pairs)} steps, more than the horizon {mdp.horizon}: cut it off")
    _check_range(number, "state", pairs[:, 0], mdp.num_states)
    _check_range(number, "action", pairs[:, 1], mdp.num_actions)
    forbidden = np.flatnonzero(~mdp.actions[pairs[:, 0], pairs[:, 1]])
    if forbidden.size:
        h = int(forbidden[0])
        raise ProblemError(f"episode {number}, step {h}: state {pairs[h, 0]} does not allow action {pairs[h, 1]}")
    if mdp.table is None:
        return pairs
    return np.vstack([pairs, np.tile([mdp.num_states - 1, 0], (mdp.horizon - len(pairs), 1))])


def _check_range(number: int, what: str, values: Int[np.ndarray, "n"], count: int) -> None:
    wrong = np.flatnonzero((values < 0) | (values >= count))
    if wrong.size:
        h = int(wrong[0])
        raise ProblemError(
            f"episode {number}, step {h}: there is no {what} {values[h]}; the model has {what}s 0 to {count - 1}"
        )


def apprenticeship(
    mdp: Source,
    expert: ArrayLike | Demonstrations,
    *,
    distance: Distance = "l2",
    by_step: bool = False,
    limits: Limits | None = None,
    **signals: AnySignal,
) -> Problem:
    """Apprenticeship: come as close as possible to what an expert does.

    ``apprenticeship(mdp, demonstrations)`` or ``apprenticeship(mdp, [12.0, 0.3], speed=speed, crashes=crashes)``

    The comparison is of the expected totals of the signals or, where none are given, the expected visits of every
    state.

    Args:
        mdp: the model, an environment or an embedding, as the module says; demonstrations need a model.
        expert: the expert's embedding: one number per signal, or per state. Or demonstrations: a sequence of episodes,
            each a sequence of (state, action) pairs, which are averaged. An episode that is shorter than the horizon
            counts nothing after its end; in a model from Gymnasium it stays in the added state.
        distance: "l2", "l1", "linf" or "squared" (the sum of squares).
        by_step: compare step by step instead of totals over time; an embedding then has shape (H, d).
        limits: the constraints by name, as the module says.
        **signals: the signals by name.
    """
    declared = declare(mdp, signals, limits, visits=not signals)
    x, compared = declared.quantities.x, _select_compared(declared.quantities, signals, by_step)
    if is_demonstrations(expert):
        model = known_model(mdp)
        if model is None:
            raise ProblemError(
                "demonstrations are averaged over the states of a known model: over an environment or an embedding "
                "give the expert's embedding, one number for each signal or state"
            )
        demonstrated = read_demonstrations(model, x.features.stage(model.successors), expert)[
            :, _collect_columns(x, signals)
        ]
        target = demonstrated if by_step else demonstrated.sum(axis=0)
    else:
        target = _embed_episodes(expert, compared.shape)
    return Problem(cp.Minimize(measure_vector(distance, compared - target)), declared.constraints)


def feasibility(
    mdp: Source,
    convex_set: ConvexSet,
    *,
    distance: Distance = "l2",
    by_step: bool = False,
    limits: Limits | None = None,
    **signals: AnySignal,
) -> Problem:
    """Feasibility: come as close as possible to a convex set; the optimum is 0 where a policy reaches it.

    ``feasibility(mdp, bd.problems.box(lower=[6, 6]), north=north, south=south)``

    The set is one of the expected totals of the signals or, where none are given, the expected visits of
    every state.

    Args:
        mdp: the model, an environment or an embedding, as the module says.
        convex_set: `box`, `ball`, `polyhedron` or `hull`, or a function from a CVXPY variable of the embedding's shape
            to constraints on it: ``lambda v: [v >= 0, cp.sum(v) <= 1]``.
        distance: "l2", "l1", "linf" or "squared" (the sum of squares).
        by_step: the set is one of embeddings of shape (H, d), step by step, instead of totals over time.
        limits: the constraints by name, as the module says.
        **signals: the signals by name.
    """
    declared = declare(mdp, signals, limits, visits=not signals)
    compared = _select_compared(declared.quantities, signals, by_step)
    known = convex_set.distance(compared, distance) if isinstance(convex_set, AbstractSet) else None
    if known is not None:
        return Problem(cp.Minimize(known), declared.constraints)
    v = cp.Variable(compared.shape, name="point")
    return Problem(
        cp.Minimize(measure_vector(distance, compared - v)),
        merge(list_constraints(convex_set, v), declared.constraints),
    )


def _collect_columns(x: Embedding, signals: Mapping[str, AnySignal]) -> slice:
    """Return the features to compare: the first ones are the signals, the last ones the visits."""
    d = x.features.dimension
    return slice(0, len(signals)) if signals else slice(d - x.visits.shape[1], d)


def _select_compared(quantities: Quantities, signals: Mapping[str, AnySignal], by_step: bool) -> cp.Expression:
    if not isinstance(by_step, bool):
        raise ProblemError(f"by_step is True or False; got {by_step!r}")
    if by_step and quantities.x.total:
        raise ProblemError(
            "by_step=True compares steps, but the embedding is summed over time: make it with total=False"
        )
    entries = quantities.entries(tuple(signals)) if signals else quantities.visits()
    return entries if by_step or quantities.x.total else sum_over_time(entries)


def _embed_episodes(expert: object, shape: tuple[int, ...]) -> Float[np.ndarray, "..."]:
    """Return the expert's embedding as an array; raise `ProblemError` for another shape."""
    try:
        numbers = np.array(expert, dtype=np.float64)
    except (TypeError, ValueError):
        raise ProblemError(
            f"the expert must be an embedding of shape {shape} or demonstrations; got {type(expert).__name__}; {FORM}"
        ) from None
    if numbers.shape != shape:
        steps = "" if len(shape) == 2 else "; for one that changes with the step give by_step=True"
        raise ProblemError(f"the expert's embedding must have shape {shape}; got {numbers.shape}{steps}; {FORM}")
    if not np.isfinite(numbers).all():
        where = [int(i) for i in np.argwhere(~np.isfinite(numbers))[0]]
        raise ProblemError(f"the expert's embedding is {numbers[tuple(where)]} at {where}: every entry must be finite")
    return numbers


def max_entropy(mdp: Source, *, limits: Limits | None = None) -> Problem:
    """Exploration: maximise the entropy of the time-averaged law of the state.

    ``max_entropy(mdp, limits={"pits": (pits, 0.3)})``. The largest conceivable value is log n, where n states can be
    reached at all: then all of them are visited equally often.

    Args:
        mdp: the model, an environment or an embedding, as the module says.
        limits: the constraints by name, as the module says; there is ``x.visits`` for functions.
    """
    declared, model = declare(mdp, {}, limits, visits=True), known_model(mdp)
    x, visits = declared.quantities.x, declared.quantities.visits()
    states = np.arange(visits.shape[-1]) if model is None else np.flatnonzero(find_reachable(model))
    law = (visits[states] if x.total else sum_over_time(visits[:, states])) / x.horizon
    # Entropy as log n minus the divergence from uniform: the cone solver gives up on sums of entr at laws near 0.
    objective = np.log(states.size) - cp.sum(cp.kl_div(law, 1 / states.size))
    return Problem(cp.Maximize(objective), declared.constraints)
