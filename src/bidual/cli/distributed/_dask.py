"""Workers of a Dask cluster, on this machine or on many."""

import logging
import os
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar, cast, final

from bidual._base.errors import TaskError
from bidual.cli.distributed._executor import WorkerPool
from bidual.world.envs import check_count

if TYPE_CHECKING:
    from distributed import Client, LocalCluster

P = ParamSpec("P")
T = TypeVar("T")

_HERE = "127.0.0.1"
_PATIENCE = 10.0  # seconds for the scheduler to answer
_LOST = ("closing", "closed")  # a client that has lost its scheduler closes itself
_LOSSES = 10  # workers that a task may lose before Dask asks us; then it is handed out again
# NPROC is read by XLA; Dask sets the others as well. They must be there before the worker imports anything.
_ALONE = {"NPROC": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def dask(address: str | None = None, *, workers: int = 1) -> WorkerPool:
    """Use the workers of a scheduler, for instance ``tcp://10.0.0.1:8786``, or as many new processes on this machine.

    The scheduler hands jobs out, also anew when a worker dies. Workers must be able to import bidual and whatever the
    jobs need, in the same versions; they must have one thread (``dask worker --nthreads 1``), because a job
    changes settings of the whole process; and they must see the same files under the same names, so the
    folder of the runs must be on a file system that all of them share, with locks that work across machines. Where the
    last bits matter, start them with NPROC=1, as processes of this machine are.

    A cluster on this machine listens on 127.0.0.1 alone and has no dashboard. Jobs on another cluster cannot be
    stopped from here: one that has begun goes on to its end, and is stored.
    """
    return WorkerPool(
        partial(_start_cluster, check_count("workers", workers)) if address is None else partial(_connect, address)
    )


@final
class _Cluster(Executor):
    """Dask's own executor, which closes its client at the end, and the cluster if that is ours."""

    def __init__(self, client: "Client", cluster: "LocalCluster | None") -> None:
        self._client, self._cluster = client, cluster
        self._executor = client.get_executor(pure=False)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Submit a function to some worker."""
        if self._client.status in _LOST:  # a job submitted now would never return
            raise BrokenExecutor("the Dask client has lost its scheduler")
        return self._executor.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Release client and cluster."""
        if self._client.status not in _LOST:
            self._executor.shutdown(wait=wait and not cancel_futures)
            self._client.close()
        if self._cluster is not None:
            self._cluster.close()


def _connect(address: str) -> Executor:
    """Connect to a scheduler that runs already; raise `TaskError` where none answers or workers share a process."""
    Client, _ = _import_classes()
    try:
        client = Client(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise TaskError(
            f"no Dask scheduler answers at {address} ({error}): start one with 'dask scheduler', and give its address "
            "as tcp://HOST:PORT"
        ) from error
    threads = cast("dict[str, int]", client.nthreads())
    crowded = [name for name, count in threads.items() if count > 1]
    if crowded:
        client.close()
        raise TaskError(
            f"the Dask worker {crowded[0]} has {threads[crowded[0]]} threads, and every run needs a process of its "
            "own: start workers with 'dask worker --nthreads 1'"
        )
    return _Cluster(client, None)


def _start_cluster(workers: int) -> Executor:
    """Start workers on this machine, one thread each, that are not forked."""
    Client, LocalCluster = _import_classes()
    import dask.config

    settings = {
        "distributed.scheduler.allowed-failures": _LOSSES,
        "distributed.worker.multiprocessing-method": "spawn",  # a fork of a process that runs JAX hangs
        "distributed.nanny.pre-spawn-environ": {name: one for name, one in _ALONE.items() if name not in os.environ},
    }
    with dask.config.set(settings):
        cluster = LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host=_HERE,
            dashboard_address=None,  # pyright: ignore[reportArgumentType]: it is documented to mean none
            worker_dashboard_address=None,
            memory_limit=0,  # none: a run that needs more than its share of the memory is not killed for that
            silence_logs=logging.CRITICAL,
        )
    return _Cluster(Client(cluster, set_as_default=False), cluster)


def _import_classes() -> "tuple[type[Client], type[LocalCluster]]":
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise TaskError(f"a Dask cluster needs an extra: pip install 'bidual[dask]' ({error})") from error
    return Client, LocalCluster
