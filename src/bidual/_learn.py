"""`learn`: explore an environment, make policies from what was learned, and say what is certain about them."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, final

import numpy as np

from bidual._announce import assumptions_of, mixture_of_policies, output_of, verdict
from bidual._errors import EnvError, ProblemError
from bidual._keys import Draw, Purpose, check_seed
from bidual._prepare import Setting, check_counts, prepare_learning
from bidual._solve import solve
from bidual._types import Episode
from bidual.bounds import Executed, Restarts
from bidual.envs import AbstractEnvironment
from bidual.explorers import AbstractExplorer
from bidual.learned import AbstractLearning, Learned, Look
from bidual.mdp import TabularMDP
from bidual.models import Knowledge, Tabular
from bidual.outputs import Estimates, Made, Regret, Shown, evaluated, fresh_episodes, in_model, regret_of
from bidual.policies import AbstractPolicy, DeterministicPolicy
from bidual.problem import Problem
from bidual.vpdpo import LoopState, first_state, resumed, vpdpo

if TYPE_CHECKING:
    from gymnasium import Env

_FIRST_LOOK = 16  # looks are at this many episodes and its doubles, and at the end
_SECONDS_BETWEEN_WORDS = 0.2


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
    model: Tabular | None = None,
    *,
    episodes: int = 1000,
    seed: int = 0,
    delta: float = 0.05,
    explorer: AbstractExplorer[Any] | None = None,
    evaluation: int | None = None,
    stop_when: StopWhen | None = None,
    time_limit: float | None = None,
    progress: Callable[[Look], None] | None = None,
    state: LoopState | None = None,
) -> Learned:
    """Solve `problem` in an environment whose transitions nobody knows, by running episodes in it.

    Args:
        problem: what to optimise, over an embedding of signals, visits or occupancies.
        env: a Gymnasium environment or its name; a `TabularMDP`, which is then simulated and not looked into; or an
            environment of `bidual.envs`.
        model: what is declared about the transitions; by default nothing.
        episodes: how many episodes to learn from.
        seed: of everything that is random; the same seed gives the same result.
        delta: all bounds hold at once with probability 1 - delta.
        explorer: which policies to run; by default optimistic ones and posterior draws in turn.
        evaluation: how many fresh episodes the returned policy is evaluated on; by default a third of `episodes`.
        stop_when: what to be certain of before stopping early, as in ``bd.stop_when(gap=0.05)``.
        time_limit: seconds after which learning stops.
        progress: called now and then with a `Look`.
        state: where an earlier run stopped, to go on from there.
    """
    check_counts(episodes, evaluation, time_limit)
    _check_kinds(explorer, stop_when, state)
    started = time.perf_counter()
    setting = prepare_learning(problem, env, model, explorer, delta=delta, seed=check_seed(seed))
    run = _Run(setting, state, started)
    count = _evaluation(episodes) if evaluation is None else evaluation
    try:
        for iteration in vpdpo(setting.program, setting.env, setting.explorer, run.state, seed=setting.seed):
            run.take(iteration.state, iteration.choice.policy, iteration.episode, iteration.choice.plans)
            late = time_limit is not None and time.perf_counter() - started > time_limit
            if run.state.episodes >= episodes or late:
                break
            due = run.look_is_due()
            if due or run.words_are_due():
                look = run.look() if due else run.words()
                if progress is not None:
                    progress(look)
                if stop_when is not None and due and run.state.episodes >= 100:
                    solution = run.concluded(_evaluation(run.state.episodes), stop_when.gap)
                    if stop_when.met(solution):
                        return solution
        run.look()
        if progress is not None:
            progress(run.looks[-1])
        return run.concluded(count, None if stop_when is None else stop_when.gap)
    except EnvError as error:
        raise _with_state(error, run.state) from error


def _evaluation(episodes: int) -> int:
    """A quarter of all episodes in the end."""
    return max(50, episodes // 3)


def _check_kinds(explorer: object, stop_when: object, state: object) -> None:
    for name, given, kind, remedy in (
        ("explorer", explorer, AbstractExplorer, "for instance bd.explorers.Thompson()"),
        ("stop_when", stop_when, StopWhen, "bd.stop_when(gap=0.05)"),
        ("state", state, LoopState, "the `state` of an EnvError that learn raised"),
    ):
        if given is not None and not isinstance(given, kind):
            raise ProblemError(f"{name} must be {remedy}; got {given!r:.80}")


def _with_state(error: EnvError, state: LoopState) -> EnvError:
    """The same error, which also keeps what was learned before it."""
    told = EnvError(
        f"{error}\n{state.episodes} episodes before it are kept: error.state holds what was learned, and "
        "learn(..., state=error.state) goes on from there"
    )
    told.state = state
    return told


class _Run:
    """The moving parts of one call of `learn`."""

    def __init__(self, setting: Setting, state: LoopState | None, started: float) -> None:
        self.setting, self.started = setting, started
        self.state = first_state(setting.program, setting.explorer, setting.knowledge)
        if state is not None:
            self.state = resumed(state, setting.knowledge)
        self.first = self.state.episodes
        self.policies: list[DeterministicPolicy] = []
        self.episodes: list[Episode] = []
        self.executed = Executed.start(setting.linear.low, setting.linear.high)
        self.restarts = Restarts.start(setting.linear.low, setting.linear.high)
        self.looks: list[Look] = []
        self.plans = self.counted = self.rounds = self.spent = 0
        self.said = time.perf_counter()
        self.shown: Shown | None = None

    def take(self, state: LoopState, policy: DeterministicPolicy, episode: Episode, plans: int) -> None:
        """Remember one turn of the loop."""
        self.state = state
        self.policies.append(policy)
        self.episodes.append(episode)
        self.plans += plans

    def look_is_due(self) -> bool:
        t = self.state.episodes
        return t >= _FIRST_LOOK and t & (t - 1) == 0

    def words_are_due(self) -> bool:
        return time.perf_counter() - self.said > _SECONDS_BETWEEN_WORDS

    def words(self) -> Look:
        """The last look with the present numbers of episodes and plans."""
        self.said = time.perf_counter()
        last = self.looks[-1] if self.looks else Look(0, None, None, None, 0, 0.0)
        return replace(last, episodes=self.state.episodes, plans=self.plans, seconds=self.said - self.started)

    def look(self) -> Look:
        """Bounds at this moment: what no policy beats, and what the mixture so far reaches."""
        self.said = time.perf_counter()
        self._count()
        shown = self.setting.final.rough(self.setting.program, self.state.knowledge)
        self.plans += shown.plans
        self.shown = shown if self.shown is None else self.shown.or_better(shown)
        mixture = self._mixture()
        self.looks.append(
            Look(
                episodes=self.state.episodes,
                bound=self.setting.sense * self.shown.lower if self.shown.lower is not None else None,
                reached=float(self.setting.sense * mixture.upper[0]) if np.isfinite(mixture.upper[0]) else None,
                violation=self.setting.violation(mixture),
                plans=self.plans,
                seconds=time.perf_counter() - self.started,
            )
        )
        return self.looks[-1]

    def concluded(self, count: int, goal: float | None = None) -> Learned:
        """The policies, evaluated and certified."""
        setting, knowledge = self.setting, self.state.knowledge
        assert self.shown is not None  # a look comes before
        made = setting.certainty(setting.problem, knowledge, Draw(setting.seed, Purpose.PLAN, 0).generator())
        self.plans += made.plans
        estimates, knowledge = self._evaluated(made, knowledge, count)
        shown = self.shown.or_better(setting.final(setting.program, knowledge)) if count else self.shown
        after = Learning(setting, shown, made, estimates, knowledge, self.rounds, self.spent, goal)
        halves = self.policies[self.restarts.since :]
        return Learned(
            **verdict(setting, shown, made, estimates, goal=goal)._asdict(),
            sense="maximize" if setting.problem.maximises else "minimize",
            outputs=(
                output_of(setting, "certainty-equivalent policy", made.policy, estimates),
                output_of(setting, "uniform mixture", mixture_of_policies(self.policies), self._mixture()),
                output_of(setting, "last-half mixture", mixture_of_policies(halves), self._last_half()),
            ),
            model=made.mdp,
            knowledge=knowledge,
            embedding=made.embedding.sum(axis=0) if setting.problem.embedding.total else made.embedding,
            visits=made.visits,
            assumptions=assumptions_of(setting, knowledge),
            exploration=setting.explorer.guarantee,
            history=tuple(self.looks),
            executed=tuple(self.policies),
            episodes=self.state.episodes,
            evaluation_episodes=self.spent,
            plans=self.plans,
            seconds=time.perf_counter() - self.started,
            seed=setting.seed,
            delta=setting.split.delta,
            _learning=after,
        )

    def _evaluated(self, made: Made, knowledge: Knowledge, count: int) -> tuple[Estimates, Knowledge]:
        """What fresh episodes say about the policy, and what is known after them."""
        if count == 0:
            return in_model(self.setting.program, made.embedding), knowledge
        self.rounds += 1
        first, self.spent = self.spent, self.spent + count
        return fresh_look(self.setting, made.policy, knowledge, self.rounds, first, count)

    def _count(self) -> None:
        """Bring the processes of executed episodes up to date."""
        new = self.episodes[self.counted :]
        if new:
            paid = self.setting.linear.payments(new)
            self.executed, self.restarts = self.executed.add_batch(paid), self.restarts.add_batch(paid)
            self.counted = len(self.episodes)

    def _mixture(self) -> Estimates:
        delta = self.setting.split.mixture(max(1, self.setting.linear.numbers.size))
        return self.setting.executed(self.executed, self.episodes, delta)

    def _last_half(self) -> Estimates:
        delta = self.setting.split.last_half(max(1, self.setting.linear.numbers.size))
        return self.setting.executed(self.restarts, self.episodes[self.restarts.since :], delta)


def fresh_look(
    setting: Setting, policy: AbstractPolicy, knowledge: Knowledge, number: int, first: int, count: int
) -> tuple[Estimates, Knowledge]:
    """Evaluate a policy on fresh episodes, and learn from them too: the set holds whatever the episodes are for."""
    episodes = fresh_episodes(setting.env, policy, setting.seed, first, count)
    knowledge = knowledge.update(*episodes)
    return evaluated(setting.program, setting.linear, episodes, setting.corners, setting.split, number), knowledge


@final
@dataclass(frozen=True, eq=False)
class Learning(AbstractLearning):
    """What a run leaves behind: the environment, and how often it was asked already."""

    setting: Setting
    shown: Shown
    made: Made
    estimates: Estimates
    knowledge: Knowledge
    rounds: int
    spent: int
    goal: float | None

    def certify(self, solution: Learned, episodes: int) -> Learned:
        """One more evaluation round; the bounds of all rounds hold together."""
        setting, number = self.setting, self.rounds + 1
        new, knowledge = fresh_look(setting, solution.policy, self.knowledge, number, self.spent, episodes)
        both, shown = self.estimates.within(new), self.shown.or_better(setting.final(setting.program, knowledge))
        after = replace(
            self, estimates=both, shown=shown, knowledge=knowledge, rounds=number, spent=self.spent + episodes
        )
        first = output_of(setting, solution.outputs[0].name, solution.policy, both)
        return replace(
            solution,
            **verdict(setting, shown, self.made, both, goal=self.goal)._asdict(),
            knowledge=knowledge,
            outputs=(first, *solution.outputs[1:]),
            evaluation_episodes=after.spent,
            _learning=after,
        )

    def regret(self, solution: Learned, truth: TabularMDP) -> Regret:
        """Every policy that was run, evaluated in `truth`, against the optimum there."""
        best = solve(self.setting.problem, truth)
        psi = self.setting.problem.embedding.features.stage(truth.successors)
        optimum = best.lower if best.sense == "minimize" else None if best.upper is None else -best.upper
        if optimum is None:
            raise ProblemError("the problem has no known optimum in this model, so there is no regret against it")
        return regret_of(self.setting.program, psi, truth, solution.executed, optimum)
