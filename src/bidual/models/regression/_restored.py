"""A regression of a checkpoint against the one before the first episode: whether one can have come of the other."""

from typing import TYPE_CHECKING

import numpy as np

from bidual._base.types import has_finite_doubles
from bidual.models.regression._scales import find_fitted, is_refitted

if TYPE_CHECKING:
    from bidual.models.regression._knr import ControlKnowledge


def check_regression(knowledge: "ControlKnowledge", first: "ControlKnowledge | None", episodes: int) -> None:
    """Check declarations, sums of squares, first states and the range of what was seen against the first knowledge."""
    moments, n, d = knowledge.moments, knowledge.shape[1], knowledge.phi.sizes[2]
    if first is None or any(getattr(knowledge, name) is not getattr(first, name) for name in ("declared", "features")):
        raise ValueError("its declarations are not those of the model")
    _check_units(knowledge, first, episodes)
    shapes = ((moments.gram, (d, d)), (moments.cross, (n, d)), (moments.squares, (n,)))
    sums = all(has_finite_doubles(array, shape) for array, shape in shapes) and bool(np.all(moments.squares >= 0))
    if not (sums and np.allclose(moments.gram, moments.gram.T) and np.all(moments.gram.diagonal() >= 0)):
        raise ValueError("its sums of squares are none")
    steps = 0 <= moments.count <= episodes * knowledge.horizon
    if not (knowledge.episodes == episodes and 0 <= knowledge.broken <= episodes and steps):
        raise ValueError("it counts other episodes than it has")
    seen = all(has_finite_doubles(end, (n,)) or not episodes for end in knowledge.seen)
    if not (
        has_finite_doubles(knowledge.starts, (len(knowledge.starts), n)) and len(knowledge.starts) <= episodes and seen
    ):
        raise ValueError("its first states are not those of its episodes")


def _check_units(knowledge: "ControlKnowledge", first: "ControlKnowledge", episodes: int) -> None:
    """Check the map of the regression, which is the first one but for units that are fitted to the first episodes."""
    fitted = find_fitted(first.declared.model_features) is not None
    if knowledge.phi is not first.phi and not (fitted and is_refitted(knowledge.phi, first.phi)):
        raise ValueError("its declarations are not those of the model")
    if knowledge.early is None:
        return
    (H, n, m), count = knowledge.shape, len(knowledge.early[0])
    shapes = ((count, n), (count, m), (count, n))
    fine = len(knowledge.early) == len(shapes) and all(map(has_finite_doubles, knowledge.early, shapes))
    if not (fitted and fine and count <= episodes * H):
        raise ValueError("its first transitions are not those of its episodes")
