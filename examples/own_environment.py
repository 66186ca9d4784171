"""An environment of one's own: a machine that wears out shall work, and stand broken half an hour of a shift at most.

python examples/own_environment.py 500, or: bidual learn examples/own_environment.py --episodes 500 --out results
"""

import sys
from typing import Any

import cvxpy as cp
import gymnasium

import bidual as bd

RUN, OVERHAUL = 0, 1
BROKEN, SHIFT = 4, 20  # states of wear are 0 to 4, the last one broken; hours of a shift


class Machine(gymnasium.Env[Any, Any]):
    """Every hour run or overhaul; the more wear there is the faster it grows, and a broken machine stands still."""

    observation_space = gymnasium.spaces.Discrete(BROKEN + 1)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """A new shift begins with a machine as good as new."""
        super().reset(seed=seed)
        self.wear = 0
        return self.wear, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """One hour: a piece of work, or an overhaul."""
        works = action == RUN and self.wear < BROKEN
        if works and self.np_random.random() < 0.2 + 0.1 * self.wear:
            self.wear += 1
        self.wear = 0 if action == OVERHAUL else self.wear
        return self.wear, float(works), False, False, {}


env = Machine()
work = bd.features.observed(lambda t: t.reward)  # t: obs, action, next_obs, reward, terminated, info
broken = bd.features.observed(lambda t: t.next_obs == BROKEN)
x = bd.features.signals(work=work, broken=broken).embedding(SHIFT)
problem = bd.Problem(cp.Maximize(cp.sum(x.work)), {"broken": cp.sum(x.broken) <= 0.5})

if __name__ == "__main__":
    print(bd.learn(problem, env, episodes=int(sys.argv[1]) if len(sys.argv) > 1 else 500))
