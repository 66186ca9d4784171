"""Runs of `learn` that outlive their process: states of the loop as files."""

from bidual.runs._states import packed as packed
from bidual.runs._states import unpacked as unpacked
