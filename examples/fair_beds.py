"""Beds shared fairly among three groups of patients: proportional fairness, and an occupancy that leaves room.

python examples/fair_beds.py, or: bidual solve examples/fair_beds.py --out results
"""

import itertools

import numpy as np

import bidual as bd

BEDS, DAYS = 4, 14
GROUPS = ("acute", "surgery", "chronic")
COMES, LEAVES = (0.3, 0.5, 0.6), 0.25  # probabilities in a day: a patient of each group asks; a bed becomes free

# A state: the beds in use, and the group that asks today (3: nobody). Today's patient is admitted or sent on.
asks = [*itertools.product(range(BEDS + 1), range(len(GROUPS) + 1))]
chance = np.append(np.array(COMES) / sum(COMES) * 0.9, 0.1)  # who asks next
P = np.zeros((len(asks), 2, len(asks)))
for s, (used, group) in enumerate(asks):
    for action in (0, 1):
        taken = used + int(action == 1 and group < len(GROUPS) and used < BEDS)
        for left, likely in ((max(taken - 1, 0), LEAVES), (taken, 1 - LEAVES)):
            start = left * (len(GROUPS) + 1)
            P[s, action, start : start + len(GROUPS) + 1] += likely * chance

names = [f"{used} used, {(*GROUPS, 'nobody')[group]} asks" for used, group in asks]
mdp = bd.TabularMDP(P, initial=3, horizon=DAYS, states=names, actions=["send on", "admit"])
admitted = {
    name: np.array([[0.0, float(group == g and used < BEDS)] for used, group in asks]) for g, name in enumerate(GROUPS)
}
full = np.array([float(used == BEDS) for used, _ in asks])
problem = bd.problems.fair(mdp, admitted, limits={"full": (full, 1.0)})

if __name__ == "__main__":
    solution = bd.solve(problem, mdp)
    print(solution)
    print(", ".join(f"{name}: {solution[name]:.2f} admitted" for name in GROUPS))
