"""The options of ``bidual learn`` as plain values, shared by the command line, stored runs and sweeps."""

import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final, get_args, get_type_hints

from bidual._base.errors import RunError, TaskError
from bidual.cli.new import VECTORS

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from bidual.cli._target import Unknown
    from bidual.learning.learned import Learned, LearnProgress
    from bidual.learning.runs import Folder
    from bidual.loop.explorers import AbstractExplorer
    from bidual.models import Declaration

_EPISODES_OF_VECTORS = 12  # where an environment is learned by its name


@final
@dataclass(frozen=True)
class Options:
    """The options of one run: a task or a file, and everything that its result depends on."""

    target: str
    settings: tuple[str, ...] = ()
    episodes: int = 1000
    seed: int = 0
    delta: float = 0.05
    support: str | None = None
    evaluation: int | None = None
    stop_gap: float | None = None
    explorer: str | None = None
    dual: str | None = None
    confidence: str | None = None
    per_step: bool = False
    batch: int = 1

    def to_dict(self) -> dict[str, Any]:
        """Return the options as JSON values."""
        return asdict(self) | {"settings": list(self.settings)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Options":
        """Restore options from the values of `to_dict`."""
        kinds = get_type_hints(cls) | {"settings": list}
        known = isinstance(values, Mapping) and "target" in values
        if not (known and all(name in kinds and _is_of_type(kinds[name], value) for name, value in values.items())):
            raise RunError(
                "the run was not started by 'bidual learn', so its task and options are not known here: go on with it "
                "where it was started, or name the task and the options"
            )
        return cls(**{**values, "settings": tuple(str(setting) for setting in values.get("settings", ()))})

    @property
    def runs_a_file(self) -> bool:
        """Whether the target is a Python file, which is executed, and not a built-in task."""
        return self.target.endswith(".py")

    def to_arguments(self) -> list[str]:
        """Return the words of the command line that stand for these options; those at their defaults are left out."""
        arguments = [self.target]
        for setting in self.settings:
            arguments += ["--set", setting]
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name not in ("target", "settings") and value != one.default:
                flag = f"--{one.name.replace('_', '-')}"
                arguments += [flag] if value is True else [flag, str(value)]
        return arguments


def read_stored_options(folder: Path) -> Options:
    """Read the options that a run was started with."""
    from bidual.learning.folder import read_manifest

    return Options.from_dict(read_manifest(folder)["options"])


def resume_command(options: Options, folder: "str | os.PathLike[str]") -> str:
    """Return the command that goes on with a run: that of a file, executed only where it is named, with its options."""
    named = options.to_arguments() if options.runs_a_file else []
    return shlex.join(["bidual", "learn", *named, "--run", str(folder), "--resume"])


def finish_command(options: Options, folder: "str | os.PathLike[str]") -> str:
    """Return the command that concludes a stopped run, with its file named where it was learned in one."""
    return shlex.join(["bidual", "finish", str(folder), *([options.target] if options.runs_a_file else [])])


def check_executes_nothing(options: Options, command: str) -> None:
    """Refuse options of a stored run that would execute a file; `command` does the same with the file named by hand.

    Whoever wrote the run chose the file, and may have chosen any: its checksum proves nothing about who that was.
    """
    if options.runs_a_file:
        raise RunError(
            f"the run was learned in the file {options.target}, which would be executed, and no file is executed that "
            f"only a stored run names. If you trust what is in it, name it yourself: {command}"
        )


def _is_of_type(kind: object, value: object) -> bool:
    """Return whether a JSON value is of a type; a whole number is also a float."""
    kinds = get_args(kind) or (kind,)
    return type(value) in kinds or (type(value) is int and float in kinds)


def find_default_episodes(target: str) -> int:
    """Return the default number of episodes of a task; of a file or an unknown name the general default."""
    if target.endswith(".py"):
        return Options.episodes
    if target in VECTORS:
        return _EPISODES_OF_VECTORS
    from bidual.tasks import ENTRIES

    return next((entry.episodes for entry in ENTRIES if entry.name == target), Options.episodes)


def load_declared(options: Options) -> "Unknown":
    """Load the problem and its environment, with its declarations."""
    from bidual.cli._target import load_unknown
    from bidual.learning.defaults import choose_model

    target = load_unknown(options.target, list(options.settings), options.support)
    model = _declare_model(target.model or choose_model(target.problem), options)
    return replace(target, model=model, explorer=_choose_explorer(model, target, options))


def learn_with_options(
    options: Options,
    target: "Unknown",
    *,
    time_limit: float | None = None,
    progress: "Callable[[LearnProgress], None] | None" = None,
    run: "Folder | None" = None,
) -> "Learned":
    """Learn with the given options."""
    from bidual.learning.callbacks import stop_when
    from bidual.learning.learn import learn

    solution = learn(
        target.problem,
        target.env,
        target.model,
        episodes=options.episodes,
        seed=options.seed,
        delta=options.delta,
        explorer=target.explorer,
        evaluation=options.evaluation,
        stop_when=None if options.stop_gap is None else stop_when(options.stop_gap),
        time_limit=time_limit,
        progress=progress,
        batch=options.batch,
        run=run,
    )
    return replace(solution, task=target.name)


def _choose_explorer(model: "Declaration", target: "Unknown", options: Options) -> "AbstractExplorer[Any] | None":
    """Choose the requested explorer or else the task's; None for the model's default."""
    from bidual.cli._explorer_options import find_controls_explorer, find_explorer
    from bidual.learning.defaults import choose_explorer
    from bidual.loop.explorers import Controls, Riccati

    if model.needs.observes == "vectors":
        given = isinstance(target.explorer, Controls | Riccati)
        suited = target.explorer if given else choose_explorer(target.problem, model)
        assert isinstance(suited, Controls | Riccati)  # as all that choose for vectors
        return find_controls_explorer(options.explorer, options.dual, suited)
    return find_explorer(options.explorer, options.dual) or target.explorer


def _declare_model(model: "Declaration", options: Options) -> "Declaration":
    """Return the declaration, completed by the options. A class has candidates for every step in any case.

    The paper's loop over a class is its Algorithm 3: with its rollouts and, if no other is asked for, its set.
    """
    confidence = options.confidence
    if (confidence is not None and not model.sets) or (options.per_step and not model.steps_apart):
        raise TaskError(f"--confidence and --per-step are about counted states, and this model {model.subject}")
    if confidence is not None and confidence not in model.sets:
        raise TaskError(
            f"--confidence {confidence} does not go with {model.subject}: it must be one of {', '.join(model.sets)}"
        )
    return model.adapt(confidence, per_step=options.per_step, paper=options.dual in ("paper", "paper-literal"))
