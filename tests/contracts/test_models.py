"""What every model promises: it restricts features to its states and extends plans to all of them."""

import jax.numpy as jnp
import numpy as np
import pytest

import bidual as bd
from bidual.models import (
    AbstractDynamics,
    AbstractModel,
    EnvironmentFacts,
    Known,
    Latents,
    LinearLaws,
    Stationary,
    known,
)
from bidual.planners.control import Among
from bidual.world.mdp._reachable import find_reachable
from tests.classes import around


def _corridor(horizon=3):
    """States 0-1-2-3-4 in a row; right moves on; 5 is an island."""
    P = np.zeros((6, 2, 6))
    for s in range(6):
        P[s, 0, s] = 1.0
        P[s, 1, min(s + 1, 4) if s < 5 else 5] = 1.0
    return bd.TabularMDP(P, 0, horizon)


FEATURES = bd.features.signals(number=np.arange(12.0).reshape(6, 2))


FACTS = EnvironmentFacts(
    FEATURES.pieces((3, 6, 2)), 3, np.ones((6, 2), dtype=bool), 0.1, np.zeros(6, dtype=bool), np.eye(6)[0]
)


def _optimistic():
    return bd.models.Tabular(_corridor()).start(FACTS).confidence_set


def _plausible():
    return bd.models.LowRank(*around(_corridor(), 3)).start(FACTS).confidence_set


def _elliptical():
    return bd.models.LinearMDP(np.eye(12).reshape(6, 2, 12)).start(FACTS).confidence_set


MODELS = {"known": lambda: known(_corridor()), "optimistic": _optimistic, "plausible": _plausible}
MODELS |= {"elliptical": _elliptical}


def test_every_implementation_is_here():
    # `Latents` has no states of its own that features could be arrays over: see units/test_latents.py.
    # Dynamics move vectors: see contracts/test_control.py, and sets of linear ones laws/test_linear_laws.py.
    # `Stationary` has no steps, and policies without them: see contracts/test_endless_planners.py.
    others = {Latents, AbstractDynamics, Among, LinearLaws, Stationary}
    assert {type(make()) for make in MODELS.values()} | others == set(AbstractModel.__subclasses__())


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]()


def test_restrict_and_policy_agree_on_the_states(model):
    psi = np.arange(12.0).reshape(1, 1, 6, 2)
    features = FEATURES.stage(_corridor().successors) if isinstance(model, Known) else FEATURES.pieces((3, 6, 2))
    inside = np.asarray(model.restrict(features).signals)
    R = inside.shape[-1]
    policy = model.policy(jnp.ones((3, R), dtype=jnp.int8))
    np.testing.assert_array_equal(inside[0, 0], psi[0, 0, :R].T)
    assert policy.shape == (3, 6, 2)
    np.testing.assert_array_equal(policy.actions[:, :R], 1)


def test_only_reachable_states_are_kept():
    model = known(_corridor())
    assert isinstance(model, Known)
    np.testing.assert_array_equal(model.kept, [0, 1, 2])


@pytest.mark.parametrize("horizon", [1, 2, 5, 9])
def test_reachable_counts_steps(horizon):
    np.testing.assert_array_equal(np.flatnonzero(find_reachable(_corridor(horizon))), np.arange(min(horizon, 5)))


def test_reachable_follows_the_law_of_each_step():
    """A state left behind must be expanded again when later laws lead elsewhere."""
    stay, jump = np.eye(3)[:, None, :], np.zeros((3, 1, 3))
    jump[:, 0, 2] = 1.0
    mdp = bd.TabularMDP(np.stack([stay, jump, stay]), 0, 3)
    np.testing.assert_array_equal(np.flatnonzero(find_reachable(mdp)), [0, 2])


def test_pruning_changes_no_answer():
    """The same chain with and without thousands of islands."""
    import cvxpy as cp

    small, large = np.zeros((4, 2, 1), dtype=int), np.zeros((3000, 2, 1), dtype=int)
    for lists in (small, large):
        lists[:, 0, 0] = np.arange(len(lists))
        lists[:, 1, 0] = np.arange(len(lists))
        lists[:4, 1, 0] = [1, 2, 3, 3]
    values = []
    for lists in (small, large):
        mdp = bd.TabularMDP((lists, np.ones(lists.shape)), 0, 6)
        reward, moves = np.zeros(len(lists)), np.zeros((len(lists), 2))
        reward[3], moves[:, 1] = 1.0, 1.0
        x = mdp.embedding(reward=reward, moves=moves)
        problem = bd.Problem(cp.Maximize(cp.sum(x.reward)), {"moves": cp.sum(x.moves) <= 1.5})
        values.append(bd.solve(problem, mdp).value)
    assert values[0] == values[1]
    assert values[0] > 0
