"""Learn to cross the frozen lake by walking on it: nothing is known of the ice but what Gymnasium's API shows.

python examples/frozenlake_learn.py 1000, or: bidual learn examples/frozenlake_learn.py --episodes 1000 --out results
"""

import sys

import cvxpy as cp

import bidual as bd

env, horizon = "FrozenLake-v1", 50
goal = bd.features.observed(lambda t: t.reward, at_end=True)  # t: obs, action, next_obs, reward, terminated, info
holes = bd.features.observed(lambda t: t.terminated and t.reward == 0, at_end=True)
x = bd.features.signals(goal=goal, holes=holes).embedding(horizon)
problem = bd.Problem(cp.Maximize(cp.sum(x.goal)), {"holes": cp.sum(x.holes) <= 0.1})

if __name__ == "__main__":
    learned = bd.learn(problem, env, episodes=int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
    print(learned)

    # The environment has a table of its law that the learner did not see: how good is the policy, and what is best?
    mdp = bd.TabularMDP.from_gymnasium(env, horizon)
    y = mdp.embedding(goal=lambda t: t.reward, holes=lambda t: t.terminated and t.reward == 0)
    best = bd.solve(bd.Problem(cp.Maximize(cp.sum(y.goal)), {"holes": cp.sum(y.holes) <= 0.1}), mdp)
    arrives, drowns = bd.policies.embedding(mdp, y.features.stage(mdp.successors), learned.policy).sum(axis=0)
    print(f"\nin truth the policy reaches the goal with probability {arrives:.3f} and ends in a hole with {drowns:.3f}")
    print(f"the best policy reaches the goal with probability {best.value:.3f}")
