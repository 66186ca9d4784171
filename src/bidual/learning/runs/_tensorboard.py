"""The metrics of a run as TensorBoard reads them; the package tensorboardX writes its files.

Its own `SummaryWriter` hands events to a thread. That dies of an error of the disk, and who writes next waits for ever.
Here they are written at once, and an error is raised where it can be handled.
"""

import socket
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from bidual._base.errors import RunError
from bidual.learning.folder import TENSORBOARD
from bidual.learning.metrics import Metric


def require_tensorboard() -> None:
    """Raise `RunError` where the package is not installed, before anything of a run is there."""
    try:
        import tensorboardX.proto.event_pb2
        import tensorboardX.record_writer  # noqa: F401 - it is only asked for
    except ImportError as error:
        raise RunError(f"numbers for TensorBoard need an extra: pip install 'bidual[tensorboard]' ({error})") from error


class Board:
    """An open file of events; those of later episodes that an earlier process wrote are to be ignored."""

    def __init__(self, folder: Path, episodes: int) -> None:
        from tensorboardX.proto import event_pb2
        from tensorboardX.record_writer import RecordWriter

        own = folder / TENSORBOARD
        own.mkdir(parents=True, exist_ok=True)
        # The files are named by the second of their creation, and would be overwritten within it.
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{len(list(own.glob('events*'))):06d}"
        self._events: Any = event_pb2  # whose names are made when it is imported
        self._file = RecordWriter(str(own / name))
        try:
            self._begin(episodes)
        except BaseException:  # who makes a board gets none to close
            self.close()
            raise

    def write(self, metrics: Iterable[Metric]) -> None:
        """Add metrics, and flush them to the system."""
        from tensorboardX.summary import scalar

        for name, episode, value in metrics:
            self._write(self._events.Event(step=episode, summary=scalar(name, value)))
        self._file.flush()

    def close(self) -> None:
        """Close the file; what was written was flushed."""
        with suppress(OSError):
            self._file.close()

    def _begin(self, episodes: int) -> None:
        """Write the format, and which episodes of earlier files do not count."""
        self._write(self._events.Event(file_version="brain.Event:2"))
        if episodes:
            start = self._events.SessionLog(status=self._events.SessionLog.START)
            self._write(self._events.Event(step=episodes + 1, session_log=start))
        self._file.flush()

    def _write(self, event: Any) -> None:  # noqa: ANN401 - see above
        event.wall_time = time.time()
        self._file.write(event.SerializeToString())
