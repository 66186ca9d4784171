"""Runs of `learn` that outlive their process: a folder each, and one database for all runs of a parent folder."""

from bidual.learning.runs._manifest import read_draws, run_settings
from bidual.learning.runs._reading import Listed, is_stopped, listed, read, read_checkpoint
from bidual.learning.runs._restored import blame_checkpoint
from bidual.learning.runs._states import pack_state, unpack_state
from bidual.learning.runs._store import RunEntry, Store
from bidual.learning.runs._writer import Folder, RunWriter, begin_folder
from bidual.learning.state import LearnState

__all__ = [
    "Folder",
    "LearnState",
    "Listed",
    "listed",
    "read",
]
