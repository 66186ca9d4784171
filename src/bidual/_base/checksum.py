"""Checksums of JSON values and arrays."""

import hashlib
import json

import numpy as np


def compute_checksum(header: object, *parts: np.ndarray | bool) -> str:
    """Return a checksum of JSON values and arrays."""
    total = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for part in parts:
        array = np.ascontiguousarray(part)
        total.update(f"{array.dtype.str}{array.shape}".encode())
        total.update(array.tobytes())
    return total.hexdigest()[:32]
