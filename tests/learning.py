"""Models to be learned, episodes of them from a plain simulation, and what is known after these."""

from dataclasses import dataclass

import numpy as np

import bidual as bd
from bidual._base.types import Episode, select_step
from bidual.models import EnvironmentFacts, Tabular
from bidual.world.policies import embedding

SHAPE = (3, 4, 2)  # (H, S, A): one, because each compiles a planner of its own
WIDEST = 3


@dataclass(frozen=True)
class World:
    """The truth: a model, its successor lists as Python lists, and what every transition shows."""

    mdp: bd.TabularMDP
    lists: list[list[list[int]]]
    shown: np.ndarray  # (S, A, S), in [-1, 2]

    @property
    def padded(self):
        """The lists as an array, padded with -1."""
        return np.array([[row + [-1] * (WIDEST - len(row)) for row in rows] for rows in self.lists])


def random_world(seed, *, masked=False):
    """A random model with lists of one to three successors; every start state is possible."""
    H, S, A = SHAPE
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, WIDEST + 1, (S, A))
    sizes[0, 0] = WIDEST
    lists = [[sorted(rng.choice(S, sizes[s, a], replace=False).tolist()) for a in range(A)] for s in range(S)]
    dense = np.zeros((S, A, S))
    for s, a in np.ndindex(S, A):
        dense[s, a, lists[s][a]] = rng.dirichlet(np.ones(sizes[s, a]))
    actions = None
    if masked:
        actions = rng.random((S, A)) < 0.7
        actions[np.arange(S), rng.integers(0, A, S)] = True
        actions[3] = [False, True]
    mdp = bd.TabularMDP(dense, rng.dirichlet(np.ones(S)), H, actions=actions)
    return World(mdp, lists, rng.uniform(-1, 2, (S, A, S)))


def random_episodes(mdp, count, seed, shown=()):
    """Episodes of the policy that takes any allowed action, with as many observed signals as there are tables."""
    rng = np.random.default_rng(seed)
    laws, episodes = mdp.successors, []
    for _ in range(count):
        states, actions = [int(rng.choice(mdp.num_states, p=mdp.initial))], []
        for h in range(mdp.horizon):
            actions.append(int(rng.choice(np.flatnonzero(mdp.actions[states[-1]]))))
            row = select_step(laws.probabilities, h)[states[-1], actions[-1]]
            k = rng.choice(row.size, p=row)
            states.append(int(select_step(laws.states, h)[states[-1], actions[-1], k]))
        episodes.append(episode(states, actions, shown))
    return episodes


def episode(states, actions, shown=()):
    """One episode from lists of states and actions."""
    states, actions = np.array(states, dtype=np.int32), np.array(actions, dtype=np.int32)
    seen = [table[states[:-1], actions, states[1:]] for table in shown]
    return Episode(states, actions, np.stack(seen, axis=1) if seen else np.zeros((len(actions), 0)))


def beginning(features, shape, model=None, *, delta=0.1, allowed=None, absorbing=(), initial=None):
    """What is known before the first episode; `absorbing` and `initial` are what the environment tells."""
    H, S, A = shape
    allowed = np.ones((S, A), dtype=bool) if allowed is None else allowed
    ends = np.isin(np.arange(S), absorbing)
    return (model or Tabular()).start(EnvironmentFacts(features.pieces(shape), H, allowed, delta, ends, initial))


def after(knowledge, episodes):
    """What is known after some episodes."""
    for one in episodes:
        knowledge = knowledge.update(one)
    return knowledge


def true_optimum(problem, mdp):
    """The optimum in the true model, minimising, from below and above; equal to 1e-7 or so."""
    solution = bd.solve(problem, mdp, gap=1e-7)
    assert solution.status is bd.Status.OPTIMAL
    ends = (solution.lower, solution.upper)
    return ends if solution.sense == "minimize" else (-ends[1], -ends[0])


def exact_values(problem, mdp, policy):
    """Objective and constraint rows (minimising form) of a policy, or of a mixture, in the true model."""
    psi, program = problem.embedding.features.stage(mdp.successors), problem.program()
    members, weights = getattr(policy, "members", (policy,)), getattr(policy, "weights", np.ones(1))
    mean = np.tensordot(weights, np.stack([embedding(mdp, psi, member) for member in members]), axes=1)
    return program.at(mean)


def false_claims(learned, problem, mdp, optimum):
    """Everything that a result says and that is not true in the true model, in words.

    `optimum` is an upper bound on the true one (minimising), None where the problem is infeasible.
    """
    sense, wrong = -1.0 if problem.maximises else 1.0, []
    bounds = {"bound": learned.upper if sense < 0 else learned.lower}
    bounds |= {f"bound after {look.episodes}": look.bound for look in learned.history}
    for name, bound in bounds.items():
        if bound is not None and optimum is not None and sense * bound > optimum + 1e-9:
            wrong.append(f"{name}: {bound}")
    for output in learned.outputs:
        f, g = exact_values(problem, mdp, output.policy)
        if not _within(output.objective, sense * f):
            wrong.append(f"{output.name}: {sense * f} is not {output.objective}")
        start = 0
        for line in problem.lines():
            rows = g[start : start + line.bounds.size]
            start += line.bounds.size
            # Of a vector the worst entry by the mean is printed: one of them must fit.
            if not any(_within(output.constraints[line.name], v) for v in line.bounds + line.sign * rows):
                wrong.append(f"{output.name}: {line.name} is not {output.constraints[line.name]}")
    _, g = exact_values(problem, mdp, learned.policy)
    over, start = problem.program().violations(g), 0
    for constraint in learned.constraints:
        if over[start : start + constraint.values.size].max() > constraint.violation_upper + 1e-9:
            wrong.append(f"{constraint.name} is violated by more than {constraint.violation_upper}")
        start += constraint.values.size
    return wrong


def _within(interval, value):
    low = -np.inf if interval.lower is None else interval.lower
    high = np.inf if interval.upper is None else interval.upper
    return low - 1e-9 <= value <= high + 1e-9
