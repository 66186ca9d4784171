"""Arrays of signals over an environment's own states: the one that is added for ended episodes is padded here."""

import cvxpy as cp
import gymnasium
import numpy as np
import pytest

import bidual as bd
from bidual._base.keys import Draw, Purpose
from bidual.learning.setup import set_up
from bidual.world.policies import DeterministicPolicy


class Walk(gymnasium.Env):
    """Action 1 goes right; in cell 3 the episode ends."""

    observation_space, action_space = gymnasium.spaces.Discrete(4, start=1), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell = 0
        return 1, {}

    def step(self, action):
        self.cell += action
        return self.cell + 1, 0.0, self.cell == 3, False, {}


H, S, A = 5, 4, 2
ARRIVAL = np.zeros((S, A, S))
ARRIVAL[2, 1, 3] = 7.0  # paid by the step that ends the episode
ARRIVAL[0, 1, 1] = -1.0
FORMS = {
    "states": np.arange(S) / 4,
    "actions": np.arange(S * A).reshape(S, A) / 8,
    "steps": np.arange(H * S * A).reshape(H, S, A) / 40,
}


def _pieces(**named):
    x = bd.features.signals(**named).embedding(H)
    problem = bd.Problem(cp.Maximize(cp.sum(x)))
    return set_up(problem, Walk(), None, None, delta=0.1, seed=0)


@pytest.mark.parametrize("name", FORMS)
def test_arrays_are_padded_by_0_for_the_added_state(name):
    stage = _pieces(one=FORMS[name]).knowledge.pieces.stage
    assert stage.shape[2:] == (S + 1, A)
    np.testing.assert_array_equal(stage[:, 0, S], 0.0)
    expected = FORMS[name][:, None] if name == "states" else FORMS[name]
    np.testing.assert_array_equal(stage[:, 0, :S], np.broadcast_to(expected, (len(stage), S, A)))


@pytest.mark.parametrize("name", FORMS)
def test_arrays_that_hold_the_added_state_mean_what_they_meant(name):
    given = np.pad(FORMS[name], [(0, int(n == S)) for n in FORMS[name].shape])
    stage = [_pieces(one=array).knowledge.pieces.stage for array in (given, FORMS[name])]
    np.testing.assert_array_equal(*stage)


@pytest.mark.parametrize("mark", [lambda array: array, bd.features.on_arrival])
def test_signals_on_arrival_see_where_the_last_step_arrived(mark):
    """The added state cannot tell: the array is read with the environment's own states as steps are made."""
    setup = _pieces(prize=mark(ARRIVAL))
    right = DeterministicPolicy(np.ones((H, S + 1), dtype=int), A)
    episode = setup.env.collect(right, Draw(0, Purpose.LEARN, 1))
    np.testing.assert_array_equal(episode.observed[:, 0], [-1, 0, 7, 0, 0])
    ((position, one),) = setup.knowledge.pieces.observed
    assert (position, one.low, one.high) == (0, -1.0, 7.0)
    assert setup.knowledge.assumptions(setup.program, ["prize"], 0.1, 0.05)


def test_it_learns_with_arrays_alone():
    x = bd.features.signals(prize=ARRIVAL, moves=np.array([[0.0, 1.0]] * S)).embedding(H)
    problem = bd.Problem(cp.Maximize(cp.sum(x.prize)), {"moves": cp.sum(x.moves) <= 3})
    learned = bd.learn(problem, Walk(), episodes=60, evaluation=20, seed=0)
    assert learned.value == 6.0
    assert learned.upper >= 6.0 >= learned.lower
    assert any("'prize' is a function of the transition" in one for one in learned.assumptions)


def test_other_shapes_are_named_with_the_environments_own_sizes():
    for array in (np.zeros(3), np.zeros((S, 3)), bd.features.on_arrival(np.zeros((S, A)))):
        with pytest.raises(bd.ModelError, match=r"signal 'one' has shape .* S = 4 states .* \(S, A\) = \(4, 2\)"):
            _pieces(one=array)


def test_a_cube_could_mean_two_things():
    features = bd.features.signals(one=np.zeros((3, 3, 3)))
    with pytest.raises(bd.ModelError, match="could mean"):
        features.with_end((3, 4, 3))


def test_known_models_of_environments_take_the_same_arrays():
    mdp = bd.TabularMDP.from_gymnasium("FrozenLake-v1", 30)
    goal, right = np.zeros((16, 4, 16)), np.zeros((16, 4))
    goal[:, :, 15], right[:, 2] = 1.0, 1.0
    x = mdp.embedding(goal=goal, right=right)
    same = mdp.embedding(goal=lambda t: t.reward, right=lambda t: t.action == 2)
    values = []
    for one in (x, same):
        problem = bd.Problem(cp.Maximize(cp.sum(one.goal)), {"right": cp.sum(one.right) <= 8})
        values.append(bd.solve(problem, mdp).value)
    assert values[0] == pytest.approx(values[1], abs=1e-6)
    assert values[0] > 0.1
