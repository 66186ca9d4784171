"""A warehouse of one's own: learned, interrupted, resumed, loaded and run. Its observations are a dictionary.

python examples/warehouse.py 400 FOLDER
"""

import sys
from typing import Any

import cvxpy as cp
import gymnasium

import bidual as bd

DAYS, SHELF = 10, 4


class Warehouse(gymnasium.Env[Any, Any]):
    """Every evening order 0 to 2 boxes; a box costs room, and customers who find none go elsewhere."""

    observation_space = gymnasium.spaces.Dict(
        {"boxes": gymnasium.spaces.Discrete(SHELF + 1), "weekend": gymnasium.spaces.MultiBinary(1)}
    )
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a season with two boxes."""
        super().reset(seed=seed)
        self.boxes, self.day = 2, 0
        return self.observe(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Sell for a day, then receive what was ordered."""
        wanted = self.np_random.binomial(3, 0.7 if self.day % 7 >= 5 else 0.4)
        sold = min(self.boxes, wanted)
        self.boxes, self.day = min(self.boxes - sold + int(action), SHELF), self.day + 1
        return self.observe(), float(sold), False, False, {"missed": wanted - sold}

    def observe(self) -> dict[str, Any]:
        """Return the boxes on the shelf, and whether tomorrow is busy."""
        return {"boxes": self.boxes, "weekend": [int(self.day % 7 >= 5)]}


env = Warehouse()
held = bd.features.observed(lambda t: t.next_obs["boxes"], 0.0, SHELF)
missed = bd.features.observed(lambda t: t.info["missed"], 0.0, 3.0, noisy=True)
x = bd.features.signals(held=held, missed=missed).embedding(DAYS)
problem = bd.Problem(cp.Minimize(cp.sum(x.held)), {"missed": cp.sum(x.missed) <= 2})


class PullThePlug(bd.callbacks.AbstractCallback):
    """An interrupt in the middle of learning, as by Ctrl-C."""

    def on_episode(self, episode: bd.callbacks.EpisodeReport) -> None:
        """Interrupt after half of the episodes."""
        if episode.number == episodes // 2:
            raise KeyboardInterrupt


if __name__ == "__main__":
    episodes, folder = int(sys.argv[1]), sys.argv[2]
    try:
        bd.learn(problem, env, episodes=episodes, run=folder, callback=PullThePlug())
    except KeyboardInterrupt:
        print("interrupted; going on from", folder)
    print(bd.learn(problem, env, episodes=episodes, run=bd.runs.Folder(folder, resume=True)))

    actor = bd.load(f"{folder}/solution.bidual").reset(rng=0)
    observation, _ = env.reset(seed=1)
    for _ in range(DAYS):
        observation, *_ = env.step(actor.act(observation))
    print(f"after ten days of the loaded policy {observation['boxes']} boxes are left")
