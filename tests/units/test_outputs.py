"""Comparison of outputs accepts what may differ between machines, and notices everything else."""

import pytest

from tests.outputs import CERTIFIED, LEARNED, find_difference, find_difference_of_blocks

SOLVED = """\
optimal: the policy keeps every constraint
  objective    maximize: 0.978347366 reached by the policy
  certificate  no feasible policy can be above 0.978347366: at most 3.6e-14 from optimal
  effort       7 plans, 0.48 s
"""
TAUGHT = """\
undecided: the episodes do not show yet that the policy keeps every constraint
  objective    maximize: 1.52382 in [1.49003, 1.54622], from 333 fresh episodes
  constraint   pits: 0.277578 in [0.160745, 0.396858] <= 0.3: violated by at most 0.0969
  effort       1000 episodes of learning, 728 plans, 8.6 s, seed 0
"""


@pytest.mark.parametrize(
    ("text", "rule", "old", "new"),
    [
        (SOLVED, CERTIFIED, "0.48 s", "12.9 s"),
        (SOLVED, CERTIFIED, "3.6e-14", "1.1e-12"),
        (SOLVED, CERTIFIED, "0.978347366 reached", "0.978348 reached"),
        (SOLVED, CERTIFIED, "7 plans", "9 plans"),
        (SOLVED, CERTIFIED, "  objective    ", "  objective  "),
        (TAUGHT, LEARNED, "1.52382 in [1.49003, 1.54622]", "1.53 in [1.5, 1.56]"),
        (TAUGHT, LEARNED, "728 plans", "1100 plans"),
        (TAUGHT, LEARNED, "at most 0.0969", "at most 0.2"),
    ],
)
def test_what_machines_may_change(text, rule, old, new):
    assert old in text
    assert find_difference(text, text, rule) is None
    assert find_difference(text, text.replace(old, new), rule) is None


@pytest.mark.parametrize(
    ("text", "rule", "old", "new"),
    [
        (SOLVED, CERTIFIED, "0.978347366 reached", "0.978357366 reached"),
        (SOLVED, CERTIFIED, "3.6e-14", "3.6e-4"),
        (SOLVED, CERTIFIED, "7 plans", "15 plans"),
        (SOLVED, CERTIFIED, "no feasible", "no"),
        (SOLVED, CERTIFIED, "maximize: 0.9", "maximize: -0.9"),
        (SOLVED, CERTIFIED, "0.978347366 reached", "nan reached"),
        (SOLVED, CERTIFIED, "  effort       7 plans, 0.48 s\n", ""),
        (SOLVED, CERTIFIED, "0.48 s\n", "0.48 s\none more\n"),
        (SOLVED, CERTIFIED, "optimal: the", "\noptimal: a"),
        (TAUGHT, LEARNED, "1.52382 in [1.49003, 1.54622]", "1.6 in [1.55, 1.65]"),
        (TAUGHT, LEARNED, "1.52382 in", "1.92382 in"),
        (TAUGHT, LEARNED, "333 fresh", "334 fresh"),
        (TAUGHT, LEARNED, "728 plans", "1728 plans"),
        (TAUGHT, LEARNED, "seed 0", "seed 1"),
        (TAUGHT, LEARNED, "<= 0.3:", "<= 0.8:"),
        (TAUGHT, LEARNED, "at most 0.0969", "at most 0.9"),
        (TAUGHT, LEARNED, "at most 0.0969", "at least 0.0969"),
    ],
)
def test_what_is_noticed(text, rule, old, new):
    assert old in text
    assert find_difference(text, text.replace(old, new), rule)


def test_blocks_are_compared_one_after_the_other():
    assert find_difference_of_blocks([SOLVED, TAUGHT], SOLVED + TAUGHT, LEARNED) is None
    assert find_difference_of_blocks([SOLVED, TAUGHT], SOLVED, LEARNED)
    assert find_difference_of_blocks([SOLVED], SOLVED + TAUGHT, LEARNED)
    assert find_difference_of_blocks([TAUGHT, SOLVED], SOLVED + TAUGHT, LEARNED)
