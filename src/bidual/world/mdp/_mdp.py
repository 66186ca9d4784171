"""`TabularMDP`: a known model, checked at construction and stored as successor lists."""

import os
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike

from bidual._base.errors import ModelError
from bidual._base.memory import Memory
from bidual._base.names import UNNAMED, Names, find, read_names
from bidual._base.types import Successors
from bidual.problem import features
from bidual.problem.features import AbstractFeatures, Psi
from bidual.world.mdp._criterion import Absorbed, AbstractCriterion, declare_criterion
from bidual.world.mdp._drn import read_drn, write_drn
from bidual.world.mdp._embeddings import Signal, make_features, to_array
from bidual.world.mdp._model_files import FileModel, find_until
from bidual.world.mdp._prism import Paths, read_prism
from bidual.world.mdp._steps import Steps, count_typical_steps, end_signals
from bidual.world.mdp._successors import Transitions, check_initial, check_transitions, end_episodes, split_actions
from bidual.world.mdp._toy_text import Table, open_environment, read_table, start_law

if TYPE_CHECKING:
    from gymnasium import Env

    from bidual.problem.features.embedding import Embedding


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
    file: FileModel | None = None  # of a model checker, that the model was read from

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
        names, mask = split_actions(states, actions, allowed)
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

    @classmethod
    def from_drn(
        cls,
        path: str | os.PathLike[str],
        horizon: int | None = None,
        *,
        discount: float | None = None,
        until: str | ArrayLike | None = None,
        average: bool = False,
        initial: int | ArrayLike | None = None,
    ) -> "TabularMDP":
        """Read a model in DRN, the explicit format of Storm; `until` may be one of its labels.

        ``mdp.signals`` has its reward models and ``mdp.labels`` its labels, so that all rewards are signals of
        ``mdp.embedding(**mdp.signals)``. Unless `initial` is given, it begins in the state labelled ``init``.
        """
        return _build_model(read_drn(path), horizon, discount, until, average, initial)

    @classmethod
    def from_prism(
        cls,
        tra: str | os.PathLike[str],
        lab: str | os.PathLike[str] | None = None,
        srew: Paths = None,
        trew: Paths = None,
        *,
        horizon: int | None = None,
        discount: float | None = None,
        until: str | ArrayLike | None = None,
        average: bool = False,
        initial: int | ArrayLike | None = None,
    ) -> "TabularMDP":
        """Read a model in the explicit files of PRISM, likewise; rewards are files, or files by the names of signals.

        Rewards of transitions become their expectations.
        """
        return _build_model(read_prism(tra, lab, srew, trew), horizon, discount, until, average, initial)

    def to_drn(
        self, path: str | os.PathLike[str], *, labels: Mapping[str, ArrayLike] | None = None, **signals: ArrayLike
    ) -> None:
        """Write the model in DRN, with signals over (S, A) as reward models, and masks of states as labels."""
        psi = self.stage(features.signals(**signals)) if signals else None
        arrays = {} if psi is None else dict(zip(signals, psi.signals[0], strict=True))
        marks = {name: np.asarray(mask, dtype=bool) for name, mask in (labels or {}).items()}
        write_drn(path, self.successors, self.initial, self.names, arrays, marks)

    @property
    def signals(self) -> dict[str, Float[np.ndarray, "S A"]]:
        """The reward models of the file that the model was read from, by name."""
        return {} if self.file is None else dict(self.file.signals)

    @property
    def labels(self) -> dict[str, Bool[np.ndarray, "S"]]:
        """The labels of that file, as masks of states."""
        return {} if self.file is None else dict(self.file.labels)

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
        shape = self.successors.shape
        arrays = {name: to_array(name, signal, self.table, shape) for name, signal in named.items()}
        psi = make_features(shape, visits=visits, occupancy=occupancy, named=arrays)
        self.stage(psi)  # wrong shapes are the caller's mistake here, not later in solve
        return psi.embedding(self.horizon, total=total or self.criterion is not None, criterion=self.criterion)

    def __repr__(self) -> str:
        time = self.criterion or f"horizon {self.horizon}"
        return f"TabularMDP({self.num_states} states, {self.num_actions} actions, {time})"


def _build_model(
    file: FileModel,
    horizon: int | None,
    discount: float | None,
    until: str | ArrayLike | None,
    average: bool,
    initial: int | ArrayLike | None,
) -> TabularMDP:
    """Build the model of a file."""
    start = file.initial if initial is None else initial
    if start is None:
        raise ModelError("the file does not label one state init: say where episodes begin, initial=0")
    time = {"discount": discount, "until": find_until(until, file.labels), "average": average}
    mdp = TabularMDP(file.lists, start, horizon, **time, actions=file.actions, allowed=file.allowed)
    object.__setattr__(mdp, "file", file)
    return mdp
