"""What may be true of the transitions."""

from bidual.models._arrivals import Arrivals as Arrivals
from bidual.models._arrivals import Paid as Paid
from bidual.models._arrivals import paid_on_lists as paid_on_lists
from bidual.models._base import AbstractModel as AbstractModel
from bidual.models._base import Layout as Layout
from bidual.models._counts import Counts as Counts
from bidual.models._known import Known as Known
from bidual.models._known import known as known
from bidual.models._optimistic import SETS as SETS
from bidual.models._optimistic import Ball as Ball
from bidual.models._optimistic import Box as Box
from bidual.models._optimistic import Near as Near
from bidual.models._optimistic import Optimistic as Optimistic
from bidual.models._optimistic import Rows as Rows
from bidual.models._tabular import Knowledge as Knowledge
from bidual.models._tabular import Tabular as Tabular
