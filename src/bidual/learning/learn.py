"""`learn`: explore an environment, compute policies from the learned model, and certify them."""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bidual._base.deadline import NEVER, Deadline, read_clock
from bidual._base.errors import EnvError, ProblemError, RunError
from bidual._base.keys import check_seed
from bidual.learning.callbacks import AbstractCallback, StopWhen
from bidual.learning.failures import attach_state, attach_state_to_any
from bidual.learning.folder import read_manifest
from bidual.learning.learned import Learned, LearnProgress, assign_to_variables
from bidual.learning.learner import Learner
from bidual.learning.metrics import MetricLog
from bidual.learning.runs import (
    Folder,
    RunWriter,
    begin_folder,
    blame_checkpoint,
    read_checkpoint,
    read_draws,
    run_settings,
)
from bidual.learning.setup import check_counts, set_up
from bidual.learning.state import LearnState, resume_learn_state, start_learn_state
from bidual.learning.states import number_states
from bidual.learning.watch import CallbackFailed, Watch, watch
from bidual.loop.explorers import AbstractExplorer
from bidual.loop.vpdpo import vpdpo
from bidual.models import Declaration
from bidual.problem.modelling import Problem
from bidual.world.envs import AbstractEnvironment
from bidual.world.mdp import TabularMDP

if TYPE_CHECKING:
    from gymnasium import Env


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
    progress: Callable[[LearnProgress], None] | None = None,
    callback: AbstractCallback | Sequence[AbstractCallback] | None = None,
    state: LearnState | None = None,
    batch: int = 1,
    run: "Folder | str | os.PathLike[str] | None" = None,
    states: Callable[[Any], Any] | None = None,
    states_limit: int | None = None,
) -> Learned:
    """Solve `problem` in an environment with unknown transitions, by running episodes in it.

    Afterwards the problem's embedding and its other variables have values, as after `solve`: those at the policy in the
    learned model. `learned.value` and the constraints are means of fresh episodes instead.

    Args:
        problem: the problem, over an embedding of signals, visits or occupancies.
        env: a Gymnasium environment or its name; a `TabularMDP`, which is then only simulated; or an
            environment of `bidual.envs`.
        model: the declaration about the transitions; by default none. `bd.models.Latent` for an environment whose
            observations are vectors.
        episodes: the number of episodes to learn from.
        seed: of everything that is random; the same seed gives the same result.
        delta: all bounds hold at once with probability 1 - delta.
        explorer: the choice of the policies to run; by default optimistic ones and posterior samples in turn.
        evaluation: the number of fresh episodes to evaluate the returned policy on; by default a third of `episodes`.
        stop_when: the certificate that stops learning early, as in ``bd.stop_when(gap=0.05)``; a callback, too.
        time_limit: seconds for the whole call: learning stops when three quarters of them are over, and in the rest the
            policy is computed, evaluated and bounded, on fewer episodes if need be. At least one episode is run.
        progress: a function that displays a `LearnProgress`, called by the clock; it cannot stop anything.
        callback: an object, or several, of `bd.callbacks`, which see every episode and every bound, and can stop.
        state: the state of an earlier call to resume from: the `state` of an `EnvError`, of a `RunError`, or of the
            `KeyboardInterrupt` that ended it (None where that had not begun).
        batch: the number of episodes to run with one policy before the next is chosen; they can run in parallel. Whole
            batches are run, so there may be a few episodes more.
        run: a folder to store the run in, so that it can resume after a crash: a new one, or `bd.runs.Folder(path,
            resume=True)` to resume the one that is there.
        states: a function from an observation to its state (a number, a text, or a tuple or dictionary of such), for
            observations that are no states themselves: vectors of real numbers, say. It is never stored.
        states_limit: the number of different states that can occur at most, by default 1000. Bounds rest on it where
            states are numbered as they are met: those of the function, or observations of a space with more elements.
    """
    check_counts(episodes, evaluation, time_limit, batch)
    _check_kinds(explorer, stop_when, state)
    deadline = Deadline.after(time_limit)
    watching = watch(callback, stop_when, progress)
    if run is not None and state is not None:
        raise ProblemError("state and run are two places to go on from: give one of them")
    folder = run if isinstance(run, Folder | None) else Folder(run)
    with begin_folder(folder):
        with _keep_for_interrupts(state):
            env = number_states(env, problem, states, states_limit)
            setup = set_up(problem, env, model, explorer, delta=delta, seed=check_seed(seed))
            first = start_learn_state(setup)
        count = _choose_evaluation(episodes) if evaluation is None else evaluation
        plan = _Plan(episodes, count, batch, watching, deadline.after_share(_LEARNING))
        if folder is None:
            learn_state = first if state is None else resume_learn_state(state, setup)
            return _run(Learner(setup, learn_state, None, deadline=deadline), plan, None)
        with RunWriter(folder, run_settings(setup, batch, folder.task), first, episodes) as writer:
            # The run's own settings were compared, so that a state of an earlier version is about this problem too.
            stored = replace(writer.learn_state, identity=first.identity)
            return _run(Learner(setup, stored, MetricLog(setup), writer.fresh_episodes, deadline), plan, writer)


def finish(
    problem: Problem,
    env: "AbstractEnvironment | TabularMDP | Env[Any, Any] | str",
    run: "str | os.PathLike[str]",
    model: Declaration | None = None,
    *,
    explorer: AbstractExplorer[Any] | None = None,
    evaluation: int | None = None,
    stop_when: StopWhen | None = None,
    store: bool = True,
    states: Callable[[Any], Any] | None = None,
    states_limit: int | None = None,
) -> Learned:
    """Conclude a stored run that was stopped: from its last checkpoint, with no more episodes to learn from.

    The run is finished then; `learn` with more episodes and `bd.runs.Folder(run, resume=True)` still goes on with it.

    Args:
        problem: the problem that the run was started with.
        env: the environment that it was started with.
        run: the folder of the run.
        model: the declaration about the transitions that it was started with.
        explorer: the explorer, where it was started with one.
        evaluation: the number of fresh episodes to evaluate the policy on; by default a third of those that it
            learned from. With 0 the environment is not needed: no interval of the policy is known then.
        stop_when: the certificate that would have stopped it, where it was started with one.
        store: whether the run is finished for good; if not, nothing of it is changed.
        states: the function from an observation to its state, where it was started with one.
        states_limit: the number of different states that can occur at most, where it was started with one.
    """
    folder, manifest = Path(run), read_manifest(Path(run))
    seed, delta, batch = read_draws(folder, manifest)
    check_counts(1, evaluation, None, batch)
    _check_kinds(explorer, stop_when, None)
    env = number_states(env, problem, states, states_limit)
    setup, task = set_up(problem, env, model, explorer, delta=delta, seed=check_seed(seed)), manifest.get("task")
    settings, first = run_settings(setup, batch, task), start_learn_state(setup)

    def conclude(stored: LearnState | None, writer: RunWriter | None) -> Learned:
        if stored is None or not stored.episodes:
            raise RunError(f"the run in {folder} has no episode to conclude from: resume it (--resume, resume=True)")
        count = _choose_evaluation(stored.episodes) if evaluation is None else evaluation
        plan = _Plan(stored.episodes, count, batch, watch(None, stop_when))
        stored = replace(stored, identity=first.identity)
        if writer is None:
            return replace(_conclude(Learner(setup, stored, None), plan), task=task)
        return _run(Learner(setup, stored, MetricLog(setup), writer.fresh_episodes), plan, writer)

    if not store:
        return conclude(read_checkpoint(folder, manifest, settings, first), None)
    with RunWriter(Folder(folder, resume=True, task=task), settings, first, None) as writer:
        return conclude(writer.learn_state, writer)


_LEARNING = 0.75  # of the time limit; the rest is for the conclusion
_REPORTING = 0.2  # of the time that is left for learning, at most, for bounds on the way
_FIRST_SOLUTION = 100  # episodes before which no policy is worth its evaluation


class _Plan(NamedTuple):
    """The arguments of a call of `learn`."""

    episodes: int
    evaluation: int
    batch: int
    watch: Watch
    deadline: Deadline = NEVER  # of learning


@contextmanager
def _keep_for_interrupts(state: LearnState | None) -> Iterator[None]:
    """Give an interrupt that comes before the first episode the state to go on from."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        vars(interrupt)["state"] = state
        raise


def _run(learner: Learner, plan: _Plan, writer: RunWriter | None) -> Learned:
    """Run the loop to its end; an interrupt or an error leaves a state to resume from."""
    try:
        early = _explore(learner, plan, writer)
        if writer is not None:
            writer.write_checkpoint(learner)
        solution = early or _conclude(learner, plan)
    except EnvError as error:
        raise attach_state(error, learner, writer) from error
    except SystemExit as error:  # an exit code of ours says what became of the run, and is not the environment's
        ended = EnvError(f"the environment ended the program ({error!r}): correct it, it must raise an error instead")
        raise attach_state(ended, learner, writer) from error
    except RunError as error:
        error.state = error.state or learner.learn_state()
        raise
    except KeyboardInterrupt as interrupt:
        vars(interrupt)["state"] = learner.learn_state()  # documented, and of whatever class the interrupt is
        if writer is not None:
            writer.write_checkpoint(learner, "stopped")
        raise
    except CallbackFailed as failed:
        raise attach_state_to_any(failed.error, learner, writer) from failed.error.__cause__
    if writer is not None:
        solution = writer.finish(learner, replace(solution, task=writer.manifest["task"]))
    return assign_to_variables(solution)


def _explore(learner: Learner, plan: _Plan, writer: RunWriter | None) -> Learned | None:
    """Run episodes until they are used up, the time is over, or a callback stops; return the solution it stops with."""
    setup, pace = learner.setup, math.inf
    turns = vpdpo(setup.program, setup.env, setup.explorer, learner.state.loop, seed=setup.seed, batch=plan.batch)
    stops, early = _report_if_due(learner, plan)
    restored = writer.folder if writer is not None and learner.state.episodes else None
    while not stops and learner.state.episodes < plan.episodes:
        started = read_clock()
        with blame_checkpoint(restored):
            turn, restored = next(turns), None
        learner.take(turn)
        pace = min(pace, read_clock() - started)  # of the quickest turn: others compile, or replan
        if writer is not None:
            writer.keep_up(learner)
        stops = plan.watch.see_episodes(setup, turn)
        if stops or plan.deadline.left <= pace:
            break
        stops, early = _report_if_due(learner, plan)
    return early


def _report_if_due(learner: Learner, plan: _Plan) -> tuple[bool, Learned | None]:
    """Compute bounds, or show progress, where it is time to; return whether to stop, and a solution to stop with."""
    done = learner.state.episodes
    if done == 0 or done >= plan.episodes:
        return False, None
    if not learner.report_is_due():
        if learner.update_is_due():
            plan.watch.show(learner.current_progress())
        return False, None
    stops = plan.watch.see_progress(learner.report_progress(plan.deadline.after_share(_REPORTING)))
    if stops or done < _FIRST_SOLUTION or not plan.watch.needs_solutions:
        return stops, None
    solution = learner.conclude(_choose_evaluation(done), plan.watch.gap)
    stops = plan.watch.see_solution(solution)
    return stops, solution if stops else None


def _conclude(learner: Learner, plan: _Plan) -> Learned:
    plan.watch.see_progress(learner.report_progress(plan.deadline))
    solution = learner.conclude(plan.evaluation, plan.watch.gap)
    plan.watch.see_solution(solution)
    return solution


def _choose_evaluation(episodes: int) -> int:
    """Return the default number of evaluation episodes: a quarter of all episodes in the end."""
    return max(50, episodes // 3)


def _check_kinds(explorer: object, stop_when: object, state: object) -> None:
    for name, given, kind, remedy in (
        ("explorer", explorer, AbstractExplorer, "for instance bd.explorers.Thompson()"),
        ("stop_when", stop_when, StopWhen, "bd.stop_when(gap=0.05)"),
        ("state", state, LearnState, "the `state` of an error that learn raised"),
    ):
        if given is not None and not isinstance(given, kind):
            raise ProblemError(f"{name} must be {remedy}; got {given!r:.80}")
