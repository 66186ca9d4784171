"""One file with a JSON manifest and named arrays: safe to open, and protected by a checksum.

A ``.bidual`` file is a zip archive of ``manifest.json`` and ``arrays.safetensors``. Nothing in it is ever executed.
Writing goes to a temporary file first, so that a crash leaves the old file or the new one, never half of one.
"""

import hashlib
import json
import os
import secrets
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from bidual._base.errors import ArchiveError
from bidual._base.limits import check_arrays, check_json, check_zip, read_json

FORMAT = 2
# Errors from damaged files: RuntimeError, because a damaged zip header can ask for a password, and
# JSON can be too deep (RecursionError).
MALFORMED = (zipfile.BadZipFile, EOFError, KeyError, TypeError, ValueError, AttributeError, OSError, RuntimeError)
_MANIFEST, _ARRAYS = "manifest.json", "arrays.safetensors"


class OtherFormat(ArchiveError):
    """A file of another version of bidual, which is not a damaged one."""


def write(path: str | os.PathLike[str], kind: str, manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> str:
    """Write `manifest` (JSON values) and `arrays` to `path`, atomically; return the checksum of the contents.

    The same contents give the same bytes.
    """
    from safetensors.numpy import save

    # Not ascontiguousarray, which would make a vector of a single number.
    blob = save({name: np.asarray(array, order="C") for name, array in arrays.items()})
    header = {"format": FORMAT, "kind": kind, **manifest}
    header["sha256"] = digest(header, blob)
    text = json.dumps(header, indent=1, allow_nan=False).encode()
    check_json(text)  # nothing is written that could not be read again
    check_arrays(blob)
    put(path, lambda file: _zip(file, text, blob))
    return header["sha256"]


def put(path: str | os.PathLike[str], fill: Callable[[IO[bytes]], object]) -> None:
    """Write a file atomically: readers find the old one or the new one, whole, also after a loss of power."""
    target = Path(path)
    make(target.parent)
    temporary = target.parent / f".{target.name}.{secrets.token_hex(8)}"
    try:
        with temporary.open("xb") as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
        _sync_folder(target.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def put_bytes(path: str | os.PathLike[str], contents: bytes) -> None:
    """Write bytes to a file, likewise."""
    put(path, lambda file: file.write(contents))


def make(folder: Path) -> None:
    """Make a folder and those above it; each of them is on the disk once the one that holds it is."""
    if not folder.is_dir():
        make(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync_folder(folder.parent)


def _zip(file: IO[bytes], manifest: bytes, blob: bytes) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        for name, contents in ((_MANIFEST, manifest), (_ARRAYS, blob)):
            entry = zipfile.ZipInfo(name)  # dated 1980, not now
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, contents)


def read(
    path: str | os.PathLike[str], kind: str, *, sha256: str | None = None
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read the manifest and the arrays of a file of `write`: the one with that checksum, if one is given."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    target = Path(path)
    try:
        if not target.is_file():
            raise ArchiveError(f"{target} is not a file: give the path of a file written by solution.save or --out")
        with _open_zip(target) as archive:
            manifest, blob = read_json(_read_entry(archive, _MANIFEST)), _read_entry(archive, _ARRAYS)
        version, found, written = manifest["format"], manifest["kind"], manifest.pop("sha256")
        actual = digest(manifest, blob)
    except MALFORMED as error:
        raise ArchiveError(f"{target} is not a readable bidual file ({error}): save it again") from error
    if not isinstance(version, int):
        raise ArchiveError(f"{target} is not a readable bidual file (format {version!r}): save it again")
    if version != FORMAT:
        older = "use the version of bidual that wrote it, or save it again with this one"
        raise OtherFormat(
            f"{target} has format {version}, this version of bidual reads format {FORMAT}: "
            + ("upgrade bidual" if version > FORMAT else older)
        )
    if found != kind:
        raise ArchiveError(f"{target} holds a {found}, not a {kind}")
    if actual != written or (sha256 is not None and written != sha256):
        raise ArchiveError(f"{target} is damaged: its contents do not match their checksum; save it again")
    try:
        check_arrays(blob)
        return manifest, load(blob)
    except (SafetensorError, KeyError, ValueError) as error:  # the last two: of types and sizes that NumPy has not
        raise ArchiveError(f"{target} is damaged: {error}") from error


def read_kind(path: str | os.PathLike[str]) -> str | None:
    """Read the kind that a file claims to be; None where it cannot be read, which `read` reports."""
    try:
        with _open_zip(path) as archive:
            return read_json(_read_entry(archive, _MANIFEST))["kind"]
    except MALFORMED:
        return None


@contextmanager
def _open_zip(path: str | os.PathLike[str]) -> Iterator[zipfile.ZipFile]:
    """Open a file whose list of parts is short: a long one would be read whole."""
    with Path(path).open("rb") as file:
        check_zip(file)
        with zipfile.ZipFile(file) as archive:
            yield archive


def _read_entry(archive: zipfile.ZipFile, name: str) -> bytes:
    """Read an uncompressed part of the file: a compressed one is not ours, and could be huge in memory."""
    entry = archive.getinfo(name)
    if entry.compress_type != zipfile.ZIP_STORED:
        raise zipfile.BadZipFile(f"{name} is compressed")
    return archive.read(entry)


def digest(manifest: dict[str, Any], blob: bytes) -> str:
    """Compute the checksum of a file's contents: of the manifest without its checksum, and of the arrays."""
    total = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode())
    total.update(blob)
    return total.hexdigest()


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the system lets a folder be opened."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
