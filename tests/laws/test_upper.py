"""What is printed of a policy against its exact value: every sum in rational arithmetic, at kinks and everywhere."""

from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from tests.helpers import keep_few, random_instance

# With one action there is one policy, whose computed image is the target to the last bit: the kink itself.
SHAPES = ((3, 2, 2, 3), (4, 1, 3, 5), (4, 1, 3, 5))
SCALES = (1e8, 1.0, 1e-8)


def exactly(solution, mdp, signal):
    """The totals of a signal, step by step, of the policy as it is stored, without any rounding."""
    lists, table = mdp.successors, solution.policy.table
    law, totals = [Fraction(p) for p in mdp.initial.tolist()], []
    for h in range(mdp.horizon):
        after, paid = [Fraction(0)] * mdp.num_states, Fraction(0)
        for s, a in np.ndindex(mdp.num_states, mdp.num_actions):
            mass = law[s] * Fraction(float(table[h, s, a]))
            paid += mass * Fraction(float(signal[s, a]))
            for successor, chance in zip(lists.states[0, s, a], lists.probabilities[0, s, a], strict=True):
                after[successor] += mass * Fraction(float(chance))
        totals.append(paid)
        law = after
    return totals


def squares(far):
    return sum(d * d for d in far)


def hubers(far):
    return sum(d * d if abs(d) <= 1 else 2 * abs(d) - 1 for d in far)


# An expression of the distances, and whether a rational number is below it for the exact distances.
KINDS = {
    "squares": (cp.sum_squares, lambda far, bound: squares(far) <= bound),
    "norm": (cp.norm, lambda far, bound: squares(far) <= bound**2),
    "absolute": (lambda e: cp.sum(cp.abs(e)), lambda far, bound: sum(map(abs, far)) <= bound),
    "huber": (lambda e: cp.sum(cp.huber(e)), lambda far, bound: hubers(far) <= bound),
    "hinge": (lambda e: cp.sum(cp.pos(e)), lambda far, bound: sum(max(d, 0) for d in far) <= bound),
    "fourth": (lambda e: cp.sum(cp.power(e, 4)), lambda far, bound: sum(d**4 for d in far) <= bound),
    "over": (lambda e: cp.quad_over_lin(e, 3.0), lambda far, bound: squares(far) <= 3 * bound),
}


def _problem(seed, kind, scale, as_limit):
    """A distance to what one policy pays: the optimum is 0, and there is the kink."""
    instance = random_instance(seed, SHAPES[seed // 3 % 3])
    signal = scale * np.random.default_rng(seed).normal(size=instance.signals[0].shape)
    x = instance.mdp.embedding(a=signal, b=instance.signals[1])
    other = bd.solve(bd.Problem(cp.Minimize(cp.sum(x.b))), instance.mdp)
    target = other.embedding[:, 0]
    distance = KINDS[kind][0](x.a - target)
    if as_limit:
        return instance, signal, target, bd.Problem(cp.Minimize(cp.sum(x.b)), {"near": distance <= 0})
    return instance, signal, target, bd.Problem(cp.Minimize(distance))


@pytest.mark.parametrize("as_limit", [False, True], ids=["objective", "limit"])
@pytest.mark.parametrize("seed", keep_few(range(60), 30))
def test_what_is_printed_is_no_less_than_the_exact_value(seed, as_limit):
    kind, scale = list(KINDS)[seed % len(KINDS)], SCALES[seed % len(SCALES)]
    instance, signal, target, problem = _problem(seed, kind, scale, as_limit)
    solution = bd.solve(problem, instance.mdp, max_plans=15)
    far = [paid - Fraction(float(t)) for paid, t in zip(exactly(solution, instance.mdp, signal), target, strict=True)]
    printed = solution.constraint("near").violation_upper if as_limit else solution.upper
    assert KINDS[kind][1](far, Fraction(float(printed)))
