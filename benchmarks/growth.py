"""Draw passes and seconds against the number of states from benchmarks/results/convex.json.

python -m benchmarks.growth       writes docs/images/performance-growth.png
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt

from benchmarks.convex import RESULTS

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "performance-growth.png"


def main() -> None:
    """One line per model and family, with the power of S that fits it."""
    found = json.loads(RESULTS.read_text())["growth"]
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 4.8), layout="constrained")
    for name, case in found.items():
        model, kind = name.split(" ", 1)
        style = {"marker": "o" if model == "grid" else "s", "linestyle": "-" if model == "grid" else "--"}
        colour = f"C{('squared', 'entropy', 'norm', 'tight norm').index(kind)}"
        states = [row["states"] for row in case["rows"]]
        passes = [row["hard"] + row["soft"] for row in case["rows"]]
        seconds = [row["seconds"] for row in case["rows"]]
        powers = (round(case[f"power_of_{what}"], 2) + 0.0 for what in ("passes", "seconds"))  # no -0.0
        labels = [f"{name}: $S^{{{power:.2f}}}$" for power in powers]
        for axis, numbers, label in zip(axes, (passes, seconds), labels, strict=True):
            axis.loglog(states, numbers, color=colour, label=label, markersize=4, **style)
    axes[0].set(xlabel="states", ylabel="passes to a certified gap of 1e-3", title="Passes hardly grow with the model")
    axes[1].set(xlabel="states", ylabel="CPU seconds, one core", title="so time grows about like its size")
    axes[0].set_yticks([20, 50, 100], ["20", "50", "100"])
    axes[0].minorticks_off()
    for axis in axes:
        axis.legend(fontsize=8, frameon=False, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.16))
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(PICTURE, dpi=90)


if __name__ == "__main__":
    main()
