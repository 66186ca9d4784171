"""A policy as a table for other programs: who reads it needs nothing of bidual."""

import csv
import io
import json
import os
from pathlib import Path

import numpy as np

from bidual import _archive
from bidual._errors import PolicyError
from bidual.policies._decoded import DecodedPolicy
from bidual.policies._markov import DeterministicPolicy, MarkovPolicy

FORMATS = ("json", "csv", "npz", "safetensors")


def write_table(
    policy: MarkovPolicy | DeterministicPolicy | DecodedPolicy, path: str | os.PathLike[str], format: str
) -> Path:
    """Write the probability of every action at every step in every state; numbers come back to the last bit.

    json: an object with the shape (H, S, A) and the nested list ``probabilities[h][s][a]``. csv: one row for every
    action that is taken with some probability. npz and safetensors: one array, ``probabilities``.
    """
    if isinstance(policy, DecodedPolicy):
        raise PolicyError(
            "a table over latents says nothing without the decoder that tells them: keep the file itself, which "
            "bd.load makes a policy of"
        )
    if format not in FORMATS:
        raise PolicyError(f"format must be one of {', '.join(FORMATS)}; got {format!r}")
    contents, target = _WRITERS[format](np.ascontiguousarray(policy.table)), Path(path)
    _archive.put(target, lambda file: file.write(contents))
    return target


def _json(table: np.ndarray) -> bytes:
    words = {"kind": "markov policy", "axes": ["step", "state", "action"], "shape": list(table.shape)}
    return (json.dumps(words | {"probabilities": table.tolist()}) + "\n").encode()


def _csv(table: np.ndarray) -> bytes:
    text = io.StringIO(newline="")
    rows = csv.writer(text)
    rows.writerow(["step", "state", "action", "probability"])
    places = zip(*(axis.tolist() for axis in np.nonzero(table)), strict=True)
    rows.writerows((*place, float(table[place])) for place in places)
    return text.getvalue().encode()


def _npz(table: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, probabilities=table)
    return file.getvalue()


def _safetensors(table: np.ndarray) -> bytes:
    from safetensors.numpy import save

    return save({"probabilities": table}, {"kind": "markov policy", "axes": "step state action"})


_WRITERS = {"json": _json, "csv": _csv, "npz": _npz, "safetensors": _safetensors}
