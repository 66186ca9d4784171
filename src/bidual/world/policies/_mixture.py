"""Mixtures: draw one policy, keep it for the whole episode. Their distinct members, compared by their actions."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, final

import numpy as np
from jaxtyping import Float, Int

from bidual._base.brief import shorten
from bidual._base.errors import PolicyError
from bidual._base.frames import join_frames
from bidual._base.html import format_html_table
from bidual._base.names import UNNAMED, Names
from bidual.world.policies._base import AbstractPolicy, Actor
from bidual.world.policies._control import ControlPolicy
from bidual.world.policies._decoded import DecodedPolicy
from bidual.world.policies._frames import build_policy_frame
from bidual.world.policies._markov import DeterministicPolicy, MarkovPolicy
from bidual.world.policies._stored_controls import store_as_texts, write_controls

if TYPE_CHECKING:
    from pandas import DataFrame

_MOST_RECENT = 32  # policies
_MOST_ROWS = 12  # in a notebook
_KIND_NAMES = {
    DeterministicPolicy: "deterministic policies",
    MarkovPolicy: "Markov policies",
    DecodedPolicy: "decoded policies",
    ControlPolicy: "controllers",
}


@final
@dataclass(frozen=True, eq=False)
class Mixture(AbstractPolicy):
    """Play member i with probability ``weights[i]``, drawn once per episode.

    Its embedding is the weighted mean of its members' embeddings: this is why the set of embeddings is convex.
    """

    weights: Float[np.ndarray, "k"]
    members: tuple[DeterministicPolicy | MarkovPolicy | DecodedPolicy | ControlPolicy, ...]
    names: Names = UNNAMED

    @property
    def shape(self) -> tuple[int, int, int]:
        """(H, S, A)."""
        return self.members[0].shape

    def reset(self, rng: np.random.Generator | int | None = None) -> Actor:
        """Draw a member and start its episode."""
        generator = np.random.default_rng(rng)
        return self.members[generator.choice(len(self.members), p=self.weights)].reset(generator)

    @property
    def observation_size(self) -> int | None:
        """The number of entries of an observation of its members."""
        return self.members[0].observation_size

    def most_likely(self) -> AbstractPolicy:
        """Return the most likely choices of the heaviest member."""
        return self.members[int(np.argmax(self.weights))].most_likely()

    def to_frame(self) -> "DataFrame":
        """Return the frames of all members below each other, with their numbers and weights in front."""
        frames = [
            build_policy_frame(one.table, self.names) if isinstance(one, DeterministicPolicy) else one.to_frame()
            for one in self.members
        ]
        return join_frames(frames, member=np.arange(len(frames)), weight=self.weights)

    def save(self, path: str | os.PathLike[str], signals: Mapping[str, str] | None = None) -> None:
        """Write all members, which must be controllers, to one file for `bd.load`; tables are collapsed.

        Args:
            path: the file.
            signals: texts in the place of functions, as of `ControlPolicy.save`.
        """
        members = tuple(member for member in self.members if isinstance(member, ControlPolicy))
        if len(members) < len(self.members):
            raise PolicyError(
                "a mixture of tables is stored as the one table that visits the same (solution.policy, or "
                "bd.policies.collapse): save that, or the whole solution"
            )
        write_controls(store_as_texts(members, signals), self.weights, path)

    def _repr_html_(self) -> str:
        pairs = list(zip(self.weights, self.members, strict=True))[:_MOST_ROWS]
        return format_html_table(repr(self), [(f"{w:.4g}", repr(one)) for w, one in pairs], ("weight", "policy"))

    def __repr__(self) -> str:
        kinds = {_KIND_NAMES[type(member)] for member in self.members}
        what = kinds.pop() if len(kinds) == 1 else "policies"
        weights = shorten(str(np.round(self.weights, 4)).replace("\n", ""), 200)
        return f"Mixture({len(self.members)} {what}, weights {weights})"


Played = DeterministicPolicy | DecodedPolicy | ControlPolicy  # the policies of episodes while learning


class DistinctPolicies:
    """Policies in the order of their first appearance; the same few objects come again and again."""

    def __init__(self) -> None:
        self.members: list[Played] = []
        self._numbers: dict[bytes, int] = {}
        self._recent: dict[int, tuple[Played, int]] = {}  # by identity, kept alive meanwhile: digests take longer

    def number(self, policy: Played) -> int:
        """Return the index of a policy among the distinct ones, appending it if it is new."""
        recent = self._recent.get(id(policy))
        if recent is not None and recent[0] is policy:
            return recent[1]
        number = self._numbers.setdefault(_compute_fingerprint(policy), len(self.members))
        if number == len(self.members):
            self.members.append(policy)
        if len(self._recent) >= _MOST_RECENT:
            self._recent.clear()
        self._recent[id(policy)] = (policy, number)
        return number


def find_distinct(policies: Iterable[Played]) -> tuple[list[Played], Int[np.ndarray, "n"]]:
    """Return the distinct policies, and the index of each policy among them."""
    found = DistinctPolicies()
    order = np.fromiter((found.number(policy) for policy in policies), dtype=np.int64)
    return found.members, order


def _compute_fingerprint(policy: Played) -> bytes:
    """Return a digest, equal for policies with the same action on every observation."""
    if isinstance(policy, DeterministicPolicy):
        return blake2b(policy.actions.tobytes()).digest()
    if isinstance(policy, ControlPolicy):
        return policy.fingerprint
    return blake2b(policy.table.tobytes() + policy.decoder.fingerprint).digest()


def write_functions(policy: ControlPolicy | Mixture, signals: Mapping[str, str] | None) -> ControlPolicy | Mixture:
    """Return a policy of controls as a file stores it, with texts in the place of functions that it plans with."""
    if isinstance(policy, ControlPolicy):
        return store_as_texts((policy,), signals)[0]
    controls = [member for member in policy.members if isinstance(member, ControlPolicy)]
    return replace(policy, members=store_as_texts(controls, signals))
