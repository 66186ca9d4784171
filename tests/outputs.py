"""Comparison of printed outputs with those of the documentation: words exactly, numbers within what is certain.

Another processor rounds otherwise, and then learning goes another way: its numbers agree within their intervals.
Numbers of solves agree within the certified gap. Counts are exact, but for plans, and seconds are not compared. Lines
of what to do next are predictions from single episodes: that they are there is compared, not what they predict.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w])")
ROUNDING = 1e-10  # below this, numbers are rounding errors
PREDICTION = re.compile(r"\s*next\s\s")
PLANS = 2.0  # factor between counts of plans


@dataclass(frozen=True)
class Rule:
    """Differences that numbers may have: absolute, relative, and up to the width of an interval that is printed."""

    absolute: float = 0.0
    relative: float = 0.0
    intervals: bool = False


CERTIFIED = Rule(absolute=2e-6, relative=2e-6)  # both ends within a gap of 1e-6
LEARNED = Rule(absolute=0.1, relative=0.2, intervals=True)


class Number(NamedTuple):
    """A printed number with the words before and after it."""

    text: str
    before: str
    after: str

    @property
    def value(self):
        return float(self.text)

    @property
    def whole(self):
        return re.fullmatch(r"[-+]?\d+", self.text) is not None

    @property
    def unit(self):
        """Return the value of one in the last digit."""
        digits, _, exponent = self.text.partition("e")
        return 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))


def split_line(line):
    """Return the words of a line, with single spaces and marks for numbers, and its numbers."""
    line = re.sub(r"\s+", " ", line).strip()
    found = [Number(match[0], line[: match.start()], line[match.end() :]) for match in NUMBER.finditer(line)]
    return NUMBER.sub("#", line), found


def find_difference(expected, printed, rule=CERTIFIED):
    """Return the first difference between two texts in words, None where there is none."""
    lines, others = expected.strip().splitlines(), printed.strip().splitlines()
    width = next(filter(None, map(_read_width, lines)), 0.0)
    for line, other in zip(lines, others, strict=False):
        if PREDICTION.match(line) and PREDICTION.match(other):
            continue
        (words, numbers), (other_words, other_numbers) = split_line(line), split_line(other)
        if words != other_words:
            return f"expected {line!r}, printed {other!r}"
        room = rule.absolute
        if rule.intervals:
            room = max(room, _read_width(line) or width)
            if not _intervals_overlap(line, other):
                return f"intervals do not overlap: {line!r}, {other!r}"
        for one, another in zip(numbers, other_numbers, strict=True):
            if not _agree(one, another, rule, room):
                return f"expected {one.text}, printed {another.text} in {other!r}"
    if len(lines) != len(others):
        return f"expected {len(lines)} lines, printed {len(others)}: {(lines + others)[min(len(lines), len(others))]!r}"
    return None


def find_difference_of_blocks(blocks, printed, rule=CERTIFIED):
    """Return the first difference between blocks, each of which has its own intervals, and all that was printed."""
    lines = printed.strip().splitlines()
    for block in blocks:
        count = len(block.strip().splitlines())
        mine, lines = lines[:count], lines[count:]
        difference = find_difference(block, "\n".join(mine), rule)
        if difference:
            return difference
    return f"printed besides: {lines[0]!r}" if lines else None


def _agree(one, other, rule, room):
    if re.match(r" s\b", one.after):
        return True
    if one.whole and other.whole:
        if one.after.startswith(" plans"):
            low, high = sorted((one.value, other.value))
            return high <= PLANS * low
        return one.value == other.value
    if max(abs(one.value), abs(other.value)) <= ROUNDING:
        return True
    if rule.intervals and one.text == other.text:
        return True
    allowed = max(room, rule.relative * abs(one.value)) + max(one.unit, other.unit)
    return abs(one.value - other.value) <= allowed


def _read_intervals(line):
    ends = r"\[(-?[\d.e+-]+), (-?[\d.e+-]+)\]"
    return [(float(low), float(high)) for low, high in re.findall(ends, line)]


def _read_width(line):
    return max((high - low for low, high in _read_intervals(line)), default=0.0)


def _intervals_overlap(line, other):
    pairs = zip(_read_intervals(line), _read_intervals(other), strict=True)
    return all(low <= other_high and other_low <= high for (low, high), (other_low, other_high) in pairs)
