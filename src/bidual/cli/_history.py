"""What happened on the way, as a table: bounds at the looks and, where the model is known, regret and violation."""

import csv
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bidual.learned import Learned
    from bidual.outputs import Regret

_ROWS = 400  # of regret, equally many per octave


def write_history(solution: "Learned", regret: "Regret | None", path: Path) -> Path:
    """One row per look and per time of regret; a cell is empty where nothing was measured."""
    rows: dict[int, dict[str, object]] = {}
    for look in solution.history:
        cells = {"bound": look.bound, "reached": look.reached, "violation_at_most": look.violation}
        rows.setdefault(look.episodes, {}).update(cells, plans=look.plans, seconds=round(look.seconds, 3))
        if look.candidates is not None:
            rows[look.episodes]["candidates_left"] = look.candidates.most
    columns = ["episodes", "bound", "reached", "violation_at_most", "plans", "seconds"]
    columns += ["candidates_left"] if any(look.candidates is not None for look in solution.history) else []
    if regret is not None:
        names = {name: name.replace(" ", "_") for name in regret.series}
        columns += names.values()
        for place in _spread(len(regret.episodes)):
            cells = {names[name]: float(sums[place]) for name, sums in regret.series.items()}
            rows.setdefault(int(regret.episodes[place]), {}).update(cells)
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, columns)
        table.writeheader()
        table.writerows({"episodes": episodes, **rows[episodes]} for episodes in sorted(rows))
    return path


def _spread(count: int) -> list[int]:
    import numpy as np

    return sorted(set((np.geomspace(1, count, _ROWS).round().astype(int) - 1).tolist()))
