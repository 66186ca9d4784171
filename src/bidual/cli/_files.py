"""What `--out` leaves behind."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.figure import Figure

    from bidual.solution import Solution
    from bidual.tasks import Grid


def write_outputs(solution: "Solution", folder: Path, grid: "Grid | None") -> list[Path]:
    """Save the solution, its JSON and its figures; return the files."""
    from bidual.report import save_figure

    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "solution.bidual", folder / "solution.json"]
    solution.save(paths[0])
    paths[1].write_text(to_json(solution) + "\n")
    for name, figure in _figures(solution, grid):
        paths.append(folder / name)
        save_figure(figure, paths[-1])
    return paths


def _figures(solution: "Solution", grid: "Grid | None") -> "Iterator[tuple[str, Figure]]":
    """Where the policy goes, what it does (where that is readable), how the bounds closed in."""
    from bidual.report import bounds_figure, policy_figure, policy_is_drawable, visits_figure

    yield "visits.png", visits_figure(solution, grid)
    if policy_is_drawable(solution, grid):
        yield "policy.png", policy_figure(solution, grid)
    yield "bounds.png", bounds_figure(solution)


def to_json(solution: "Solution") -> str:
    """One JSON object; a missing bound is null, never NaN or Infinity."""
    return json.dumps(solution.to_dict(), indent=2, allow_nan=False)
