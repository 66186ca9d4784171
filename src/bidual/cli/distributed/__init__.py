"""Many jobs on many workers: processes of this machine, a Dask cluster, or any executor."""

from bidual.cli.distributed._dask import dask as dask
from bidual.cli.distributed._executor import Failure as Failure
from bidual.cli.distributed._executor import Outcome as Outcome
from bidual.cli.distributed._executor import WorkerPool as WorkerPool
from bidual.cli.distributed._executor import distribute as distribute
from bidual.cli.distributed._executor import local as local
from bidual.cli.distributed._executor import retry_while_busy as retry_while_busy

__all__ = [
    "Failure",
    "Outcome",
    "WorkerPool",
    "dask",
    "distribute",
    "local",
]
