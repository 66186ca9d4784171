"""Convex functions of the embedding: programs in cone form, and functions with conjugates."""

from bidual.problem.convex._affine import affine_program as affine_program
from bidual.problem.convex._check import check_convex as check_convex
from bidual.problem.convex._clarabel import run_clarabel as run_clarabel
from bidual.problem.convex._cone_function import ConeFunction as ConeFunction
from bidual.problem.convex._cones import Cones as Cones
from bidual.problem.convex._conic import ConicForm as ConicForm
from bidual.problem.convex._distances import Distance as Distance
from bidual.problem.convex._distances import DistanceToBall as DistanceToBall
from bidual.problem.convex._distances import DistanceToBox as DistanceToBox
from bidual.problem.convex._distances import SquaredDistance as SquaredDistance
from bidual.problem.convex._entropy import NegativeEntropy as NegativeEntropy
from bidual.problem.convex._floor import floor_multipliers as floor_multipliers
from bidual.problem.convex._function import AbstractFunction as AbstractFunction
from bidual.problem.convex._given import Function as Function
from bidual.problem.convex._image import Image as Image
from bidual.problem.convex._piecewise import Affine as Affine
from bidual.problem.convex._piecewise import MaxAffine as MaxAffine
from bidual.problem.convex._program import TOLERANCE as TOLERANCE
from bidual.problem.convex._program import AbstractFunctions as AbstractFunctions
from bidual.problem.convex._program import AbstractProgram as AbstractProgram
from bidual.problem.convex._program import AbstractSmooth as AbstractSmooth
from bidual.problem.convex._program import AffineProgram as AffineProgram
from bidual.problem.convex._program import ConvexProgram as ConvexProgram
from bidual.problem.convex._repair import falling_direction as falling_direction
from bidual.problem.convex._repair import interior as interior
from bidual.problem.convex._repair import movement as movement
from bidual.problem.convex._repair import multipliers_of_slope as multipliers_of_slope
from bidual.problem.convex._repair import repair_multipliers as repair_multipliers
from bidual.problem.convex._scaled import Scaled as Scaled
from bidual.problem.convex._sets import AbstractCompact as AbstractCompact
from bidual.problem.convex._sets import Box as Box
from bidual.problem.convex._sets import Product as Product
from bidual.problem.convex._sets import Simplex as Simplex
from bidual.problem.convex._variational import SlaterPoint as SlaterPoint
from bidual.problem.convex._variational import Term as Term
from bidual.problem.convex._variational import VariationalProgram as VariationalProgram

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
