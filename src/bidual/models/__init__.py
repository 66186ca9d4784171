"""What may be true of the transitions."""

from bidual.models._base import AbstractModel as AbstractModel
from bidual.models._base import Layout as Layout
from bidual.models._known import Known as Known
from bidual.models._known import known as known
