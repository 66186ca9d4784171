"""Optimistic planning and its bounds against references that share no code with them.

Rows are compared with a one-dimensional search in extended precision and with cone programs; plans with a dense
backward pass over plain counts; the whole constrained problem with one program over occupancies of (step, state,
action, next state) in which every law of the set appears.
"""

import math
from dataclasses import dataclass, replace

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq, linprog

import bidual as bd
from bidual.certificate import Record, lower_bound
from bidual.certificate._ball import bound_ball_minimum
from bidual.certificate._optimistic import bound_least_over_set
from bidual.certificate.rounding import with_resolution
from bidual.dual import ConicCorrective, FullyCorrective
from bidual.learning.outputs import FinalBound
from bidual.loop.primal_dual import primal_dual
from bidual.models import BallRows, Knowledge, Tabular
from bidual.planners import ExtendedValueIteration
from bidual.planners._rows import choose_cheapest
from bidual.problem.convex import AffineProgram
from tests.learning import SHAPE, World, after, beginning, episode, random_episodes, random_world, true_optimum

H, S, A = SHAPE
LONG = np.longdouble


# Rows.


def ball_reference(frequencies, radius, W):
    """The least P . W over {KL(frequencies || P) <= radius}: its dual, max over nu < min W of
    nu + exp(sum p log(W - nu) - radius), by halving the sign of the derivative in 80-bit numbers.

    nu lies within 1e26 ranges of min W, where 64 bits still leave 1e-10 of a range for radii above 1e-10 (nu is then
    about 1e5 ranges away).
    """
    p, W = np.asarray(frequencies, LONG), np.asarray(W, LONG)
    if radius == 0:
        return float(p @ W)
    least = W.min()
    p, W = p[p > 0], W[p > 0]
    if not p.size or np.isinf(radius) or W.max() == least:
        return float(least)
    d, width = W - least, W.max() - least

    def at(x):
        gap = width * np.exp(x)  # min W - nu
        weight = np.exp(p @ np.log(d + gap) - LONG(radius))
        return least - gap + weight, 1 - weight * (p @ (1 / (d + gap)))

    low, high = LONG(-60), LONG(60)
    for _ in range(120):
        middle = (low + high) / 2
        low, high = (low, middle) if at(middle)[1] > 0 else (middle, high)
    return float(max(least, at(low)[0]))


def random_rows(count, K, seed=0):
    """Rows of every kind, with a range of 1 to 1e-3 around numbers of size 1: ties, known laws, nothing seen, ..."""
    rng = np.random.default_rng(seed)
    n = 10.0 ** rng.integers(0, 6, count)
    frequencies = np.stack([rng.multinomial(int(k), rng.dirichlet(np.full(K, 0.5))) for k in n]) / n[:, None]
    kind = rng.random((6, count))
    frequencies[kind[0] < 0.15] = np.eye(K)[rng.integers(0, K, count)][kind[0] < 0.15]  # one successor only
    W = np.where((kind[1] < 0.5)[:, None], rng.random((count, K)), rng.integers(0, 3, (count, K)) / 2)
    W[kind[2] < 0.05] = 0.25  # all the same
    near = kind[2] > 0.95
    W[near] = 0.25 + 1e-16 * np.round(rng.random((near.sum(), K)))  # the same but for rounding
    W *= 10.0 ** rng.integers(-3, 1, (count, 1))
    radius = 10.0 ** rng.uniform(-8, 1.6, count)
    radius[kind[3] < 0.1] = 0.0
    nothing = kind[3] > 0.9
    radius[nothing], frequencies[nothing] = np.inf, 0.0
    best = kind[4] < 0.3  # the best successor was never seen
    W[best & (frequencies[:, 0] == 0), 0] = -1.0
    return frequencies, radius, W


def ranges(W):
    return np.maximum(np.ptp(W, axis=1), 1e-5)


def chosen_laws(frequencies, radius, W):
    with jax.enable_x64(True):
        rows = BallRows(jnp.asarray(frequencies.T[:, None]), jnp.asarray(radius[None]))
        choice = jax.jit(choose_cheapest)(rows, jnp.asarray(W.T[:, None]))
        return np.asarray(choice.bound)[0], np.asarray(choice.law)[:, 0].T


@pytest.fixture(scope="module")
def rows():
    frequencies, radius, W = random_rows(600, 4)
    reference = np.array([ball_reference(*row) for row in zip(frequencies, radius, W, strict=True)])
    return frequencies, radius, W, reference


def divergences(frequencies, law):
    """KL(frequencies || law); probabilities below the smallest number count as that number: at most 1e3 is lost."""
    ratio = np.log(np.where(frequencies > 0, frequencies, 1.0)) - np.log(np.maximum(law, 1e-300))
    return np.sum(np.where(frequencies > 0, frequencies * ratio, 0.0), axis=1)


def test_a_ball_has_the_value_of_the_reference(rows):
    """The planner stops at 1e-12 of the range; sums of logarithms divided by y, about 1e4 for small radii, add some."""
    frequencies, radius, W, reference = rows
    bound, _ = chosen_laws(frequencies, radius, W)
    assert np.max(np.abs(bound - reference) / ranges(W)) <= 1e-10


def test_the_checker_has_the_value_of_the_reference_from_below(rows):
    """What it says rounding can have added is enough, and little: some 1e-16 times y, as above."""
    frequencies, radius, W, reference = rows
    value, lost = bound_ball_minimum(frequencies, radius, W)
    assert np.max(np.abs(value - reference) / ranges(W)) <= 1e-10
    assert np.all(value - lost <= reference)
    assert np.max(lost / ranges(W)) <= 1e-9


def test_the_law_of_a_ball_is_in_it_and_pays_the_bound(rows):
    """The embedding of a plan is made from it: a law outside the ball would reach what no law can."""
    frequencies, radius, W, _ = rows
    bound, law = chosen_laws(frequencies, radius, W)
    assert law.min() >= 0
    assert np.max(np.abs(law.sum(axis=1) - 1)) <= 1e-15
    seen = np.isfinite(radius)
    assert np.all(divergences(frequencies, law)[seen] <= radius[seen] + 1e-9)
    assert np.max(np.abs(np.sum(law * W, axis=1) - bound) / ranges(W)) <= 1e-10


def test_the_comparison_of_rows_has_power(rows):
    """A radius that is off by 1e-6 is seen in the value and in the divergence of most of the rows that it moves."""
    frequencies, radius, W, reference = rows
    bound, law = chosen_laws(frequencies, radius * (1 + 1e-6), W)
    moved = (radius > 1e-3) & (radius < 1) & (np.max(np.where(frequencies > 0, W, -1), axis=1) > W.min(axis=1) + 1e-3)
    assert np.mean(np.abs(bound - reference)[moved] > 1e-10 * ranges(W)[moved]) > 0.9
    assert np.mean(divergences(frequencies, law)[moved] > radius[moved] + 1e-9) > 0.6


def test_ties_keep_to_what_was_seen():
    """Where all that was seen is equally cheap the frequencies themselves are taken, not the first successor."""
    frequencies, W = np.array([[0.0, 0.25, 0.75, 0.0]]), np.array([[1.0, 1.0, 1.0, 2.0]])
    _, law = chosen_laws(frequencies, np.array([0.2]), W)
    np.testing.assert_array_equal(law, frequencies)


@pytest.mark.parametrize("seed", range(6))
def test_a_ball_agrees_with_a_cone_program(seed):
    """Clarabel's exponential cones are good to some 1e-8 of the range."""
    frequencies, radius, W = (part[seed] for part in random_rows(6, 4, seed=7))
    radius = min(max(radius, 1e-3), 3.0)
    law = cp.Variable(4, nonneg=True)
    total = frequencies.sum() or 1.0
    seen = np.flatnonzero(frequencies)
    divergence = cp.sum(cp.rel_entr(frequencies[seen] / total, law[seen])) if seen.size else 0.0
    program = cp.Problem(cp.Minimize(W @ law), [cp.sum(law) == 1, divergence <= radius])
    value = program.solve(solver=cp.CLARABEL)
    assert abs(ball_reference(frequencies / total, radius, W) - value) <= 1e-6 * ranges(W[None])[0]


# Plans.


@dataclass(frozen=True)
class Kind:
    features: bd.features.AbstractFeatures
    open: bool = False
    unknown_start: bool = False
    masked: bool = False
    absorbing: tuple[int, ...] = ()
    per_step: bool = False


def _kinds():
    rng = np.random.default_rng(5)
    stage = {"a": rng.normal(size=(S, A)), "b": rng.normal(size=(H, S, A))}
    paid, by_step = rng.normal(size=(S, A, S)), rng.normal(size=(H, S, A, S))
    seen = bd.features.observed(lambda step: step.reward, -1.0, 2.0)
    noisy, at_end, both = (
        bd.features.observed(lambda step: step.reward, -1.0, 2.0, noisy=noisy, at_end=at_end)
        for noisy, at_end in ((True, False), (False, True), (True, True))
    )
    signals, concat = bd.features.signals, bd.features.concat
    everything = (bd.features.visits(S), bd.features.occupancy(S, A))
    return {
        "declared": Kind(signals(**stage)),
        "open, start unknown": Kind(signals(**stage), open=True, unknown_start=True),
        "paid on arrival, visits and occupancies, start unknown": Kind(
            concat(signals(**stage, c=paid), *everything), unknown_start=True
        ),
        "paid on arrival by step, visits, open, masked": Kind(
            concat(signals(c=by_step, a=stage["a"]), everything[0]), open=True, masked=True
        ),
        "observed, absorbing": Kind(signals(o=seen, a=stage["a"]), absorbing=(1,)),
        "observed and paid on arrival, open": Kind(signals(a=stage["a"], o=seen, c=paid), open=True),
        "at the end, and noisy, open": Kind(signals(o=at_end, a=stage["a"], p=noisy), open=True, absorbing=(1, 2)),
        "noisy at the end, and paid on arrival, open": Kind(signals(c=paid, o=both), open=True, absorbing=(1,)),
        "per step": Kind(signals(**stage), per_step=True),
        "per step, observed and paid on arrival, open": Kind(
            signals(a=stage["a"], o=seen, c=by_step), open=True, unknown_start=True, per_step=True
        ),
        "noisy and at the end": Kind(signals(a=stage["a"], p=noisy, o=at_end), absorbing=(2,)),
    }


KINDS = _kinds()
DELTA = 0.1


@dataclass(frozen=True)
class Case:
    """A model to be learned with all that the reference needs to know, which are plain counts and lists."""

    kind: Kind
    world: World
    knowledge: Knowledge
    n: np.ndarray  # (laws, S, A, S)
    starts: np.ndarray

    def successors(self, s, a):
        if s in self.kind.absorbing:
            return [s]
        return list(range(S)) if self.kind.open else self.world.lists[s][a]

    def unsure(self, s, a):
        return self.world.mdp.actions[s, a] and s not in self.kind.absorbing and len(self.successors(s, a)) > 1

    def log_share(self):
        rows = [(s, a) for s, a in np.ndindex(S, A) if self.unsure(s, a)]
        each = (lambda s, a: len(self.successors(s, a))) if self.knowledge.set in BY_ENTRY else (lambda s, a: 1)
        # A quarter of what may fail is for the means of noisy signals, one claim for every transition of each.
        delta = 0.75 * DELTA if self.noisy() else DELTA
        return math.log((len(self.n) * sum(each(s, a) for s, a in rows) + self.kind.unknown_start) / delta)

    def noisy(self):
        return sum(one.noisy for _, one in self.kind.features.observed)

    def payable(self, one, s):
        """Which next states a signal can be paid for."""
        ends = np.isin(np.arange(S), self.kind.absorbing)
        return ends & (s not in self.kind.absorbing) if one.at_end else np.ones(S, dtype=bool)

    def least_paid(self, one, t, s, a):
        """What a signal with the price t costs at least, for next states that are on the lists and for others."""
        n, anything = self.n[:, s, a].sum(axis=0), min(t * one.low, t * one.high)
        seen = t * self.world.shown[s, a]
        if one.noisy:
            pairs = [(u, v) for u, v in np.ndindex(S, A) if self.world.mdp.actions[u, v]]
            share = math.log(self.noisy() * sum(len(self.successors(u, v)) for u, v in pairs) / (0.25 * DELTA))
            parts = (self.world.shown[s, a] - one.low) / (one.high - one.low)
            end = 0.0 if t > 0 else 1.0
            seen = np.array([t * (-1 + 3 * box_end(x * k, k, share, end)) for x, k in zip(parts, n, strict=True)])
        payable = self.payable(one, s)
        return np.where(payable, np.where(n > 0, seen, anything), 0.0), np.where(payable, anything, 0.0)


def make_case(kind, seed, set_="ball", episodes=12):
    kind = KINDS[kind] if isinstance(kind, str) else kind
    world = random_world(seed, masked=kind.masked)
    mdp = world.mdp
    if kind.absorbing:  # the truth must agree
        dense = dense_law(mdp)
        for s in kind.absorbing:
            dense[s] = np.eye(S)[s]
        mdp = bd.TabularMDP(dense, mdp.initial, H)
        world = replace(world, mdp=mdp)
    blank = Case(kind, world, None, None, None)
    payable = [np.stack([blank.payable(one, s) for s in range(S)])[:, None] for _, one in kind.features.observed]
    run = random_episodes(mdp, episodes, seed, [world.shown * mask for mask in payable])
    n, starts = np.zeros((H if kind.per_step else 1, S, A, S)), np.zeros(S)
    for one in run:
        starts[one.states[0]] += 1
        for h, (s, a, t) in enumerate(zip(one.states, one.actions, one.states[1:], strict=False)):
            n[h if kind.per_step else 0, s, a, t] += 1
    support = None if kind.open else world.padded
    model = Tabular(support, absorbing=list(kind.absorbing), set=set_, stationary=not kind.per_step)
    initial = None if kind.unknown_start else mdp.initial
    knowledge = beginning(kind.features, SHAPE, model, delta=DELTA, allowed=mdp.actions, initial=initial)
    return Case(kind, world, after(knowledge, run), n, starts)


def dense_law(mdp):
    dense = np.zeros((S, A, S))
    for s, a in np.ndindex(S, A):
        np.add.at(dense[s, a], mdp.successors.states[0, s, a], mdp.successors.probabilities[0, s, a])
    return dense


def ball_radius(counts, possible, log_share):
    """log(1/share) + log(maximum likelihood / Dirichlet(1/K) mixture), term by term with `math.lgamma`."""
    n, prior = sum(counts), 1 / possible
    likelihood = sum(c * math.log(c / n) for c in counts if c > 0)
    mixture = -math.lgamma(n + 1) + sum(math.lgamma(c + prior) - math.lgamma(prior) for c in counts if c > 0)
    return log_share + likelihood - mixture


def box_end(count, n, log_share, end):
    """Where n kl(count / n, p) reaches the radius of a Beta(1/2, 1/2) mixture, towards `end`, by Brent's method."""

    def loss(p):
        return sum(c * math.log(q) for c, q in ((count, p), (n - count, 1 - p)) if c > 0)

    mixture = math.lgamma(count + 0.5) + math.lgamma(n - count + 0.5) - 2 * math.lgamma(0.5) - math.lgamma(n + 1)
    inside = count / n if n else 0.5
    if n == 0 or inside == end:
        return end

    def outside(p):
        return -loss(p) - log_share + mixture

    last = 1 - 2.0**-53 if end else 1e-300
    return end if outside(last) < 0 else brentq(outside, inside, last, xtol=1e-16)


def bernstein_end(count, n, log_share, end):
    """phat -+ sqrt(2 variance L / n) + 7 L / (3 (n - 1)), one line after the theorem."""
    if n < 2:
        return end
    p, L = count / n, log_share + math.log(4 * n * (n + 1))
    width = math.sqrt(2 * (n * p * (1 - p) / (n - 1)) * L / n) + 7 * L / (3 * (n - 1))
    return min(1.0, p + width) if end else max(0.0, p - width)


ENDS = {"box": box_end, "bernstein": bernstein_end}
BY_ENTRY = tuple(ENDS)


def l1_reference(counts, possible, W, log_share):
    """A linear program over the law and the two parts of its difference from the frequencies; unseen ones last."""
    n, K = sum(counts), len(W)
    if n == 0:
        return float(min(W))
    distance = math.sqrt(2 * (math.log(2**possible - 2) + log_share + math.log(n * (n + 1))) / n)
    eye, zero = np.eye(K), np.zeros((1, K))
    A_eq = np.vstack([np.hstack([eye, -eye, eye]), np.hstack([np.ones((1, K)), zero, zero])])
    b_eq = np.append(np.array(counts) / n, 1.0)
    A_ub = np.hstack([zero, np.ones((1, 2 * K))])
    answer = linprog([*W, *np.zeros(2 * K)], A_ub=A_ub, b_ub=[distance], A_eq=A_eq, b_eq=b_eq)
    assert answer.status == 0, answer.message
    return answer.fun


def box_reference(end, counts, possible, W, elsewhere, log_share):
    """A linear program: listed successors within their limits, and all others together (`elsewhere`: their W)."""
    n = sum(counts)
    limits = [(end(c, n, log_share, 0.0), end(c, n, log_share, 1.0)) for c in counts]
    costs = list(W)
    if elsewhere is not None:
        limits.append((0.0, min(1.0, (possible - len(W)) * end(0, n, log_share, 1.0))))
        costs.append(elsewhere)
    answer = linprog(costs, A_eq=np.ones((1, len(costs))), b_eq=[1.0], bounds=limits)
    assert answer.status == 0, answer.message
    return answer.fun


def dense_minimum(case, theta, row=None):
    """The least theta . Psi by a plain backward pass. `row` replaces the minimum over a row, to break it."""
    row = row or row_minimum
    pieces, log_share, V = case.knowledge.pieces, case.log_share(), np.zeros(S)
    for h in reversed(range(H)):
        Q = np.full((S, A), np.inf)
        for s, a in zip(*np.nonzero(case.world.mdp.actions), strict=True):
            Q[s, a] = pieces.psi.pay(theta[h], h)[s, a] + row(case, theta[h], V, h, int(s), int(a), log_share)
        V = Q.min(axis=1)
    if not case.kind.unknown_start:
        return float(case.world.mdp.initial @ V)
    n = case.starts.sum()
    return ball_reference(case.starts / n, ball_radius(case.starts, S, log_share) / n, V)


def row_minimum(case, theta, V, h, s, a, log_share):
    pieces, counts = case.knowledge.pieces, case.n[h if case.kind.per_step else 0, s, a]
    arrivals = sum((theta[i] * (values[h] if len(values) > 1 else values[0])[s, a] for i, values in pieces.arrivals), V)
    each = [case.least_paid(one, theta[i], s, a) for i, one in pieces.observed]
    shown, beyond = (sum(parts, np.zeros(S)) for parts in zip(*each, strict=True)) if each else (np.zeros(S),) * 2
    # A state outside the lists is the cheapest of all, with what it shows as cheap as can be.
    elsewhere = float(np.min(arrivals + beyond)) if case.kind.open and s not in case.kind.absorbing else None
    states = case.successors(s, a)
    if not case.unsure(s, a):
        return float((arrivals + shown)[states[0]])
    if case.knowledge.set in BY_ENTRY:
        listed = [t for t in states if case.n[:, s, :, t].any()] if case.kind.open else states
        end = ENDS[case.knowledge.set]
        return box_reference(end, counts[listed], len(states), (arrivals + shown)[listed], elsewhere, log_share)
    counts, W = counts[states], (arrivals + shown)[states]
    if elsewhere is not None:
        counts, W = np.append(counts, 0.0), np.append(W, elsewhere)
    if case.knowledge.set == "l1":
        return l1_reference(counts, len(states), W, log_share)
    n = counts.sum()
    if n == 0:
        return float(W.min())
    return ball_reference(counts / n, ball_radius(counts, len(states), log_share) / n, W)


def plan(case, theta):
    knowledge = case.knowledge
    return ExtendedValueIteration()(knowledge.confidence_set, knowledge.layout, theta)


def costs(case):
    """Random costs, among them one with many zeros and one that only looks at the last step."""
    rng = np.random.default_rng(0)
    thetas = rng.normal(size=(3, H, case.knowledge.pieces.psi.dimension))
    thetas[1] *= rng.random(thetas[1].shape) < 0.4
    thetas[2, :-1] = 0.0
    return thetas


# Other sets differ in the rows only: not every kind again. Each is compiled anew: the gate takes those with most parts.
GATE = {("declared", "ball"), ("noisy and at the end", "ball"), ("observed and paid on arrival, open", "l1")}
GATE |= {(kind, "ball") for kind in KINDS if "masked" in kind or "start unknown" in kind}
GATE |= {("at the end, and noisy, open", "ball"), ("per step, observed and paid on arrival, open", "ball")}
GATE |= {("declared", "bernstein"), ("per step", "box")}
CASES = [
    pytest.param(case, marks=() if case in GATE else pytest.mark.slow, id=", ".join(case))
    for case in [(kind, "ball") for kind in KINDS]
    + [
        (kind, set_)
        for set_ in ("box", "bernstein", "l1")
        for kind in ("declared", "observed and paid on arrival, open", "per step")
    ]
]


@pytest.fixture(scope="module", params=CASES)
def planned(request):
    """Cases, costs, the plans for them, and the values of the reference."""
    kind, set_ = request.param
    # Enough episodes for the wider sets to say something.
    cases = [make_case(kind, seed, set_, 12 if set_ in ("ball", "box") else 150) for seed in range(2)]
    return [(case, theta, plan(case, theta), dense_minimum(case, theta)) for case in cases for theta in costs(case)]


def test_plans_have_the_value_of_a_dense_reference(planned):
    """Values are sums of H = 3 rows, each good to 1e-12 of ranges of some 10."""
    for _, _, made, reference in planned:
        assert abs(made.lower - reference) <= 1e-10


def test_plans_pay_their_bound_with_allowed_actions(planned):
    """The law taken pays the bound to 1e-10 of a range in each of H rows; visits are those of a law."""
    for case, theta, made, _ in planned:
        assert abs(np.vdot(theta, made.embedding) - made.lower) <= 1e-9
        assert made.value == np.vdot(theta, made.embedding)
        assert case.world.mdp.actions[np.arange(S), np.asarray(made.actions)].all()
        _, visits, occupancy = case.knowledge.pieces.psi.split(made.embedding)
        for part in (visits, occupancy):
            if part.size:
                assert part.min() >= 0
                np.testing.assert_allclose(part.sum(axis=1), 1.0, atol=1e-14)


def test_the_checker_agrees_with_the_planner_from_below(planned):
    """They share no code. The checker's own account of rounding is below 1e-8 here."""
    for case, theta, made, reference in planned:
        value, error = bound_least_over_set(
            case.knowledge.confidence_set, case.knowledge.pieces, theta, np.abs(theta), 1
        )
        assert made.lower - 1e-8 <= value - error <= made.lower + 1e-12
        assert value - error <= reference + 1e-12
        assert 0 < error <= 1e-8


BROKEN = {
    "what was seen is taken for certain": lambda case, theta, V, h, s, a, share: row_minimum(
        case, theta, V, h, s, a, share - 1e-3
    ),
    "the last step is forgotten": lambda case, theta, V, h, s, a, share: row_minimum(
        case, theta, V, min(h, H - 2), s, a, share
    ),
    "all laws are possible": lambda case, theta, V, h, s, a, share: row_minimum(case, theta, V, h, s, a, share + 30.0),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_the_comparison_of_plans_has_power(broken):
    """Radii off by 1e-3 of a logarithm and a signal one step late are seen."""
    case = make_case("paid on arrival by step, visits, open, masked", 0, episodes=40)
    theta = costs(case)[0]
    assert abs(plan(case, theta).lower - dense_minimum(case, theta)) <= 1e-10
    assert abs(plan(case, theta).lower - dense_minimum(case, theta, BROKEN[broken])) > 1e-8


def test_padding_of_a_list_is_no_successor_of_its_own():
    """Lists shorter than the longest are padded with their first entry, which pays what that entry was seen to pay.

    Two successors, each seen to pay 1, leave no doubt about the payment, however far the law may be from what was seen.
    """
    features = bd.features.signals(o=bd.features.observed(lambda step: step.reward, 0.0, 1.0))
    lists = np.array([[[0, 1, -1]], [[0, 1, 2]], [[2, -1, -1]]])
    knowledge = beginning(features, (2, 3, 1), Tabular(lists), initial=np.eye(3)[0])
    always = np.ones((3, 1, 3))
    knowledge = after(knowledge, random_episodes(_chain(), 20, 0, [always]))
    made = ExtendedValueIteration()(knowledge.confidence_set, knowledge.layout, np.array([[1.0], [0.0]]))
    assert abs(made.lower - 1.0) <= 1e-12


def _chain():
    law = np.zeros((3, 1, 3))
    law[:, 0] = [[0.5, 0.5, 0.0], [0.3, 0.3, 0.4], [0.0, 0.0, 1.0]]
    return bd.TabularMDP(law, 0, 2)


# Whole problems.


def constrained(case, share):
    """Minimise the first signal; the second stays below a point between its least and its mean over two plans."""
    x = case.kind.features.embedding(H)
    first, second = (part.name for part in case.kind.features.parts[:2])
    one, other = np.zeros((2, H, case.knowledge.pieces.psi.dimension))
    one[:, 0], other[:, 1] = 1.0, 1.0
    least, usual = plan(case, other).lower, float(np.sum(plan(case, one).embedding[:, 1]))
    limit = least + share * (usual - least)
    return bd.Problem(cp.Minimize(cp.sum(getattr(x, first))), {"second": cp.sum(getattr(x, second)) <= limit})


def solved(program, case, dual, plans=200):
    """The loop until it stalls or its gap is below 1e-11; below 1e-12 its numbers are rounding."""
    turn = None
    if isinstance(program, AffineProgram):
        program = with_resolution(program, np.full(program.limits.size, 1e-12))
    arguments = (program, case.knowledge.layout, case.knowledge.confidence_set, ExtendedValueIteration(), dual)
    for turn in primal_dual(*arguments):
        closed = turn.duals.feasible and turn.duals.f - turn.duals.optimum.value <= 1e-11
        if closed or turn.duals.stalled or turn.number == plans:
            break
    return turn.duals


def flows(case, q, z):
    """The constraints on occupancies q[h, s, a] and z[h, s, a, s']: mass is kept, and only possible states follow."""
    mdp, rows = case.world.mdp, []
    for h in range(H):
        for s in range(S):
            arriving = mdp.initial[s] if h == 0 else sum(z[h - 1][i, a][s] for i, a in np.ndindex(S, A))
            rows.append(sum(q[h][s, a] for a in range(A)) == arriving)
            for a in range(A):
                rows.append(cp.sum(z[h][s, a]) == q[h][s, a])
                outside = [t for t in range(S) if t not in case.successors(s, a)]
                rows.append(z[h][s, a][outside] == 0)
    return rows


def extended_program(case):
    """All policies and laws of the set at once: (expected first two signals by step, constraints) over CVXPY variables.

    A law P of row (s, a) appears as z = q P: for a box low q <= z <= high q, for a ball sum of
    (phat q) log(phat q / z) <= radius q, which is convex in (q, z).
    """
    q = [{(s, a): cp.Variable(nonneg=True) for s, a in np.ndindex(S, A)} for _ in range(H)]
    z = [{(s, a): cp.Variable(S, nonneg=True) for s, a in np.ndindex(S, A)} for _ in range(H)]
    rows, share = flows(case, q, z), case.log_share()
    for h, s, a in np.ndindex(H, S, A):
        counts, states = case.n[h % len(case.n), s, a], case.successors(s, a)
        n = counts.sum()
        if not case.unsure(s, a) or n == 0:
            continue
        if case.knowledge.set == "box":
            low = np.array([box_end(c, n, share, 0.0) for c in counts[states]])
            high = np.array([box_end(c, n, share, 1.0) for c in counts[states]])
            rows += [low * q[h][s, a] <= z[h][s, a][states], z[h][s, a][states] <= high * q[h][s, a]]
        else:
            seen = np.flatnonzero(counts)
            mass = counts[seen] / n * q[h][s, a]
            radius = ball_radius(counts[states], len(states), share) / n
            rows.append(cp.sum(cp.rel_entr(mass, z[h][s, a][seen])) <= radius * q[h][s, a])
    pieces = case.knowledge.pieces
    paid = [
        [
            sum(
                pieces.stage[h % len(pieces.stage), i, s, a] * q[h][s, a]
                + sum((v[h % len(v), s, a] @ z[h][s, a] for j, v in pieces.arrivals if j == i), 0.0)
                for s, a in np.ndindex(S, A)
            )
            for i in range(2)
        ]
        for h in range(H)
    ]
    return paid, rows


PAID = Kind(
    bd.features.signals(a=np.linspace(-1, 1, S * A).reshape(S, A), c=np.random.default_rng(9).normal(size=(S, A, S)))
)


@pytest.mark.parametrize(("kind", "seed"), [("declared", 0), ("declared", 1), ("paid", 2), ("per step", 3)])
def test_the_loop_over_boxes_solves_the_extended_linear_program(kind, seed):
    """Both are exact up to HiGHS' tolerance of 1e-9 or better on numbers of size 1."""
    case = make_case(PAID if kind == "paid" else kind, seed, "box", episodes=60)
    problem = constrained(case, 0.4)
    duals = solved(problem.program(), case, FullyCorrective())
    paid, rows = extended_program(case)
    limit = float(problem.lines()[0].bounds[0])
    program = cp.Problem(cp.Minimize(sum(p[0] for p in paid)), [*rows, sum(p[1] for p in paid) <= limit])
    value = program.solve(solver=cp.HIGHS)
    assert duals.feasible
    assert duals.optimum.gamma[0] > 0
    assert abs(duals.f - value) <= 1e-8
    assert abs(duals.optimum.value - value) <= 1e-8


@pytest.mark.parametrize(("kind", "seed"), [("declared", 0), ("paid", 2)])
def test_the_loop_over_balls_solves_the_extended_cone_program(kind, seed):
    """Clarabel is good to some 1e-8 here."""
    case = make_case(PAID if kind == "paid" else kind, seed, episodes=60)
    problem = constrained(case, 0.4)
    duals = solved(problem.program(), case, FullyCorrective())
    paid, rows = extended_program(case)
    limit = float(problem.lines()[0].bounds[0])
    program = cp.Problem(cp.Minimize(sum(p[0] for p in paid)), [*rows, sum(p[1] for p in paid) <= limit])
    value = program.solve(solver=cp.CLARABEL)
    assert duals.feasible
    assert duals.optimum.gamma[0] > 0
    assert abs(duals.f - value) <= 1e-6
    assert abs(duals.optimum.value - value) <= 1e-6
    # Without the constraint the value is another: the comparison would see one that is lost.
    assert cp.Problem(program.objective, rows).solve(solver=cp.CLARABEL) < value - 1e-3


def test_a_convex_problem_over_balls_is_the_extended_cone_program():
    """A distance to a point under a linear limit; the loop stops at a gap of 1e-7."""
    case = make_case("declared", 0, episodes=60)
    limit = float(constrained(case, 0.4).lines()[0].bounds[0])
    x = case.kind.features.embedding(H)
    problem = bd.Problem(
        cp.Minimize(cp.norm(cp.sum(x, axis=0) - np.array([-2.0, 1.0]))), {"second": cp.sum(x.b) <= limit}
    )
    shown = FinalBound(gap=1e-7)(problem.program(), case.knowledge)
    duals = solved(problem.program(), case, ConicCorrective(), plans=60)
    paid, rows = extended_program(case)
    sums = cp.hstack([sum(p[i] for p in paid) for i in range(2)])
    program = cp.Problem(cp.Minimize(cp.norm(sums - np.array([-2.0, 1.0]))), [*rows, sums[1] <= limit])
    value = program.solve(solver=cp.CLARABEL)
    assert abs(duals.f - value) <= 1e-5
    assert value - 1e-5 <= shown.lower <= value + 1e-7


# Bounds.


def limited(case):
    """Minimise the first signal; the second stays below what it can truly be, and 0.3."""
    x = case.kind.features.embedding(H)
    first, second = (cp.sum(getattr(x, part.name)) for part in case.kind.features.parts[:2])
    limit = true_optimum(bd.Problem(cp.Minimize(second)), case.world.mdp)[0] + 0.3
    return bd.Problem(cp.Minimize(first), {"second": second <= limit})


def inside(case):
    """Whether the true law is in all balls, by hand."""
    share, dense = case.log_share(), dense_law(case.world.mdp)
    for h, s, a in np.ndindex(case.n.shape[:3]):
        counts, n = case.n[h, s, a], case.n[h, s, a].sum()
        if n and case.unsure(s, a):
            seen = counts > 0
            divergence = np.sum(counts[seen] * np.log(counts[seen] / n / dense[s, a, seen]))
            if divergence > ball_radius(counts, len(case.successors(s, a)), share):
                return False
    return True


@pytest.mark.parametrize("kind", ["declared", "paid on arrival by step, visits, open, masked", "per step"])
def test_any_multipliers_bound_the_true_optimum_where_the_truth_is_in_the_set(kind):
    """Not only the best ones, and never by more than the planner says; and they say more than before any episode."""
    rng = np.random.default_rng(3)
    for seed in range(3):
        # Counts of every step take longer to say something.
        case, nothing = (make_case(kind, seed, episodes=count) for count in (600 if kind == "per step" else 60, 0))
        assert inside(case)
        problem, knowledge = limited(case), case.knowledge
        program, (_, best) = problem.program(), true_optimum(problem, case.world.mdp)
        for gamma in [0.0, *rng.exponential(1.0, 3)]:
            record = Record(np.array([gamma]), 1.0)
            bound = lower_bound(program, record, knowledge.confidence_set, knowledge.pieces)
            theta = program.theta(record.gamma, 1.0)
            planned = plan(case, theta).lower + program.offset - gamma * program.limits[0]
            assert planned - 1e-8 <= bound <= planned + 1e-12
            assert bound <= best
            empty = nothing.knowledge
            assert bound > lower_bound(program, record, empty.confidence_set, empty.pieces) + 1e-3


def test_a_set_that_lost_the_truth_gives_a_false_bound():
    """So the test above can fail: with the frequencies for certain the bound exceeds the optimum in some case."""
    wrong = 0
    for seed in range(4):
        case = make_case("declared", seed, episodes=100)
        problem, sure = limited(case), replace(case.knowledge.confidence_set)
        vars(sure)["radius"] = np.where(np.isfinite(sure.radius), 0.0, sure.radius)  # in place of the cached ones
        records = [Record(np.array([gamma]), 1.0) for gamma in (0.0, 0.25, 0.5, 1.0, 2.0)]
        bound = max(lower_bound(problem.program(), record, sure, case.knowledge.pieces) for record in records)
        wrong += bound > true_optimum(problem, case.world.mdp)[1] + 1e-3
    assert wrong > 0


RECORDS = {
    "negative": (Record(np.array([-1e-3]), 1.0), "negative"),
    "NaN": (Record(np.array([np.nan]), 1.0), "finite multipliers"),
    "infinite": (Record(np.array([np.inf]), 1.0), "finite multipliers"),
    "weight": (Record(np.array([1.0]), 0.5), "weight 0 or 1; got weight 0.5"),
    "clash": (Record(np.array([0.5]), 0.0), "sum to 1 in units"),
}


@pytest.mark.parametrize("name", RECORDS)
def test_records_that_prove_nothing_are_refused(name):
    case = make_case("declared", 0)
    record, words = RECORDS[name]
    with pytest.raises(bd.CertificateError, match=words):
        lower_bound(constrained(case, 0.5).program(), record, case.knowledge.confidence_set, case.knowledge.pieces)


def test_the_multiplier_of_an_equality_may_be_negative():
    case = make_case("declared", 0)
    x = case.kind.features.embedding(H)
    program = bd.Problem(cp.Minimize(cp.sum(x.a)), {"b": cp.sum(x.b) == 0.1}).program()
    bound = lower_bound(program, Record(np.array([-0.5]), 1.0), case.knowledge.confidence_set, case.knowledge.pieces)
    planned = plan(case, program.theta(np.array([-0.5]), 1.0)).lower + 0.5 * 0.1
    assert planned - 1e-8 <= (bound or 0.0) <= planned + 1e-12


def test_a_cost_with_nan_is_refused():
    case = make_case("declared", 0)
    theta = np.full((H, 2), np.nan)
    with pytest.raises(bd.CertificateError, match="NaN or infinity"):
        bound_least_over_set(case.knowledge.confidence_set, case.knowledge.pieces, theta, np.abs(theta), 1)


def test_expected_payments_on_arrival_would_leak_what_is_not_known():
    """A cost of 1 for arriving in state 1, seen in 6 of 10 steps where its probability is 0.3: the truth is well inside
    the set. As r(s, a) = sum phat r(s, a, s') the cost looks certain, and the bound exceeds the true optimum.
    """
    law = np.array([[[0.7, 0.3]], [[0.7, 0.3]]])
    mdp = bd.TabularMDP(law, 0, 1)
    cost = np.zeros((2, 1, 2))
    cost[:, :, 1] = 1.0
    features = bd.features.signals(cost=cost)
    problem = bd.Problem(cp.Minimize(cp.sum(features.embedding(1).cost)))
    best = true_optimum(problem, mdp)[0]
    assert abs(best - 0.3) <= 1e-8
    knowledge = beginning(features, (1, 2, 1), Tabular(mdp), initial=mdp.initial)
    arrivals = [1] * 6 + [0] * 4
    knowledge = after(knowledge, [episode([0, t], [0]) for t in arrivals])
    record = Record(np.zeros(0), 1.0)
    honest = lower_bound(problem.program(), record, knowledge.confidence_set, knowledge.pieces)
    naive = features.stage(knowledge.smoothed_model().successors)
    leaking = replace(knowledge.pieces, stage=naive.signals, arrivals=())
    assert honest <= best
    assert honest > 0.05  # and it does say something
    assert lower_bound(problem.program(), record, knowledge.confidence_set, leaking) > best + 0.2
