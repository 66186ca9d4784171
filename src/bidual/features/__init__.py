"""psi: what an embedding counts, and the CVXPY variable of its expectations."""

from bidual.features._base import AbstractFeatures as AbstractFeatures
from bidual.features._base import Observed as Observed
from bidual.features._base import Part as Part
from bidual.features._base import Pieces as Pieces
from bidual.features._base import Psi as Psi
from bidual.features._computed import Computed as Computed
from bidual.features._computed import Signal as Signal
from bidual.features._computed import computed as computed
from bidual.features._computed import signal as signal
from bidual.features._signals import Arrival as Arrival
from bidual.features._signals import Signals as Signals
from bidual.features._signals import observed as observed
from bidual.features._signals import on_arrival as on_arrival
from bidual.features._signals import signals as signals
from bidual.features._visits import Concat as Concat
from bidual.features._visits import Occupancy as Occupancy
from bidual.features._visits import Visits as Visits
from bidual.features._visits import concat as concat
from bidual.features._visits import occupancy as occupancy
from bidual.features._visits import visits as visits
