"""The verifier of learned answers: ``python verify_learned.py FILE``, with the other files verify*.py beside it.

FILE holds what was declared of an environment, counts of its transitions, samples of fresh episodes of the policy, and
claims that hold together with probability 1 - delta. Granted is what nobody can check: the declarations, and that
counts and samples are what was seen. The rest is decided with no tolerance.

* The bound that no policy beats: f >= f + gamma . g, and the least of that over all policies and all laws that the
  counts leave possible (verify_laws.py).
* The policy: its samples refute every mean above the stated one, by bets (verify_bets.py) within ends that no episode
  can leave, whatever chance does: so says another backward induction.
* Of delta, half is for the laws, an eighth for mixtures of policies, 3/8 6 / (pi k)^2 for round k of samples, evenly
  over functionals: of each a tenth for its lower and nine for its upper end. Together these are at most delta.
* Rounded numbers (value, violation) state nine digits of the largest value of an episode.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
import sys
from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING or __package__:
    from bidual.certificate.verify import (
        ONE,
        Arrays,
        Claims,
        Form,
        NotDecidedError,
        Test,
        at_most,
        combine,
        cut,
        main,
        nearly,
        span,
    )
    from bidual.certificate.verify_bets import SampleRange, SampleRound, refutes, shares
    from bidual.certificate.verify_laws import Laws
else:  # alone, beside these files
    from verify import ONE, Arrays, Claims, Form, NotDecidedError, Test, at_most, combine, cut, main, nearly, span
    from verify_bets import SampleRange, SampleRound, refutes, shares
    from verify_laws import Laws


def read_learned(manifest: dict[str, Any], arrays: Arrays) -> Claims:
    if "functions" in manifest["problem"]:
        raise NotDecidedError("expressions in learned problems: not known to this program")
    return LearnedAnswer(manifest, arrays).claims()


def grant(manifest: dict[str, Any], laws: Laws) -> Claims:
    """Return what nobody can check."""
    law = "one law for all steps" if len(laws.counts) == 1 else "a law for every step"
    fixed = "of the policy in FILE" if None not in manifest["policies"] else "of the policy in FILE, as nothing tells"
    reasons = {
        "environment": f"the declared successors, ends of episodes, starts and signals, and {law}",
        "counts": f"they are of {laws.episodes} episodes, as they were seen",
        "samples": f"they are of fresh episodes {fixed}, in a number that was fixed before where a round says so",
        "signals": "each that only the environment shows is a function of the transition, or noise around one",
        "prices": "those of the learned model, guesses that no bound rests on",
    }
    there = (name for name in reasons if name != "signals" or laws.signals.observed)
    return [(name, partial(tuple, (None, reasons[name]))) for name in there]


@final
class LearnedAnswer:
    """f and g of a linear problem as forms, a proof, samples, and the claims on them."""

    def __init__(self, manifest: dict[str, Any], arrays: Arrays) -> None:
        self.manifest, self.stated, self.laws = manifest, manifest["claims"], Laws(manifest, arrays)
        names = [None, *((h, k) for h, step in enumerate(self.laws.costs) for k in range(len(step)))]
        rows = cut(arrays["problem_objective"][1] + arrays["problem_rows"][1], len(names) - 1)
        constants = [manifest["problem"]["offset"], *(-x for x in arrays["problem_limits"][1])]
        whole = [map(Fraction, [c, *row]) for c, row in zip(constants, rows, strict=True)]
        self.forms: list[Form] = [{name: c for name, c in zip(names, row, strict=True) if c} for row in whole]
        self.equality = [flag is True for flag in arrays["problem_equality"][1]]
        self.weight, self.gamma = manifest["objective_weight"], list(map(Fraction, arrays.get("gamma", ((), []))[1]))
        self.ends = list(map(SampleRange.of, arrays["low"][1], arrays["high"][1]))
        self.rounds = self._read_rounds(arrays)
        width, limits = len(self.forms), [x for *_, limits in manifest["lines"] for x in limits]
        fits = [width == len(self.ends) == len(self.equality) + 1 == len(limits) + 1, self.weight in (None, 0, 1)]
        fits += [arrays["numbers"][1] == list(range(width)), self.weight is None or len(self.gamma) == width - 1]
        if not all(fits):
            raise ValueError("problem, multipliers and samples do not fit each other")

    def _read_rounds(self, arrays: Arrays) -> list[SampleRound]:
        (shape, policy), rounds, width = arrays["policy"], self.manifest["rounds"], len(self.forms)
        packed = struct.pack(f"<{len(policy)}d", *policy)
        numbering = json.dumps([self.manifest[key] for key in ("numbering",) if key in self.manifest], sort_keys=True)
        digest = hashlib.sha256(f"{numbering}<f8{shape}".encode() + packed).hexdigest()[:32]
        uniform = self.manifest.get("uniform") or [False] * len(rounds)
        owners = self.manifest.setdefault("policies", [None] * len(rounds))
        if len(owners) != len(rounds) or any(owner not in (None, digest) for owner in owners):
            raise ValueError("the samples are of another policy")
        if not all(type(x) is int and x > 0 and arrays[f"paid_{i}"][0][1:] == (width,) for i, x in enumerate(rounds)):
            raise ValueError("a round has no number, or samples of other functionals")
        columns = [
            [list(one) for one in zip(*cut(arrays[f"paid_{i}"][1], width), strict=True)] for i in range(len(rounds))
        ]
        return [SampleRound(x, y is True, z) for x, y, z in zip(rounds, uniform, columns, strict=True)]

    @cached_property
    def bound(self) -> int:
        """A number below w f + gamma . g of every policy under every law that may be true."""
        if self.weight is None or any(x < 0 and not equal for x, equal in zip(self.gamma, self.equality, strict=True)):
            raise ValueError("there are no multipliers, or one of an inequality is negative")
        form = combine(zip([int(self.weight), *self.gamma], self.forms, strict=True))
        constant = form.pop(None, Fraction(0))
        return self.laws.least(form) + span(constant)[0]

    def least(self) -> int:
        """Return a number below f of every policy that keeps the constraints."""
        if self.weight != 1:
            raise ValueError("the multipliers are those of a clash")
        return self.bound

    @cached_property
    def tops(self) -> dict[tuple[int, int], Fraction]:
        """The most that an episode can pay, by functional and sign."""
        found = {}
        for i, sign in ((i, sign) for i in range(len(self.forms)) for sign in (1, -1)):
            form = combine([(-sign, self.forms[i])])
            constant = form.pop(None, Fraction(0))
            found[i, sign] = -Fraction(self.laws.least(form, free=True), ONE) - constant
        return found

    def is_below(self, i: int, stated: Fraction, sign: int = 1) -> bool:
        """Decide whether the mean of sign times functional i is shown to be at most a stated number."""
        if stated >= self.tops[i, sign]:
            return True
        (middle, half), least, most = map(Fraction, self.ends[i]), -self.tops[i, -1], self.tops[i, 1]
        if not (middle - half <= least and most <= middle + half):
            raise ValueError(f"an episode is only shown to stay in [{float(least)!r}, {float(most)!r}]")
        ends = SampleRange(sign * self.ends[i].middle, self.ends[i].half)
        for number, uniform, columns in self.rounds:
            share = shares(self.stated["delta"], number, len(self.forms))[sign > 0]
            if refutes([sign * x for x in columns[i]], ends, stated, share, uniform):
                return True
        return False

    def keeps(self, i: int, violation: Fraction) -> bool:
        """Decide whether row i is shown to be violated by at most so much."""
        return self.is_below(i, violation) and (not self.equality[i - 1] or self.is_below(i, violation, -1))

    def mean(self, i: int) -> Fraction:
        samples = [x for one in self.rounds for x in one.columns[i]]
        if not samples:
            raise NotDecidedError("there was no fresh episode: the value is that of the learned model")
        return sum(map(Fraction, samples), Fraction(0)) / len(samples)

    def amount(self, i: int) -> int:
        return math.ceil((abs(Fraction(self.ends[i].middle)) + Fraction(self.ends[i].half)) * ONE)

    def show(self, holds: bool, *rows: int) -> tuple[bool, str]:
        """Return whether a claim on means holds, and why."""
        number, slack = sum(len(one.columns[0]) for one in self.rounds), max(self.ends[i].half for i in rows) / 2**32
        verb = "refute" if holds else "do not refute"
        return holds, f"{number} fresh episodes {verb} every larger mean; bounds are stated to {slack:.2g}"

    def claims(self) -> Claims:
        stated, start = self.stated, 1
        sign = {"minimize": 1, "maximize": -1}[stated["sense"]]
        reach, beat = ("upper", "lower")[::sign]  # what the policy reaches, and what no policy beats
        tests: dict[str, Test] = {
            f"status {stated['status']}": self._status,
            "value": lambda: nearly(stated["value"], span(sign * self.mean(0)), self.amount(0)),
            reach: lambda: self.show(self.is_below(0, sign * Fraction(stated[reach])), 0),
            beat: lambda: at_most(-self.least(), stated[beat], "the multipliers prove", -sign),
            "gap": lambda: self.show(self.is_below(0, Fraction(self.least(), ONE) + Fraction(stated["gap"])), 0),
        }
        found = [(name, x) for name, x in tests.items() if stated[name.split()[0]] not in (None, "undecided")]
        for line, one in zip(self.manifest["lines"], stated["constraints"], strict=True):
            found += self._examine(line, one, range(start, start := start + len(line[3])))
        return [("delta", self._delta), *found, *grant(self.manifest, self.laws)]

    def _status(self) -> tuple[bool, str]:
        status, goal, rows = self.stated["status"], self.manifest["goal"], range(1, len(self.forms))
        if status == "infeasible":
            return self.weight == 0 and self.bound > 0, f"gamma . g is at least {self.bound / ONE!r}"
        if not all(self.keeps(i, Fraction(0)) for i in rows):
            return False, "the episodes do not show that the policy keeps every limit"
        closed = status == "feasible" or (status == "optimal" and self.stated["gap"] <= goal)
        return closed, f"the episodes show that the policy keeps every limit; the goal is a gap of {goal}"

    def _delta(self) -> tuple[bool, str]:
        numbers = [one.number for one in self.rounds]
        reason = f"of {self.stated['delta']} half is for the laws, 3/8 for rounds {numbers}, 1/8 for mixtures"
        return len({*numbers}) == len(numbers), reason

    def _examine(self, line: list[Any], stated: dict[str, Any], rows: range) -> Iterator[tuple[str, Test]]:
        """Yield the claims on a constraint, whose rows are sign (value - limit)."""
        (name, sense, sign, limits), equal = line, {self.equality[i - 1] for i in rows}
        as_stated = [name, sense] == [stated["name"], stated["sense"]] and equal == {sense == "=="}
        if not as_stated or sign not in {"<=": (1,), ">=": (-1,), "==": (1, -1)}[sense]:
            raise ValueError(f"constraint {name!r} does not fit its rows")
        amount = max(map(self.amount, rows))

        def value() -> tuple[bool, str]:  # of an entry with the stated limit
            limit, chosen = stated["limit"], [i for i, x in zip(rows, limits, strict=True) if x == stated["limit"]]
            exact = [int(sign) * self.mean(i) + Fraction(limit) for i in chosen]
            found = [nearly(stated["value"], span(x), amount + abs(span(limit)[0])) for x in exact]
            right, why = max(found, default=(False, "no entry has this limit"))
            moved = {float(int(sign) * self.forms[i].get(None, 0) + Fraction(limit)) for i in chosen} - {0.0}
            return right, f"{why}, of which {moved} is a constant in FILE" if moved else why

        def violation() -> tuple[bool, str]:
            worst = max(abs(self.mean(i)) if True in equal else max(self.mean(i), Fraction(0)) for i in rows)
            return nearly(stated["violation"], span(worst), amount)

        def bounded() -> tuple[bool, str]:
            return self.show(all(self.keeps(i, Fraction(stated["violation_upper"])) for i in rows), *rows)

        for key, test in {"value": value, "violation": violation, "violation_upper": bounded}.items():
            if stated[key] is not None:
                yield f"constraint {name!r} {key}", test


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], learned=read_learned))
