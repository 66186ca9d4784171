"""Saved files of either kind: solutions of known models, and results of learning."""

import json
import os
import zipfile
from pathlib import Path

from bidual import _archive
from bidual._errors import ArchiveError, CertificateError
from bidual.control import Given, read_controls
from bidual.features import AbstractModelFeatures, Computed
from bidual.policies import CONTROLS, DECODED, ControlPolicy, DecodedPolicy, MarkovPolicy, Mixture, read_decoded
from bidual.saved import _controlled, _learned, _saved
from bidual.saved._check import Check
from bidual.saved._policies import read_policy

NAME = "solution.bidual"  # in a folder of results


def load(
    path: str | os.PathLike[str],
    *,
    features: Computed | None = None,
    model_features: AbstractModelFeatures | None = None,
) -> MarkovPolicy | DecodedPolicy | ControlPolicy | Mixture:
    """The policy of a saved solution or result of learning, ready to act; of a folder, the one in it.

    A policy over latents, which was saved alone, acts on raw observations, and so does one of controls.

    Args:
        path: a file, or a folder of results.
        features: the signals that a controller plans with as it goes: they are functions, which no file stores, and
            must be given again with the same names, bounds and sizes. Nothing else needs them.
        model_features: likewise where its model is over `bd.features.mapped(function, d)`.
    """
    file, kind = _found(path), _said(_found(path))
    if kind == DECODED:
        return read_decoded(file)
    if kind == CONTROLS:
        return read_controls(file, Given(features, model_features))
    _, arrays = _archive.read(file, _kind(file))
    try:
        return read_policy(arrays)
    except ValueError as error:
        raise ArchiveError(f"{file} holds no policy (a table of probabilities): save the solution again") from error


def check(path: str | os.PathLike[str]) -> Check:
    """Derive the certificate in a saved file again; raise `CertificateError` where a claim does not hold.

    Of a solution of a known model nothing is taken for granted; of a result of learning, that the counts and samples in
    the file are what was seen. Given a folder, it checks the file in it.
    """
    file, kind = _found(path), _said(_found(path))
    if kind == DECODED:
        raise CertificateError(f"{file} holds a policy over latents: a heuristic claims nothing that could be checked")
    if kind == CONTROLS:
        return _controlled.check_controlled(file)
    return _learned.check_learned(file) if _kind(file) == _learned.KIND else _saved.check_solution(file)


def _found(path: str | os.PathLike[str]) -> Path:
    return Path(path) / NAME if Path(path).is_dir() else Path(path)


def _kind(path: Path) -> str:
    """Which of the two kinds with a certificate a file is."""
    return _learned.KIND if _said(path) == _learned.KIND else _saved.KIND


def _said(path: Path) -> str | None:
    """What a file says that it is."""
    try:
        with zipfile.ZipFile(path) as archive:
            return json.loads(archive.read("manifest.json"))["kind"]
    except Exception:  # whatever is wrong with the file, `_archive.read` will say it
        return None
