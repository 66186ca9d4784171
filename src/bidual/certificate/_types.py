"""The evidence of certificates, and certificates."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float

from bidual.problem.convex import AbstractProgram
from bidual.problem.features import Psi
from bidual.world.mdp import TabularMDP
from bidual.world.policies import MarkovPolicy


@final
@dataclass(frozen=True, eq=False)
class Record:
    """The data of a dual bound: the multipliers, and the weight of the objective.

    They belong to the rows of an affine program or to those of a cone form: of the problem itself with weight 1, of
    its least violation with weight 0. With a `point` they are multipliers of the constraints, and stand for derivatives
    there: earlier versions wrote such records, and no bound is derived from them any more.
    """

    gamma: Float[np.ndarray, "r"]
    objective_weight: float  # 1: a bound on the optimum; 0: a bound on the least possible violation
    point: Float[np.ndarray, "n"] | None = None
    potential: Float[np.ndarray, "S"] | None = None  # over an unbounded time: no row of it is above what a step pays


@final
@dataclass(frozen=True, eq=False)
class Evidence:
    """A problem over a known model, a policy, and a record: the input of `certify`."""

    program: AbstractProgram
    psi: Psi
    mdp: TabularMDP
    policy: MarkovPolicy
    record: Record
    auxiliary: Float[np.ndarray, "a"] = field(default_factory=lambda: np.zeros(0))


class Resolution(NamedTuple):
    """The rounding slacks of a certificate's numbers: by no more can another computation of them honestly differ."""

    lower: float  # of the bound of the record
    value: float
    g: Float[np.ndarray, "m"]


@final
@dataclass(frozen=True, eq=False)
class Certificate:
    """The proven bounds, for the problem in its minimising form."""

    value: float
    upper: float  # on the policy's value
    lower: float | None  # on the value of every feasible policy; None where the record bounds the violation instead
    conflict: float | None  # every policy violates some row by at least this, in its units, if positive
    g: Float[np.ndarray, "m"]
    violations: Float[np.ndarray, "m"]
    violations_upper: Float[np.ndarray, "m"]
    embedding: Float[np.ndarray, "H d"]
    visits: Float[np.ndarray, "H S"]
    resolution: Resolution | None = None  # where claims of a file are compared with it

    def feasible(self, program: AbstractProgram) -> bool:
        """Return whether every row provably holds within its tolerance."""
        return bool(np.all(self.violations_upper <= program.tolerances))

    def bounds(self, program: AbstractProgram, *, maximises: bool) -> tuple[float | None, float | None]:
        """Return lower and upper bound in the user's sense; None where there is none.

        A policy that is not feasible bounds nothing. One that is, within tolerance, may undercut the optimum of the
        exact limits by a rounding: then the weaker of the two numbers is the bound.
        """
        if self.conflict is not None:
            return None, None
        return to_user_sense(self.lower, self.upper if self.feasible(program) else None, maximises=maximises)


def certify_policy(
    program: AbstractProgram,
    f: tuple[float, float],
    g: tuple[Float[np.ndarray, "m"], Float[np.ndarray, "m"]],
    embedding: Float[np.ndarray, "H d"],
    visits: Float[np.ndarray, "H S"],
) -> Certificate:
    """Return the certificate of the policy alone: f and g are pairs of a value and its slack; no lower bound yet."""
    violations = program.violations(g[0])
    over = np.where(program.equality, violations, g[0]) + g[1]
    return Certificate(
        value=f[0],
        upper=f[0] + f[1],
        lower=None,
        conflict=None,
        g=g[0],
        violations=violations,
        violations_upper=np.maximum(over, 0.0),
        embedding=embedding,
        visits=visits,
        resolution=Resolution(0.0, f[1], g[1]),
    )


def with_record_bound(certificate: Certificate, record: Record, bound: float, slack: float) -> Certificate:
    """Return the certificate of a policy with the bound of a record, which contains `slack`."""
    assert certificate.resolution is not None  # `certify_policy` sets it
    known = replace(certificate, resolution=certificate.resolution._replace(lower=slack))
    return replace(known, conflict=bound) if record.objective_weight == 0 else replace(known, lower=bound)


def to_user_sense(lower: float | None, upper: float | None, *, maximises: bool) -> tuple[float | None, float | None]:
    """Convert bounds of the minimising form to the user's sense; a lower bound above the upper is weakened to it."""
    lower = lower if lower is None or upper is None else min(lower, upper)
    return (_negate(upper), _negate(lower)) if maximises else (lower, upper)


def _negate(bound: float | None) -> float | None:
    return None if bound is None else -bound
