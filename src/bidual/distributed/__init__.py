"""Many cells of work on many workers: processes of this machine, a Dask cluster, or any executor."""

from bidual.distributed._crew import Crew as Crew
from bidual.distributed._crew import local as local
from bidual.distributed._dask import dask as dask
from bidual.distributed._distribute import Failure as Failure
from bidual.distributed._distribute import Outcome as Outcome
from bidual.distributed._distribute import distribute as distribute
from bidual.distributed._patience import patiently as patiently
