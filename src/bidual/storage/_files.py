"""Saved files of either kind: solutions of known models, and results of learning."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from bidual._base import archive
from bidual._base.errors import ArchiveError, CertificateError
from bidual.problem.features import AbstractModelFeatures, Computed
from bidual.storage import _controlled, _learned, _saved
from bidual.storage._check import Check
from bidual.storage._learned import read_named_policy
from bidual.world.policies import CONTROLS, DECODED, ControlPolicy, DecodedPolicy, MarkovPolicy, Mixture, read_decoded

NAME = "solution.bidual"  # in a folder of results


def load(
    path: str | os.PathLike[str],
    *,
    features: Computed | None = None,
    model_features: AbstractModelFeatures | None = None,
    states: Callable[[Any], Any] | None = None,
) -> MarkovPolicy | DecodedPolicy | ControlPolicy | Mixture:
    """Load the policy of a saved solution or result of learning, ready to act; of a folder, the one in it.

    A policy over latents, which was saved alone, acts on raw observations, and so does one of controls.

    Args:
        path: a file, or a folder of results.
        features: the signals of a controller that replans: they are functions, which no file stores, and
            must be given again with the same names, bounds and sizes. Nothing else needs them.
        model_features: likewise where its model is over `bd.features.mapped(function, d)`.
        states: the function from an observation to its state that the policy was learned with, to act on observations.
    """
    file, kind = find_saved(path), archive.read_kind(find_saved(path))
    if states is not None and kind in (DECODED, CONTROLS):
        raise ArchiveError(f"the policy in {file} reads vectors, without a function states=: load it without one")
    if kind == DECODED:
        return read_decoded(file)
    if kind == CONTROLS:
        from bidual.planners.control import Given, read_controls  # here, because `check` needs no planner

        return read_controls(file, Given(features, model_features))
    manifest, arrays = archive.read(file, _read_kind(file))
    try:
        policy = read_named_policy(manifest, arrays)
        policy = replace(policy, stationary=_read_kind(file) == _saved.STATIONARY)
    except ValueError as error:
        raise ArchiveError(f"{file} holds no policy, a table of probabilities ({error}): save it again") from error
    return policy if states is None else _give_function(policy, states, file)


def _give_function(policy: MarkovPolicy, states: Callable[[Any], Any], file: Path) -> MarkovPolicy:
    """Return the policy with the function that its states are values of."""
    if policy.numbering is None or not policy.numbering.functional:
        raise ArchiveError(f"the policy in {file} was learned without a function states=: load it without one")
    if not callable(states):
        raise ArchiveError(f"states must be the function from an observation to a state; got {states!r:.80}")
    return replace(policy, numbering=policy.numbering.with_function(states))


def check(path: str | os.PathLike[str]) -> Check:
    """Derive the certificate in a saved file again; raise `CertificateError` where a claim does not hold.

    For a solution of a known model nothing is assumed; for a result of learning, that the counts and samples in the
    file were observed. Given a folder, it checks the file in it.
    """
    file, kind = find_saved(path), archive.read_kind(find_saved(path))
    if kind == DECODED:
        raise CertificateError(f"{file} holds a policy over latents: a heuristic claims nothing that could be checked")
    if kind == CONTROLS:
        return _controlled.check_controlled(file)
    return _learned.check_learned(file) if _read_kind(file) == _learned.KIND else _saved.check_solution(file)


def find_saved(path: str | os.PathLike[str]) -> Path:
    """Return the saved file: the path itself, or the one in a folder of results."""
    if not os.path.isdir(path):
        return Path(path)
    # Unlike the methods of a path, these take what cannot be looked up for missing: reading it then says why.
    if os.path.exists(Path(path) / "run.json") and not os.path.exists(Path(path) / NAME):
        raise ArchiveError(
            f"{path} holds a run that has not finished, so there is no {NAME} in it: conclude it from its last "
            f"checkpoint, with 'bidual finish {path}' or bd.finish(problem, env, {str(path)!r}, model)"
        )
    return Path(path) / NAME


def _read_kind(path: Path) -> str:
    """Return which of the kinds with a certificate a file is."""
    kind = archive.read_kind(path)
    return kind if kind in (_learned.KIND, _saved.STATIONARY) else _saved.KIND
