"""A problem with the limit of one constraint left open: at every limit, without it, and its left side to the ends."""

import abc
from collections.abc import Sequence
from dataclasses import replace
from typing import final

import numpy as np

from bidual._search import Stated, World, measured
from bidual.convex import AffineProgram
from bidual.problem import Limit, Line, Problem, dropped, opened, pushed
from bidual.rounding import with_rounding


class AbstractFamily(abc.ABC):
    """The problems that differ in the limit of the constraint called `name`."""

    name: str

    @abc.abstractmethod
    def at(self, level: float) -> Stated:
        """The problem at this limit."""

    @abc.abstractmethod
    def without(self, tie: float = 0.0) -> Stated:
        """The problem without the constraint; among equals, by a cost of `tie`, the one that keeps most limits."""

    @abc.abstractmethod
    def end(self, direction: float) -> Stated | None:
        """The left side itself, to be minimised (direction 1) or maximised (-1); None where that is not convex."""


@final
class Rows(AbstractFamily):
    """A linear problem: only one entry of the right side changes, and CVXPY is not asked again."""

    def __init__(self, problem: Problem, limit: Limit, world: World, program: AffineProgram) -> None:
        self.name, self.program, self.line = limit.name, program, limit.line()
        self._world, self._lines, self._maximises = world, problem.lines(), problem.maximises
        before = self._lines[: [line.name for line in self._lines].index(limit.name)]
        self.row = sum(line.bounds.size for line in before)
        self.others = np.arange(program.limits.size) != self.row
        # The row is sign * left side, less a constant that CVXPY has moved to the right.
        self.constant = self.line.sign * float(self.line.bounds[0]) - float(program.limits[self.row])

    def at(self, level: float) -> Stated:
        """The problem at this limit."""
        bounds = np.array([level])
        lines = [line._replace(bounds=bounds) if line.name == self.line.name else line for line in self._lines]
        return Stated(self.member(level), tuple(lines), self._maximises)

    def member(self, level: float) -> AffineProgram:
        """The rows at this limit."""
        limits = np.where(self.others, self.program.limits, self.line.sign * level - self.constant)
        return with_rounding(replace(self.program, limits=limits), self._world.psi, self._world.mdp)

    def without(self, tie: float = 0.0) -> Stated:
        """The problem without the constraint; its row comes back as a small cost."""
        program = self._kept()
        program = replace(program, objective=program.objective + tie * self.program.rows[self.row])
        return self._stated(program, self._other_lines(), maximises=self._maximises)

    def end(self, direction: float) -> Stated | None:
        """The left side as the objective."""
        factor = direction * self.line.sign
        objective, offset = factor * self.program.rows[self.row], factor * self.constant
        program = replace(self._kept(), objective=objective, offset=offset)
        return self._stated(program, self._other_lines(), maximises=False)

    def _stated(self, program: AffineProgram, lines: Sequence[Line], *, maximises: bool) -> Stated:
        return Stated(with_rounding(program, self._world.psi, self._world.mdp), tuple(lines), maximises)

    def _other_lines(self) -> list[Line]:
        return [line for line in self._lines if line.name != self.line.name]

    def _kept(self) -> AffineProgram:
        program, others = self.program, self.others
        return replace(
            program,
            rows=program.rows[others],
            limits=program.limits[others],
            equality=program.equality[others],
            units=program.units[others],
            resolution=program.resolution[others],
        )


@final
class Cones(AbstractFamily):
    """A convex problem, with a parameter in place of the limit."""

    def __init__(self, problem: Problem, limit: Limit, world: World) -> None:
        self.name, self.limit = limit.name, limit
        self._problem, self._world = problem, world
        self._open, self._level = opened(problem, limit)

    def at(self, level: float) -> Stated:
        """The problem at this limit."""
        self._level.value = level
        return self._stated(self._open)

    def without(self, tie: float = 0.0) -> Stated:
        """The problem without the constraint; curved objectives seldom have ties."""
        del tie
        return self._stated(dropped(self._problem, self.limit))

    def end(self, direction: float) -> Stated | None:
        """The left side as the objective, where it is convex in that direction."""
        if not (self.limit.value.is_affine() or direction == self.limit.sign):
            return None
        return self._stated(pushed(self._problem, self.limit, direction))

    def _stated(self, problem: Problem) -> Stated:
        program = measured(problem.program(), self._world)
        return Stated(program, problem.lines(), problem.maximises, problem.embedding.total)
