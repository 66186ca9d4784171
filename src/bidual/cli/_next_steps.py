"""What to do next, as commands and lines of code that work as they are printed."""

import shlex
from pathlib import Path

from bidual._base.errors import ArchiveError
from bidual.cli._options import Options, finish_command, resume_command


def describe_stop(folder: Path, options: Options) -> str:
    """Return what is left of a run that was stopped, as far as it is in its folder, and the commands that use it."""
    from bidual.learning.folder import count_stored

    episodes, resume = count_stored(folder), resume_command(options, folder)
    if episodes is None:
        return f"nothing is stored: the run was stopped before it began to be written to {folder}"
    if not episodes:
        return f"the run is stored: '{resume}' goes on with it"
    return (
        f"the run is stored: '{resume}' goes on with it, '{finish_command(options, folder)}' ends it with what was "
        "learned"
    )


def describe_use(path: Path, options: Options) -> tuple[str, str]:
    """Return two lines that say how to load the policy in a saved file in Python, and how to run it."""
    settings = [word for setting in options.settings for word in ("--set", setting)]
    command = shlex.join(["bidual", "evaluate", str(path), options.target, *settings])
    return (
        f"load it in Python: policy = bd.load({_format_arguments(path)}); actor = policy.reset(rng=0); "
        "actor.act(observation)",
        f"run episodes of it: {command}",
    )


def _format_arguments(path: Path) -> str:
    """Return the arguments of `bd.load`, with the functions that the policy needs and no file stores."""
    from bidual.storage import load
    from bidual.world.policies import MarkovPolicy

    try:
        policy = load(path)
    except ArchiveError:
        return f"{str(path)!r}, features=problem.embedding.features, model_features=model.map_features"
    numbering = policy.numbering if isinstance(policy, MarkovPolicy) else None
    return f"{str(path)!r}, states=states" if numbering is not None and numbering.functional else repr(str(path))
