"""Runs of `learn` that outlive their process: a folder each, and one database for all runs of a parent folder."""

from bidual.learning.runs._manifest import read_draws as read_draws
from bidual.learning.runs._manifest import read_manifest as read_manifest
from bidual.learning.runs._manifest import run_settings as run_settings
from bidual.learning.runs._reading import Listed as Listed
from bidual.learning.runs._reading import count_stored as count_stored
from bidual.learning.runs._reading import is_stopped as is_stopped
from bidual.learning.runs._reading import listed as listed
from bidual.learning.runs._reading import read as read
from bidual.learning.runs._reading import read_checkpoint as read_checkpoint
from bidual.learning.runs._restored import blame_checkpoint as blame_checkpoint
from bidual.learning.runs._states import pack_state as pack_state
from bidual.learning.runs._states import unpack_state as unpack_state
from bidual.learning.runs._store import RunEntry as RunEntry
from bidual.learning.runs._store import Store as Store
from bidual.learning.runs._writer import Folder as Folder
from bidual.learning.runs._writer import RunWriter as RunWriter
from bidual.learning.state import LearnState as LearnState

__all__ = [
    "Folder",
    "LearnState",
    "Listed",
    "listed",
    "read",
]
