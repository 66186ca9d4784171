"""Guards against small files that would take much memory: they are applied before anything is read.

Our own files are far from these limits: manifests have some kilobytes, and the largest, those of controllers, some
megabytes. Whatever is written passes the same guards, so nothing is stored that could not be read again.
"""

import json
import os
import struct
from typing import IO, Any

_MOST_MEMORY = 1 << 27  # bytes that the values of a JSON text may take
_OBJECT, _ARRAY, _VALUE, _CHARACTER = 248, 96, 64, 10  # bytes at most for each of them, while it is parsed
_MOST_ARRAYS = 4 << 20  # bytes of the list of arrays, some 60 for each
_END, _END64 = struct.Struct("<4s4H2LH"), struct.Struct("<4sQ2H2L4Q")  # of a zip file, and of one beyond 4 GB
_LOCATOR = struct.Struct("<4sLQL")
_MOST_ENTRIES = 4096  # bytes of the list of parts: two of them, some 70 bytes each


def read_json(text: bytes | str) -> Any:  # noqa: ANN401
    """Parse JSON; raise `ValueError` where its values would take more memory than those of any file of ours."""
    check_json(text)
    return json.loads(text)


def check_json(text: bytes | str) -> None:
    """Bound the memory of a JSON text's values by its brackets and commas; raise `ValueError` beyond the limit."""
    objects, arrays, commas = (
        (text.count(b"{"), text.count(b"["), text.count(b","))
        if isinstance(text, bytes)
        else (text.count("{"), text.count("["), text.count(","))
    )
    most = _OBJECT * objects + _ARRAY * arrays + _VALUE * commas + _CHARACTER * len(text)
    if most > _MOST_MEMORY:
        raise ValueError(f"{len(text)} bytes of JSON that may take {most >> 20} MB of memory are none of ours")


def check_arrays(blob: bytes) -> None:
    """Check the length of the list at the beginning of safetensors; raise `ValueError` beyond the limit."""
    length = int.from_bytes(blob[:8], "little")
    if length > _MOST_ARRAYS:
        raise ValueError(f"a list of arrays of {length} bytes is none of ours")


def check_zip(file: IO[bytes]) -> None:
    """Check that the list of parts of a zip file is short; raise `ValueError` otherwise. The file is rewound."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _END.size - _LOCATOR.size - _END64.size))
    tail = file.read().rjust(_END.size + _LOCATOR.size + _END64.size, b"\0")
    file.seek(0)
    mark, *_, listed, _, comment = _END.unpack(tail[-_END.size :])
    if mark != b"PK\5\6" or comment:
        raise ValueError("it does not end as a file of ours")
    locator = _LOCATOR.unpack(tail[-_END.size - _LOCATOR.size : -_END.size])
    if locator[0] == b"PK\6\7":
        if locator[2] != size - len(tail):
            raise ValueError("it does not end as a file of ours")
        listed = max(listed if listed < 0xFFFFFFFF else 0, _END64.unpack(tail[: _END64.size])[8])
    if listed > _MOST_ENTRIES:
        raise ValueError(f"a list of parts of {listed} bytes is none of ours")
