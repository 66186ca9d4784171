"""The summary of a sweep: one line per combination, over its seeds; a curve where runs differ in one number alone."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

from bidual.cli.sweep._jobs import JobRecord
from bidual.cli.sweep._progress import format_number


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


def summarise_jobs(records: Iterable[JobRecord]) -> list[SummaryLine]:
    """Summarise each combination in a line, in the order of the jobs."""
    groups: dict[str, list[JobRecord]] = {}
    for record in records:
        groups.setdefault(record.job.group, []).append(record)
    return [_summarise_group(group, members) for group, members in groups.items()]


def format_table(lines: Sequence[SummaryLine]) -> str:
    """Format the lines as a table."""
    rows = [("", "runs", "value", "gap", "violation at most", "certified feasible", "failed")]
    for line in lines:
        rows.append(
            (
                line.group,
                str(line.runs),
                _format_pair(line.value, line.value_spread),
                _format_pair(line.gap, line.gap_spread) + (f" ({line.gaps})" if 0 < line.gaps < line.runs else ""),
                format_number(line.violation, "not bounded" if line.runs else "-"),
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


def _summarise_group(group: str, records: Sequence[JobRecord]) -> SummaryLine:
    """Summarise the jobs of a cell: how many ended, and how their results spread."""
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
        value=_average(values),
        value_spread=_deviate(values),
        gap=_average(gaps),
        gap_spread=_deviate(gaps),
        gaps=len(gaps),
        violation=max(bounded) if bounded and len(bounded) == len(done) else None,
        certified=sum(record.certified for record in done),
    )


def _average(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def _deviate(values: Sequence[float]) -> float | None:
    return statistics.stdev(values) if len(values) > 1 else None


def _format_pair(mean: float | None, spread: float | None) -> str:
    return format_number(mean) if spread is None else f"{format_number(mean)} ± {spread:.2g}"


def write_curves(out: Path, records: Sequence[JobRecord]) -> list[Path]:
    """Draw a picture for every task of which a single number was varied; return the files."""
    from bidual.report import Trade, save_figure, tradeoff_figure

    files = []
    for target in dict.fromkeys(record.job.options.target for record in records):
        done = [one for one in records if one.job.options.target == target and one.result is not None]
        name = _find_varied(done)
        if name is None:
            continue
        runs = [Trade(_collect_numbers(record)[name], **_read_values(record)) for record in done]
        label, sense = Path(target).stem, (done[0].result or {})["sense"]
        files.append(out / f"{label}-{name}.png")
        title = f"{label}: what '{name}' is worth, {done[0].job.options.episodes} episodes each"
        save_figure(tradeoff_figure(runs, name, sense, title), files[-1])
    return files


def _read_values(record: JobRecord) -> dict[str, Any]:
    result = record.result or {}
    limits = {one["name"]: (one["value"], one["limit"]) for one in result["constraints"]}
    return {"constraints": limits} | {key: result[key] for key in ("value", "lower", "upper")}


def _find_varied(records: Iterable[JobRecord]) -> str | None:
    """Find the number in which runs differ, if it is the only difference besides seeds."""
    others = {_strip_seeds(record) for record in records}
    numbers = [_collect_numbers(record) for record in records]
    if len(others) != 1 or not numbers:
        return None
    varied = [name for name in numbers[0] if len({one.get(name) for one in numbers}) > 1]
    return varied[0] if len(varied) == 1 else None


def _strip_seeds(record: JobRecord) -> tuple[object, ...]:
    """Return everything but seeds and numbers."""
    options = record.job.options.to_dict()
    texts = [text for text in record.job.options.settings if _parse(text) is None]
    return tuple((key, value) for key, value in options.items() if key not in ("seed", "settings")) + tuple(texts)


def _collect_numbers(record: JobRecord) -> dict[str, float]:
    pairs = (_parse(text) for text in record.job.options.settings)
    return dict(pair for pair in pairs if pair is not None)


def _parse(setting: str) -> tuple[str, float] | None:
    name, _, value = setting.partition("=")
    try:
        return name, float(value)
    except ValueError:
        return None
