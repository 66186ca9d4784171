"""One step back through a class of laws, for many value functions at once."""

import jax
import numpy as np
from jaxtyping import Float, Int

from bidual._base.types import DeviceArray, float64, place_on_device
from bidual.models import BallRows, Expected, Layout, Plausible
from bidual.planners._rows import RowChoice, choose_cheapest

_cheapest = jax.jit(choose_cheapest)
_BLOCK = 2**17  # numbers at a time: larger arrays come from the system anew, which takes longer than to fill them
_SAME = 1e-13  # values closer than this, relative to 1 and per step, are one value


class ClassSteps:
    """The costs of a search, and one step back through them for many values at once."""

    def __init__(self, model: Plausible, psi: Layout, theta: Float[np.ndarray, "H d"]) -> None:
        self.psi, self.theta = psi, theta
        *earlier, last = model.members
        # Without signals on arrival the law of the last step does not matter.
        self.members = model.members if psi.positions else (*earlier, last.one(0))
        self.horizon, (self.S, self.A) = len(theta), model.counts.support.allowed.shape
        self.size = self.S * self.A
        self._start = model.start_row
        blocked = np.where(model.counts.support.allowed, 0.0, np.inf)
        self.costs = [psi.psi.pay(theta[h], h) + blocked for h in range(self.horizon)]
        self.arrival_costs = self._expect_arrivals(psi.arrivals)

    def _expect_arrivals(self, expected: object) -> list[Float[np.ndarray, "k 1 S A"] | None]:
        if not isinstance(expected, Expected):
            return [None] * self.horizon
        t = self.theta[:, list(self.psi.positions)]
        return [
            np.einsum("n,mnsa->msa", np.maximum(t[h], 0), expected.low[h])[:, None]
            + np.einsum("n,mnsa->msa", np.minimum(t[h], 0), expected.high[h])[:, None]
            for h in range(self.horizon)
        ]

    def all(self, h: int, V: Float[np.ndarray, "b S"]) -> Float[np.ndarray, "k b S A"]:
        """Compute the cost of every action from step h on, under every member."""
        Q = self.members[h].ahead(V) + self.costs[h]
        arrival_costs = self.arrival_costs[h]
        return Q if arrival_costs is None else Q + arrival_costs

    def one(self, h: int, m: int, V: Float[np.ndarray, "b S"]) -> Float[np.ndarray, "b S A"]:
        """Compute the same under a single member."""
        (Q,) = self.members[h].one(m).ahead(V)
        arrival_costs = self.arrival_costs[h]
        return Q + self.costs[h] if arrival_costs is None else Q + self.costs[h] + arrival_costs[m]

    def back(self, h: int, combination: Int[np.ndarray, "H"], V: Float[np.ndarray, "b S"]) -> Float[np.ndarray, "b"]:
        """Propagate values at step h back to the start, under the members of a combination."""
        for step in reversed(range(h)):
            V = self.one(step, int(combination[step]), V).min(axis=-1)
        return self.start(V)

    def relaxed_values(self, h: int, V: Float[np.ndarray, "b S"]) -> Float[np.ndarray, "b"]:
        """Compute the same with a member for every state and action: a lower bound."""
        for step in reversed(range(h)):
            few = max(1, _BLOCK // (len(self.members[step].numbers) * self.size))
            V = np.concatenate([self.all(step, V[i : i + few]).min(axis=0).min(axis=-1) for i in range(0, len(V), few)])
        return self.start(V)

    def rectangular_bound(self) -> float:
        """Compute the relaxation of all steps."""
        return float(self.relaxed_values(self.horizon, np.zeros((1, self.S)))[0])

    @property
    def combinations(self) -> float:
        """The number of combinations."""
        return float(np.prod([float(len(one.numbers)) for one in self.members]))

    @float64
    def start(self, V: Float[np.ndarray, "b S"]) -> Float[np.ndarray, "b"]:
        """Compute the least mean over the start laws that may be true."""
        states, law, radius = self._start
        if radius == 0:
            return V[:, states] @ law
        return np.asarray(self._choose_first(V).bound)[0, : len(V)]

    def first_law(self, V: Float[np.ndarray, "S"]) -> Float[np.ndarray, "S"]:
        """Return the start law that attains the least mean."""
        states, law, radius = self._start
        start = np.zeros(self.S)
        if radius > 0:
            law = np.asarray(self._choose_first(V[None]).law)[:, 0, 0]
        start[states] = law
        return start

    @float64
    def _choose_first(self, V: Float[np.ndarray, "b S"]) -> RowChoice:
        states, law, radius = self._start
        size = 1 << (len(V) - 1).bit_length()  # powers of two, so that compiled code sees few shapes
        W = np.resize(V[:, states], (size, len(states))).T[:, None]
        rows = BallRows(
            place_on_device(np.repeat(law[:, None, None], size, axis=2)), place_on_device(np.full((1, size), radius))
        )
        return _cheapest(rows, W)

    def room(self, *values: float) -> float:
        """Return the largest difference of values that are equal up to rounding."""
        return _SAME * self.horizon * max(1.0, *(abs(value) for value in values))

    def follow(self, combination: Int[np.ndarray, "H"]) -> tuple[Int[DeviceArray, "H S"], Float[np.ndarray, "H d"]]:
        """Compute the best policy under a combination, and its embedding there."""
        label = np.int8 if self.A <= 127 else np.int32  # as in the other planners: files store this type
        V, actions = np.zeros(self.S), np.zeros((self.horizon, self.S), dtype=label)
        for h in reversed(range(self.horizon)):
            (Q,) = self.one(h, int(combination[h]), V[None])
            actions[h], V = Q.argmin(axis=-1), Q.min(axis=-1)
        return place_on_device(actions), self._compute_embedding(combination, actions, self.first_law(V))

    def _compute_embedding(
        self, combination: Int[np.ndarray, "H"], actions: Int[np.ndarray, "H S"], mu: Float[np.ndarray, "S"]
    ) -> Float[np.ndarray, "H d"]:
        """Compute the embedding of actions under a combination, forward in time."""
        everywhere, expected = np.arange(self.S), self.psi.arrivals
        embedding = np.zeros(self.theta.shape)
        for h in range(self.horizon):
            m, a, one = int(combination[h]), actions[h], self.members[h]
            occupancy = np.zeros((self.S, self.A))
            occupancy[everywhere, a] = mu
            embedding[h] = self.psi.psi.expect(occupancy, h)
            if isinstance(expected, Expected):
                at = list(self.psi.positions)
                ends = np.where((self.theta[h, at] > 0)[:, None, None], expected.low[h][m], expected.high[h][m])
                embedding[h, at] += ends[:, everywhere, a] @ mu
            mu = (mu @ one.phi[m, everywhere, a]) @ one.mu[m]
        return embedding
