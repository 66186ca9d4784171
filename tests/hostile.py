"""Hostile files of ten megabytes, and the memory that it takes to refuse them: a program for another process."""

import json
import os
import resource
import shutil
import sqlite3
import struct
import sys
import zipfile
from argparse import Namespace
from pathlib import Path

from bidual._base.archive import digest
from bidual._base.errors import ArchiveError
from bidual.certificate import verify
from bidual.certificate.verify_convex import read_convex
from bidual.certificate.verify_learned import read_learned
from bidual.cli import check

SIZE = 10 << 20
GOLDEN = Path(__file__).parent / "golden" / "files"


def _zip(path, manifest, blob, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("manifest.json", manifest)
        file.writestr("arrays.safetensors", blob)


def _filled(piece, start="[", end="]"):
    return start + ",".join([piece] * (SIZE // (len(piece.encode()) + 1))) + end


def _manifest(value):
    return '{"format": 2, "kind": "learned", "sha256": "", "x": ' + value + "}"


def _many_arrays():
    one = '"%x":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
    header = "{" + ",".join(one % i for i in range(SIZE // len(one % (1 << 16)))) + "}"
    return struct.pack("<Q", len(header)) + header.encode()


def _forged(path, blob):
    """Write a file whose checksum is right."""
    manifest = {"format": 2, "kind": "learned"}
    _zip(path, json.dumps(manifest | {"sha256": digest(manifest, blob)}), blob)


def _aliases():
    """All arrays are the same numbers: as many as there are bytes, for every sixty bytes of the list."""
    one, size = '"%x":{"dtype":"F64","shape":[%d],"data_offsets":[0,%d]}', SIZE // 2 // 8
    header = "{" + ",".join(one % (i, size, 8 * size) for i in range(SIZE // 2 // 70)) + "}"
    return struct.pack("<Q", len(header)) + header.encode() + bytes(8 * size)


def _axis():
    """No numbers at all, in as many rows as one likes."""
    header = '{"policy":{"dtype":"F64","shape":[1000000000000,0],"data_offsets":[0,0]}}'
    return struct.pack("<Q", len(header)) + header.encode()


def _many_entries(path):
    with zipfile.ZipFile(path, "w") as file:
        for number in range(SIZE // 110):
            file.writestr(f"{number:x}", b"")


ARCHIVES = {
    "compressed manifest": lambda path: _zip(path, _manifest('"' + " " * (15 * SIZE) + '"'), b"", zipfile.ZIP_DEFLATED),
    "compressed arrays": lambda path: _zip(path, _manifest("0"), b"\0" * (15 * SIZE), zipfile.ZIP_DEFLATED),
    "lists": lambda path: _zip(path, _manifest(_filled("[]")), b""),
    "objects": lambda path: _zip(path, _manifest(_filled('{"":0}')), b""),
    "strings": lambda path: _zip(path, _manifest(_filled('"é"')), b""),
    "wide strings": lambda path: _zip(path, _manifest('"\U0001f600' + "x" * SIZE + '"'), b""),
    "depth": lambda path: _zip(path, _manifest("[" * SIZE), b""),
    "arrays": lambda path: _forged(path, _many_arrays()),
    "entries": _many_entries,
    "aliases": lambda path: _forged(path, _aliases()),
    "axis": lambda path: _forged(path, _axis()),
}
MANIFESTS = {
    "lists": lambda: _filled("[]"),
    "objects": lambda: _filled('{"":0}'),
    "long": lambda: '"' + " " * (15 * SIZE) + '"',
}


def _rows(folder, count):
    """A database of many numbers, each of another series: its table would have a column for each."""
    base = sqlite3.connect(folder / "bidual.sqlite")
    series = ((number + 100, "paper", f"{number:x}") for number in range(count))
    base.executemany("INSERT INTO series VALUES (?, ?, ?)", series)
    base.executemany("INSERT INTO metrics VALUES (?, ?, 1)", ((number + 100, number) for number in range(count)))
    base.commit()


def _text(folder):
    base = sqlite3.connect(folder / "bidual.sqlite")
    base.execute("UPDATE runs SET manifest = ?", (_filled("[]"),))
    base.commit()


def _view(folder):
    """A view in the place of a table computes whatever it likes."""
    base = sqlite3.connect(folder / "bidual.sqlite")
    base.execute("DROP TABLE runs")
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 3000000)"
    base.execute(
        f"CREATE VIEW runs AS {numbers} SELECT 'a' || i name, 0.0 created, 0.0 updated, 'x' status, 0 episodes, "
        "'{}' manifest, NULL result FROM n"
    )
    base.commit()


DATABASES = {"columns": lambda folder: _rows(folder, 8_000), "text": _text, "view": _view}


def _resident(key):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key)) / 1024


def measure(call):
    """Return the error of a call, and the megabytes that it took beyond those at its start."""
    Path("/proc/self/clear_refs").write_text("5")
    before = _resident("VmRSS")
    try:
        call()
        outcome = "nothing"
    except Exception as error:
        outcome = type(error).__name__
    return outcome, _resident("VmHWM") - before


def _verify_alone(path):
    """Run the verifiers as they run without the guards of this package."""
    if verify.main([str(path)], lambda line: None, convex=read_convex, learned=read_learned) == 5:
        raise ArchiveError


FEW = {"compressed manifest", "lists", "aliases", "view"}


def measure_all(folder, which):
    """Print, by name, the error and the megabytes of every hostile file, or of a few."""
    import bidual as bd

    bd.check(GOLDEN / "corrective.bidual")  # imports everything
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    found = {}
    for name, write in choose(ARCHIVES, FEW, which):
        path = folder / "hostile.bidual"
        write(path)
        assert path.stat().st_size < 1.1 * SIZE, (name, path.stat().st_size)
        found[f"check {name}"] = measure(lambda path=path: bd.check(path))
        found[f"load {name}"] = measure(lambda path=path: bd.load(path))
        found[f"alone {name}"] = measure(lambda path=path: _verify_alone(path))
        found[f"exact {name}"] = measure(lambda path=path: check.run(Namespace(exact=True, solution=path, target=None)))
    for name, text in choose(MANIFESTS, FEW, which):
        (folder / "run").mkdir(exist_ok=True)
        (folder / "run" / "run.json").write_text(text())
        found[f"run {name}"] = measure(lambda: bd.runs.read(folder / "run"))
    for name, change in choose(DATABASES, FEW, which):
        copy = folder / name
        shutil.copytree(GOLDEN / "runs", copy)
        change(copy)
        found[f"list {name}"] = measure(lambda copy=copy: bd.runs.listed(copy))
        found[f"table {name}"] = measure(lambda copy=copy: bd.runs.read(copy))
    print(json.dumps(found))


def choose(files, few, which):
    """Return the files to try, by name: all of them or those named in `few`."""
    return [(name, make) for name, make in files.items() if which == "all" or name in few]


if __name__ == "__main__":
    os.environ["JAX_PLATFORMS"] = "cpu"
    measure_all(Path(sys.argv[1]), sys.argv[2])
