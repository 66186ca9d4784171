"""The knowledge of a model as plain data: features, declared successors, and counts.

Functions that compute signals are not stored, but the sums of their values for every transition are.
"""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from bidual._base.errors import ArchiveError
from bidual.models import (
    CLASS_SETS,
    COLLECTIONS,
    LINEAR_SETS,
    NOBODY,
    SETS,
    AbstractCounted,
    ClassKnowledge,
    Counts,
    Factors,
    Knowledge,
    LinearKnowledge,
    Support,
    check_best,
    check_laws,
    check_phi,
    compute_likelihoods,
    find_learnable_rows,
    list_class_support,
)
from bidual.problem.features import Observed, Pieces
from bidual.storage._arrays import StoredArrays, require_type
from bidual.storage._check import MALFORMED
from bidual.world.mdp import check_initial


def pack_knowledge(knowledge: AbstractCounted) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the knowledge as JSON values and arrays; the probability of failure is not part of it."""
    counts, pieces = knowledge.counts, knowledge.pieces
    header = {
        "set": knowledge.set,
        "open": counts.support.open,
        "features": [pieces.visits, pieces.occupancy],
        "arrivals": [position for position, _ in pieces.arrivals],
        "observed": [[i, float(one.low), float(one.high), one.noisy, one.at_end] for i, one in pieces.observed],
    }
    arrays = {
        "stage": pieces.stage,
        "successors": counts.support.states.astype(np.int64),
        "absorbing": counts.support.absorbing,
        "allowed": counts.support.allowed,
        "transitions": counts.transitions,
        "starts": counts.starts,
        "sums": counts.sums,
        "steady": counts.steady,
        **{f"arrival_{i}": values for i, (_, values) in enumerate(pieces.arrivals)},
        **({} if knowledge.initial is None else {"initial": knowledge.initial}),
    }
    declared, factors = knowledge.pack_declaration()
    return header | declared, arrays | factors


def restore_knowledge(
    header: dict[str, Any], stored: StoredArrays, shape: tuple[int, int, int], delta: float
) -> AbstractCounted:
    """Restore the knowledge over (H, S, A); raise `ValueError` where its parts do not fit together."""
    sets = CLASS_SETS if "class" in header else LINEAR_SETS if "linear" in header else SETS
    if header["set"] not in sets:
        raise ValueError(f"there is no set {header['set']!r}")
    pieces, support = _read_pieces(header, stored, shape), _read_support(header, stored, shape)
    initial = check_initial(stored.numbers("initial", shape[1]), shape[1]) if stored.has("initial") else None
    counts = _read_counts(stored, support, pieces, shape[0], partly=header.get("collection") == "paper")
    if initial is not None and np.any(counts.starts[initial == 0]):
        raise ValueError("an episode began where the start law has none begin")
    known = counts, pieces, shape[0], initial
    if "linear" in header:
        return LinearKnowledge(*known, delta, header["set"], *_read_linear(header["linear"], stored, counts, shape))
    if "class" not in header:
        return Knowledge(*known, delta, header["set"])
    if len(counts.pairs) != shape[0]:
        raise ValueError("a class needs counts for every step")
    factors = _restore_factors(header["class"], stored, shape, support)
    if header["collection"] not in COLLECTIONS:
        raise ValueError(f"there is no collection {header['collection']!r}")
    share = require_type(float, header["delta"])
    if not 0 < share <= delta:
        raise ValueError(f"the class has a probability of failure of {share!r}, of {delta!r} that there is for it")
    settings = require_type(float, header["c"]), header["collection"]
    best = tuple(check_best(header["best"], factors).tolist()) if "best" in header else None
    known = *known, share, header["set"], factors, compute_likelihoods(factors, counts), *settings
    return ClassKnowledge(*known, named=best)


def check_knowledge(knowledge: AbstractCounted) -> None:
    """Check knowledge as if it were read from a file; raise `ValueError` where its parts do not fit together."""
    header, arrays = pack_knowledge(knowledge)
    try:
        again = restore_knowledge(header, StoredArrays(arrays), knowledge.shape, knowledge.delta)
    except MALFORMED as error:
        raise ValueError(f"what is known does not fit together ({error})") from error
    one, other = knowledge.counts, again.counts
    if one.episodes != other.episodes or not np.array_equal(one.pairs, other.pairs):
        raise ValueError("numbers of episodes and of pairs are not those of the transitions")
    knowledge.check_derived()


def _read_linear(
    header: Any,  # noqa: ANN401 - JSON
    stored: StoredArrays,
    counts: Counts,
    shape: tuple[int, int, int],
) -> tuple[Float[np.ndarray, "step S A d"], bool, float, float]:
    """Read features, whether all steps share mu, the bound on mu and the ridge, checked like a user's."""
    H, S, A = shape
    stationary, bound, ridge = header
    stationary, phi = require_type(bool, stationary), stored.numbers("phi", None, S, A, None)
    check_phi(phi, H, counts.support.allowed, find_learnable_rows(counts), normed=False)
    if counts.support.open or len(counts.pairs) != (1 if stationary and len(phi) == 1 else H):
        raise ValueError("the counts are not those of a linear model")
    for number in (bound, ridge):
        if not 0 < require_type(float, number) < np.inf:
            raise ValueError(f"a bound or a ridge is {number!r}")
    return phi, stationary, bound, ridge


def _read_pieces(header: dict[str, Any], stored: StoredArrays, shape: tuple[int, int, int]) -> Pieces:
    """Read psi in pieces: arrays of steps, arrays paid on arrival, and observed signals."""
    H, S, A = shape
    stage = stored.numbers("stage", None, None, S, A)
    arrivals = [stored.numbers(f"arrival_{i}", None, S, A, S) for i in range(len(header["arrivals"]))]
    if not all(len(array) in (1, H) for array in (stage, *arrivals)):
        raise ValueError("features have a number of steps of their own")
    visits, occupancy = (require_type(bool, flag) for flag in header["features"])
    positions = [require_type(int, i) for i in header["arrivals"]]
    observed = [(require_type(int, i), _read_observed(*rest)) for i, *rest in header["observed"]]
    if not all(0 <= i < stage.shape[1] for i in (*positions, *(i for i, _ in observed))):
        raise ValueError("a signal has a place that is none")
    return Pieces(stage, tuple(zip(positions, arrivals, strict=True)), tuple(observed), visits, occupancy)


def _read_observed(low: object, high: object, noisy: object, at_end: object) -> Observed:
    """Read the declaration of an observed signal, whose function is not stored."""
    one = Observed(
        _refuse_call,
        require_type(float, low),
        require_type(float, high),
        require_type(bool, noisy),
        require_type(bool, at_end),
    )
    if not -np.inf < one.low <= one.high < np.inf:
        raise ValueError(f"a signal lies in [{low}, {high}]")
    return one


def _refuse_call(*_: object) -> float:
    raise ArchiveError("functions of signals are not stored in files: what they showed is in the counts")


def _read_support(header: dict[str, Any], stored: StoredArrays, shape: tuple[int, int, int]) -> Support:
    """Read the successor lists; raise `ValueError` where they are not those of a model."""
    _, S, A = shape
    states, absorbing = stored.places("successors", NOBODY, S, S, A, None), stored.flags("absorbing", S)
    support = Support(states, require_type(bool, header["open"]), absorbing, stored.flags("allowed", S, A))
    if not support.allowed.any(axis=1).all():
        raise ValueError("a state allows no action")
    ordered = np.sort(states, axis=-1)
    twice = (ordered[..., 1:] == ordered[..., :-1]) & (ordered[..., 1:] != NOBODY)
    gaps = (states[..., 1:] != NOBODY) & (states[..., :-1] == NOBODY)
    if twice.any() or gaps.any():
        raise ValueError("successors are listed twice, or after the end of their list")
    empty = support.sizes == 0
    if np.any(empty & support.allowed & ~absorbing[:, None]) and not support.open:
        raise ValueError("a state and action have no successor")
    if np.any(support.sizes[absorbing] != 1) or np.any(states[absorbing, :, 0] != np.flatnonzero(absorbing)[:, None]):
        raise ValueError("a state that is never left has another successor")
    return support


def _read_counts(stored: StoredArrays, support: Support, pieces: Pieces, horizon: int, *, partly: bool) -> Counts:
    """Restore the counts: numbers of pairs and of episodes are sums, which are not read but added up."""
    S, A, K = support.states.shape
    transitions, starts = stored.counts("transitions", None, S, A, K), stored.counts("starts", S)
    laws, episodes = len(transitions), starts.sum()
    # One start and H steps in every episode; counts for every step have one of each. Of some rollouts of a class only
    # one step is learned from.
    steps, most = transitions.sum(axis=(1, 2, 3)), episodes * horizon / laws
    if laws not in (1, horizon) or np.any(steps > most) or (np.any(steps != most) and not partly):
        raise ValueError("there are more or fewer steps than the episodes have")
    if np.any(transitions[:, support.states == NOBODY]) or np.any(transitions[:, ~support.allowed]):
        raise ValueError("a transition was counted that cannot be")
    noisy = np.array([one.noisy for _, one in pieces.observed], dtype=bool)
    counts = Counts(
        support=support,
        transitions=transitions,
        pairs=transitions.sum(axis=-1),
        starts=starts,
        episodes=int(episodes),
        sums=stored.numbers("sums", S, A, K, noisy.size),
        steady=stored.flags("steady", noisy.size),
        noisy=noisy,
    )
    for number, (_, one) in enumerate(pieces.observed):
        if not np.all(_are_possible(counts, one, counts.sums[..., number])):
            raise ValueError("a signal was seen outside the bounds that were declared")
    return counts


def _are_possible(counts: Counts, one: Observed, sums: Float[np.ndarray, "S A K"]) -> Bool[np.ndarray, "S A K"]:
    """Return whether sums of a signal are those of so many values between its ends; each addition rounds by eps."""
    n = counts.pooled
    room = 4 * np.finfo(np.float64).eps * n * n * max(abs(one.low), abs(one.high))
    nothing = counts.support.absorbing[:, None, None] & (sums == 0)  # the value after the end of an episode
    return nothing | ((sums >= n * one.low - room) & (sums <= n * one.high + room))


def _restore_factors(
    numbers: Any,  # noqa: ANN401 - JSON
    stored: StoredArrays,
    shape: tuple[int, int, int],
    support: Support,
) -> tuple[Factors, ...]:
    """Restore the candidates of every step, checked like those that a user gives."""
    H, S, A = shape
    numbers = [require_type(int, number) for number in numbers]
    if len(numbers) != H:
        raise ValueError("a class needs the number of a list of candidates for every step")
    lists = {}
    for number in set(numbers):
        phis = stored.numbers(f"phis_{number}", None, S, A, None)
        mus = stored.numbers(f"mus_{number}", None, None, S)
        if not (len(phis) and len(mus)):
            raise ValueError("a class needs at least one candidate for each factor")
        lists[number] = Factors(phis, mus)
        check_laws(lists[number], support.allowed, "")
    factors = tuple(lists[number] for number in numbers)
    ends = np.flatnonzero(support.absorbing)
    if not np.array_equal(list_class_support(factors, ends, support.allowed).states, support.states):
        raise ValueError("the successors are not those that the candidates hold possible")
    return factors
