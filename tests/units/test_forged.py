"""Forged files: whoever writes one knows the checker, and fits the checksum. None may pass with a false statement."""

import json
import zipfile
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

import bidual as bd
from bidual._base.archive import digest
from bidual._base.status import Status
from bidual.world.policies import MarkovPolicy


def rewrite(path, change):
    """Change manifest and arrays, with a checksum that fits again."""
    with zipfile.ZipFile(path) as archive:
        manifest, arrays = json.loads(archive.read("manifest.json")), load_arrays(archive.read("arrays.safetensors"))
    manifest.pop("sha256")
    arrays = {name: np.array(array) for name, array in arrays.items()}
    change(manifest, arrays)
    blob = save_arrays({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    manifest["sha256"] = digest(manifest, blob)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        archive.writestr("arrays.safetensors", blob)


def free_choice(states=4, horizon=4):
    """A model in which every action leads to the state of its number, and episodes begin in state 0."""
    next_states = np.broadcast_to(np.arange(states)[None, :, None], (states, states, 1))
    return bd.TabularMDP((next_states, np.ones((states, states, 1))), np.eye(states)[0], horizon)


def going_to(places, states=4):
    """The policy of `free_choice` that visits these states after state 0."""
    table = np.full((len(places) + 1, states, states), 0.0)
    table[-1, :, 0] = 1.0
    for h, place in enumerate(places):
        table[h, :, place] = 1.0
    return MarkovPolicy(table)


@pytest.fixture
def forged(tmp_path):
    """A file that claims 4 as the optimum of a problem whose optimum is 3.5, with CVXPY's derivative as its proof.

    Where sum_largest(y, 2.5) is taken at (2, 1, 1, 0), a subgradient is (1, 1, 0.5, 0); CVXPY's is (1, 0.5, 0, 0).
    """
    mdp = free_choice()
    x = mdp.embedding(visits=True, total=True)
    problem = bd.Problem(cp.Minimize(cp.sum_largest(x.visits, 2.5)), {"first": x.visits[0] >= 3})
    solution = bd.solve(problem, mdp)
    assert solution.upper == pytest.approx(3.5, abs=1e-6)
    constraint = replace(solution.constraints[0], price=1.0, value=3.0, violation=0.0)
    evidence = replace(solution.evidence, policy=going_to([0, 0, 1]))
    numbers = dict.fromkeys(("value", "lower", "upper"), 4.0)
    replace(solution, status=Status.OPTIMAL, constraints=(constraint,), evidence=evidence, **numbers).save(
        tmp_path / "forged.bidual"
    )

    def forge(manifest, arrays):
        arrays["gamma"] = np.ones(1)
        arrays["point"] = np.array([2.0, 1.0, 1.0, 0.0, 2.0])[: evidence.program.image.size]

    rewrite(tmp_path / "forged.bidual", forge)
    return tmp_path / "forged.bidual"


def test_derivatives_of_another_library_prove_nothing(forged):
    with pytest.raises(bd.CertificateError, match="derivatives"):
        bd.check(forged)
