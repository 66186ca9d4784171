"""psi: what an embedding counts, and the CVXPY variable of its expectations."""

from bidual.features._base import AbstractFeatures as AbstractFeatures
from bidual.features._base import Part as Part
from bidual.features._signals import Arrival as Arrival
from bidual.features._signals import Signals as Signals
from bidual.features._signals import on_arrival as on_arrival
from bidual.features._signals import signals as signals
