"""The interface of models: a set of transition laws that may be true, over the states worth planning for."""

import abc
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from jaxtyping import Float, Int

from bidual._base.brief import describe_briefly
from bidual._base.types import DeviceArray
from bidual.problem.features import Psi
from bidual.world.policies import ControlPolicy, DeterministicPolicy

if TYPE_CHECKING:
    from bidual.models.classes._plausible import Expected
    from bidual.models.counts._arrivals import Arrivals


@final
@dataclass(frozen=True, eq=False)
class Layout:
    """psi over the R states of a model, in the planner's order, and the way between R and all S states."""

    __repr__ = describe_briefly

    psi: Psi
    signals: Float[DeviceArray, "steps d A R"]
    kept: Int[np.ndarray, "R"]
    arrivals: "Arrivals | Expected | None" = None  # signals on arrival, where the law of arrivals is unknown
    positions: tuple[int, ...] = ()  # of these signals among all signals

    def cost(
        self, theta: Float[np.ndarray, "H d"]
    ) -> tuple[Float[np.ndarray, "H n"], Float[np.ndarray, "H R"] | None, Float[np.ndarray, "H A R"] | None]:
        """Split a cost over the features into costs of signals, of states and of state-action pairs."""
        _, _, S, A = self.psi.signals.shape
        signals, visits, occupancy = self.psi.split(theta)
        pairs = occupancy.reshape(len(theta), S, A)[:, self.kept].swapaxes(1, 2) if self.psi.occupancy else None
        return signals, visits[:, self.kept] if self.psi.visits else None, pairs

    def embedding(
        self,
        signals: Float[DeviceArray | np.ndarray, "H n"],
        visits: Float[DeviceArray | np.ndarray, "H R"] | None,
        pairs: Float[DeviceArray | np.ndarray, "H A R"] | None,
    ) -> Float[np.ndarray, "H d"]:
        """Return the embedding from expected signals, visits and occupancies."""
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
    """A set of transition laws that may be true."""

    @abc.abstractmethod
    def restrict(self, psi: Any) -> Any:  # noqa: ANN401 - `Psi` where the law is known, `Pieces` where it is not
        """Return features over the model's own states, in the planner's layout."""

    @abc.abstractmethod
    def policy(self, actions: Any) -> DeterministicPolicy | ControlPolicy:  # noqa: ANN401
        """Convert actions over the model's own states to a policy over all states."""
