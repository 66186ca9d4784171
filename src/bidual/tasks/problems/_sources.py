"""The sources of a ready problem: a known model, an environment, or an embedding that is there already."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import cvxpy as cp

from bidual._base.errors import ModelError, ProblemError
from bidual.problem import features
from bidual.problem.features.embedding import Embedding
from bidual.world.envs import AbstractEnvironment, ControlEnvironment, RichEnvironment, Simulator
from bidual.world.mdp import TabularMDP

Source = TabularMDP | AbstractEnvironment | Embedding


@final
@dataclass(frozen=True, eq=False)
class Quantities:
    """An embedding, and the names of its parts by those that a problem gives them."""

    x: Embedding
    parts: Mapping[str, str]

    def total(self, name: str) -> cp.Expression:
        """Return the expected total of a signal."""
        part = getattr(self.x, self.parts[name])
        return part if self.x.total else sum_over_time(part)

    def totals(self, names: Sequence[str]) -> cp.Expression:
        """Return the expected totals of several signals, as a vector."""
        entries = self.entries(names)
        return entries if self.x.total else sum_over_time(entries)

    def entries(self, names: Sequence[str]) -> cp.Expression:
        """Return the values of several signals, a column for each; step by step unless the embedding is summed."""
        positions = {part.name: part.position for part in self.x.features.parts}
        columns: Any = [positions[self.parts[name]] for name in names]
        if columns == list(range(columns[0], columns[0] + len(columns))):
            columns = slice(columns[0], columns[0] + len(columns))
        return self.x[columns] if self.x.total else self.x[:, columns]

    def visits(self) -> cp.Expression:
        """Return the probabilities of states; step by step unless the embedding is summed."""
        if "visits" not in {part.name for part in self.x.features.parts}:
            raise ProblemError(
                "this problem is about visits of states, which the embedding has not: visits=True adds them"
            )
        return self.x.visits


def sum_over_time(part: cp.Expression) -> cp.Expression:
    """Sum over the steps: a number for a signal, one per column for several."""
    return cp.Sum(part, axis=0)  # the class, because CVXPY types the function as possibly a plain int


def embed(source: Source, named: Mapping[str, Any], *, visits: bool) -> Quantities:
    """Return signals by name over a source, with the visits of states where they are wanted.

    Over an embedding a signal is the name of one of its parts; elsewhere it is whatever embeddings are made of there.
    """
    if isinstance(source, Embedding):
        return Quantities(source, {name: _find_part(source, name, part) for name, part in named.items()})
    x = _make_embedding(source, named, visits=visits)
    return Quantities(x, {name: name for name in named})


def known_model(source: Source) -> TabularMDP | None:
    """Return the model of a source, None where it has none that may be looked into."""
    return source.mdp if isinstance(source, Simulator) else source if isinstance(source, TabularMDP) else None


def _make_embedding(source: object, named: Mapping[str, Any], *, visits: bool) -> Embedding:
    mdp = source.mdp if isinstance(source, Simulator) else source
    if isinstance(mdp, TabularMDP):
        return mdp.embedding(total=False, visits=visits, occupancy=False, **named)
    if not isinstance(source, AbstractEnvironment):
        raise ModelError(
            f"expected a TabularMDP, an environment of bd.envs or an embedding; got {type(source).__name__}: open an "
            "environment of Gymnasium first, bd.envs.gymnasium_environment(env, horizon)"
        )
    if visits and isinstance(source, ControlEnvironment | RichEnvironment):
        raise ProblemError("this problem is about visits of states, but the environment shows vectors: give signals")
    if isinstance(source, ControlEnvironment):
        return features.computed(**named).embedding(source.horizon)
    H, S, _ = source.shape
    members = [features.signals(**named)] if named else []
    return features.concat(*members, *([features.visits(S)] if visits else [])).embedding(H)


def _find_part(x: Embedding, name: str, part: object) -> str:
    """Return the name of a part that is one number per step."""
    scalars = [one.name for one in x.features.parts if one.shape == ()]
    if not isinstance(part, str) or part not in scalars:
        raise ProblemError(
            f"over an embedding the signal {name!r} must be the name of one of its parts, {', '.join(scalars)}; "
            f"got {part!r:.80}"
        )
    return part
