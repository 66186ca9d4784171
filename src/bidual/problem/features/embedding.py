"""The embedding as a CVXPY variable with named parts."""

import cvxpy as cp

from bidual._base.errors import ModelError, ProblemError
from bidual.problem.features._base import AbstractFeatures, FeaturePart

# The attributes of a CVXPY variable, class and instance, and those added here.
_TAKEN = frozenset([*dir(cp.Variable), *vars(cp.Variable(1)), "features", "horizon", "total", "criterion"])


class Embedding(cp.Variable):
    """The expected features Psi of a policy: the variable a problem is written in.

    It is an ordinary CVXPY variable, of shape (H, d) or, summed over time, (d,), as it always is over an unbounded
    time; ``x.cost`` is the part that belongs to the signal named ``cost``.
    """

    features: AbstractFeatures
    horizon: int
    total: bool
    criterion: object  # how signals are summed over an unbounded time, as its model says; None where there is a horizon

    def __init__(self, features: AbstractFeatures, horizon: int, *, total: bool, criterion: object = None) -> None:
        if horizon < 1:
            raise ModelError(f"horizon must be at least 1; got {horizon}")
        for part in features.parts:
            _check_name(part.name)
        shape = (features.dimension,) if total else (horizon, features.dimension)
        super().__init__(shape, name="embedding")
        self.features = features
        self.horizon = horizon
        self.total = total
        self.criterion = criterion

    def __getattr__(self, name: str) -> cp.Expression:
        """Return a part by name: a signal (H,), visits (H, S), occupancy (H, S, A); without H when summed over time."""
        # Looked up through __dict__: CVXPY touches attributes before __init__ has set ours.
        features: AbstractFeatures | None = self.__dict__.get("features")
        parts = {part.name: part for part in features.parts} if features is not None else {}
        if name in parts:
            return _take_entries(self, parts[name])
        raise AttributeError(f"this embedding has no part {name!r}; it has {', '.join(parts) or 'none yet'}")


def _take_entries(x: Embedding, part: FeaturePart) -> cp.Expression:
    where = part.position if part.shape == () else slice(part.position, part.position + part.size)
    entries = x[where] if x.total else x[:, where]
    if len(part.shape) < 2:
        return entries
    return cp.reshape(entries, part.shape if x.total else (x.horizon, *part.shape), order="C")


def _check_name(name: str) -> None:
    if name in _TAKEN or name.startswith("_"):
        raise ProblemError(
            f"a signal cannot be called {name!r}: embeddings are CVXPY variables and use that name themselves; "
            f"try {name.strip('_')}_signal"
        )
