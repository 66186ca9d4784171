"""Bounds from episodes: their formulas by hand, the inequalities under them, their edges, and bad input."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import logsumexp
from scipy.stats import beta

import bidual as bd
from bidual.certificate import bounds
from bidual.certificate.bounds import _betting, _executed

LOW, HIGH = np.array([0.0, -1.0, 2.0]), np.array([1.0, 3.0, 2.0])
MARGIN = 1e-8  # intervals are wider by 1e-9 of their larger end, to allow for rounding


def episodes(k, seed=0):
    return LOW + (HIGH - LOW) * np.random.default_rng(seed).random((k, 3))


def one_by_one(state, x):
    for row in x:
        state = state.add(row)
    return state


def same(left, right):
    return all(np.array_equal(a, b) for a, b in zip(left.interval(0.1, 0.1), right.interval(0.1, 0.1), strict=True))


# The mixture and its boundary.


def test_the_inequality_under_the_process():
    """Fan: exp(l x - psi(l) x^2) <= 1 + l x for x >= -1; from there on the proof is one line."""
    x = np.linspace(-1, 1, 2001)[:, None]
    gap = 1 + _executed.LAMBDAS * x - np.exp(_executed.LAMBDAS * x - _executed.PSI * x**2)
    assert gap.min() >= -1e-15  # one rounding of numbers of size 1, several units
    shrunk = 1 + _executed.LAMBDAS * x - np.exp(_executed.LAMBDAS * x - 0.9 * _executed.PSI * x**2)
    assert shrunk.min() < -1e-3


def test_the_weights_are_a_probability():
    assert np.exp(_executed.LOG_WEIGHTS).sum() == pytest.approx(1, abs=1e-15)
    assert np.all((_executed.LAMBDAS > 0) & (_executed.LAMBDAS < 1))


@pytest.mark.parametrize("delta", [0.5, 0.05, 1e-3, 1e-9])
def test_the_boundary_is_the_root_and_not_below_it(delta):
    def excess(S, V):
        return logsumexp(_executed.LAMBDAS * S - _executed.PSI * V + _executed.LOG_WEIGHTS) + math.log(delta)

    variation = np.array([0.0, 1e-3, 1.0, 30.0, 1e4, 1e9])
    found = _executed.compute_boundary(variation, delta)
    for V, S in zip(variation, found, strict=True):
        assert excess(S, V) >= 0
        assert pytest.approx(brentq(excess, 0, 1e9, args=(V,)), rel=1e-9) == S


@pytest.mark.parametrize("delta", [0.05, 1e-3, 1e-5])
def test_mixing_costs_little(delta):
    """Against the best single l in hindsight, over seven orders of magnitude."""
    grid = np.geomspace(1e-6, 0.99999, 20_000)
    psi = -np.log1p(-grid) - grid
    variation = np.geomspace(1, 1e7, 30)
    best = np.array([np.min((psi * V - math.log(delta)) / grid) for V in variation])
    ratio = _executed.compute_boundary(variation, delta) / best
    assert np.all((ratio > 1) & (ratio < 1.51))


# Executed episodes.


def test_nothing_is_known_before_the_first_episode():
    for kind in (bounds.Executed, bounds.Restarts):
        state = kind.start(LOW, HIGH)
        lower, upper = state.interval(0.1, 0.1)
        assert np.array_equal(lower, LOW)
        assert np.array_equal(upper, HIGH)
        assert state.count == 0
        assert np.all(np.isnan(state.mean))


def test_executed_by_hand():
    x = np.array([[0.2], [0.9], [0.4]])
    state = one_by_one(bounds.Executed.start(np.zeros(1), np.ones(1)), x)
    predictions = [0.5, (0.5 + 0.2) / 2, (0.5 + 1.1) / 3]
    variation = sum((a - b) ** 2 for a, b in zip(x[:, 0], predictions, strict=True))
    assert state.count == 3
    assert state.mean == pytest.approx([0.5])
    assert state.variation == pytest.approx([variation], abs=MARGIN)
    below = 0.5 - _executed.compute_boundary(np.array([variation]), 0.7) / 3
    above = 0.5 + _executed.compute_boundary(np.array([variation]), 0.9) / 3
    assert state.interval(0.7, 0.9)[0] == pytest.approx(np.clip(below, 0, 1), abs=MARGIN)
    assert state.interval(0.7, 0.9)[1] == pytest.approx(np.clip(above, 0, 1), abs=MARGIN)


@pytest.mark.parametrize("kind", [bounds.Executed, bounds.Restarts])
@given(parts=st.lists(st.integers(0, 12), max_size=5))
def test_batches_are_the_same_as_one_by_one(kind, parts):
    state = kind.start(LOW, HIGH)
    x = episodes(sum(parts))
    slow = one_by_one(state, x)
    for begin, end in pairwise(np.cumsum([0, *parts])):
        state = state.add_batch(x[begin:end])
    assert state.count == slow.count
    assert np.array_equal(state.mean, slow.mean, equal_nan=True)
    assert same(state, slow)


def test_states_are_not_changed_by_adding():
    state = one_by_one(bounds.Restarts.start(LOW, HIGH), episodes(5))
    before = state.interval(0.1, 0.1)
    state.add(episodes(1)[0])
    state.add_batch(episodes(9))
    assert state.count == 5
    assert all(np.array_equal(a, b) for a, b in zip(before, state.interval(0.1, 0.1), strict=True))


def test_intervals_contain_the_mean_and_stay_in_the_range():
    state = bounds.Executed.start(LOW, HIGH)
    for x in episodes(200):
        state = state.add(x)
        lower, upper = state.interval(0.1, 0.1)
        assert np.all((lower >= LOW) & (lower <= state.mean) & (state.mean <= upper) & (upper <= HIGH))


def test_a_constant_is_known():
    lower, upper = bounds.Executed.start(LOW, HIGH).add(episodes(1)[0]).interval(0.1, 0.1)
    assert lower[2] == upper[2] == 2.0
    zero = bounds.Executed.start(np.zeros(1), np.zeros(1)).add(np.zeros(1))
    assert zero.interval(0.1, 0.1)[0] == zero.interval(0.1, 0.1)[1] == 0.0


def test_units_do_not_matter():
    x = np.random.default_rng(0).random((300, 1))
    lower, upper = bounds.Executed.start(np.zeros(1), np.ones(1)).add_batch(x).interval(0.05, 0.05)
    metres = bounds.Executed.start(np.array([100.0]), np.array([1100.0])).add_batch(100 + 1000 * x)
    assert metres.interval(0.05, 0.05)[0] == pytest.approx(100 + 1000 * lower, abs=1000 * MARGIN)
    assert metres.interval(0.05, 0.05)[1] == pytest.approx(100 + 1000 * upper, abs=1000 * MARGIN)


def test_small_variance_pays():
    """Where all episodes are alike, the radius is of order 1/T: below Hoeffding's for a single time."""
    x = 0.5 + 0.01 * np.random.default_rng(0).standard_normal((1000, 1))
    lower, upper = bounds.Executed.start(np.zeros(1), np.ones(1)).add_batch(x).interval(0.025, 0.025)
    assert upper - lower < 0.3 * 2 * math.sqrt(math.log(40) / 2000)


@pytest.mark.parametrize("kind", [bounds.Executed, bounds.Restarts])
def test_each_side_has_its_own_delta(kind):
    state = kind.start(LOW, HIGH).add_batch(episodes(500))
    wide, narrow = state.interval(0.001, 0.1), state.interval(0.1, 0.001)
    assert np.all((wide[0] < narrow[0])[:2])
    assert np.all((wide[1] < narrow[1])[:2])


# Ranges and rounding.


def test_a_range_is_wider_by_a_part_of_its_larger_end():
    span = bounds.Range.of(np.array([-10.0, 1.0, 0.0]), np.array([1.0, 4.0, 0.0]))
    assert (span.half - [5.5, 1.5, 0.0])[:2] == pytest.approx([1e-8, 4e-9], rel=1e-5, abs=0.0)
    assert span.half[2] == 1e-290


def test_the_largest_end_is_below_1e300():
    for low, high in ((-1e300, 0.0), (0.0, 1e300), (-2e300, 0.0), (0.0, 2e300)):
        with pytest.raises(bd.ProblemError, match="finite ends"):
            bounds.Range.of(np.array([low]), np.array([high]))
    assert bounds.Range.of(np.array([-0.99e300]), np.array([0.99e300])).half[0] < 1e300


def test_ends_move_outward_by_eight_roundings():
    """Of the two operands that the map adds, in units of the width: 1, and (|middle| + half) / width."""
    eps = np.finfo(float).eps
    lower, upper = bounds.Range.of(np.array([-3.0]), np.array([-1.0])).outward(np.zeros(1), np.zeros(1))
    width = 2.0
    assert -2.0 - lower[0] == pytest.approx(8 * (1 + 3 / width) * width * eps, abs=2 * eps)
    assert upper[0] + 2 == pytest.approx(8 * (1 + 3 / width) * width * eps, abs=2 * eps)


def test_the_sums_of_many_episodes_round():
    """Each of n additions of numbers below 1 rounds by n eps at most, on average by half of that; twice that is off."""
    count, eps = 10**6, np.finfo(float).eps
    zero, variation = np.zeros(1), np.array([30.0])
    state = bounds.Executed(bounds.Range.of(-np.ones(1), np.ones(1)), count, zero, variation)
    lower, upper = state.interval(0.2, 0.1)
    width = 2 * state.range.half[0]
    for end, delta in ((-lower, 0.2), (upper, 0.1)):
        room = end[0] / width - _executed.compute_boundary(variation, delta)[0] / count
        assert room == pytest.approx((2 * count + 12) * eps, rel=1e-4, abs=0.0)


# The last half.


def test_the_last_half_begins_at_the_first_episode():
    assert bounds.Restarts.start(LOW, HIGH).since == 0


def test_the_answer_is_for_the_last_half():
    x = episodes(70)
    state = bounds.Restarts.start(LOW, HIGH)
    for T in range(1, 71):
        state = state.add(x[T - 1])
        powers = [0] + [2**i for i in range(7) if 2**i <= T / 2]
        assert (state.count, state.since) == (T, powers[-1])
        assert np.allclose(state.mean, x[state.since : T].mean(axis=0))
        part = 6 / (math.pi * len(powers)) ** 2
        alone = one_by_one(bounds.Executed.start(LOW, HIGH), x[state.since : T])
        assert np.array_equal(state.interval(0.2, 0.2)[1], alone.interval(part * 0.2, part * 0.2)[1])
        assert state.current.count <= T
        assert state.following.count <= T - state.since


# Betting.


def maurer_pontil(x, delta):
    """The fixed-time empirical-Bernstein bound on [0, 1]: Maurer & Pontil (2009), Theorem 4."""
    log, n = math.log(2 / delta), len(x)
    return x.mean() + math.sqrt(2 * x.var(ddof=1) * log / n) + 7 * log / (3 * (n - 1))


LAWS = {
    "coin": lambda rng, n: (rng.random(n) < 0.3).astype(float),
    "rare": lambda rng, n: (rng.random(n) < 0.01).astype(float),
    "sd 0.3 in [0, 2]": lambda rng, n: np.clip(rng.normal(1, 0.3, n), 0, 2) / 2,
    "nearly constant": lambda rng, n: np.clip(rng.normal(0.7, 0.015, n), 0, 1),
}


@pytest.mark.parametrize("n", [200, 2000])
@pytest.mark.parametrize("law", LAWS)
def test_betting_beats_maurer_pontil(law, n):
    rng = np.random.default_rng(0)
    for _ in range(20):
        x = LAWS[law](rng, n)
        assert bounds.upper(x, 0.0, 1.0, 0.05) < maurer_pontil(x, 0.05)


@pytest.mark.parametrize("law", ["coin", "rare"])
def test_betting_is_near_the_exact_bound_for_coins(law):
    """Clopper-Pearson knows that samples are 0 or 1, betting does not."""
    rng = np.random.default_rng(0)
    excess, exact = [], []
    for _ in range(50):
        x = LAWS[law](rng, 500)
        excess.append(bounds.upper(x, 0.0, 1.0, 0.01) - x.mean())
        exact.append(beta.ppf(0.99, x.sum() + 1, 500 - x.sum()) - x.mean())
    assert np.mean(exact) < np.mean(excess) < 1.35 * np.mean(exact)


@pytest.mark.parametrize("uniform", [False, True])
@given(st.integers(0, 10_000), st.floats(0.001, 0.5))
def test_capital_grows_with_the_mean_and_the_bound_is_where_it_is_enough(uniform, seed, delta):
    rng = np.random.default_rng(seed)
    z = rng.beta(rng.uniform(0.1, 3), rng.uniform(0.1, 3), rng.integers(1, 80))
    bets = _betting._compute_bets(z, delta, uniform)
    capital = [_betting._compute_log_capital(z, bets, m) for m in np.linspace(0, 0.999, 200)]
    assert np.all(np.diff(capital) >= -1e-12)
    bound = _betting._find_smallest_refuted(z, delta, uniform)
    if bound < 1:
        assert _betting._compute_log_capital(z, bets, bound) >= -math.log(delta)
        assert _betting._compute_log_capital(z, bets, bound - 2e-10) < -math.log(delta)


def test_bets_by_hand():
    """The best for n samples of the variance of the past, which begins with one imagined sample of variance 1/4."""
    z = np.array([1.0, 0.25, 0.5])
    means = [(0.5 + 1) / 2, (0.5 + 1.25) / 3]
    variances = [0.25, (0.25 + (1 - means[0]) ** 2) / 2]
    variances.append((2 * variances[1] + (0.25 - means[1]) ** 2) / 3)
    expected = np.sqrt([2 * math.log(20) / (3 * variance) for variance in variances])
    assert _betting._compute_bets(z, 0.05, uniform=False) == pytest.approx(expected[None], rel=1e-12)


def test_ends_of_bets_move_outward():
    x = np.random.default_rng(0).random(50)
    span = bounds.Range.of(np.array([-1.0]), np.array([1.0]))
    z = span.to_unit(x[:, None])[:, 0]
    above = _betting._find_smallest_refuted(0.5 + z, 0.1, uniform=False) - 0.5
    below = 0.5 - _betting._find_smallest_refuted(0.5 - z, 0.1, uniform=False)
    assert bounds.upper(x, -1.0, 1.0, 0.1) > span.from_unit(np.array([above]))[0]
    assert bounds.lower(x, -1.0, 1.0, 0.1) < span.from_unit(np.array([below]))[0]


def test_bets_do_not_see_what_they_bet_on():
    x = np.random.default_rng(0).random(50)
    changed = x.copy()
    changed[30:] = 1 - x[30:]
    for uniform in (False, True):
        bets, others = (_betting._compute_bets(samples, 0.05, uniform=uniform) for samples in (x, changed))
        assert np.array_equal(bets[:, :31], others[:, :31])
        assert not np.array_equal(bets[:, 31:], others[:, 31:])
    assert np.array_equal(_betting._compute_bets(x[:20], 0.05, uniform=True), bets[:, :20])


def test_sides_are_reflections_and_units_do_not_matter():
    x = np.random.default_rng(0).random(100)
    assert bounds.lower(x, 0.0, 1.0, 0.05) == pytest.approx(1 - bounds.upper(1 - x, 0.0, 1.0, 0.05), abs=MARGIN)
    assert bounds.upper(7 + 4 * x, 7.0, 11.0, 0.05) == pytest.approx(7 + 4 * bounds.upper(x, 0.0, 1.0, 0.05), abs=1e-7)
    low, high = bounds.interval(x, 0.0, 1.0, 0.1)
    assert low == bounds.lower(x, 0.0, 1.0, 0.05) < x.mean() < high == bounds.upper(x, 0.0, 1.0, 0.05)


def test_betting_at_the_edges():
    assert bounds.interval(np.zeros(0), -1.0, 2.0, 0.05) == (-1.0, 2.0)
    assert bounds.interval(np.full(9, 2.0), 2.0, 2.0, 0.05) == (2.0, 2.0)
    assert bounds.upper(np.ones(50), 0.0, 1.0, 0.05) == 1.0
    assert bounds.lower(np.zeros(50), 0.0, 1.0, 0.05) == 0.0
    assert bounds.upper(np.zeros(20), 0.0, 1.0, 0.05) < 0.25


def test_drifting_samples_give_an_interval_all_the_same():
    drift = np.concatenate([np.zeros(300), np.ones(300)])
    low, high = bounds.interval(drift, 0.0, 1.0, 0.05)
    assert 0 <= low <= high <= 1


# Bounded differences.


def test_jensen_by_hand():
    assert bounds.jensen(1.5, 200, 0.01, 0.05) == pytest.approx(1.5 + 0.01 * math.sqrt(100 * math.log(20)))
    assert bounds.jensen(1.5, 200, 0.0, 0.05) >= 1.5
    assert bounds.bound_lipschitz_change(2.0, 3.0, 60) == pytest.approx(0.1)
    # Here the value and the radius cancel, so that the rounding that is allowed for shows.
    radius = 0.1 * math.sqrt(200 / 2 * -math.log(0.05))
    found = bounds.jensen(-1.5, 200, 0.1, 0.05)
    assert found - (radius - 1.5) == pytest.approx(4 * np.finfo(float).eps * (1.5 + radius), rel=1e-2, abs=0.0)


def entropy(p):
    return -np.sum(np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0), axis=-1)


@pytest.mark.parametrize("cells", [2, 3, 50])
@pytest.mark.parametrize("n", [1, 2, 7, 1000])
def test_one_episode_changes_the_entropy_by_no_more(cells, n):
    """Random averages and random replacements, and the pair at which Audenaert's inequality is an equality."""
    rng = np.random.default_rng(0)
    others, first, second = rng.dirichlet(np.full(cells, 0.1), (3, 4000))
    before, after = ((n - 1) * others + first) / n, ((n - 1) * others + second) / n
    change = bounds.bound_entropy_change(cells, n)
    assert np.max(np.abs(entropy(before) - entropy(after))) <= change + 1e-12
    t = min(1 / n, 1 - 1 / cells)
    certain = np.eye(cells)[0]
    spread = (1 - t) * certain + t * np.append(0, np.full(cells - 1, 1 / (cells - 1)))
    assert entropy(spread) - entropy(certain) == pytest.approx(change, rel=1e-9)


def test_the_change_of_the_entropy_falls_with_the_episodes():
    assert bounds.bound_entropy_change(1, 5) == 0
    assert bounds.bound_entropy_change(10, 1) == pytest.approx(math.log(10))
    changes = [bounds.bound_entropy_change(10, n) for n in range(1, 100)]
    assert np.all(np.diff(changes) <= 0)


# Any number of samples.


def test_bounds_for_any_number_of_samples_hold_for_all_numbers_at_once():
    """One policy may be certified on 50 episodes and, from the same object, on 100: both bounds are printed.

    The smallest bound of a path is its last one (see below). Three standard deviations of 400 paths are 0.045.
    """
    rng, delta, paths = np.random.default_rng(0), 0.1, 400
    for law in (0.3, 0.02, 0.9):
        samples = (rng.random((paths, 100)) < law).astype(float)
        wrong = sum(bounds.upper(path, 0.0, 1.0, delta, uniform=True) < law for path in samples)
        assert wrong <= (delta + 0.045) * paths


@pytest.mark.parametrize("uniform", [False, True])
def test_a_capital_is_less_by_the_rounding_of_its_sum(uniform):
    """n + 8 roundings of the logarithms, and 8 for each further kind of bets."""
    z = np.random.default_rng(2).random(3000)
    bets = _betting._compute_bets(z, 0.05, uniform)
    gains = np.log1p(np.minimum(bets, _betting.CAUTION / 0.5) * (0.5 - z))
    size, kinds = np.abs(gains).sum(axis=1).max(), len(bets)
    capital = np.logaddexp.reduce(gains.cumsum(axis=1), axis=0).max() - math.log(kinds)
    slack = np.finfo(float).eps * (3008 * size + 8 * (kinds - 1) * (1 + size))
    assert capital - _betting._compute_log_capital(z, bets, 0.5) == pytest.approx(slack, rel=2e-3, abs=0.0)


def test_bounds_for_any_number_of_samples_do_not_depend_on_later_ones():
    samples = np.random.default_rng(1).random(80)
    ends = [bounds.upper(samples[:n], 0.0, 1.0, 0.05, uniform=True) for n in (20, 40, 80)]
    assert ends == sorted(ends, reverse=True)  # the best moment so far answers
    both = bounds.interval(samples, 0.0, 1.0, 0.1, uniform=True)
    assert both == (bounds.lower(samples, 0.0, 1.0, 0.05, uniform=True), ends[-1])
    assert ends[-1] < bounds.upper(samples, 0.0, 1.0, 0.05) + 0.1


# The split.


@pytest.mark.parametrize("functionals", [1, 3, 7])
def test_everything_together_is_at_most_delta(functionals):
    split, rounds = bounds.Split(0.1), 2000
    sides = 2 * functionals
    spent = split.model + sides * (split.mixture(functionals) + split.last_half(functionals))
    spent += functionals * sum(sum(split.evaluation(k, functionals)) for k in range(1, rounds + 1))
    assert spent < 0.1
    assert spent + 0.1 * 3 / 8 * 6 / math.pi**2 / rounds >= 0.1  # the rounds after these: the integral of 1/k^2
    assert split.model == 0.05
    assert split.mixture(functionals) == split.last_half(functionals) == 0.1 / 16 / sides


def test_one_evaluation_alone_has_all_of_delta():
    assert bounds.Alone(0.1).evaluation(1, 3) == (0.1 / 6, 0.1 / 6)
    with pytest.raises(bd.ProblemError, match="one round; got round 2"):
        bounds.Alone(0.1).evaluation(2, 3)


# Bad input.


@pytest.mark.parametrize("kind", [bounds.Executed, bounds.Restarts])
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.add(np.array([0.5, np.nan, 2.0])), r"functional 1 must lie in \[-1.0, 3.0\]; got nan"),
        (lambda s: s.add(np.array([1.1, 0.0, 2.0])), r"functional 0 must lie in \[0.0, 1.0\]; got 1.1"),
        (lambda s: s.add(np.array([0.5, -np.inf, 2.0])), "functional 1 must .* got -inf"),
        (lambda s: s.add(np.array([0.5, 0.0])), r"numbers of 3 functionals; got the shape \(2,\)"),
        (lambda s: s.add_batch(np.array([[0.5, 0, 2], [0.5, 0, 2.1]])), "functional 2 in row . must .* got 2.1"),
        (lambda s: s.interval(0.0, 0.1), "delta_lower must be strictly between 0 and 1; got 0.0"),
        (lambda s: s.add(np.array([0.5, 0.0, 2.0])).interval(1.5, 0.1), "delta_lower must be .* got 1.5"),
        (lambda s: s.interval(0.1, math.nan), "delta_upper must be strictly between 0 and 1; got nan"),
    ],
)
def test_executed_input_is_checked(kind, call, message):
    with pytest.raises(bd.ProblemError, match=message):
        call(kind.start(LOW, HIGH))


@pytest.mark.parametrize("ends", [(1.0, 0.0), (0.0, math.inf), (math.nan, 1.0), (-1e308, 1e308)])
@pytest.mark.parametrize(
    "start",
    [
        lambda low, high: bounds.Executed.start(np.array([low]), np.array([high])),
        lambda low, high: bounds.Restarts.start(np.array([low]), np.array([high])),
        lambda low, high: bounds.upper(np.zeros(3), low, high, 0.1),
        lambda low, high: bounds.lower(np.zeros(3), low, high, 0.1),
    ],
)
def test_ends_are_checked(start, ends):
    with pytest.raises(bd.ProblemError, match=r"functional 0 must have finite ends low <= high; got \["):
        start(*ends)


def test_rounding_is_not_an_error():
    """0.1 + 0.2 is more than 0.3."""
    state = bounds.Executed.start(np.zeros(1), np.array([0.3])).add(np.array([0.1 + 0.2]))
    assert state.mean == 0.3
    assert bounds.interval(np.array([0.1 + 0.2]), 0.0, 0.3, 0.05)[1] == 0.3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bounds.upper(np.array([0.1, 1.2]), 0.0, 1.0, 0.1), r"in row 1 must lie in \[0.0, 1.0\]; got 1.2"),
        (lambda: bounds.lower(np.array([np.nan]), 0.0, 1.0, 0.1), r"in row 0 must lie in \[0.0, 1.0\]; got nan"),
        (lambda: bounds.interval(np.zeros(2), 0.0, 1.0, 1.5), "delta must be strictly between 0 and 1; got 1.5"),
        (lambda: bounds.upper(np.zeros(2), 0.0, 1.0, -0.1), "delta must be strictly between 0 and 1; got -0.1"),
        (lambda: bounds.jensen(math.inf, 5, 0.1, 0.1), "f at the average must be a finite number; got inf"),
        (lambda: bounds.jensen(1.0, 0, 0.1, 0.1), "n must be at least 1; got 0"),
        (lambda: bounds.jensen(1.0, 5, -0.1, 0.1), "change must be a finite number of at least 0; got -0.1"),
        (lambda: bounds.jensen(1.0, 5, 0.1, 1.0), "delta must be strictly between 0 and 1; got 1.0"),
        (lambda: bounds.bound_lipschitz_change(math.nan, 1.0, 5), "lipschitz must be a finite number .* got nan"),
        (lambda: bounds.bound_lipschitz_change(1.0, math.inf, 5), "diameter must be a finite number .* got inf"),
        (lambda: bounds.bound_entropy_change(0, 5), "num_cells must be at least 1; got 0"),
        (lambda: bounds.Split(1.0), "delta must be strictly between 0 and 1; got 1.0"),
        (lambda: bounds.Split(math.nan), "delta must be strictly between 0 and 1; got nan"),
        (lambda: bounds.Split(0.1).evaluation(0, 1), "rounds are counted 1, 2, ...; got 0"),
        (lambda: bounds.Split(0.1).mixture(0), "functionals must be at least 1; got 0"),
    ],
)
def test_other_input_is_checked(call, message):
    with pytest.raises(bd.ProblemError, match=message):
        call()
