"""`evaluate`: the objective and the constraints of a policy, estimated from fresh episodes of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from bidual._base.brief import describe_briefly
from bidual._base.errors import PolicyError, ProblemError
from bidual._base.frames import build_frame
from bidual._base.html import format_html_table
from bidual._base.keys import Draw, Purpose, check_seed
from bidual.certificate.bounds import Alone
from bidual.certificate.constraints import ConstraintResult
from bidual.learning.outputs import estimate_policy
from bidual.learning.setup import check_counts, set_up
from bidual.learning.states import number_states
from bidual.learning.summary import Interval, Output, describe_constraint, describe_output, list_constraints_at
from bidual.models import Declaration
from bidual.problem.modelling import Problem
from bidual.solving.outcome import format_facts
from bidual.world.envs import AbstractEnvironment
from bidual.world.mdp import TabularMDP
from bidual.world.policies import AbstractPolicy, MarkovPolicy

if TYPE_CHECKING:
    from gymnasium import Env
    from pandas import DataFrame


@final
@dataclass(frozen=True, eq=False)
class Evaluation:
    """Estimates of a policy from fresh episodes; all intervals hold at once with probability 1 - delta."""

    __repr__ = describe_briefly

    sense: str
    output: Output
    constraints: tuple[ConstraintResult, ...]
    seed: int
    delta: float

    @property
    def objective(self) -> Interval:
        """The objective, in the user's sense."""
        return self.output.objective

    def to_dict(self) -> dict[str, Any]:
        """Return the evaluation as JSON values; an unknown value is None."""
        return {
            "sense": self.sense,
            "objective": _to_numbers(self.objective),
            "constraints": [self._row(constraint) for constraint in self.constraints],
            "episodes": self.output.episodes,
            "seed": self.seed,
            "delta": self.delta,
        }

    def to_frame(self) -> "DataFrame":
        """Return a frame of pandas with a row for the objective and one for every constraint."""
        rows = [{"name": "objective", "sense": self.sense, "limit": None, **_to_numbers(self.objective)}]
        rows += [self._row(constraint) for constraint in self.constraints]
        columns = ("name", "sense", "limit", "value", "lower", "upper", "violation_upper")
        return build_frame({column: [row.get(column) for row in rows] for column in columns})

    def __str__(self) -> str:
        return format_facts(self._write_title(), self._list_facts())

    def _repr_html_(self) -> str:
        return format_html_table(self._write_title(), self._list_facts())

    def _write_title(self) -> str:
        intervals = f"all intervals hold at once with probability {1 - self.delta:.6g}"
        return f"{self.output.episodes} fresh episodes, seed {self.seed}; {intervals}"

    def _list_facts(self) -> list[tuple[str, str]]:
        texts = (describe_constraint(one, self.output.constraints[one.name]) for one in self.constraints)
        return [("objective", f"{self.sense}: {self.objective}"), *(("constraint", text) for text in texts)]

    def _row(self, constraint: ConstraintResult) -> dict[str, Any]:
        bound = constraint.violation_upper
        return {
            "name": constraint.name,
            "sense": constraint.sense,
            "limit": constraint.limit,
            **_to_numbers(self.output.constraints[constraint.name]),
            "violation_upper": bound if np.isfinite(bound) else None,
        }


def evaluate(
    problem: Problem,
    env: "AbstractEnvironment | TabularMDP | Env[Any, Any] | str",
    policy: AbstractPolicy,
    model: Declaration | None = None,
    *,
    episodes: int = 1000,
    seed: int = 0,
    delta: float = 0.05,
    states: Callable[[Any], Any] | None = None,
    states_limit: int | None = None,
) -> Evaluation:
    """Evaluate a policy on fresh episodes: intervals of its objective and its constraints.

    Args:
        problem: the problem with the objective and the constraints.
        env: the environment, as for `learn`.
        policy: the policy, of a solution or from `bd.load`.
        model: the declaration about the transitions: it bounds the values that an episode can have.
        episodes: the number of episodes.
        seed: of everything that is random. These episodes differ from all that `learn` runs with this seed.
        delta: all intervals hold at once with probability 1 - delta.
        states: the function from an observation to its state, as for `learn`.
        states_limit: the number of different states that can occur at most, as for `learn`.
    """
    if not isinstance(policy, AbstractPolicy):
        raise ProblemError(f"expected a policy, for instance solution.policy or bd.load(path); got {policy!r:.80}")
    check_counts(episodes, None, None, 1)
    env = number_states(env, problem, states, states_limit)
    setup = set_up(problem, env, model, None, delta=delta, seed=check_seed(seed))
    world = _number_like(setup.env, policy)
    draws = [Draw(setup.seed, Purpose.AFTERWARDS, number) for number in range(episodes)]
    seen = world.collect_many(policy, draws)
    estimates = estimate_policy(setup.program, setup.linear, seen, setup.corners, Alone(delta), 1)
    return Evaluation(
        sense="maximize" if problem.maximises else "minimize",
        output=describe_output(setup, "policy", policy, estimates),
        constraints=list_constraints_at(setup, estimates),
        seed=setup.seed,
        delta=delta,
    )


def _number_like(env: AbstractEnvironment, policy: AbstractPolicy) -> AbstractEnvironment:
    """Return the environment with the policy's numbers of observations; they mean nothing without those."""
    own, present = policy.numbering if isinstance(policy, MarkovPolicy) else None, env.numbering
    if own is not None and present is not None:
        return env.with_numbering(own)
    if present is not None and present.grows:
        raise PolicyError(
            "observations are numbered as they are met, and this policy does not say which number means what: give "
            "the policy of a solution, or of bd.load"
        )
    return env


def _to_numbers(interval: Interval) -> dict[str, float | None]:
    return {"value": interval.value, "lower": interval.lower, "upper": interval.upper}
