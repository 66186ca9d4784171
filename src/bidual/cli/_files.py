"""What `--out` leaves behind."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bidual.solution import Solution
    from bidual.tasks import Grid


def write_outputs(solution: "Solution", folder: Path, grid: "Grid | None") -> list[Path]:
    """Save the solution, its JSON and the figure of its visits; return the files."""
    from bidual.report import save_figure, visits_figure

    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / name for name in ("solution.bidual", "solution.json", "visits.png")]
    solution.save(paths[0])
    paths[1].write_text(to_json(solution) + "\n")
    save_figure(visits_figure(solution, grid), paths[2])
    return paths


def to_json(solution: "Solution") -> str:
    """One JSON object; a missing bound is null, never NaN or Infinity."""
    return json.dumps(solution.to_dict(), indent=2, allow_nan=False)
