"""The tabular canonical embedding of the paper: Psi is the occupancy of every step, state and action.

K is a simplex for every step, alpha has as many entries as there are steps, states and actions, and a linear function
w . Psi has the Lipschitz constant |w|. Everywhere else dual variables are kept for what a function really depends on,
which for a linear one is a single number.
"""

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from bidual.convex import Affine, AffineProgram, ConvexProgram, Image, Product, Simplex, Term, VariationalProgram
from bidual.features import Pieces


def canonical(program: AffineProgram | ConvexProgram, pieces: Pieces) -> tuple[VariationalProgram, Pieces] | None:
    """A linear problem over occupancies, and these as features; None where these do not say what it pays."""
    if not isinstance(program, AffineProgram) or pieces.arrivals or pieces.observed:
        return None
    (H, _), (S, A) = program.objective.shape, pieces.stage.shape[2:]
    n = H * S * A
    K = Product((Simplex(S * A, 1.0),) * H)
    rows = np.concatenate([program.objective[None], program.rows])
    terms = [
        Term(Affine(_lifted(row, pieces), float(constant), K), np.arange(n), np.zeros(n))
        for row, constant in zip(rows, np.append(program.offset, -program.limits), strict=True)
    ]
    image = Image(sp.csr_array(sp.eye_array(n)), np.zeros(n), H, total=False)
    functions = VariationalProgram(image, terms[0], tuple(terms[1:]), program.equality, program.units)
    return functions, Pieces(np.zeros((1, 0, S, A)), occupancy=True)


def _lifted(row: Float[np.ndarray, "H d"], pieces: Pieces) -> Float[np.ndarray, "n"]:
    """What every step, state and action pays."""
    return np.concatenate([pieces.psi.pay(theta, h).ravel() for h, theta in enumerate(row)])
