"""A policy as a table for other programs: who reads it needs nothing of bidual."""

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from bidual import _archive
from bidual._errors import PolicyError
from bidual.policies._decoded import DecodedPolicy
from bidual.policies._decoded_files import decoded_arrays
from bidual.policies._markov import DeterministicPolicy, MarkovPolicy

FORMATS = ("json", "csv", "npz", "safetensors")

Arrays = dict[str, np.ndarray]


def write_table(
    policy: MarkovPolicy | DeterministicPolicy | DecodedPolicy, path: str | os.PathLike[str], format: str
) -> Path:
    """Write the probability of every action at every step in every state; numbers come back to the last bit.

    json: an object with the shape (H, S, A) and the nested list ``probabilities[h][s][a]``. csv: one row for every
    action that is taken with some probability. npz and safetensors: one array, ``probabilities``.

    A policy over latents has its decoder beside it: for every step h and latent k a weight and, of normal observations,
    ``means[h, k]`` and ``variances[h]``, of symbols ``laws[h, k]``. The latent of an observation is the most likely
    one of the first ``sizes[h]``. A csv has no place for that.
    """
    if format not in FORMATS:
        raise PolicyError(f"format must be one of {', '.join(FORMATS)}; got {format!r}")
    decoder = _decoder(policy) if isinstance(policy, DecodedPolicy) else {}
    if decoder and format == "csv":
        raise PolicyError(
            "a table over latents says nothing without the decoder that tells them, and a csv has no place for it: "
            "choose json, npz or safetensors"
        )
    contents, target = _WRITERS[format](np.ascontiguousarray(policy.table), decoder), Path(path)
    _archive.put(target, lambda file: file.write(contents))
    return target


def _decoder(policy: DecodedPolicy) -> Arrays:
    arrays = decoded_arrays(policy)
    return {name: array for name, array in arrays.items() if name != "policy"}


def _json(table: np.ndarray, decoder: Arrays) -> bytes:
    words = {"kind": "markov policy", "axes": ["step", "state", "action"], "shape": list(table.shape)}
    told = {name: array.tolist() for name, array in decoder.items()}
    return (json.dumps(words | {"probabilities": table.tolist()} | told) + "\n").encode()


def _csv(table: np.ndarray, _: Arrays) -> bytes:
    text = io.StringIO(newline="")
    rows = csv.writer(text)
    rows.writerow(["step", "state", "action", "probability"])
    places = zip(*(axis.tolist() for axis in np.nonzero(table)), strict=True)
    rows.writerows((*place, float(table[place])) for place in places)
    return text.getvalue().encode()


def _npz(table: np.ndarray, decoder: Arrays) -> bytes:
    file = io.BytesIO()
    arrays: dict[str, Any] = {"probabilities": table, **decoder}
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def _safetensors(table: np.ndarray, decoder: Arrays) -> bytes:
    from safetensors.numpy import save

    return save({"probabilities": table} | decoder, {"kind": "markov policy", "axes": "step state action"})


_WRITERS = {"json": _json, "csv": _csv, "npz": _npz, "safetensors": _safetensors}
