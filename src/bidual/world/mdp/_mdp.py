"""`TabularMDP`: a known model, checked at construction and stored as successor lists."""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from bidual._base.errors import ModelError
from bidual._base.memory import Memory
from bidual._base.names import UNNAMED, Names, are_names, find, read_names
from bidual._base.types import Successors, select_step
from bidual.problem import features
from bidual.problem.features import AbstractFeatures, Arrival, Observed, Psi, concat, signals
from bidual.world.mdp._criterion import Absorbed, AbstractCriterion, declare_criterion
from bidual.world.mdp._steps import Steps, count_typical_steps, end_signals
from bidual.world.mdp._successors import Transitions, check_initial, check_transitions, end_episodes
from bidual.world.mdp._toy_text import Table, Transition, open_environment, read_table, start_law

if TYPE_CHECKING:
    from gymnasium import Env

    from bidual.problem.features.embedding import Embedding

Signal = ArrayLike | Arrival | Callable[[Transition], float]


@final
@dataclass(frozen=True, eq=False, init=False, repr=False)
class TabularMDP:
    """A known Markov decision process with S states and A actions, over a fixed horizon or an unbounded time.

    Args:
        transitions: one of

            * a dense array (S, A, S): the same law at every step;
            * a dense array (H, S, A, S): one law per step;
            * successor lists ``(next_states, probabilities)``, each (S, A, K) or, per step, (H, S, A, K);
            * a sequence of A sparse matrices (S, S) of SciPy, one per action: the same law at every step.
        initial: the state every episode starts in, or a distribution (S,) over states.
        horizon: the number of steps H of an episode; left out where time is unbounded.
        discount: for an unbounded time, signals of step t count discount^t times. Policies are then stationary, and
            embeddings are discounted sums: ``x.cost`` is one number.
        until: "absorbed": signals are summed until a state that no action leaves, by policies that get there for
            certain. Or a mask (S,) of the states at which an episode ends, whatever their rows and signals are.
        average: True for averages over an unbounded time, in models in which every policy passes some state for ever.
        states: optional names of the states, in the order of their numbers. Results, figures, tables, files and errors
            use them; `initial` may be one of them, and ``mdp.state("shelf")`` is its number.
        actions: optional names of the actions, likewise; or the mask of `allowed`.
        allowed: optional mask (S, A) of the actions that a state allows. Rows of other actions are ignored.

    Rows must be probability vectors within 1e-9; they are then normalised to the last bit.
    """

    successors: Successors
    initial: Float[np.ndarray, "S"]
    table: Table | None = None  # of the environment that the model was read from
    names: Names = UNNAMED
    criterion: AbstractCriterion | None = None  # of an unbounded time; None where there is a horizon
    ended: Bool[np.ndarray, "S"] | None = None  # states at which an episode ends by declaration

    def __init__(
        self,
        transitions: Transitions,
        initial: int | str | ArrayLike,
        horizon: int | None = None,
        *,
        discount: float | None = None,
        until: str | ArrayLike | None = None,
        average: bool = False,
        states: Sequence[str] | None = None,
        actions: Sequence[str] | ArrayLike | None = None,
        allowed: ArrayLike | None = None,
    ) -> None:
        names, mask = _split_actions(states, actions, allowed)
        criterion = declare_criterion(horizon, discount, until, average)
        successors = check_transitions(transitions, 1 if criterion else horizon, mask, names)
        names.check(*successors.shape[1:])
        if criterion is not None:
            successors, ended = end_episodes(successors, until)
            object.__setattr__(self, "ended", ended)
        number = find(names.find_state, initial, ModelError) if isinstance(initial, str) else initial
        object.__setattr__(self, "successors", successors)
        object.__setattr__(self, "initial", check_initial(number, successors.shape[1], names))
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "criterion", criterion)
        _ = self.criterion and self.steps  # models without such sums are mistakes of the caller's, found here

    @property
    def horizon(self) -> int:
        """H, the number of rows of an embedding: 1 where it is a sum over an unbounded time."""
        return self.successors.horizon

    @cached_property
    def steps(self) -> Steps:
        """The steps that count over an unbounded time."""
        assert self.criterion is not None  # there are no such steps where there is a horizon
        return self.criterion.find_steps(self.successors, self.initial, self.absorbing)

    @cached_property
    def mass(self) -> tuple[float, float]:
        """The least and the largest number of steps that count in a row of an embedding."""
        return (1.0, 1.0) if self.criterion is None else self.criterion.find_mass(self.steps)

    @cached_property
    def scale(self) -> float:
        """The largest number of steps that count or, where there is no largest one, that of a policy that ends."""
        return self.mass[1] if np.isfinite(self.mass[1]) else count_typical_steps(self.steps)

    def stage(self, psi: AbstractFeatures) -> Psi:
        """Compute features over this model; raise `ModelError` where a signal has no finite total."""
        staged = psi.stage(self.successors)
        if self.criterion is None:
            return staged
        if not isinstance(self.criterion, Absorbed):
            return replace(staged, mass=self.mass)
        signals = end_signals(staged.signals, self.actions, self.absorbing, self.ended, psi.parts, self.names)
        return replace(staged, signals=signals, mass=self.mass)

    @property
    def num_states(self) -> int:
        """S."""
        return self.successors.shape[1]

    @property
    def num_actions(self) -> int:
        """A."""
        return self.successors.shape[2]

    @property
    def actions(self) -> Bool[np.ndarray, "S A"]:
        """A mask of the actions that each state allows."""
        return self.successors.allowed

    @property
    def absorbing(self) -> Bool[np.ndarray, "S"]:
        """A mask of the states that no allowed action leaves, at any step."""
        lists = self.successors
        here = np.arange(self.num_states)[:, None, None]
        away = (lists.states != here) & (lists.probabilities > 0)
        return ~(away.any(axis=(0, 3)) & lists.allowed).any(axis=1)

    @cached_property
    def memory(self) -> Memory:
        """What was computed from the model, and does not depend on names, for solves and checks to come."""
        return Memory()

    def state(self, name: str) -> int:
        """Return the number of the state called `name`."""
        return find(self.names.find_state, name, ModelError)

    def action(self, name: str) -> int:
        """Return the number of the action called `name`."""
        return find(self.names.find_action, name, ModelError)

    def with_names(self, states: Sequence[str] | None = None, actions: Sequence[str] | None = None) -> "TabularMDP":
        """Return the same model with other names of its states and actions; None for numbers.

        Over a model from Gymnasium, names are those of the environment's own states: the state added for ended episodes
        is called "ended".
        """
        names = read_names(states, actions)
        if self.table is not None and names.states is not None and len(names.states) == self.num_states - 1:
            names = read_names((*names.states, "ended"), actions)
        names.check(self.num_states, self.num_actions)
        named = copy(self)
        object.__setattr__(named, "names", names)
        return named

    @classmethod
    def from_gymnasium(
        cls, env: "Env[Any, Any] | str", horizon: int, *, initial: int | ArrayLike | None = None, **options: object
    ) -> "TabularMDP":
        """Read the model of a toy-text environment: FrozenLake, CliffWalking, Taxi, or any other with a table ``P``.

        ``mdp.embedding`` then also takes functions of a transition, whose fields are state, action, next_state,
        reward and terminated: ``mdp.embedding(reward=lambda t: t.reward, falls=lambda t: t.reward == -100)``.
        States keep their numbers. One is added at the end: there every terminated episode stays, with signals 0.

        Args:
            env: the environment, or its name ("FrozenLake-v1").
            horizon: the number of steps H of an episode; a time limit of the environment is ignored.
            initial: another start state, or distribution over the environment's states, than the environment's own.
            **options: arguments of ``gymnasium.make`` for an environment given by name.
        """
        env = open_environment(env, options)
        table = read_table(env)
        mdp = cls(table.lists(), start_law(env, initial, table.num_states), horizon)
        object.__setattr__(mdp, "table", table)
        return mdp

    def embedding(
        self, /, *, total: bool = False, visits: bool = False, occupancy: bool = False, **named: Signal
    ) -> "Embedding":
        """Return the CVXPY variable of expected signals, with ``x.name`` for each signal given by name.

        Args:
            total: sum over time: ``x.name`` is one number instead of one per step. Over an unbounded time it always is.
            visits: add the part ``x.visits``: the probability of every state, (H, S) or (S,).
            occupancy: add the part ``x.occupancy``: of every state and action, (H, S, A) or (S, A).
            **named: arrays of shape (S,), (S, A), (H, S, A) or, on arrival, (S, A, S), over a model from Gymnasium
                of the environment's own states; or there functions of a transition.
        """
        arrays = {name: self._to_array(name, signal) for name, signal in named.items()}
        psi = _make_features(self, visits=visits, occupancy=occupancy, named=arrays)
        self.stage(psi)  # wrong shapes are the caller's mistake here, not later in solve
        return psi.embedding(self.horizon, total=total or self.criterion is not None, criterion=self.criterion)

    def _to_array(self, name: str, signal: Signal) -> ArrayLike | Arrival:
        if not callable(signal):
            return signal if self.table is None else self._add_end(name, signal, self.table)
        if self.table is None:
            raise ModelError(
                f"signal {name!r} is a function; this model needs it as an array over (S, A): "
                "only models made by from_gymnasium know the transitions to call it with"
            )
        return self.table.signal(name, signal)

    def _add_end(self, name: str, signal: ArrayLike | Arrival, table: Table) -> ArrayLike | Arrival:
        """Extend an array over the environment's own states to the one that was added."""
        (extended,) = signals(**{name: signal}).with_end(self.successors.shape).arrays
        if not isinstance(extended, Observed):
            return extended
        function = extended.function
        return table.signal(name, lambda t: function(t.state, t.action, t.next_state))

    def __repr__(self) -> str:
        time = self.criterion or f"horizon {self.horizon}"
        return f"TabularMDP({self.num_states} states, {self.num_actions} actions, {time})"


def _split_actions(
    states: object, actions: Sequence[str] | ArrayLike | None, allowed: ArrayLike | None
) -> tuple[Names, ArrayLike | None]:
    """Return the names, and the mask of the actions that states allow: `actions` may be either."""
    if are_names(actions):
        return read_names(states, actions), allowed
    if actions is not None and allowed is not None:
        raise ModelError("actions and allowed are both a mask: give the mask as allowed, and names as actions")
    return read_names(states, None), allowed if actions is None else actions


def _make_features(
    mdp: TabularMDP, *, visits: bool, occupancy: bool, named: dict[str, ArrayLike | Arrival]
) -> AbstractFeatures:
    """Build the feature map of signals, visits and occupancies over a model."""
    for name, flag in (("visits", visits), ("occupancy", occupancy)):
        if not isinstance(flag, bool):
            raise ModelError(f"{name} is True or False, not a signal: the embedding adds the part x.{name} itself")
    members = [signals(**named)] if named or not (visits or occupancy) else []
    members += [features.visits(mdp.num_states)] if visits else []
    members += [features.occupancy(mdp.num_states, mdp.num_actions)] if occupancy else []
    return concat(*members)


def find_reachable(mdp: TabularMDP) -> Bool[np.ndarray, "S"]:
    """Return the states that some policy can reach at some step before the horizon, or ever where there is none."""
    seen = mdp.initial > 0
    frontier = np.flatnonzero(seen)
    lists = mdp.successors
    stationary = lists.states.shape[0] == lists.probabilities.shape[0] == 1
    for h in range(mdp.horizon - 1 if mdp.criterion is None else mdp.num_states):
        if frontier.size == 0 or seen.all():
            break
        possible = (select_step(lists.probabilities, h)[frontier] > 0) & lists.allowed[frontier, :, None]
        arrived = np.zeros_like(seen)
        arrived[select_step(lists.states, h)[frontier][possible]] = True
        # With one law for all steps a state need be expanded only once; with several, whenever it is occupied.
        frontier = np.flatnonzero(arrived & ~seen if stationary else arrived)
        seen |= arrived
    return seen


def find_kept(mdp: TabularMDP) -> Int[np.ndarray, "R"]:
    """Return the numbers of the reachable states, found once for a model."""
    return mdp.memory.get("kept", lambda: np.flatnonzero(find_reachable(mdp)))


def restrict_model(mdp: TabularMDP, kept: Int[np.ndarray, "R"]) -> TabularMDP:
    """Return the model over some of its states, which hold all reachable ones and lose their names.

    A kept state may lead out of the kept set only in a step that is too late to matter; those successors are redirected
    to any kept state, which keeps values finite and changes nothing that is reached.
    """
    lists = mdp.successors
    if kept.size == mdp.num_states:
        return mdp
    number = np.zeros(mdp.num_states, dtype=np.int32)
    number[kept] = np.arange(kept.size, dtype=np.int32)
    small = object.__new__(TabularMDP)
    successors = Successors(
        number[lists.states[:, kept]], lists.probabilities[:, kept], lists.allowed[kept], lists.horizon
    )
    for name, value in (("successors", successors), ("initial", mdp.initial[kept]), ("names", UNNAMED)):
        object.__setattr__(small, name, value)
    return small
