"""The folder that `--out` names, and the files that it writes.

The folder is made before the work, because an impossible one should fail then, and not after.
"""

import json
import os
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from bidual._base.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from matplotlib.figure import Figure

    from bidual.cli._target import Unknown
    from bidual.learning.learned import Learned
    from bidual.solving.solution import Solution
    from bidual.world.mdp import Grid

_EPISODES = 5


def make_folder(folder: Path) -> None:
    """Make the folder of results, and those above it; an existing one is taken as it is."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        file = next(one for one in (folder, *folder.parents) if os.path.lexists(one) and not one.is_dir())
        raise OutputError(
            f"--out {folder}: {file} is a file, and results go into a folder: name another one, or move the file away"
        ) from None
    except OSError as error:
        raise OutputError(f"--out {folder}: the folder cannot be made ({error.strerror}): name another one") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OutputError(f"--out {folder}: nothing may be written in that folder: name another one")


def write_outputs(solution: "Solution", folder: Path, grid: "Grid | None") -> list[Path]:
    """Save the solution, its JSON and its figures; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    solution.save(folder / "solution.bidual")
    return [folder / "solution.bidual", *_write(solution, folder, _draw_figures(solution, grid))]


def write_learned(
    solution: "Learned",
    folder: Path,
    grid: "Grid | None",
    optimum: float | None,
    figures: "Iterable[tuple[str, Figure | bytes]]" = (),
) -> list[Path]:
    """Save a learned solution, its JSON and its figures; return the files, of which the solution is the first."""
    folder.mkdir(parents=True, exist_ok=True)
    solution.save(folder / "solution.bidual", signals={})  # which functions to give again is printed
    drawn = chain(_draw_learning_figures(solution, grid, optimum), figures)
    return [folder / "solution.bidual", *_write(solution, folder, drawn)]


def draw_control_figures(solution: "Learned", target: "Unknown") -> "Iterator[tuple[str, Figure | bytes]]":
    """Draw the policy's behaviour on a few episodes that are run for the figures alone: nothing else rests on them."""
    if target.picture is None:
        return
    from bidual._base.keys import Draw, Purpose
    from bidual.report import can_animate, control_animation, control_figure
    from bidual.world.envs import control_environment

    env = control_environment(target.env, target.problem.embedding.horizon)
    episodes = [env.collect(solution.policy, Draw(solution.seed, Purpose.SHOW, i)) for i in range(_EPISODES)]
    alike = len({b"" if one.observations is None else one.observations.tobytes() for one in episodes}) == 1
    which = "every episode" if alike else f"{_EPISODES} episodes"
    title = f"{target.name}: {which} of the policy that was learned in {solution.episodes}"
    yield "episodes.png", control_figure(episodes[:1] if alike else episodes, target.picture, title)
    if can_animate(target.picture):
        short = f"{target.name}, learned in {solution.episodes} episodes"
        yield "episode.gif", control_animation(episodes[0], target.picture, short)


def to_json(solution: "Solution | Learned") -> str:
    """One JSON object; a missing bound is null, never NaN or Infinity."""
    from bidual.learning.learned import Learned

    details = solution.details() if isinstance(solution, Learned) else {}
    return json.dumps(solution.to_dict() | details, indent=2, allow_nan=False)


def _write(solution: "Solution | Learned", folder: Path, figures: "Iterable[tuple[str, Figure | bytes]]") -> list[Path]:
    """Write JSON and figures; figures are drawn one by one as they are written, animations are files already."""
    from bidual._base.archive import put_bytes
    from bidual.report import save_figure

    paths = [folder / "solution.json"]
    put_bytes(paths[0], (to_json(solution) + "\n").encode())
    for name, figure in figures:
        paths.append(folder / name)
        if isinstance(figure, bytes):
            put_bytes(paths[-1], figure)
        else:
            save_figure(figure, paths[-1])
    return paths


def _draw_figures(solution: "Solution", grid: "Grid | None") -> "Iterator[tuple[str, Figure]]":
    """Draw the expected visits, the actions (where they are readable), and the bounds over the plans."""
    from bidual.report import bounds_figure, can_draw_policy, policy_figure, visits_figure

    yield "visits.png", visits_figure(solution, grid)
    if can_draw_policy(solution, grid):
        yield "policy.png", policy_figure(solution, grid)
    yield "bounds.png", bounds_figure(solution)


def _draw_learning_figures(
    solution: "Learned", grid: "Grid | None", optimum: float | None
) -> "Iterator[tuple[str, Figure]]":
    """Draw the bounds over the episodes, and the class of laws if there is one; on a map, the expected visits."""
    from bidual.report import candidates_figure, learning_figure, visits_figure

    yield "learning.png", learning_figure(solution, optimum)
    if solution.candidates is not None:
        yield "candidates.png", candidates_figure(solution)
    if grid is not None:
        yield "visits.png", visits_figure(solution, grid)
