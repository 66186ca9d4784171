"""How far a sum can stray from its conditional means, at all times at once.

Numbers X_1, X_2, ... in an interval of width 1, adapted; predictions m_t in it, known before X_t;
S_t = sum of X_i - E[X_i | past], V_t = sum of (X_i - m_i)^2, psi(l) = -log(1 - l) - l. For every l in [0, 1)

    exp(l S_t - psi(l) V_t)

is a nonnegative supermartingale that starts at 1 (Howard, Ramdas, McAuliffe & Sekhon 2021, Theorem 4, by Fan's
inequality). So is any fixed mixture over l, and by Ville's inequality the mixture never reaches 1 / delta with
probability at least 1 - delta. The boundary is the S at which it would.
"""

import math

import numpy as np
from jaxtyping import Float

# The best l is about sqrt(2 log(1 / delta) / V), and near 1 where V is small. The grid is geometric in l / (1 - l),
# from 8 down to 6e-5: V up to 1e9. Weights fall slowly, because small V comes first. For deltas of 1e-5 to 0.05 and V
# from 1 to 1e7 the boundary is then 1.1 to 1.5 times that of the best l in hindsight, which nobody may use.
_ODDS = 8 * 0.5 ** np.arange(18)
_WEIGHTS = 1 / np.arange(2, 20)
LAMBDAS = _ODDS / (1 + _ODDS)
LOG_WEIGHTS = np.log(_WEIGHTS / _WEIGHTS.sum())
PSI = -np.log1p(-LAMBDAS) - LAMBDAS
STEPS = 6
for _array in (LAMBDAS, LOG_WEIGHTS, PSI):
    _array.flags.writeable = False


def boundary(variation: Float[np.ndarray, "r"], delta: float) -> Float[np.ndarray, "r"]:
    """The S at which the mixture reaches 1 / delta, for every V in `variation`; never below it.

    The logarithm of the mixture is convex and increasing in S. Newton's method from the right therefore stays on the
    right, and every iterate is a valid boundary: six steps are for sharpness only. It begins where one term of the
    mixture reaches 1 / delta on its own.
    """
    level = -math.log(delta)
    constant = LOG_WEIGHTS - PSI * variation[:, None]
    S = np.min((level - constant) / LAMBDAS, axis=1)
    for _ in range(STEPS):
        exponent = LAMBDAS * S[:, None] + constant
        peak = np.max(exponent, axis=1)
        terms = np.exp(exponent - peak[:, None])
        total = np.sum(terms, axis=1)
        S = S - (peak + np.log(total) - level) * total / (terms @ LAMBDAS)
    return S * (1 + 1e-12)  # exponents that matter are of the size of `level`: rounding moves S by 1e-14 of itself
