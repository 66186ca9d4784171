"""Families of problems over the limit of one constraint: at any limit, without it, and the ends of its left side."""

import abc
from collections.abc import Sequence
from dataclasses import replace
from typing import final

import numpy as np

from bidual.certificate.rounding import round_rows, with_rounding
from bidual.problem.convex import AffineProgram
from bidual.problem.modelling import Limit, Line, Problem, drop_limit, open_limit, optimise_limit
from bidual.solving.search import CompiledProblem, Instance


class AbstractFamily(abc.ABC):
    """The problems that differ in the limit of the constraint called `name`."""

    name: str

    @abc.abstractmethod
    def at(self, level: float) -> CompiledProblem:
        """Return the problem at this limit."""

    @abc.abstractmethod
    def without(self, tie: float = 0.0) -> CompiledProblem:
        """Return the problem without the constraint; a cost of `tie` selects the optimum that keeps most limits."""

    @abc.abstractmethod
    def end(self, direction: float) -> CompiledProblem | None:
        """Return the problem of minimising (direction 1) or maximising (-1) the left side; None if not convex."""


@final
class LinearFamily(AbstractFamily):
    """The family of a linear problem: only one entry of the right side changes, without another compilation."""

    def __init__(self, problem: Problem, limit: Limit, world: Instance, program: AffineProgram) -> None:
        self.name, self.program, self.line = limit.name, program, limit.line()
        self._world, self._lines, self._maximises = world, problem.lines(), problem.maximises
        before = self._lines[: [line.name for line in self._lines].index(limit.name)]
        self.row = sum(line.bounds.size for line in before)
        self.others = np.arange(program.limits.size) != self.row
        # The row is sign * left side, less a constant that CVXPY has moved to the right.
        self.constant = self.line.sign * float(self.line.bounds[0]) - float(program.limits[self.row])

    def at(self, level: float) -> CompiledProblem:
        """Return the problem at this limit."""
        bounds = np.array([level])
        lines = [line._replace(bounds=bounds) if line.name == self.line.name else line for line in self._lines]
        return CompiledProblem(self.member(level), tuple(lines), self._maximises)

    def member(self, level: float) -> AffineProgram:
        """Return the rows at this limit."""
        limits = np.where(self.others, self.program.limits, self.line.sign * level - self.constant)
        return round_rows(replace(self.program, limits=limits), self._world.psi, self._world.mdp)

    def without(self, tie: float = 0.0) -> CompiledProblem:
        """Return the problem without the constraint; its row becomes a small cost."""
        program = self._drop_row()
        program = replace(program, objective=program.objective + tie * self.program.rows[self.row])
        return self._compile(program, self._list_other_lines(), maximises=self._maximises)

    def end(self, direction: float) -> CompiledProblem | None:
        """Return the problem with the left side as the objective."""
        factor = direction * self.line.sign
        objective, offset = factor * self.program.rows[self.row], factor * self.constant
        program = replace(self._drop_row(), objective=objective, offset=offset)
        return self._compile(program, self._list_other_lines(), maximises=False)

    def _compile(self, program: AffineProgram, lines: Sequence[Line], *, maximises: bool) -> CompiledProblem:
        return CompiledProblem(with_rounding(program, self._world.psi, self._world.mdp), tuple(lines), maximises)

    def _list_other_lines(self) -> list[Line]:
        return [line for line in self._lines if line.name != self.line.name]

    def _drop_row(self) -> AffineProgram:
        """Return the program without the row of the priced constraint."""
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
class ConicFamily(AbstractFamily):
    """The family of a convex problem, with a parameter in place of the limit."""

    def __init__(self, problem: Problem, limit: Limit, world: Instance) -> None:
        self.name, self.limit = limit.name, limit
        self._problem, self._world = problem, world
        self._open, self._level = open_limit(problem, limit)

    def at(self, level: float) -> CompiledProblem:
        """Return the problem at this limit."""
        self._level.value = level
        return self._compile(self._open)

    def without(self, tie: float = 0.0) -> CompiledProblem:
        """Return the problem without the constraint; curved objectives seldom have ties."""
        del tie
        return self._compile(drop_limit(self._problem, self.limit))

    def end(self, direction: float) -> CompiledProblem | None:
        """Return the problem with the left side as the objective, where it is convex in that direction."""
        if not (self.limit.value.is_affine() or direction == self.limit.sign):
            return None
        return self._compile(optimise_limit(self._problem, self.limit, direction))

    def _compile(self, problem: Problem) -> CompiledProblem:
        program = with_rounding(problem.program(), self._world.psi, self._world.mdp)
        return CompiledProblem(program, problem.lines(), problem.maximises, problem.embedding.total)
