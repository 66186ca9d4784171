"""Functions of the embedding, as the algorithms need them."""

from bidual.convex._affine import TOLERANCE as TOLERANCE
from bidual.convex._affine import AffineProgram as AffineProgram
from bidual.convex._affine import affine_program as affine_program
from bidual.convex._clarabel import run_clarabel as run_clarabel
from bidual.convex._cones import Cones as Cones
from bidual.convex._conic import ConicForm as ConicForm
from bidual.convex._image import Image as Image
from bidual.convex._program import AbstractFunctions as AbstractFunctions
from bidual.convex._program import AbstractSmooth as AbstractSmooth
from bidual.convex._program import ConvexProgram as ConvexProgram
from bidual.convex._recession import falling_direction as falling_direction
from bidual.convex._repair import interior as interior
from bidual.convex._repair import movement as movement
from bidual.convex._repair import repaired as repaired
