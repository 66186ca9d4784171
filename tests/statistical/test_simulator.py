"""Episodes have the law of the model: every frequency is compared with its exact probability.

How often something happens in n independent episodes is binomial, so that exact tails can be used. There are at most a
few hundred comparisons in a test, and each is allowed an equal share of the error rate: with fixed seeds, a correct
program fails a test with probability below 1e-6.
"""

import numpy as np
import pytest
from scipy.stats import binom

import bidual as bd
from bidual._base.keys import Draw, Purpose
from bidual._base.types import select_step
from bidual.world.envs import Simulator, gymnasium_environment
from bidual.world.policies import DeterministicPolicy, MarkovPolicy, Mixture
from tests.helpers import random_instance

ERROR_RATE = 1e-6
EPISODES = 4096


def _transitions(mdp, policy):
    """P(s_h = s, a_h = a, s_{h+1} = t) for every h, s, a, t, by hand."""
    if isinstance(policy, Mixture):
        laws = [_transitions(mdp, member) for member in policy.members]
        return np.tensordot(policy.weights, np.array(laws), axes=1)
    H, S, A = policy.shape
    law, state = np.zeros((H, S, A, S)), mdp.initial
    for h in range(H):
        for s, a in np.ndindex(S, A):
            chances = state[s] * policy.table[h, s, a] * select_step(mdp.successors.probabilities, h)[s, a]
            np.add.at(law[h, s, a], select_step(mdp.successors.states, h)[s, a], chances)
        state = law[h].sum(axis=(0, 1))
    return law


def _counts(episodes, shape):
    H, S, A = shape
    counts = np.zeros((H, S, A, S), dtype=int)
    for episode in episodes:
        counts[np.arange(H), episode.states[:-1], episode.actions, episode.states[1:]] += 1
    return counts


def _agree(counts, law, episodes):
    """Whether all counts, and those summed over the next state, are possible at the error rate."""
    seen = np.concatenate([counts.ravel(), counts.sum(axis=-1).ravel()])
    chances = np.clip(np.concatenate([law.ravel(), law.sum(axis=-1).ravel()]), 0.0, 1.0)
    tails = np.minimum(binom.cdf(seen, episodes, chances), binom.sf(seen - 1, episodes, chances))
    return bool(tails.min() >= ERROR_RATE / (2 * seen.size))


def _collect(environment, policy, episodes=EPISODES):
    draws = [Draw(5, Purpose.EVALUATE, number) for number in range(episodes)]
    return _counts(environment.collect_many(policy, draws), environment.shape)


def _policies(shape):
    H, S, A = shape
    rng = np.random.default_rng(1)
    plans = [DeterministicPolicy(rng.integers(0, A, (H, S)).astype(np.int8), A) for _ in range(2)]
    random = MarkovPolicy(rng.dirichlet(np.ones(A), (H, S)))
    return {"plan": plans[0], "mixture": Mixture(np.array([0.45, 0.22, 0.33]), (plans[0], random, plans[1]))}


MODELS = {
    "one law": random_instance(0, (6, 2, 3, 4)).mdp,
    "by step": random_instance(0, (6, 2, 3, 4), per_step=True).mdp,
}


# The mixture's members are of both kinds; that it keeps one of them for an episode is a matter of the contract.
@pytest.mark.parametrize(("model", "kind"), [("one law", "plan"), ("by step", "mixture")])
def test_frequencies_are_those_of_the_model(model, kind):
    mdp = MODELS[model]
    policy = _policies(Simulator(mdp).shape)[kind]
    counts, law = _collect(Simulator(mdp), policy), _transitions(mdp, policy)
    assert not counts[law == 0].any()
    assert _agree(counts, law, EPISODES)


def _off(law, amount=0.05):
    """A law with `amount` moved from its largest entry to its smallest."""
    law = law.copy()
    law[np.argmax(law)] -= amount
    law[np.argmin(law)] += amount
    return law


def test_the_comparison_has_power():
    """It fails for simulators with one row off by 0.05, or the start, and for a policy off by as much."""
    mdp = MODELS["one law"]
    states, probabilities = mdp.successors.states[0], mdp.successors.probabilities[0].copy()
    probabilities[np.argmax(mdp.initial), 0] = _off(probabilities[np.argmax(mdp.initial), 0])
    shape = Simulator(mdp).shape
    policy = DeterministicPolicy(np.zeros(shape[:2], dtype=np.int8), shape[2])
    lazy = MarkovPolicy(np.tile([0.95, 0.05], (*shape[:2], 1)))
    row = bd.TabularMDP((states, probabilities), mdp.initial, mdp.horizon)
    start = bd.TabularMDP((states, mdp.successors.probabilities[0]), _off(mdp.initial), mdp.horizon)
    counts = _collect(Simulator(mdp), policy)
    assert _agree(counts, _transitions(mdp, policy), EPISODES)
    assert not _agree(counts, _transitions(mdp, lazy), EPISODES)
    assert not _agree(_collect(Simulator(row), policy), _transitions(mdp, policy), EPISODES)
    assert not _agree(_collect(Simulator(start), policy), _transitions(mdp, policy), EPISODES)


def test_gymnasium_itself_agrees_with_its_table():
    """The same numbers of states, and the same added one, as `TabularMDP.from_gymnasium`."""
    mdp = bd.TabularMDP.from_gymnasium("FrozenLake-v1", 8)
    environment = gymnasium_environment("FrozenLake-v1", 8)
    assert environment.shape == Simulator(mdp).shape
    table = np.random.default_rng(3).dirichlet(np.ones(4), (8, 17))
    table[:, 16] = [1.0, 0.0, 0.0, 0.0]  # what is recorded after the end
    policy, slanted = MarkovPolicy(table), MarkovPolicy(table[..., [1, 0, 2, 3]])
    counts = _collect(environment, policy, 500)
    assert _agree(counts, _transitions(mdp, policy), 500)
    assert not _agree(counts, _transitions(mdp, slanted), 500)
