"""Runs of `learn` that outlive their process: a folder each, and a database for all that stand side by side."""

from bidual.runs._keeper import Folder as Folder
from bidual.runs._keeper import Keeper as Keeper
from bidual.runs._manifest import facts_of as facts_of
from bidual.runs._manifest import read_manifest as read_manifest
from bidual.runs._reading import Listed as Listed
from bidual.runs._reading import listed as listed
from bidual.runs._reading import read as read
from bidual.runs._states import packed as packed
from bidual.runs._states import unpacked as unpacked
from bidual.runs._store import Entry as Entry
from bidual.runs._store import Store as Store
