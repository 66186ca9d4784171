"""Feature maps psi, and the CVXPY variable of their expectations."""

from bidual.problem.features._base import AbstractFeatures, FeaturePart, Observed, Pieces, Psi
from bidual.problem.features._computed import (
    Computed,
    Quadratic,
    Recipe,
    Signal,
    computed,
    quadratic,
    rbf,
    read_signal,
    signal,
)
from bidual.problem.features._maps import (
    AbstractModelFeatures,
    Fourier,
    Linear,
    Mapped,
    fourier,
    linear,
    mapped,
    read_features,
)
from bidual.problem.features._phi import AbstractMap, FourierMap, FunctionMap, LinearMap, compute_features
from bidual.problem.features._signals import Arrival, ArrivalTable, Signals, observed, on_arrival, signals
from bidual.problem.features._visits import Occupancy, Visits, concat, occupancy, visits

__all__ = [
    "AbstractFeatures",
    "AbstractModelFeatures",
    "Arrival",
    "Computed",
    "Fourier",
    "Linear",
    "Mapped",
    "Observed",
    "Occupancy",
    "Pieces",
    "Psi",
    "Signal",
    "Signals",
    "Visits",
    "computed",
    "concat",
    "fourier",
    "linear",
    "mapped",
    "observed",
    "occupancy",
    "on_arrival",
    "quadratic",
    "rbf",
    "signal",
    "signals",
    "visits",
]
