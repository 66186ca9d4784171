"""Convex functions of the embedding: programs in cone form, and functions with conjugates."""

from bidual.problem.convex._affine import read_affine_program
from bidual.problem.convex._check import check_convex
from bidual.problem.convex._clarabel import run_clarabel
from bidual.problem.convex._cone_function import ConeFunction
from bidual.problem.convex._cones import Cones
from bidual.problem.convex._conic import ConicForm
from bidual.problem.convex._distances import Distance, DistanceToBall, DistanceToBox, SquaredDistance
from bidual.problem.convex._entropy import NegativeEntropy
from bidual.problem.convex._floor import find_floor_multipliers
from bidual.problem.convex._function import AbstractFunction
from bidual.problem.convex._given import Function
from bidual.problem.convex._image import Image
from bidual.problem.convex._piecewise import Affine, MaxAffine
from bidual.problem.convex._program import (
    TOLERANCE,
    AbstractFunctions,
    AbstractProgram,
    AbstractSmooth,
    AffineProgram,
    ConvexProgram,
)
from bidual.problem.convex._repair import (
    bound_movement,
    find_falling_direction,
    find_interior,
    find_multipliers_of_slope,
    repair_multipliers,
)
from bidual.problem.convex._scaled import Scaled
from bidual.problem.convex._sets import AbstractCompact, Box, Product, Simplex
from bidual.problem.convex._variational import SlaterPoint, Term, VariationalProgram

__all__ = [
    "AbstractCompact",
    "AbstractFunction",
    "AbstractProgram",
    "AbstractSmooth",
    "Affine",
    "AffineProgram",
    "Box",
    "ConeFunction",
    "ConvexProgram",
    "Distance",
    "DistanceToBall",
    "DistanceToBox",
    "Function",
    "MaxAffine",
    "NegativeEntropy",
    "Product",
    "Scaled",
    "Simplex",
    "SquaredDistance",
    "VariationalProgram",
    "check_convex",
]
