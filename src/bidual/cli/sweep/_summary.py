"""The summary of a sweep: one line per combination, over its seeds."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, final

from bidual.cli.sweep._jobs import JobRecord
from bidual.cli.sweep._progress import number


@final
@dataclass(frozen=True)
class SummaryLine:
    """Means and standard deviations over the seeds of a combination; None where there are none to average."""

    group: str
    runs: int
    failed: int
    value: float | None
    value_spread: float | None
    gap: float | None
    gap_spread: float | None
    gaps: int  # the number of runs that have one
    violation: float | None  # the largest bound; None where one is not bounded
    certified: int  # the number of policies that are proved to keep every constraint

    def to_dict(self) -> dict[str, Any]:
        """Return the line as JSON values."""
        return asdict(self)


def summary(records: Iterable[JobRecord]) -> list[SummaryLine]:
    """Summarise each combination in a line, in the order of the jobs."""
    groups: dict[str, list[JobRecord]] = {}
    for record in records:
        groups.setdefault(record.job.group, []).append(record)
    return [_line(group, members) for group, members in groups.items()]


def table(lines: Sequence[SummaryLine]) -> str:
    """Format the lines as a table."""
    rows = [("", "runs", "value", "gap", "violation at most", "certified feasible", "failed")]
    for line in lines:
        rows.append(
            (
                line.group,
                str(line.runs),
                _pair(line.value, line.value_spread),
                _pair(line.gap, line.gap_spread) + (f" ({line.gaps})" if 0 < line.gaps < line.runs else ""),
                number(line.violation, "not bounded" if line.runs else "-"),
                f"{line.certified}/{line.runs}" if line.runs else "-",
                str(line.failed or "-"),
            )
        )
    if not any(line.failed for line in lines):
        rows = [row[:-1] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(_align(row, widths) for row in rows)


def _align(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = (f"{word:{'<' if place == 0 else '>'}{widths[place]}}" for place, word in enumerate(row))
    return "  ".join([first, *others]).rstrip()


def _line(group: str, records: Sequence[JobRecord]) -> SummaryLine:
    done = [record for record in records if record.result is not None]
    results = [record.result for record in done if record.result is not None]
    values = [result["value"] for result in results if result["value"] is not None]
    gaps = [result["gap"] for result in results if result["gap"] is not None]
    violations = [record.violation for record in done]
    bounded = [violation for violation in violations if violation is not None]
    return SummaryLine(
        group,
        runs=len(done),
        failed=len(records) - len(done),
        value=_mean(values),
        value_spread=_spread(values),
        gap=_mean(gaps),
        gap_spread=_spread(gaps),
        gaps=len(gaps),
        violation=max(bounded) if bounded and len(bounded) == len(done) else None,
        certified=sum(record.certified for record in done),
    )


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def _spread(values: Sequence[float]) -> float | None:
    return statistics.stdev(values) if len(values) > 1 else None


def _pair(mean: float | None, spread: float | None) -> str:
    return number(mean) if spread is None else f"{number(mean)} ± {spread:.2g}"
