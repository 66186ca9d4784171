"""Programs, problems as every player sees them: linear ones as rows, convex ones as functions of an image.

Either kind answers for itself what it can (`AbstractProgram`); where a player needs more than a program knows, it has
one way for each kind, and `dispatch` takes the one that fits.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar, final

import numpy as np
from jaxtyping import Bool, Float

from bidual._base.brief import describe_briefly
from bidual.problem.convex._conic import ConicForm
from bidual.problem.convex._image import Image
from bidual.problem.convex._partial import minimise_over_rest

TOLERANCE = 1e-9
Answer = TypeVar("Answer")


class AbstractRows(abc.ABC):
    """Scalar constraints g <= 0, or == 0 where `equality`, and the units in which their violations are measured."""

    equality: Bool[np.ndarray, "m"]
    units: Float[np.ndarray, "m"]

    @property
    def tolerances(self) -> Float[np.ndarray, "m"]:
        """The violation of a row that still counts as holding."""
        return TOLERANCE * self.units

    def violations(self, g: Float[np.ndarray, "*n m"]) -> Float[np.ndarray, "*n m"]:
        """Return the violation of each row, given g: never negative."""
        return np.where(self.equality, np.abs(g), np.maximum(g, 0.0))


class AbstractProgram(AbstractRows):
    """min f(Psi)  s.t.  g(Psi) <= 0, or == 0 where `equality`, with f and g in the form that its players need."""

    @property
    @abc.abstractmethod
    def horizon(self) -> int:
        """The number of steps of the embedding."""

    @property
    def is_linear(self) -> bool:
        """Whether f and g are rows over the embedding."""
        return self.linear is not None

    @property
    def linear(self) -> "AffineProgram | None":
        """The program itself where it is linear."""
        return self.dispatch(lambda rows: rows, lambda _: None)

    @property
    def curved(self) -> "ConvexProgram | None":
        """The program itself where it is made of functions of an image."""
        return self.dispatch(lambda _: None, lambda cones: cones)

    def over_few_numbers(self, most: int) -> "ConvexProgram | None":
        """Return the program where f and g are functions of at most `most` numbers; else None."""
        found = self.curved
        return None if found is None or not 0 < found.image.size <= most else found

    @abc.abstractmethod
    def at(
        self, embedding: Float[np.ndarray, "H d"], auxiliary: Float[np.ndarray, "a"] | None = None
    ) -> tuple[float, Float[np.ndarray, "m"]]:
        """Return f and g of an embedding, and of the auxiliary variables: where they are not given, the best ones."""

    @abc.abstractmethod
    def multipliers(
        self, gamma: Float[np.ndarray, "r"], objective_weight: float, *, of_rows: bool
    ) -> Float[np.ndarray, "m"]:
        """Return the multipliers of the scalar constraints in a proof: `gamma`, or those in its cone form's.

        Args:
            gamma: the multipliers that a proof is made of.
            objective_weight: 1 where it bounds the optimum, 0 where it bounds the least violation.
            of_rows: whether they belong to the scalar constraints already.
        """

    @abc.abstractmethod
    def with_rows(self, change: Callable[["AffineProgram"], "AffineProgram"]) -> "AbstractProgram":
        """Return a linear program changed by a function of it, and a convex one as it is."""

    @abc.abstractmethod
    def dispatch(
        self, affine: Callable[["AffineProgram"], Answer], convex: Callable[["ConvexProgram"], Answer]
    ) -> Answer:
        """Apply the function for this kind of program to it."""


@final
@dataclass(frozen=True, eq=False)
class AffineProgram(AbstractProgram):
    """min objective.Psi + offset  s.t.  rows_i.Psi <= limits_i, or == where `equality`."""

    __repr__ = describe_briefly

    objective: Float[np.ndarray, "H d"]
    offset: float
    rows: Float[np.ndarray, "m H d"]
    limits: Float[np.ndarray, "m"]
    equality: Bool[np.ndarray, "m"]
    units: Float[np.ndarray, "m"]  # in which a row's violation is measured
    resolution: Float[np.ndarray, "m"]  # values of g below this are rounding

    def values(self, psi: Float[np.ndarray, "H d"]) -> tuple[float, Float[np.ndarray, "m"]]:
        """Return f(Psi) and g(Psi) = rows.Psi - limits."""
        f = float(np.vdot(self.objective, psi)) + self.offset
        return f, self._flat_rows() @ psi.reshape(-1) - self.limits

    def theta(self, gamma: Float[np.ndarray, "m"], objective_weight: float) -> Float[np.ndarray, "H d"]:
        """Return the linear cost that a planner minimises: theta = alpha + beta with beta = sum_i gamma_i rows_i.

        The atoms are linear, so alpha is the objective itself and needs no dual step (its conjugate is an
        indicator); weight 0 leaves only the constraints, as in phase 1.
        """
        beta = (gamma @ self._flat_rows()).reshape(self.objective.shape)
        return objective_weight * self.objective + beta

    @property
    def horizon(self) -> int:
        """The number of steps of the embedding."""
        return len(self.objective)

    def functionals(self) -> tuple[Float[np.ndarray, "rows H d"], Float[np.ndarray, "rows"]]:
        """Return the objective and all rows as linear functions of the embedding: coefficients and constants."""
        return np.concatenate([self.objective[None], self.rows]), np.append(self.offset, -self.limits)

    def at(
        self, embedding: Float[np.ndarray, "H d"], auxiliary: Float[np.ndarray, "a"] | None = None
    ) -> tuple[float, Float[np.ndarray, "m"]]:
        """Return f and g of an embedding; there are no auxiliary variables."""
        del auxiliary
        return self.values(embedding)

    def multipliers(
        self, gamma: Float[np.ndarray, "r"], objective_weight: float, *, of_rows: bool
    ) -> Float[np.ndarray, "m"]:
        """Return `gamma`: a proof is made of the multipliers of the rows."""
        del objective_weight, of_rows
        return gamma

    def with_rows(self, change: Callable[["AffineProgram"], "AffineProgram"]) -> "AffineProgram":
        """Return the changed program."""
        return change(self)

    def dispatch(
        self, affine: Callable[["AffineProgram"], Answer], convex: Callable[["ConvexProgram"], Answer]
    ) -> Answer:
        """Apply `affine`."""
        del convex
        return affine(self)

    def _flat_rows(self) -> Float[np.ndarray, "m Hd"]:
        return self.rows.reshape(self.limits.size, self.objective.size)


class AbstractFunctions(abc.ABC):
    """f and g of a problem in its minimising form, as numbers."""

    @abc.abstractmethod
    def values(self, y: Float[np.ndarray, "n"], auxiliary: Float[np.ndarray, "a"]) -> tuple[float, np.ndarray]:
        """Evaluate f(y, v) and g(y, v), which is to be <= 0 (or == 0) row by row."""

    @abc.abstractmethod
    def enclosures(
        self, y: Float[np.ndarray, "n"], auxiliary: Float[np.ndarray, "a"], error: Float[np.ndarray, "n"]
    ) -> tuple[Float[np.ndarray, "rows"], Float[np.ndarray, "rows"]]:
        """Bound f (row 0) and every g from below and from above, whatever y is within `error` of the one given."""

    @abc.abstractmethod
    def floor(self, low: Float[np.ndarray, "n"], high: Float[np.ndarray, "n"]) -> float:
        """Return a number that f is never below while y is between two ends; -inf where none is known.

        The auxiliary variables may be anything.
        """

    @abc.abstractmethod
    def magnitudes(
        self, y: Float[np.ndarray, "n"], auxiliary: Float[np.ndarray, "a"]
    ) -> tuple[float, Float[np.ndarray, "m"]]:
        """Return the largest numbers that occur while f and every g are evaluated."""

    @abc.abstractmethod
    def slope(
        self, y: Float[np.ndarray, "n"], gamma: Float[np.ndarray, "m"], weight: float
    ) -> Float[np.ndarray, "n"] | None:
        """Return a subgradient of weight f + gamma . g at y, without auxiliary variables; None where there is none."""


class AbstractSmooth(abc.ABC):
    """f (row 0) and g (the other rows) where they have derivatives."""

    @abc.abstractmethod
    def values(self, y: Float[np.ndarray, "n"]) -> Float[np.ndarray, "rows"]:
        """Evaluate f and g."""

    @abc.abstractmethod
    def gradients(self, y: Float[np.ndarray, "n"]) -> tuple[Float[np.ndarray, "rows"], Float[np.ndarray, "rows n"]]:
        """Evaluate f and g with their gradients."""

    @abc.abstractmethod
    def curvature(
        self, row: int, y: Float[np.ndarray, "n"], directions: Float[np.ndarray, "k n"]
    ) -> Float[np.ndarray, "k n"]:
        """Apply the Hessian of one row at y to every direction."""


@final
@dataclass(frozen=True, eq=False)
class ConvexProgram(AbstractProgram):
    """min f(y, v)  s.t.  g(y, v) <= 0 (or == 0),  y = the image of an embedding, v auxiliary variables.

    `violation` is the same problem with the worst violation t, in units, to be minimised instead of f, and `margin`
    the one where only the inequalities may be violated; both are None where there is nothing to violate. `smooth` is
    present where every function has derivatives.
    """

    __repr__ = describe_briefly

    image: Image
    functions: AbstractFunctions
    main: ConicForm
    violation: ConicForm | None
    margin: ConicForm | None
    equality: Bool[np.ndarray, "m"]
    units: Float[np.ndarray, "m"]
    num_auxiliary: int
    smooth: AbstractSmooth | None = None

    @property
    def horizon(self) -> int:
        """The number of steps of the embedding."""
        return self.image.horizon

    def at(
        self, embedding: Float[np.ndarray, "H d"], auxiliary: Float[np.ndarray, "a"] | None = None
    ) -> tuple[float, Float[np.ndarray, "m"]]:
        """Return f and g at the image of an embedding."""
        y = self.image(embedding)
        return self.functions.values(y, self.complete(y) if auxiliary is None else auxiliary)

    def complete(self, y: Float[np.ndarray, "n"]) -> Float[np.ndarray, "a"]:
        """Return the auxiliary variables at which f is least at an image, or where none will do the violation."""
        return minimise_over_rest(self, y) if self.num_auxiliary else np.zeros(0)

    def with_units(self, units: Float[np.ndarray, "m"]) -> "ConvexProgram":
        """Return the program with violations measured in other units."""
        factors = units / self.units
        violation, margin = (
            None if form is None else form.with_units(factors) for form in (self.violation, self.margin)
        )
        return replace(self, units=units, violation=violation, margin=margin)

    def form(self, objective_weight: float) -> ConicForm | None:
        """Return the cone form that a proof rests on: of the problem (weight 1), or of its violation (weight 0)."""
        return self.main if objective_weight == 1 else self.violation

    def multipliers(
        self, gamma: Float[np.ndarray, "r"], objective_weight: float, *, of_rows: bool
    ) -> Float[np.ndarray, "m"]:
        """Return `gamma` where it belongs to the rows, else what the multipliers of a cone form say of them."""
        if of_rows:
            return gamma
        form = self.form(objective_weight)
        if form is None or gamma.size == 0:  # the floor of the objective needs none
            return np.zeros(self.units.size)
        return form.gamma(gamma, self.units.size)

    def with_rows(self, change: Callable[[AffineProgram], AffineProgram]) -> "ConvexProgram":
        """Return the program as it is."""
        del change
        return self

    def dispatch(
        self, affine: Callable[[AffineProgram], Answer], convex: Callable[["ConvexProgram"], Answer]
    ) -> Answer:
        """Apply `convex`."""
        del affine
        return convex(self)
