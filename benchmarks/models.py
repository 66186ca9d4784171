"""The models of the solve benchmark: random graphs and grids, A = 5 actions, K = 5 successors."""

import numpy as np

ACTIONS, SUCCESSORS, HORIZON = 5, 5, 20


def random_graph(states: int) -> tuple[np.ndarray, np.ndarray]:
    """Every action leads to five random states with random probabilities."""
    rng = np.random.default_rng(0)
    shape = (states, ACTIONS, SUCCESSORS)
    return rng.integers(0, states, shape), rng.dirichlet(np.ones(SUCCESSORS), shape[:2])


def grid(states: int) -> tuple[np.ndarray, np.ndarray]:
    """Stay or move in four directions on a rectangle; with probability 0.2 a random one of the five happens."""
    width = int(np.sqrt(states))
    while states % width:
        width -= 1
    height = states // width
    row, column = np.divmod(np.arange(states), width)
    targets = [
        np.clip(row + down, 0, height - 1) * width + np.clip(column + right, 0, width - 1)
        for down, right in ((0, 0), (-1, 0), (0, 1), (1, 0), (0, -1))
    ]
    next_states = np.repeat(np.stack(targets, axis=1)[:, None, :], ACTIONS, axis=1)
    probabilities = np.full((states, ACTIONS, SUCCESSORS), 0.2 / SUCCESSORS)
    probabilities[:, np.arange(ACTIONS), np.arange(ACTIONS)] += 0.8
    return next_states, probabilities


MODELS = {"random": random_graph, "grid": grid}


def start_law(kind: str, states: int) -> np.ndarray:
    """Everywhere alike, or surely in the first state."""
    return np.full(states, 1 / states) if kind == "uniform" else np.eye(1, states)[0]
