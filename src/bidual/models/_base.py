"""The interface of models: a set of transition laws that may be true, over the states worth planning for."""

import abc
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from jaxtyping import Array, Float, Int

from bidual._types import Placed
from bidual.features import Psi
from bidual.policies import ControlPolicy, DeterministicPolicy

if TYPE_CHECKING:
    from bidual.models._arrivals import Arrivals
    from bidual.models._plausible import Expected


@final
@dataclass(frozen=True, eq=False)
class Layout:
    """psi over the R states of a model, in the planner's order, and the way between R and all S states."""

    psi: Psi
    signals: Float[Placed, "steps d A R"]
    kept: Int[np.ndarray, "R"]
    arrivals: "Arrivals | Expected | None" = None  # what is paid on arrival, where the law of arrivals is not known
    positions: tuple[int, ...] = ()  # of these payments among the signals

    def cost(
        self, theta: Float[np.ndarray, "H d"]
    ) -> tuple[Float[np.ndarray, "H n"], Float[np.ndarray, "H R"] | None, Float[np.ndarray, "H A R"] | None]:
        """A cost over the features as costs of signals, of states and of state-action pairs."""
        _, _, S, A = self.psi.signals.shape
        signals, visits, occupancy = self.psi.split(theta)
        pairs = occupancy.reshape(len(theta), S, A)[:, self.kept].swapaxes(1, 2) if self.psi.occupancy else None
        return signals, visits[:, self.kept] if self.psi.visits else None, pairs

    def embedding(
        self, signals: Float[Array, "H n"], visits: Float[Array, "H R"] | None, pairs: Float[Array, "H A R"] | None
    ) -> Float[np.ndarray, "H d"]:
        """The expected features, from those of the signals, the visits and the occupancies."""
        if visits is None and pairs is None:
            return np.asarray(signals)
        _, _, S, A = self.psi.signals.shape
        parts = [np.asarray(signals)]
        if visits is not None:
            parts.append(np.zeros((len(parts[0]), S)))
            parts[-1][:, self.kept] = visits
        if pairs is not None:
            full = np.zeros((len(parts[0]), S, A))
            full[:, self.kept] = np.asarray(pairs).swapaxes(1, 2)
            parts.append(full.reshape(len(full), S * A))
        return np.concatenate(parts, axis=1)


class AbstractModel(abc.ABC):
    """What may be true of the transitions."""

    @abc.abstractmethod
    def restrict(self, psi: Any) -> Any:  # noqa: ANN401 - `Psi` where the law is known, `Pieces` where it is not
        """Features over the model's own states, in the planner's layout."""

    @abc.abstractmethod
    def policy(self, actions: Any) -> DeterministicPolicy | ControlPolicy:  # noqa: ANN401
        """Actions over the model's own states as a policy over all states."""
