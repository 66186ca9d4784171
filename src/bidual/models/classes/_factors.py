"""Candidates for the two factors of a low-rank law: P(s' | s, a) = phi(s, a) . mu(s').

At every step one unknown phi and one unknown mu of the lists are the true ones. A value function is always
contracted with mu first, which leaves d numbers instead of S.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from bidual._base.errors import ModelError
from bidual.models.counts._support import NOBODY, Support, read_support

_ROUNDING = 1e-9  # by which the probabilities of a row may miss 1, or be below 0: factors are rounded numbers
_SMALL = 10**7  # entries of laws in one block


@final
@dataclass(frozen=True, eq=False)
class Factors:
    """The candidates of one step; pair (i, j) has the number i J + j."""

    phis: Float[np.ndarray, "I S A d"]
    mus: Float[np.ndarray, "J d S"]

    @property
    def count(self) -> int:
        """The number of laws."""
        return len(self.phis) * len(self.mus)

    def split(self, numbers: Int[np.ndarray, "k"]) -> tuple[Int[np.ndarray, "k"], Int[np.ndarray, "k"]]:
        """Split numbers of pairs into numbers of phi and of mu."""
        first, second = np.divmod(numbers, len(self.mus))
        return first, second

    def laws(self, numbers: Int[np.ndarray, "k"]) -> Float[np.ndarray, "k S A S"]:
        """Compute the dense laws of a few pairs."""
        i, j = self.split(numbers)
        return np.matmul(self.phis[i], self.mus[j][:, None])

    def probabilities(
        self, states: Int[np.ndarray, "t"], actions: Int[np.ndarray, "t"], arrivals: Int[np.ndarray, "t"]
    ) -> Float[np.ndarray, "t n"]:
        """Compute the probability of some transitions under every pair."""
        phi, mu = self.phis[:, states, actions], self.mus[:, :, arrivals]
        return np.matmul(phi.swapaxes(0, 1), mu.transpose(2, 1, 0)).reshape(len(states), self.count)

    @cached_property
    def nonnegative(self) -> bool:
        """Whether no factor is below 0, so that no rounding can bring a probability there."""
        return bool(self.phis.min() >= 0 and self.mus.min() >= 0)

    @property
    def average(self) -> Float[np.ndarray, "S A S"]:
        """The mean of all laws: every phi meets every mu, so it is the product of the means."""
        return self.phis.mean(axis=0) @ self.mus.mean(axis=0)


def read_factors(
    phis: Iterable[Any], mus: Iterable[Any], *, shared: bool, horizon: int, allowed: Bool[np.ndarray, "S A"]
) -> tuple[Factors, ...]:
    """Read and check the candidates of every step; lists that all steps share are read once."""
    if shared:
        one = _check_factors(_stack_candidates("phis", phis, 3), _stack_candidates("mus", mus, 2), allowed, "")
        return (one,) * horizon
    by_step = list(phis), list(mus)
    for name, steps in zip(("phis", "mus"), by_step, strict=True):
        if len(steps) != horizon:
            raise ModelError(
                f"with shared=False {name} is a list of candidates for each of the {horizon} steps; got {len(steps)}"
            )
    return tuple(
        _check_factors(
            _stack_candidates(f"phis[{h}]", phi, 3), _stack_candidates(f"mus[{h}]", mu, 2), allowed, f"step {h + 1}: "
        )
        for h, (phi, mu) in enumerate(zip(*by_step, strict=True))
    )


def _stack_candidates(name: str, candidates: Iterable[ArrayLike], axes: int) -> np.ndarray:
    """Stack all candidates in one array."""
    shape = "(S, A, d)" if axes == 3 else "(d, S)"
    found = []
    for i, candidate in enumerate(candidates):
        try:
            array = np.asarray(candidate, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ModelError(f"{name}[{i}] must be an array of numbers {shape}: {error}") from error
        if array.ndim != axes:
            raise ModelError(f"{name}[{i}] must have shape {shape}; got {array.shape}")
        if found and array.shape != found[0].shape:
            raise ModelError(f"{name}[{i}] has shape {array.shape}, {name}[0] has {found[0].shape}: they must be alike")
        if not np.all(np.isfinite(array)):
            raise ModelError(f"{name}[{i}] contains NaN or infinity")
        found.append(array)
    if not found:
        raise ModelError(f"{name} holds no candidate: at least one is needed")
    return np.stack(found)


def _check_factors(phis: np.ndarray, mus: np.ndarray, allowed: Bool[np.ndarray, "S A"], where: str) -> Factors:
    """Return the candidates of a step; raise `ModelError` where shapes differ or a pair is no law."""
    if phis.shape[1:3] != allowed.shape:
        raise ModelError(
            f"{where}phis are over {phis.shape[1:3]} states and actions, the environment has {allowed.shape}"
        )
    if mus.shape[1:] != (phis.shape[3], len(allowed)):
        raise ModelError(
            f"{where}mus must have shape (d, S) = {(phis.shape[3], len(allowed))} to go with phis; got {mus.shape[1:]}"
        )
    factors = Factors(phis, mus)
    check_laws(factors, allowed, where)
    return factors


def check_laws(factors: Factors, allowed: Bool[np.ndarray, "S A"], where: str) -> None:
    """Check that every phi with every mu is a law."""
    step = max(1, _SMALL // (allowed.size * len(allowed)))
    for start in range(0, factors.count, step):
        numbers = np.arange(start, min(start + step, factors.count))
        _check_some(factors, numbers, allowed, where)


def _check_some(factors: Factors, numbers: Int[np.ndarray, "k"], allowed: Bool[np.ndarray, "S A"], where: str) -> None:
    """Raise `ModelError` for a pair whose rows are negative or do not sum to 1."""
    laws = factors.laws(numbers)
    least = np.where(allowed[..., None], laws, 0.0)
    total = np.where(allowed, laws.sum(axis=-1), 1.0)
    if least.min() < -_ROUNDING:
        k, s, a, arrival = np.unravel_index(int(least.argmin()), least.shape)
        raise ModelError(
            f"{where}{_name_pair(factors, numbers[k])} gives state {arrival} after action {a} in state {s} the "
            f"probability {least[k, s, a, arrival]:.3g}: every pair of candidates must be a law"
        )
    off = np.abs(total - 1)
    if off.max() > _ROUNDING:
        k, s, a = np.unravel_index(int(off.argmax()), off.shape)
        raise ModelError(
            f"{where}the probabilities of {_name_pair(factors, numbers[k])} after action {a} in state {s} sum to "
            f"{total[k, s, a]:.9g}, not 1: every pair of candidates must be a law"
        )


def _name_pair(factors: Factors, number: np.integer) -> str:
    i, j = divmod(int(number), len(factors.mus))
    return f"phis[{i}] . mus[{j}]"


def list_class_support(
    factors: Sequence[Factors], ends: Int[np.ndarray, "e"], allowed: Bool[np.ndarray, "S A"]
) -> Support:
    """Return the successors of positive probability under some candidate of some step."""
    S, A = allowed.shape
    reachable = np.zeros((S, A, S), dtype=bool)
    for one in {id(one): one for one in factors}.values():
        reachable |= one.average > 0
        _check_ends(one, ends, allowed)
    lists = np.where(reachable, np.arange(S), NOBODY)
    lists[~allowed] = NOBODY
    return read_support(lists, ends, allowed)


def _check_ends(factors: Factors, ends: Int[np.ndarray, "e"], allowed: Bool[np.ndarray, "S A"]) -> None:
    """Check that no candidate leaves a state that is never left."""
    staying = np.einsum("isad,jds->ijsa", factors.phis[:, ends], factors.mus[:, :, ends], optimize=True)
    wrong = np.argwhere((staying < 1 - 1e-9) & allowed[ends])
    if wrong.size:
        i, j, e, a = wrong[0].tolist()
        raise ModelError(
            f"state {ends[e]} is never left, but phis[{i}] . mus[{j}] leaves it with action {a}: correct the candidate"
        )


def pack_factors(factors: Sequence[Factors]) -> tuple[list[int], dict[str, np.ndarray]]:
    """Return the number of each step's list, and the lists."""
    found = list({id(one): one for one in factors}.values())
    places = {id(one): number for number, one in enumerate(found)}
    arrays = {}
    for i, one in enumerate(found):
        arrays |= {f"phis_{i}": one.phis, f"mus_{i}": one.mus}
    return [places[id(one)] for one in factors], arrays
