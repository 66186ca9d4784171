"""The numbers of a run as TensorBoard reads them; the package tensorboardX writes its files."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from bidual._errors import RunError
from bidual._measured import Measurement

if TYPE_CHECKING:
    from tensorboardX import SummaryWriter

FOLDER = "tensorboard"


def opened(folder: Path, episodes: int) -> "SummaryWriter":
    """A writer for the run in a folder. What an earlier process wrote of later episodes is to be ignored."""
    try:
        from tensorboardX import SummaryWriter
    except ImportError as error:
        raise RunError(f"numbers for TensorBoard need an extra: pip install 'bidual[tensorboard]' ({error})") from error
    # The files are named by the second in which they were made, and would be overwritten within it.
    count = len(list((folder / FOLDER).glob("events*")))
    return SummaryWriter(
        str(folder / FOLDER), purge_step=episodes + 1 if episodes else None, filename_suffix=f".{count:06d}"
    )


def write(writer: "SummaryWriter", measurements: Iterable[Measurement]) -> None:
    """Add numbers, and hand them to the system."""
    for name, episode, value in measurements:
        writer.add_scalar(name, value, episode)
    writer.flush()
