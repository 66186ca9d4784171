"""The history of learning as a table: bounds over time and, where the model is known, regret and violation."""

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bidual.learning.learned import Learned
    from bidual.learning.outputs import Regret

_ROWS = 400  # of regret, equally many per octave


def write_history(solution: "Learned", regret: "Regret | None", path: Path) -> Path:
    """Write one row per computation of bounds and per time of regret; unmeasured cells are empty."""
    from bidual._base.archive import put_bytes

    rows: dict[int, dict[str, object]] = {}
    for progress in solution.history:
        cells = {"bound": progress.bound, "reached": progress.reached, "violation_at_most": progress.violation}
        rows.setdefault(progress.episodes, {}).update(cells, plans=progress.plans, seconds=round(progress.seconds, 3))
        if progress.candidates is not None:
            rows[progress.episodes]["candidates_left"] = progress.candidates.most
    columns = ["episodes", "bound", "reached", "violation_at_most", "plans", "seconds"]
    columns += ["candidates_left"] if any(progress.candidates is not None for progress in solution.history) else []
    if regret is not None:
        names = {name: name.replace(" ", "_") for name in regret.series}
        columns += names.values()
        for place in _choose_rows(len(regret.episodes)):
            cells = {names[name]: float(sums[place]) for name, sums in regret.series.items()}
            rows.setdefault(int(regret.episodes[place]), {}).update(cells)
    text = io.StringIO(newline="")
    table = csv.DictWriter(text, columns)
    table.writeheader()
    table.writerows({"episodes": episodes, **rows[episodes]} for episodes in sorted(rows))
    put_bytes(path, text.getvalue().encode())
    return path


def _choose_rows(count: int) -> list[int]:
    import numpy as np

    return sorted(set((np.geomspace(1, count, _ROWS).round().astype(int) - 1).tolist()))
