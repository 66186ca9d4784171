"""`learn`: explore an environment, make policies from what was learned, and say what is certain about them."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple, final

from bidual._course import Course, first_course, resumed_course
from bidual._errors import EnvError, ProblemError, RunError
from bidual._keys import check_seed
from bidual._measured import Measured
from bidual._prepare import check_counts, prepare_learning
from bidual._running import Running
from bidual.envs import AbstractEnvironment
from bidual.explorers import AbstractExplorer
from bidual.learned import Learned, Look
from bidual.mdp import TabularMDP
from bidual.models import Declaration
from bidual.problem import Problem
from bidual.runs import Folder, Keeper, facts_of
from bidual.vpdpo import vpdpo

if TYPE_CHECKING:
    from gymnasium import Env


@final
@dataclass(frozen=True)
class StopWhen:
    """When learning may stop before its episodes are spent: as soon as this is certified.

    Args:
        gap: the policy is at most this far from optimal.
        violation: it violates every constraint by at most this.
    """

    gap: float
    violation: float = 0.0

    def __post_init__(self) -> None:
        """Check the settings."""
        numbers = isinstance(self.gap, Real) and isinstance(self.violation, Real)
        if not (numbers and self.gap > 0 and self.violation >= 0):
            raise ProblemError(f"stop_when needs gap > 0 and violation >= 0; got {self.gap!r} and {self.violation!r}")

    def met(self, solution: Learned) -> bool:
        """Whether a solution is certified to be this good."""
        if solution.gap is None or solution.gap > self.gap:
            return False
        return all(constraint.violation_upper <= self.violation for constraint in solution.constraints)


def stop_when(gap: float, violation: float = 0.0) -> StopWhen:
    """Stop as soon as the policy is certified to be within `gap` of optimal and to violate by at most `violation`."""
    return StopWhen(gap, violation)


def learn(
    problem: Problem,
    env: "AbstractEnvironment | TabularMDP | Env[Any, Any] | str",
    model: Declaration | None = None,
    *,
    episodes: int = 1000,
    seed: int = 0,
    delta: float = 0.05,
    explorer: AbstractExplorer[Any] | None = None,
    evaluation: int | None = None,
    stop_when: StopWhen | None = None,
    time_limit: float | None = None,
    progress: Callable[[Look], None] | None = None,
    state: Course | None = None,
    batch: int = 1,
    run: "Folder | str | os.PathLike[str] | None" = None,
) -> Learned:
    """Solve `problem` in an environment whose transitions nobody knows, by running episodes in it.

    Args:
        problem: what to optimise, over an embedding of signals, visits or occupancies.
        env: a Gymnasium environment or its name; a `TabularMDP`, which is then simulated and not looked into; or an
            environment of `bidual.envs`.
        model: what is declared about the transitions; by default nothing. `bd.models.Latent` for an environment that
            shows vectors.
        episodes: how many episodes to learn from.
        seed: of everything that is random; the same seed gives the same result.
        delta: all bounds hold at once with probability 1 - delta.
        explorer: which policies to run; by default optimistic ones and posterior draws in turn.
        evaluation: how many fresh episodes the returned policy is evaluated on; by default a third of `episodes`.
        stop_when: what to be certain of before stopping early, as in ``bd.stop_when(gap=0.05)``.
        time_limit: seconds after which learning stops.
        progress: called now and then with a `Look`.
        state: where an earlier call stopped, to go on from there: the `state` of an `EnvError`.
        batch: how many episodes to run with one policy before the next is chosen; they can be run in parallel. Whole
            batches are run, so there may be a few episodes more.
        run: a folder to store the run in, so that it can go on after a crash: a new one, or `bd.runs.Folder(path,
            resume=True)` to go on with the one that is there.
    """
    check_counts(episodes, evaluation, time_limit, batch)
    _check_kinds(explorer, stop_when, state)
    setting = prepare_learning(problem, env, model, explorer, delta=delta, seed=check_seed(seed))
    count = _evaluation(episodes) if evaluation is None else evaluation
    plan = _Plan(episodes, count, batch, stop_when, time_limit, progress or (lambda look: None))
    first = first_course(setting)
    if run is None:
        course = first if state is None else resumed_course(state, setting)
        return _learned(Running(setting, course, None), plan, None)
    if state is not None:
        raise ProblemError("state and run are two places to go on from: give one of them")
    folder = run if isinstance(run, Folder) else Folder(run)
    with Keeper(folder, facts_of(setting, batch, folder.task), first, episodes) as keeper:
        return _learned(Running(setting, keeper.course, Measured(setting)), plan, keeper)


class _Plan(NamedTuple):
    """What a call of `learn` asked for."""

    episodes: int
    evaluation: int
    batch: int
    stop_when: StopWhen | None
    time_limit: float | None
    progress: Callable[[Look], None]


def _learned(running: Running, plan: _Plan, keeper: Keeper | None) -> Learned:
    """Turn the loop until it is done; an end before that leaves a place to go on from."""
    try:
        early = _explored(running, plan, keeper)
        if keeper is not None:
            keeper.keep(running)
        solution = early or _concluded(running, plan)
    except EnvError as error:
        raise _kept(error, running, keeper) from error
    except KeyboardInterrupt:
        if keeper is not None:
            keeper.keep(running, "stopped")
        raise
    if keeper is not None:
        solution = replace(solution, task=keeper.manifest["task"])
        keeper.finish(running, solution)
    return solution


def _explored(running: Running, plan: _Plan, keeper: Keeper | None) -> Learned | None:
    """Run episodes until they are spent, the time is over, or `stop_when` is met by what is then returned."""
    setting, started = running.setting, time.perf_counter()
    turns = vpdpo(setting.program, setting.env, setting.explorer, running.state, seed=setting.seed, batch=plan.batch)
    early = _looked(running, plan)
    while early is None and running.state.episodes < plan.episodes:
        running.take(next(turns))
        if keeper is not None and keeper.due(running.state.episodes):
            keeper.keep(running)
        if plan.time_limit is not None and time.perf_counter() - started > plan.time_limit:
            break
        early = _looked(running, plan)
    return early


def _looked(running: Running, plan: _Plan) -> Learned | None:
    """Look around, or say a word, where it is time to; a solution if `stop_when` is met by it."""
    done = running.state.episodes
    if done == 0 or done >= plan.episodes:
        return None
    if not running.look_is_due():
        if running.words_are_due():
            plan.progress(running.words())
        return None
    plan.progress(running.look())
    if plan.stop_when is None or done < 100:
        return None
    solution = running.concluded(_evaluation(done), plan.stop_when.gap)
    return solution if plan.stop_when.met(solution) else None


def _concluded(running: Running, plan: _Plan) -> Learned:
    plan.progress(running.look())
    return running.concluded(plan.evaluation, None if plan.stop_when is None else plan.stop_when.gap)


def _evaluation(episodes: int) -> int:
    """A quarter of all episodes in the end."""
    return max(50, episodes // 3)


def _check_kinds(explorer: object, stop_when: object, state: object) -> None:
    for name, given, kind, remedy in (
        ("explorer", explorer, AbstractExplorer, "for instance bd.explorers.Thompson()"),
        ("stop_when", stop_when, StopWhen, "bd.stop_when(gap=0.05)"),
        ("state", state, Course, "the `state` of an EnvError that learn raised"),
    ):
        if given is not None and not isinstance(given, kind):
            raise ProblemError(f"{name} must be {remedy}; got {given!r:.80}")


def _kept(error: EnvError, running: Running, keeper: Keeper | None) -> EnvError:
    """The same error, which also says where what was learned before it is kept."""
    course, exit_code = running.course(), error.exit_code
    where = "error.state holds what was learned, and learn(..., state=error.state) goes on from there"
    if keeper is not None:
        keeper.keep(running, "failed")
        exit_code = RunError.exit_code
        where = f"the run in {keeper.folder} is stored up to episode {keeper.saved}, and can be resumed"
    told = EnvError(f"{error}\n{course.episodes} episodes before it are kept: {where}")
    told.state, told.exit_code = course, exit_code
    return told
