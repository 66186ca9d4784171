"""Export of a policy as a table for other programs, which need nothing of bidual."""

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from bidual._base import archive
from bidual._base.errors import PolicyError
from bidual._base.names import read_names
from bidual.world.policies._control import AffineFeedback, ControlPolicy
from bidual.world.policies._decoded import DecodedPolicy, encode_decoded
from bidual.world.policies._frames import list_choices
from bidual.world.policies._markov import DeterministicPolicy, MarkovPolicy
from bidual.world.policies._mixture import Mixture

FORMATS = ("json", "csv", "npz", "safetensors")

Arrays = dict[str, np.ndarray]
_SMALL, _GROWTH = 1_000_000, 10  # entries or characters of any table, and how many times those of its policy beyond


def write_table(
    policy: MarkovPolicy | DeterministicPolicy | DecodedPolicy | ControlPolicy | Mixture,
    path: str | os.PathLike[str],
    format: str,
) -> Path:
    """Write the probability of every action at every step in every state; numbers come back to the last bit.

    json: an object with the shape (H, S, A) and the nested list ``probabilities[h][s][a]``. csv: one row for every
    action that is taken with some probability. npz and safetensors: one array, ``probabilities``. Names of states and
    actions stand in a csv instead of their numbers, and in the other formats beside them, as lists ``states`` and
    ``actions`` (in safetensors as JSON, in its metadata).

    A policy over latents has its decoder beside it: for every step h and latent k a weight and, of normal observations,
    ``means[h, k]`` and ``variances[h]``, of symbols ``laws[h, k]``. The latent of an observation is the most likely
    one of the first ``sizes[h]``. A csv has no place for that.

    Affine laws of control are arrays as well: member i, drawn with probability ``weights[i]`` at the beginning of an
    episode, sets ``controls[i, h] + gains[i, h] @ (s - states[i, h])`` at step h in state s, clipped to ``low[i]`` and
    ``high[i]``; where actions have numbers (``discrete``), it takes that of the largest control.
    """
    if format not in FORMATS:
        raise PolicyError(f"format must be one of {', '.join(FORMATS)}; got {format!r}")
    if isinstance(policy, ControlPolicy | Mixture):
        header, arrays = _encode_laws(policy)
    else:
        header = {"kind": "markov policy", "axes": ["step", "state", "action"], "shape": list(policy.shape)}
        header |= policy.names.to_json()
        arrays = {"probabilities": np.ascontiguousarray(policy.table)}
        arrays |= _encode_decoder(policy) if isinstance(policy, DecodedPolicy) else {}
    if format == "csv" and len(arrays) > 1:
        raise PolicyError(_NO_PLACE["decoder" if "sizes" in arrays else "law"])
    contents, target = _WRITERS[format](header, arrays), Path(path)
    archive.put(target, lambda file: file.write(contents))
    return target


_NO_PLACE = {
    "decoder": "a table over latents says nothing without the decoder that tells them, and a csv has no place for it: "
    "choose json, npz or safetensors",
    "law": "a law of control is several arrays, and a csv has no place for them: choose json, npz or safetensors",
}


def _encode_decoder(policy: DecodedPolicy) -> Arrays:
    arrays = encode_decoded(policy)
    return {name: array for name, array in arrays.items() if name != "policy"}


def _encode_laws(policy: ControlPolicy | Mixture) -> tuple[dict[str, Any], Arrays]:
    """Stack affine laws; other controllers are programs and cannot be exported."""
    members = policy.members if isinstance(policy, Mixture) else (policy,)
    weights = policy.weights if isinstance(policy, Mixture) else np.ones(1)
    controls = [one for one in members if isinstance(one, ControlPolicy)]
    laws = [one.controller for one in controls if isinstance(one.controller, AffineFeedback)]
    if len(laws) < len(members):
        raise PolicyError(
            "only tables and affine laws of control can be written for other programs, and this policy has members "
            "that draw or plan their controls as they go: learn with execution=bd.control.Feedback(), or save it for "
            "bd.load"
        )
    parts = {id(part): part.size for law in laws for part in (law.controls, law.states, law.gains)}
    _check_growth(len(laws) * max(parts.values()), sum(parts.values()), "numbers, as its members share theirs")
    header = {"kind": "affine control", "axes": ["member", "step"], "shape": list(policy.shape)}
    arrays = {name: np.stack([getattr(law, name) for law in laws]) for name in ("controls", "states", "gains")}
    arrays |= {name: np.stack([getattr(one, name) for one in controls]) for name in ("low", "high")}
    return header | {"discrete": controls[0].discrete}, {"weights": weights} | arrays


def _check_growth(size: int, given: int, what: str) -> None:
    """Refuse a table that is many times larger than its policy: a small file of a stranger could fill the memory."""
    if size > max(_SMALL, _GROWTH * given):
        raise PolicyError(f"its table would hold {size} {what}: if the policy is yours, save it for bd.load instead")


def _format_json(header: dict[str, Any], arrays: Arrays) -> bytes:
    lists = {name: array.tolist() for name, array in arrays.items()}
    return (json.dumps(header | lists) + "\n").encode()


def _format_csv(header: dict[str, Any], arrays: Arrays) -> bytes:
    text = io.StringIO(newline="")
    columns = list_choices(arrays["probabilities"], read_names(header.get("states"), header.get("actions")))
    named = [column for column in columns.values() if column.dtype == object]
    size = sum(len(name) for column in named for name in column)
    _check_growth(size, arrays["probabilities"].nbytes, "characters of names, which are long")
    rows = csv.writer(text)
    rows.writerow(columns)
    rows.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
    return text.getvalue().encode()


def _format_npz(header: dict[str, Any], arrays: Arrays) -> bytes:
    file = io.BytesIO()
    switches = {"discrete": np.array(header["discrete"])} if "discrete" in header else {}
    names = {what: _pad_names(header[what]) for what in ("states", "actions") if what in header}
    named: dict[str, Any] = arrays | switches | names
    np.savez_compressed(file, **named)
    return file.getvalue()


def _pad_names(names: list[str]) -> np.ndarray:
    """Return names as an array of texts, each of which takes the place of the longest."""
    sizes = [len(name) for name in names]
    _check_growth(len(names) * max(sizes, default=0), sum(sizes), "characters of names, all as long as the longest")
    return np.array(names)


def _format_safetensors(header: dict[str, Any], arrays: Arrays) -> bytes:
    from safetensors.numpy import save

    switches = {key: json.dumps(header[key]) for key in ("discrete", "states", "actions") if key in header}
    return save(arrays, {"kind": header["kind"], "axes": " ".join(header["axes"])} | switches)


_WRITERS = {"json": _format_json, "csv": _format_csv, "npz": _format_npz, "safetensors": _format_safetensors}
