"""The curve of a sweep: where the runs of a task differ in one number alone, their values are drawn against it."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bidual.cli.sweep._jobs import JobRecord


def write_curves(out: Path, records: Sequence[JobRecord]) -> list[Path]:
    """Draw a picture for every task of which a single number was varied; return the files."""
    from bidual.report import Trade, save_figure, tradeoff_figure

    files = []
    for target in dict.fromkeys(record.job.options.target for record in records):
        done = [one for one in records if one.job.options.target == target and one.result is not None]
        name = _find_varied(done)
        if name is None:
            continue
        runs = [Trade(_numbers(record)[name], **_read_values(record)) for record in done]
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
    others = {_others(record) for record in records}
    numbers = [_numbers(record) for record in records]
    if len(others) != 1 or not numbers:
        return None
    varied = [name for name in numbers[0] if len({one.get(name) for one in numbers}) > 1]
    return varied[0] if len(varied) == 1 else None


def _others(record: JobRecord) -> tuple[object, ...]:
    """Return everything but seeds and numbers."""
    options = record.job.options.to_dict()
    texts = [text for text in record.job.options.settings if _parse(text) is None]
    return tuple((key, value) for key, value in options.items() if key not in ("seed", "settings")) + tuple(texts)


def _numbers(record: JobRecord) -> dict[str, float]:
    pairs = (_parse(text) for text in record.job.options.settings)
    return dict(pair for pair in pairs if pair is not None)


def _parse(setting: str) -> tuple[str, float] | None:
    name, _, value = setting.partition("=")
    try:
        return name, float(value)
    except ValueError:
        return None
