"""A boat among buoys: a continuous environment whose law is one of a finite class, and its optimum from outside."""

import cvxpy as cp
import gymnasium
import numpy as np
from scipy.special import softmax

import bidual as bd

BUOYS = np.array([[0.0, 0.0], [1.0, 0.2], [0.9, 1.1], [-0.1, 0.9]])
HEADINGS = np.array([[0.6, 0.0], [0.0, 0.6], [-0.4, -0.4]])
CURRENTS = np.array([[0.0, 0.0], [0.3, 0.0], [0.0, 0.3], [-0.3, 0.0]])
SPREADS = (0.05, 0.12, 0.2)
TRUE = 1, 1  # current and spread
H, START = 5, 0.05


def sailing(current):
    """phi: the probability of reaching each buoy, by its distance from where heading and current carry the boat."""

    def phi(x):
        there = x[:, None] + HEADINGS + current
        return softmax(-np.square(there[:, :, None] - BUOYS).sum(axis=-1) / 0.1, axis=-1)

    return phi


class Boat(gymnasium.Env):
    """Positions in the plane; the boat reaches a buoy at random and ends somewhere around it."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, ends=None):
        self.phi, self.ends = sailing(CURRENTS[TRUE[0]]), ends

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.steps = BUOYS[0] + START * self.np_random.standard_normal(2), 0
        return self.x, {}

    def step(self, action):
        buoy = self.np_random.choice(4, p=self.phi(self.x[None])[0, action])
        self.x = BUOYS[buoy] + SPREADS[TRUE[1]] * self.np_random.standard_normal(2)
        self.steps += 1
        return self.x, 0.0, self.steps == self.ends, False, {}


def near(buoy, x):
    """1 at a buoy, and less with the distance from it."""
    return np.exp(-np.square(x - BUOYS[buoy]).sum(axis=-1) / 0.1)


def problem(limit):
    """Arrive at the harbour, or stay there, as often as possible; to be there before a step costs a fee."""
    x = bd.features.signals(
        harbour=bd.features.observed(lambda step: float(near(2, step.next_obs)), 0.0, 1.0),
        fee=bd.features.observed(lambda step: float(near(2, step.obs)), 0.0, 1.0),
    ).embedding(H)
    return bd.Problem(cp.Maximize(cp.sum(x.harbour)), {"fee": cp.sum(x.fee) <= limit})


def model(**settings):
    densities = [bd.models.NormalDensities(BUOYS, spread) for spread in SPREADS]
    return bd.models.LowRankDensities([sailing(current) for current in CURRENTS], densities, **settings)


def optimum(limit, count=2000, seed=0):
    """The value of the best policies: the least of the dual function over multipliers, by plain dynamic programming.

    Values ahead are means over `count` samples around each buoy; for no policy but the best actions are they taken.
    """
    rng = np.random.default_rng(seed)
    around = BUOYS[:, None] + SPREADS[TRUE[1]] * rng.standard_normal((4, count, 2))
    start = BUOYS[0] + START * rng.standard_normal((count, 2))
    phi, harbour = sailing(CURRENTS[TRUE[0]]), near(2, around).mean(axis=1)

    def dual(multiplier):
        ahead = np.zeros(4)
        for step in reversed(range(H)):
            x = around.reshape(-1, 2) if step else start
            V = (phi(x) @ (harbour + ahead)).max(axis=1) - multiplier * near(2, x)
            ahead = V.reshape(4, count).mean(axis=1) if step else V.mean()
        return float(ahead) + multiplier * limit

    return min(dual(multiplier) for multiplier in np.linspace(0.0, 3.0, 61))
