"""Bounds from episodes fail as rarely as they say, and smaller ones would be found out.

Every test repeats an experiment independently, counts how often a bound is wrong, and compares with the quantile of the
binomial law that a correct bound exceeds with probability below 1e-6. The probability of failure of each bound is
stated with it. Seeds are fixed. Each count is made again with a bound that is wrong on purpose, and must then be too
large.
"""

import math

import numpy as np
import pytest
from scipy.stats import binom

from bidual.certificate import bounds

FALSE_ALARM = 1e-6


def allowed(repetitions, delta):
    """A count of wrong bounds that is exceeded with probability at most 1e-6 if each is wrong with at most delta."""
    return binom.isf(FALSE_ALARM, repetitions, delta)


def closer(factor):
    """A bound that is wrong on purpose: the distance to the average, times a factor below 1.

    Not before episode 20, where bounds are the ends of the range and any other number would be found out.
    """
    return lambda state, ends: (
        ends if state.count < 20 else tuple(state.mean + factor * (end - state.mean) for end in ends)
    )


# Executed episodes: repetitions are functionals, each with a policy of its own that changes with what it has seen.

POLICIES = {
    # The conditional mean of the next episode, given the average so far and the time.
    "fixed": lambda average, t: np.full_like(average, 0.3),
    "rare": lambda average, t: np.full_like(average, 0.02),
    "corrects itself": lambda average, t: np.where(average < 0.5, 0.8, 0.2),
    "runs away": lambda average, t: 0.1 + 0.8 * average,
    "learns": lambda average, t: np.full_like(average, 0.1 if t <= 50 else 0.9),
}
EPISODES, REPETITIONS, DELTA = 300, 1000, 0.1


def ever_wrong(start, policy, spoil=None, episodes=EPISODES, grid=1.05, seed=0):
    """How many repetitions saw a wrong lower bound, and how many a wrong upper one, at any time that was looked at."""
    rng = np.random.default_rng(seed)
    state = start(np.zeros(REPETITIONS), np.ones(REPETITIONS))
    truth, average = [np.zeros(REPETITIONS)], np.full(REPETITIONS, 0.5)
    wrong, look = np.zeros((2, REPETITIONS), dtype=bool), 1
    for t in range(1, episodes + 1):
        mean = policy(average, t)
        x = (rng.random(REPETITIONS) < mean).astype(float)
        state, average = state.add(x), average + (x - average) / t
        truth.append(truth[-1] + mean)
        if t >= look:
            look = grid * t
            since = getattr(state, "since", 0)
            target = (truth[-1] - truth[since]) / (t - since)
            ends = state.interval(DELTA, DELTA)
            lower, upper = spoil(state, ends) if spoil else ends
            wrong |= np.stack([lower > target, upper < target])
    return wrong.sum(axis=1)


@pytest.mark.parametrize("start", [bounds.Executed.start, bounds.Restarts.start], ids=["all", "last half"])
@pytest.mark.parametrize("policy", POLICIES)
def test_executed_bounds_hold_at_all_times(start, policy):
    """Each side is wrong at any time at all with probability at most 0.1."""
    assert np.all(ever_wrong(start, POLICIES[policy]) <= allowed(REPETITIONS, DELTA))


@pytest.mark.parametrize("start", [bounds.Executed.start, bounds.Restarts.start], ids=["all", "last half"])
def test_smaller_executed_bounds_are_found_out(start):
    assert np.all(ever_wrong(start, POLICIES["fixed"], closer(0.4)) > allowed(REPETITIONS, DELTA))


def test_a_bound_for_one_time_does_not_hold_at_all_times():
    """The normal approximation, which is right at each time, is wrong at some time far too often."""

    def normal(state, ends):
        radius = 1.2816 * np.sqrt(np.maximum(state.mean * (1 - state.mean), 1e-3) / state.count)
        return state.mean - radius, state.mean + radius

    assert np.all(ever_wrong(bounds.Executed.start, POLICIES["fixed"], normal) > allowed(REPETITIONS, DELTA))


def test_all_episodes_do_not_speak_for_the_last_half():
    """After a change of policy the bound of all episodes is wrong about the last half nearly always."""
    rng = np.random.default_rng(0)
    mean = np.where(np.arange(300) < 50, 0.1, 0.9)[:, None]
    x = (rng.random((300, REPETITIONS)) < mean).astype(float)
    low, high = np.zeros(REPETITIONS), np.ones(REPETITIONS)
    last_half = bounds.Restarts.start(low, high).add_batch(x)
    target = mean[last_half.since :].mean()
    assert np.sum(last_half.interval(DELTA, DELTA)[1] < target) <= allowed(REPETITIONS, DELTA)
    all_of_them = bounds.Executed.start(low, high).add_batch(x)
    assert np.sum(all_of_them.interval(DELTA, DELTA)[1] < target) > allowed(REPETITIONS, DELTA)


@pytest.mark.slow
@pytest.mark.parametrize("start", [bounds.Executed.start, bounds.Restarts.start], ids=["all", "last half"])
@pytest.mark.parametrize("policy", POLICIES)
def test_executed_bounds_hold_for_long(start, policy):
    """The same over 10 000 episodes."""
    wrong = ever_wrong(start, POLICIES[policy], episodes=10_000, grid=1.01, seed=1)
    assert np.all(wrong <= allowed(REPETITIONS, DELTA))


# Betting: one policy, fresh episodes.

LAWS = {
    "coin": (0.3, lambda rng, n: (rng.random(n) < 0.3).astype(float)),
    "rare": (0.02, lambda rng, n: (rng.random(n) < 0.02).astype(float)),
    "often": (0.98, lambda rng, n: (rng.random(n) < 0.98).astype(float)),
    "uniform": (0.5, lambda rng, n: rng.random(n)),
    "skewed": (1 / 21, lambda rng, n: rng.beta(0.05, 1.0, n)),
}


def wrong_means(law, repetitions, n, upper, lower, seed=0):
    """How many lower bounds were above the mean, and how many upper bounds below it, of n samples each."""
    mean, draw = LAWS[law]
    rng = np.random.default_rng(seed)
    wrong = np.zeros(2, dtype=int)
    for _ in range(repetitions):
        x = draw(rng, n)
        wrong += lower(x) > mean, upper(x) < mean
    return wrong


def bet_upper(x):
    return bounds.upper(x, 0.0, 1.0, 0.05)


def bet_lower(x):
    return bounds.lower(x, 0.0, 1.0, 0.05)


@pytest.mark.parametrize("law", LAWS)
def test_betting_bounds_hold(law):
    """Each side is wrong with probability at most 0.05."""
    assert np.all(wrong_means(law, 300, 60, bet_upper, bet_lower) <= allowed(300, 0.05))


@pytest.mark.slow
@pytest.mark.parametrize("n", [20, 400])
@pytest.mark.parametrize("law", LAWS)
def test_betting_bounds_hold_often(law, n):
    assert np.all(wrong_means(law, 2000, n, bet_upper, bet_lower, seed=1) <= allowed(2000, 0.05))


def test_smaller_betting_bounds_are_found_out():
    closer_upper = lambda x: x.mean() + 0.4 * (bet_upper(x) - x.mean())  # noqa: E731 - the same shape as what it spoils
    closer_lower = lambda x: x.mean() + 0.4 * (bet_lower(x) - x.mean())  # noqa: E731
    assert np.all(wrong_means("coin", 300, 60, closer_upper, closer_lower) > allowed(300, 0.05))


def test_the_normal_approximation_is_found_out():
    """Two in a hundred, and often none seen: the standard error is then 0."""
    normal = lambda x: x.mean() + 1.645 * x.std(ddof=1) / math.sqrt(len(x))  # noqa: E731
    assert wrong_means("rare", 300, 60, normal, bet_lower)[1] > allowed(300, 0.05)


# Bounded differences: a convex function of the average of n episodes.

CELLS = np.array([0.7, 0.1, 0.1, 0.05, 0.05])


def negative_entropy(p):
    return np.sum(np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0), axis=-1)


def wrong_entropies(factor):
    """Episodes that stay in one cell; how many of 2000 bounds from 30 of them are below the truth."""
    averages = np.random.default_rng(0).multinomial(30, CELLS, 2000) / 30
    change = factor * bounds.bound_entropy_change(5, 30)
    bound = [bounds.jensen(float(value), 30, change, 0.05) for value in negative_entropy(averages)]
    return np.sum(np.array(bound) < negative_entropy(CELLS))


def wrong_distances(factor):
    """The distance to a far point, of signs: as good as linear, where bounded differences are nearly sharp."""
    averages = 1 - 2 * np.random.default_rng(0).binomial(50, 0.5, 2000) / 50
    change = factor * bounds.bound_lipschitz_change(1.0, 2.0, 50)
    bound = [bounds.jensen(abs(float(a) + 10), 50, change, 0.05) for a in averages]
    return np.sum(np.array(bound) < 10)


@pytest.mark.parametrize("wrong", [wrong_entropies, wrong_distances])
def test_bounds_on_convex_functions_hold(wrong):
    """Each is wrong with probability at most 0.05."""
    assert wrong(1.0) <= allowed(2000, 0.05)


@pytest.mark.parametrize(("wrong", "factor"), [(wrong_entropies, 0.0), (wrong_distances, 0.5)])
def test_smaller_bounds_on_convex_functions_are_found_out(wrong, factor):
    assert wrong(factor) > allowed(2000, 0.05)


# The split: all that is said about one run, at once.


def test_all_statements_of_a_run_hold_at_once():
    """Two functionals, mixture, last half and evaluations: one of them is wrong with probability at most delta / 2."""
    delta, repetitions = 0.4, 100
    split = bounds.Split(delta)
    rng = np.random.default_rng(0)
    mean = np.array([0.3, 0.6])
    low, high = np.zeros(2 * repetitions), np.ones(2 * repetitions)
    means = np.tile(mean, repetitions)
    wrong = np.zeros(2 * repetitions, dtype=bool)
    executed, restarts = bounds.Executed.start(low, high), bounds.Restarts.start(low, high)
    for t in range(1, 200):
        x = (rng.random(2 * repetitions) < means).astype(float)
        executed, restarts = executed.add(x), restarts.add(x)
        if t % 5 == 0:
            mixture, half = split.mixture(2), split.last_half(2)
            for lower, upper in (executed.interval(mixture, mixture), restarts.interval(half, half)):
                wrong |= (lower > means) | (upper < means)
    for round in (1, 2):
        for i, p in enumerate(means):
            x = (rng.random(40) < p).astype(float)
            delta_lower, delta_upper = split.evaluation(round, 2)
            lower, upper = bounds.lower(x, 0.0, 1.0, delta_lower), bounds.upper(x, 0.0, 1.0, delta_upper)
            wrong[i] |= not lower <= p <= upper
    assert np.sum(wrong.reshape(repetitions, 2).any(axis=1)) <= allowed(repetitions, delta / 2)
