"""Many jobs on many workers: processes of this machine, a Dask cluster, or any executor."""

from bidual.cli.distributed._dask import dask
from bidual.cli.distributed._executor import Failure, Outcome, WorkerPool, distribute, local, retry_while_busy

__all__ = [
    "Failure",
    "Outcome",
    "WorkerPool",
    "dask",
    "distribute",
    "local",
]
