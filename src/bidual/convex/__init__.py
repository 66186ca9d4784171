"""Functions of the embedding, as the algorithms need them."""

from bidual.convex._affine import TOLERANCE as TOLERANCE
from bidual.convex._affine import AffineProgram as AffineProgram
from bidual.convex._affine import affine_program as affine_program
