"""Imitation of twenty trajectories, but around a region that the expert crosses and that is forbidden here.

python examples/imitate.py, or: bidual solve examples/imitate.py --out results
"""

import numpy as np

import bidual as bd

HORIZON = 14
grid = bd.Grid(["S....", ".xx#.", ".xx..", "....G"], marks={"x": "wet"})
moves = grid.successors(slip=0.1, absorbing="G")
mdp = bd.TabularMDP(moves, grid.find("S"), HORIZON, states=grid.states, actions=grid.actions)

# The expert walks straight across the wet cells: right and down at random, until the goal.
rng, (up, right, down, left) = np.random.default_rng(0), range(4)
trajectories = []
for _ in range(20):
    steps, state = [], grid.find("S")
    while len(steps) < HORIZON and state != grid.find("G"):
        row, column = grid.cell(state) or (0, 0)
        action = down if column == 4 or (row < 3 and rng.random() < 0.5) else right
        steps.append((state, action))
        state = int(grid.neighbours[state, action])
    trajectories.append(steps + [(state, right)] * (HORIZON - len(steps)))

problem = bd.problems.apprenticeship(mdp, trajectories, limits={"wet": (grid.indicator("x"), 0.2)})

if __name__ == "__main__":
    solution = bd.solve(problem, mdp)
    print(solution)
    free = bd.solve(bd.problems.apprenticeship(mdp, trajectories), mdp)
    wet = float(np.sum(free.visits @ grid.indicator("x")))
    print(f"without the limit {wet:.2f} steps would be in the wet, at a distance of {free.value:.3f}")
