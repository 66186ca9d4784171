"""A queue with two limits: serve fast only as much as the energy allows, and turn few customers away.

python examples/queue_limits.py, or: bidual solve examples/queue_limits.py --out results
"""

import cvxpy as cp
import numpy as np

import bidual as bd

ROOM, HOURS, ARRIVES = 8, 24, 0.5  # places, horizon, probability of a customer in an hour
SERVED = np.array([0.0, 0.4, 0.8])  # probability that a customer leaves served: rest, slow, fast

P, turned_away = np.zeros((ROOM + 1, 3, ROOM + 1)), np.zeros((ROOM + 1, 3))
for n in range(ROOM + 1):
    served = SERVED if n else 0 * SERVED
    for action, leaves in enumerate(served):
        for change, chance in ((-1, leaves), (0, 1 - leaves)):
            P[n, action, n + change] += chance * (1 - ARRIVES)
            P[n, action, min(n + change + 1, ROOM)] += chance * ARRIVES
        turned_away[n, action] = ARRIVES * (1 - leaves) if n == ROOM else 0

mdp = bd.TabularMDP(P, initial=0, horizon=HOURS, actions=["rest", "slow", "fast"])
x = mdp.embedding(waiting=np.arange(ROOM + 1.0), energy=np.tile([0.0, 1.0, 4.0], (ROOM + 1, 1)), lost=turned_away)
limits = {"energy": cp.sum(x.energy) <= 25, "lost": cp.sum(x.lost) <= 0.01}
problem = bd.Problem(cp.Minimize(cp.sum(x.waiting)), limits)

if __name__ == "__main__":
    print(bd.solve(problem, mdp))
    print(bd.price(problem, mdp, "energy", points=6))
