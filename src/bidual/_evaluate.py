"""`evaluate`: what a policy pays, from fresh episodes of it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from bidual._announce import constraints_at, output_of
from bidual._errors import ProblemError
from bidual._keys import Draw, Purpose, check_seed
from bidual._prepare import check_counts, prepare_learning
from bidual.bounds import Alone
from bidual.constraints import ConstraintResult
from bidual.envs import AbstractEnvironment
from bidual.learned import Interval, Output, constraint_words
from bidual.mdp import TabularMDP
from bidual.models import Declaration
from bidual.outputs import evaluated
from bidual.policies import AbstractPolicy
from bidual.problem import Problem

if TYPE_CHECKING:
    from gymnasium import Env


@final
@dataclass(frozen=True, eq=False)
class Evaluation:
    """What fresh episodes say about a policy; all intervals hold at once with probability 1 - delta."""

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
        """As JSON values; what is not known is None."""
        return {
            "sense": self.sense,
            "objective": _numbers(self.objective),
            "constraints": [self._row(constraint) for constraint in self.constraints],
            "episodes": self.output.episodes,
            "seed": self.seed,
            "delta": self.delta,
        }

    def __str__(self) -> str:
        lines = [
            f"{self.output.episodes} fresh episodes, seed {self.seed}; all intervals hold at once with probability "
            f"{1 - self.delta:.6g}",
            f"  {'objective':<12} {self.sense}: {self.objective}",
        ]
        words = (constraint_words(one, self.output.constraints[one.name]) for one in self.constraints)
        return "\n".join([*lines, *(f"  {'constraint':<12} {text}" for text in words)])

    def _row(self, constraint: ConstraintResult) -> dict[str, Any]:
        bound = constraint.violation_upper
        return {
            "name": constraint.name,
            "sense": constraint.sense,
            "limit": constraint.limit,
            **_numbers(self.output.constraints[constraint.name]),
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
) -> Evaluation:
    """Run episodes of a policy that it was not learned from, and say where its objective and constraints lie.

    Args:
        problem: whose objective and constraints are asked for.
        env: where to run it, as for `learn`.
        policy: the policy, of a solution or from `bd.load`.
        model: what is declared about the transitions: it bounds what an episode can pay at all.
        episodes: how many to run.
        seed: of everything that is random. These episodes are other ones than any that `learn` runs with this seed.
        delta: all intervals hold at once with probability 1 - delta.
    """
    if not isinstance(policy, AbstractPolicy):
        raise ProblemError(f"expected a policy, for instance solution.policy or bd.load(path); got {policy!r:.80}")
    check_counts(episodes, None, None, 1)
    setting = prepare_learning(problem, env, model, None, delta=delta, seed=check_seed(seed))
    draws = [Draw(setting.seed, Purpose.AFTERWARDS, number) for number in range(episodes)]
    seen = setting.env.collect_many(policy, draws)
    estimates = evaluated(setting.program, setting.linear, seen, setting.corners, Alone(delta), 1)
    return Evaluation(
        sense="maximize" if problem.maximises else "minimize",
        output=output_of(setting, "policy", policy, estimates),
        constraints=constraints_at(setting, estimates),
        seed=setting.seed,
        delta=delta,
    )


def _numbers(interval: Interval) -> dict[str, float | None]:
    return {"value": interval.value, "lower": interval.lower, "upper": interval.upper}
