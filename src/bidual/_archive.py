"""One file with a JSON manifest and named arrays: safe to open, and it notices a flipped bit.

A ``.bidual`` file is a zip archive of ``manifest.json`` and ``arrays.safetensors``. Nothing in it is ever executed.
Writing goes to a temporary file first, so that a crash leaves the old file or the new one, never half of one.
"""

import hashlib
import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from bidual._errors import ArchiveError

FORMAT = 2
_MANIFEST, _ARRAYS = "manifest.json", "arrays.safetensors"


def write(path: str | os.PathLike[str], kind: str, manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write `manifest` (JSON values) and `arrays` to `path`, atomically."""
    from safetensors.numpy import save

    blob = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    header = {"format": FORMAT, "kind": kind, **manifest}
    header["sha256"] = digest(header, blob)
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            with zipfile.ZipFile(file, "w") as archive:
                archive.writestr(_MANIFEST, json.dumps(header, indent=1, allow_nan=False))
                archive.writestr(_ARRAYS, blob)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
        _sync_folder(target.parent)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The manifest and the arrays of a file that `write` made."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    target = Path(path)
    if not target.is_file():
        raise ArchiveError(f"{target} is not a file: give the path of a file written by solution.save or --out")
    try:
        with zipfile.ZipFile(target) as archive:
            manifest = json.loads(archive.read(_MANIFEST))
            blob = archive.read(_ARRAYS)
        version, found, written = manifest["format"], manifest["kind"], manifest.pop("sha256")
    # A damaged zip header can ask zipfile for a compression it does not have (NotImplementedError, which is a
    # RuntimeError) or for a password (RuntimeError).
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError, OSError, RuntimeError) as error:
        raise ArchiveError(f"{target} is not a readable bidual file ({error}): save it again") from error
    if not isinstance(version, int):
        raise ArchiveError(f"{target} is not a readable bidual file (format {version!r}): save it again")
    if version != FORMAT:
        raise ArchiveError(
            f"{target} has format {version}, this version of bidual reads format {FORMAT}: "
            + ("upgrade bidual" if version > FORMAT else "save it again with this version")
        )
    if found != kind:
        raise ArchiveError(f"{target} holds a {found}, not a {kind}")
    if digest(manifest, blob) != written:
        raise ArchiveError(f"{target} is damaged: its contents do not match their checksum; save it again")
    try:
        return manifest, load(blob)
    except SafetensorError as error:
        raise ArchiveError(f"{target} is damaged: {error}") from error


def digest(manifest: dict[str, Any], blob: bytes) -> str:
    """The checksum of a file's contents: of the manifest without its checksum, and of the arrays."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode() + blob).hexdigest()


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the system lets a folder be opened."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
