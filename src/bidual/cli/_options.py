"""What ``bidual learn`` was asked for, as plain values: the command line, a stored run and a sweep all speak of it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, final

from bidual._errors import RunError, TaskError

if TYPE_CHECKING:
    from collections.abc import Callable

    from bidual.cli._target import Unknown
    from bidual.explorers import AbstractExplorer
    from bidual.learned import Learned, Look
    from bidual.models import Declaration
    from bidual.runs import Folder


@final
@dataclass(frozen=True)
class Options:
    """One run: a task or a file, and everything that its result depends on."""

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
        """As JSON values."""
        return asdict(self) | {"settings": list(self.settings)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Options":
        """What `to_dict` gave."""
        known = {field.name for field in fields(cls)}
        if not (set(values) <= known and isinstance(values.get("target"), str)):
            raise RunError(
                "the run was not started by 'bidual learn', so its task and options are not known here: go on with it "
                "where it was started, or name the task and the options"
            )
        return cls(**{**values, "settings": tuple(values.get("settings", ()))})


def worthwhile(target: str) -> int:
    """How many episodes a task is learned from where nobody says; of a file or an unknown name as many as usual."""
    from bidual.tasks import ENTRIES

    return next((entry.episodes for entry in ENTRIES if entry.name == target), Options.episodes)


def unknown_of(options: Options) -> "Unknown":
    """The problem and its environment, and what is declared about it."""
    from bidual.cli._target import load_unknown

    target = load_unknown(options.target, list(options.settings), options.support)
    model = _declared(target.model, options)
    return replace(target, model=model, explorer=_exploring(model, target.explorer, options))


def learned(
    options: Options,
    target: "Unknown",
    *,
    time_limit: float | None = None,
    progress: "Callable[[Look], None] | None" = None,
    run: "Folder | None" = None,
) -> "Learned":
    """Learn what the options ask for."""
    from bidual._learn import learn, stop_when

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


def _exploring(
    model: "Declaration", suited: "AbstractExplorer[Any] | None", options: Options
) -> "AbstractExplorer[Any] | None":
    """What is asked for or else what suits the task; None: what suits the model."""
    from bidual.cli._exploring import controls_named, explorer_named
    from bidual.explorers import Controls
    from bidual.models import KNR

    if isinstance(model, KNR):
        base = suited if isinstance(suited, Controls) else Controls()
        return controls_named(options.explorer, options.dual, base)
    return explorer_named(options.explorer, options.dual) or suited


def _declared(model: "Declaration | None", options: Options) -> "Declaration":
    """What is declared, with what the options add to it. A class has candidates for every step in any case.

    The paper's loop over a class is its Algorithm 3: with its rollouts and, if no other is asked for, its set.
    """
    from bidual.models import CLASS_SETS, KNR, SETS, Latent, LinearMDP, LowRank, Tabular

    model, confidence = model or Tabular(), options.confidence
    if isinstance(model, KNR) and (confidence is not None or options.per_step):
        raise TaskError("--confidence and --per-step are about counted states, and this model moves vectors")
    if isinstance(model, KNR):
        return model
    if isinstance(model, Latent | LinearMDP):
        if confidence is not None or (options.per_step and isinstance(model, Latent)):
            what = "latents" if isinstance(model, Latent) else "features and a set of laws of its own"
            raise TaskError(f"--confidence and --per-step are about counted states, and this model has {what}")
        return replace(model, stationary=False) if options.per_step and isinstance(model, LinearMDP) else model
    known, what = (CLASS_SETS, "a class of laws") if isinstance(model, LowRank) else (SETS, "counts")
    if confidence is not None and confidence not in known:
        raise TaskError(f"--confidence {confidence} does not go with {what}: it must be one of {', '.join(known)}")
    if not isinstance(model, LowRank):
        return replace(model, set=confidence or model.set, stationary=model.stationary and not options.per_step)
    if options.dual in ("paper", "paper-literal"):
        return replace(model, set=confidence or "paper", collection="paper")
    return replace(model, set=confidence or model.set)
