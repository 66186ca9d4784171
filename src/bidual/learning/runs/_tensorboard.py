"""The metrics of a run as TensorBoard reads them; the package tensorboardX writes its files."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from bidual._base.errors import RunError
from bidual.learning.metrics import Metric

if TYPE_CHECKING:
    from tensorboardX import SummaryWriter

FOLDER = "tensorboard"


def open_writer(folder: Path, episodes: int) -> "SummaryWriter":
    """Open a writer for the run in a folder; later episodes that an earlier process wrote are to be ignored."""
    try:
        from tensorboardX import SummaryWriter
    except ImportError as error:
        raise RunError(f"numbers for TensorBoard need an extra: pip install 'bidual[tensorboard]' ({error})") from error
    # The files are named by the second of their creation, and would be overwritten within it.
    count = len(list((folder / FOLDER).glob("events*")))
    return SummaryWriter(
        str(folder / FOLDER), purge_step=episodes + 1 if episodes else None, filename_suffix=f".{count:06d}"
    )


def write(writer: "SummaryWriter", metrics: Iterable[Metric]) -> None:
    """Add metrics, and flush them to the system."""
    for name, episode, value in metrics:
        writer.add_scalar(name, value, episode)
    writer.flush()
