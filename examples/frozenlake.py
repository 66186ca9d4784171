"""Cross the frozen lake: reach the goal as often as possible, ending in a hole in at most one episode out of twenty.

bidual solve examples/frozenlake.py --set budget=0.1 --out results
"""

import cvxpy as cp

import bidual as bd

mdp = bd.TabularMDP.from_gymnasium("FrozenLake-v1", horizon=100, map_name="8x8")
x = mdp.embedding(
    goal=lambda t: t.reward,  # of a transition t: state, action, next_state, reward, terminated
    holes=lambda t: t.terminated and t.reward == 0,
)

budget = cp.Parameter(name="budget", value=0.05)
problem = bd.Problem(cp.Maximize(cp.sum(x.goal)), {"holes": cp.sum(x.holes) <= budget})

if __name__ == "__main__":
    print(bd.solve(problem, mdp))
