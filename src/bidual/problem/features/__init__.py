"""Feature maps psi, and the CVXPY variable of their expectations."""

from bidual.problem.features._base import AbstractFeatures as AbstractFeatures
from bidual.problem.features._base import FeaturePart as FeaturePart
from bidual.problem.features._base import Observed as Observed
from bidual.problem.features._base import Pieces as Pieces
from bidual.problem.features._base import Psi as Psi
from bidual.problem.features._computed import Computed as Computed
from bidual.problem.features._computed import Quadratic as Quadratic
from bidual.problem.features._computed import Signal as Signal
from bidual.problem.features._computed import computed as computed
from bidual.problem.features._computed import quadratic as quadratic
from bidual.problem.features._computed import rbf as rbf
from bidual.problem.features._computed import signal as signal
from bidual.problem.features._maps import AbstractMap as AbstractMap
from bidual.problem.features._maps import AbstractModelFeatures as AbstractModelFeatures
from bidual.problem.features._maps import Fourier as Fourier
from bidual.problem.features._maps import FourierMap as FourierMap
from bidual.problem.features._maps import FunctionMap as FunctionMap
from bidual.problem.features._maps import Linear as Linear
from bidual.problem.features._maps import LinearMap as LinearMap
from bidual.problem.features._maps import Mapped as Mapped
from bidual.problem.features._maps import features_of as features_of
from bidual.problem.features._maps import fourier as fourier
from bidual.problem.features._maps import linear as linear
from bidual.problem.features._maps import mapped as mapped
from bidual.problem.features._maps import read_features as read_features
from bidual.problem.features._signals import Arrival as Arrival
from bidual.problem.features._signals import Signals as Signals
from bidual.problem.features._signals import observed as observed
from bidual.problem.features._signals import on_arrival as on_arrival
from bidual.problem.features._signals import signals as signals
from bidual.problem.features._visits import Concat as Concat
from bidual.problem.features._visits import Occupancy as Occupancy
from bidual.problem.features._visits import Visits as Visits
from bidual.problem.features._visits import concat as concat
from bidual.problem.features._visits import occupancy as occupancy
from bidual.problem.features._visits import visits as visits

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
