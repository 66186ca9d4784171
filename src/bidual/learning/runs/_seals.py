"""Checksums of rows in the database: a bit that flips on a disk changes no number silently.

They notice accidents, not intentions: whoever can write the file can compute them.
"""

import hashlib
import struct
import zlib
from collections.abc import Sequence

_NUMBER = struct.Struct("<qd")


def seed_series(run: str, name: str) -> int:
    """Return where the seals of a series begin: a number under another name fails its seal."""
    return zlib.crc32(f"{run}\0{name}".encode(errors="replace"))


def seal(seed: int, episode: int, value: float) -> int:
    """Return the checksum of a number of a series."""
    return zlib.crc32(_NUMBER.pack(episode, value), seed)


def is_sealed(seed: int, episode: object, value: object, found: object) -> bool:
    """Return whether a row is as it was written, whatever types a damaged one has."""
    if not (type(episode) is int and type(value) is float and type(found) is int):
        return False
    try:
        return seal(seed, episode, value) == found
    except (struct.error, OverflowError):
        return False


def digest_entry(entry: Sequence[object]) -> str:
    """Return the checksum of a run's row."""
    return hashlib.sha256(repr(tuple(entry)).encode(errors="replace")).hexdigest()[:32]
