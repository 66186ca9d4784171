"""Units of features that are not declared: half the range that the first episodes show, of every number."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from bidual.problem.features import AbstractMap, AbstractModelFeatures, Fourier, FourierMap

FITTED_IN = 16  # first episodes that scales are fitted to
_LEAST = 1e-3  # of the declared range, or of 1: what never moved has features that are not all noise once it does

Ends = tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]
Controls = tuple[Float[np.ndarray, "m"], Float[np.ndarray, "m"]]


def find_fitted(features: AbstractModelFeatures) -> Fourier | None:
    """Return the features if their units are fitted to what is seen, else None."""
    return features if isinstance(features, Fourier) and features.fits_scales else None


def join_transitions(
    before: tuple[np.ndarray, ...] | None, new: Sequence[tuple[np.ndarray, ...]]
) -> tuple[np.ndarray, ...]:
    """Join states, controls and differences of earlier episodes, if there are some, with those of new ones."""
    parts = list(new) if before is None else [before, *new]
    return tuple(np.concatenate(each) for each in zip(*parts, strict=True))


def fit_scales(seen: Ends, declared: Ends, controls: Controls | None, m: int) -> Float[np.ndarray, "inputs"]:
    """Return the sizes of all state variables, then of m controls; None: controls are indicators of actions.

    That of a state variable is half the range seen so far, at most half of the declared one.
    """
    (low, high), (least, most) = seen, declared
    room = (most - least) / 2
    sizes = np.maximum(np.minimum((high - low) / 2, room), _LEAST * np.where(np.isfinite(room), room, 1.0))
    if controls is None:
        return np.concatenate([sizes, np.ones(m)])
    spread = (controls[1] - controls[0]) / 2
    return np.concatenate([sizes, np.where(spread > 0, spread, 1.0)])


def is_refitted(phi: AbstractMap, first: AbstractMap) -> bool:
    """Return whether a map is another only in the units of state and control."""
    if not (isinstance(phi, FourierMap) and isinstance(first, FourierMap)):
        return False
    if phi.sizes != first.sizes or not np.array_equal(phi.phases, first.phases):
        return False
    ratios = phi.frequencies / first.frequencies
    fine = phi.frequencies.dtype == np.float64 and bool(np.isfinite(ratios).all() and np.all(ratios > 0))
    return fine and np.allclose(ratios, ratios[0], rtol=1e-9, atol=0)
