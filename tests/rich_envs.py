"""Environments that show vectors, for tests: what they show is a hidden place, with noise."""

import gymnasium
import numpy as np

from bidual.world.policies import CategoricalEmission, DecodedPolicy, Decoder, GaussianEmission, Mixture

SIZE = 6  # of an observation
SHOWN = np.eye(3, SIZE) * 4 + np.eye(3, SIZE, k=3) * 4


class Corridor(gymnasium.Env):
    """Three places in a row; action 1 goes on, which fails now and then, and action 0 stays. The last one ends it.

    With symbols, every entry is 0 or 1, and 1 mostly where the place has its two marks.
    """

    def __init__(self, symbols=False):
        self.symbols = symbols
        space = gymnasium.spaces
        self.observation_space = space.MultiBinary(SIZE) if symbols else space.Box(-np.inf, np.inf, (SIZE,))
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = int(self.np_random.random() < 0.3)
        return self._shown(), {}

    def step(self, action):
        moved = action == 1 and self.np_random.random() < 0.8
        done = moved and self.place == 2
        self.place = min(self.place + moved, 2)
        return self._shown(), float(done) + 0.1 * self.place, done, False, {}

    def _shown(self):
        if self.symbols:
            return (self.np_random.random(SIZE) < np.where(SHOWN[self.place] > 0, 0.98, 0.02)).astype(np.int8)
        return (SHOWN[self.place] + 0.3 * self.np_random.standard_normal(SIZE)).astype(np.float32)


def decoder(environment):
    """The one that knows what the corridor shows."""
    if environment.symbols is None:
        emission = GaussianEmission(SHOWN.copy(), 0.09, np.full(3, 1 / 3))
    else:
        ones = np.where(SHOWN > 0, 0.98, 0.02)
        emission = CategoricalEmission(np.stack([1 - ones, ones], axis=-1), np.full(3, 1 / 3))
    return Decoder((emission,) * (environment.horizon + 1), SIZE)


class Decoding:
    """A rich environment that runs tables over latents: what is promised of every environment can be asked of it."""

    def __init__(self, environment):
        self._environment, self._decoder = environment, decoder(environment)

    def __getattr__(self, name):
        return getattr(self._environment, name)

    def collect(self, policy, draw):
        return self._environment.collect(self._decoded(policy), draw)

    def collect_many(self, policy, draws):
        return self._environment.collect_many(self._decoded(policy), draws)

    def _decoded(self, policy):
        if isinstance(policy, Mixture):
            return Mixture(policy.weights, tuple(self._decoded(member) for member in policy.members))
        return DecodedPolicy(policy, self._decoder)
