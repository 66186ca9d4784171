"""Tables as frames of pandas, where that is installed: nothing else here needs it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bidual._base.errors import BidualError

if TYPE_CHECKING:
    from pandas import DataFrame


def build_frame(columns: Mapping[str, Sequence[Any] | np.ndarray]) -> "DataFrame":
    """Build a frame from its columns; raise where pandas is not installed."""
    try:
        from pandas import DataFrame
    except ImportError as error:
        raise BidualError(f"to_frame needs pandas, which is not installed: pip install pandas ({error})") from error
    return DataFrame(dict(columns))


def join_frames(frames: "Sequence[DataFrame]", **labels: Sequence[Any] | np.ndarray) -> "DataFrame":
    """Join frames, each with the same further columns in front: a value of every label for each frame."""
    from pandas import concat

    for number, frame in enumerate(frames):
        for place, (name, values) in enumerate(labels.items()):
            frame.insert(place, name, values[number])
    return concat(frames, ignore_index=True)


def build_frame_of_records(records: Sequence[object], names: Sequence[str]) -> "DataFrame":
    """Build a frame with a row for every record, from their attributes; those that are None in all are left out."""
    columns = {name: [getattr(record, name) for record in records] for name in names}
    return build_frame({name: values for name, values in columns.items() if any(one is not None for one in values)})
