"""Forged files whose checksums are right: every value and every array in the place of which something else stands."""

import copy
import json
import math
import zipfile

import numpy as np
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from bidual._base.archive import digest

# What stands for any value of a manifest: other types, no numbers, and numbers that are too large for what they count.
VALUES = (None, True, 0, -1, 1.5, math.nan, -math.inf, 1e308, 1 << 70, "", "\x1b[2J", [], [[]], {}, {"x": [1]})


def _set(array, value):
    """Change the entry in the middle."""
    changed = np.array(array)
    if changed.size:
        changed.reshape(-1)[changed.size // 2] = value
    return changed


def _shift(array, by):
    return (
        array if array.dtype == bool else _set(array, array.reshape(-1)[array.size // 2] + by) if array.size else array
    )


def _is_float(array):
    return array.dtype.kind == "f"


CHANGES = {
    "half as precise": lambda array: array.astype({"f": np.float16, "i": np.int8}.get(array.dtype.kind, np.float64)),
    "of another kind": lambda array: array.astype(np.int64 if _is_float(array) else np.float64),
    "truth values": lambda array: array.astype(bool),
    "unsigned": lambda array: np.abs(np.nan_to_num(array)).astype(np.uint64),
    "not a number": lambda array: _set(array, math.nan) if _is_float(array) else array,
    "infinite": lambda array: _set(array, -math.inf) if _is_float(array) else array,
    "huge": lambda array: _set(array, 1e300 if _is_float(array) else np.iinfo(np.int32).max),
    "negated": lambda array: -array - 1 if array.dtype != bool else ~array,
    "one more": lambda array: _shift(array, 1),
    "one less": lambda array: _shift(array, -1),
    "all 0": np.zeros_like,
    "empty": lambda array: array[:0] if array.ndim else np.zeros(0, array.dtype),
    "shorter": lambda array: array[:-1] if array.ndim else array,
    "longer": lambda array: np.concatenate([array, array[-1:]]) if array.ndim else array,
    "reversed": lambda array: array[::-1] if array.ndim else array,
    "deeper": lambda array: array[None],
    "flat": lambda array: array.reshape(-1),
    "narrower": lambda array: array[..., :-1] if array.ndim else array,
    "wider": lambda array: np.concatenate([array, array[..., -1:]], axis=-1) if array.ndim else array,
    "a single number": lambda array: array.reshape(-1)[:1].reshape(()) if array.size else array,
}


def read_parts(path):
    """Read manifest and arrays of a file."""
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("manifest.json")), load_arrays(archive.read("arrays.safetensors"))


def write_parts(path, manifest, arrays):
    """Write manifest and arrays to a file, with a checksum that fits, whatever they are."""
    blob = save_arrays({name: np.ascontiguousarray(array).reshape(array.shape) for name, array in arrays.items()})
    if isinstance(manifest, dict):
        manifest = {key: value for key, value in manifest.items() if key != "sha256"}
        manifest["sha256"] = digest(manifest, blob)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        archive.writestr("arrays.safetensors", blob)


def list_places(tree, skip=("format", "kind", "sha256")):
    """List the places of a JSON value, from its root on."""
    found, waiting = [], [()]
    while waiting:
        place = waiting.pop()
        value = look_up(tree, place)
        found += [place] if place else []
        keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
        waiting += [(*place, key) for key in keys if place or key not in skip]
    return sorted(found, key=str)


def look_up(tree, place):
    for key in place:
        tree = tree[key]
    return tree


def forge_values(tree):
    """Yield what was changed of a JSON value, and a function that returns it changed: all values and their losses."""
    for place in list_places(tree):
        value = look_up(tree, place)
        near = [value + 1, -value, value * (1 + 1e-9)] if type(value) in (int, float) else []
        near += [value[:-1], [*value, *value[-1:]], value[::-1]] if isinstance(value, list) else []
        for other in (*VALUES, *near):
            if other != value or type(other) is not type(value):
                yield f"{place} = {other!r:.40}", lambda place=place, other=other: _replace(tree, place, other)
        if isinstance(look_up(tree, place[:-1]), dict):
            yield f"no {place}", lambda place=place: _remove(tree, place)


def forge_arrays(arrays):
    """Yield what was changed of the arrays of a file, and a function that returns them changed."""
    for name, array in sorted(arrays.items()):
        for what, change in CHANGES.items():
            yield f"{name}: {what}", lambda name=name, array=array, change=change: arrays | {name: change(array)}
        yield f"no {name}", lambda name=name: {key: value for key, value in arrays.items() if key != name}
        for other in sorted(arrays):
            if other != name:
                yield f"{name}: that of {other}", lambda name=name, other=other: arrays | {name: arrays[other]}


def forge(manifest, arrays):
    """Yield what was changed of a file, and a function that returns its parts changed."""
    for what, change in forge_values(manifest):
        yield what, lambda change=change: (change(), arrays)
    for what, change in forge_arrays(arrays):
        yield what, lambda change=change: (manifest, change())


def choose(forgeries, seed, count):
    """Choose some of the forgeries, or all of them where no number is given."""
    forgeries = list(forgeries)
    if count is None or count >= len(forgeries):
        return forgeries
    return [forgeries[i] for i in sorted(np.random.default_rng(seed).choice(len(forgeries), count, replace=False))]


def _replace(tree, place, value):
    changed = copy.deepcopy(tree)
    look_up(changed, place[:-1])[place[-1]] = value
    return changed


def _remove(tree, place):
    changed = copy.deepcopy(tree)
    del look_up(changed, place[:-1])[place[-1]]
    return changed
