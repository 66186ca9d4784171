"""The options of ``bidual learn`` as plain values, shared by the command line, stored runs and sweeps."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, final

from bidual._base.errors import RunError, TaskError

if TYPE_CHECKING:
    from collections.abc import Callable

    from bidual.cli._target import Unknown
    from bidual.learning.learned import Learned, LearnProgress
    from bidual.learning.runs import Folder
    from bidual.loop.explorers import AbstractExplorer
    from bidual.models import Declaration


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
        known = {field.name for field in fields(cls)}
        if not (set(values) <= known and isinstance(values.get("target"), str)):
            raise RunError(
                "the run was not started by 'bidual learn', so its task and options are not known here: go on with it "
                "where it was started, or name the task and the options"
            )
        return cls(**{**values, "settings": tuple(values.get("settings", ()))})


def default_episodes(target: str) -> int:
    """Return the default number of episodes of a task; of a file or an unknown name the general default."""
    from bidual.tasks import ENTRIES

    return next((entry.episodes for entry in ENTRIES if entry.name == target), Options.episodes)


def unknown_of(options: Options) -> "Unknown":
    """Load the problem and its environment, with its declarations."""
    from bidual.cli._target import load_unknown

    target = load_unknown(options.target, list(options.settings), options.support)
    model = _declare_model(target.model, options)
    return replace(target, model=model, explorer=_choose_explorer(model, target.explorer, options))


def learn_with_options(
    options: Options,
    target: "Unknown",
    *,
    time_limit: float | None = None,
    progress: "Callable[[LearnProgress], None] | None" = None,
    run: "Folder | None" = None,
) -> "Learned":
    """Learn with the given options."""
    from bidual.learning.learn import learn, stop_when

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


def _choose_explorer(
    model: "Declaration", suited: "AbstractExplorer[Any] | None", options: Options
) -> "AbstractExplorer[Any] | None":
    """Choose the requested explorer or else the task's; None for the model's default."""
    from bidual.cli._explorer_options import controls_named, explorer_named
    from bidual.loop.explorers import Controls

    if model.needs.observes == "vectors":
        base = suited if isinstance(suited, Controls) else Controls()
        return controls_named(options.explorer, options.dual, base)
    return explorer_named(options.explorer, options.dual) or suited


def _declare_model(model: "Declaration | None", options: Options) -> "Declaration":
    """Return the declaration, completed by the options. A class has candidates for every step in any case.

    The paper's loop over a class is its Algorithm 3: with its rollouts and, if no other is asked for, its set.
    """
    from bidual.models import Tabular

    model, confidence = model or Tabular(), options.confidence
    if (confidence is not None and not model.sets) or (options.per_step and not model.steps_apart):
        raise TaskError(f"--confidence and --per-step are about counted states, and this model {model.subject}")
    if confidence is not None and confidence not in model.sets:
        raise TaskError(
            f"--confidence {confidence} does not go with {model.subject}: it must be one of {', '.join(model.sets)}"
        )
    return model.adapt(confidence, per_step=options.per_step, paper=options.dual in ("paper", "paper-literal"))
