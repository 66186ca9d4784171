"""A call of `learn` at work: it advances the state, computes bounds on the way, and concludes with a result."""

import time
from dataclasses import replace
from itertools import islice

import numpy as np

from bidual._base.deadline import NEVER, Deadline
from bidual._base.keys import Draw, Purpose
from bidual.learning.learned import Learned, LearnProgress
from bidual.learning.metrics import Metric, MetricLog, to_user_units
from bidual.learning.outputs import (
    Collector,
    Estimates,
    ReturnedPolicy,
    estimate_executed,
    estimate_in_model,
    estimate_plans,
    run_episodes_until,
    run_fresh_episodes,
)
from bidual.learning.session import LearnSession, drop_invalid_bounds, evaluate_policy
from bidual.learning.setup import LearnSetup
from bidual.learning.state import LearnState, advance, count_pending
from bidual.learning.summary import (
    BEHAVIOUR,
    LAST_HALF,
    UNIFORM,
    Output,
    describe_assumptions,
    describe_exploration,
    describe_output,
    mix_policies,
)
from bidual.loop.vpdpo import BatchIteration
from bidual.models import AbstractKnowledge
from bidual.storage import collect_linear_rows

_FIRST_REPORT = 16  # bounds are computed at this many episodes, at its doubles, and at the end
_BLOCK = 64  # episodes that are counted together: one by one takes long, and how many it is changes the last bits
_SECONDS_BETWEEN_UPDATES = 0.2
_PLANNING = _EVALUATING = 0.4  # of the time that is left: for the returned policy, and then for its evaluation


class Learner:
    """The present state of a run, and the one to resume from."""

    def __init__(
        self,
        setup: LearnSetup,
        learn_state: LearnState,
        metric_log: MetricLog | None,
        collect: Collector = run_fresh_episodes,
        deadline: Deadline = NEVER,
    ) -> None:
        self.setup, self.metric_log, self.state = _continue_numbering(setup, learn_state), metric_log, learn_state
        self._collect = collect  # fresh episodes of a policy
        self._deadline = deadline  # of the conclusion
        self._started = time.perf_counter() - learn_state.seconds
        self._updated = time.perf_counter()
        self._resume: LearnState | None = (
            None  # while bounds are computed, and until the next turn: the state before that
        )

    def learn_state(self) -> LearnState:
        """Return the state to resume from: what follows it is computed again, to the same bits."""
        return self._resume or self._timed()

    @property
    def seconds(self) -> float:
        """Time since the run began, without the pauses between calls."""
        return time.perf_counter() - self._started

    @property
    def last_reported(self) -> int:
        """Number of episodes when bounds were computed last."""
        return self.state.history[-1].episodes if self.state.history else 0

    def take(self, turn: BatchIteration) -> None:
        """Advance by one turn of the loop. The state comes last: after an interrupt the turn is made again."""
        if self.metric_log is not None:
            self.metric_log.record_plans(turn.state.episodes, turn.choice.plans)
            if turn.choice.expected is not None:
                planned = self.setup.linear.payments.expected(turn.choice.expected)
                self.metric_log.record_expected(turn.state.episodes, planned)
        state = advance(self.state, turn, self.setup.env.numbering)
        state = self._count_batch(state) if len(state.pending) >= _BLOCK else state
        self.state, self._resume = state, None  # at once: an interrupt between the two would take the episode back

    def report_is_due(self) -> bool:
        """Tell whether a power of two was passed since bounds were computed last."""
        latest = 1 << (self.state.episodes.bit_length() - 1) if self.state.episodes else 0
        return latest >= _FIRST_REPORT and self.last_reported < latest

    def update_is_due(self) -> bool:
        """Tell whether the last report of progress is long enough ago."""
        return time.perf_counter() - self._updated > _SECONDS_BETWEEN_UPDATES

    def current_progress(self) -> LearnProgress:
        """Return the last bounds with the present numbers of episodes and plans."""
        self._updated = time.perf_counter()
        last = self.state.history[-1] if self.state.history else LearnProgress(0, None, None, None, 0, 0.0)
        return replace(last, episodes=self.state.episodes, plans=self.state.plans, seconds=self.seconds)

    def report_progress(self, deadline: Deadline = NEVER) -> LearnProgress:
        """Compute the bounds at this moment: on all policies, and on the mixture of those run so far."""
        self._resume, self._updated = self.learn_state(), time.perf_counter()
        state, setup = self._count_batch(self.state), self.setup
        dual_bound = setup.final.rough.within(deadline)(setup.program, state.loop.knowledge)
        best = (
            dual_bound
            if state.dual_bound is None
            else state.dual_bound.or_better(dual_bound, signals_consistent=state.loop.knowledge.signals_consistent)
        )
        self.state = replace(state, dual_bound=best, plans=state.plans + dual_bound.plans)
        mixture = self._estimate_mixture()
        progress = LearnProgress(
            episodes=self.state.episodes,
            bound=setup.sense * best.lower if best.lower is not None else None,
            reached=float(setup.sense * mixture.upper[0]) if np.isfinite(mixture.upper[0]) else None,
            violation=setup.violation(mixture),
            plans=self.state.plans,
            seconds=self.seconds,
            candidates=state.loop.knowledge.candidates,
        )
        self.state = replace(self.state, history=(*self.state.history, progress))
        if self.metric_log is not None:
            self.metric_log.record_progress(progress)
        return progress

    def conclude(self, count: int, goal: float | None = None) -> Learned:
        """Return the policies, evaluated on `count` fresh episodes and certified."""
        setup, knowledge, dual_bound = self.setup, self.state.loop.knowledge, self.state.dual_bound
        assert dual_bound is not None  # bounds come before
        certainty = setup.certainty.within(self._deadline.after_share(_PLANNING))
        returned = certainty(setup.problem, knowledge, Draw(setup.seed, Purpose.PLAN, 0).generator())
        returned = returned.with_names(setup.env.names).with_numbering(setup.env.numbering)
        self.state = replace(self.state, plans=self.state.plans + returned.plans)
        estimates, knowledge = self._evaluate(returned, knowledge, count)
        state = self.state
        if count:
            last = setup.final.within(self._deadline)(setup.program, knowledge)
            dual_bound = dual_bound.or_better(last, signals_consistent=knowledge.signals_consistent)
        after = LearnSession(
            setup, dual_bound, returned, estimates, knowledge, state.rounds, state.spent, goal, estimates
        )
        embedding = returned.embedding.sum(axis=0) if setup.problem.embedding.total else returned.embedding
        return Learned(
            **after.summary()._asdict(),
            sense="maximize" if setup.problem.maximises else "minimize",
            outputs=(
                describe_output(setup, "certainty-equivalent policy", returned.policy, after.bounds),
                *self._describe_mixtures(knowledge),
            ),
            model=returned.mdp,
            knowledge=knowledge,
            embedding=embedding,
            visits=returned.visits,
            assumptions=describe_assumptions(setup, knowledge),
            exploration=describe_exploration(setup),
            history=drop_invalid_bounds(state.history, knowledge),
            executed=state.policies,
            episodes=state.episodes,
            evaluation_episodes=state.spent,
            plans=state.plans,
            seconds=self.seconds,
            seed=setup.seed,
            delta=setup.split.delta,
            totals=setup.problem.sum_signals(embedding),
            reported=setup.problem.totals,
            values_per_episode=None
            if state.values_per_episode is None
            else to_user_units(setup, state.values_per_episode),
            _session=after,
        )

    def _describe_mixtures(self, knowledge: AbstractKnowledge) -> list[Output]:
        """Describe the mixtures of all plans and of the last half, and of what was run where that was not the plans."""
        setup, plans = self.setup, self.state.policies
        last_half = mix_policies(islice(plans, self.state.restarts.since, None))
        both = ((UNIFORM, mix_policies(plans)), (LAST_HALF, last_half))
        if not knowledge.inserts_actions:
            estimates = self._estimate_mixture(), self._estimate_last_half()
            return [describe_output(setup, *named, seen) for named, seen in zip(both, estimates, strict=True)]
        counted, rows = knowledge.counted, collect_linear_rows(setup.program)
        assert counted is not None  # actions are inserted into tables
        counts = self.state.restarts.count, self.state.restarts.count - self.state.restarts.since
        found = [
            describe_output(setup, name, mixture, estimate_plans(setup.program, rows, mixture, counted, count))
            for (name, mixture), count in zip(both, counts, strict=True)
        ]
        rollouts = (knowledge.rollout(policy, number).policy for number, policy in enumerate(plans, 1))
        return [*found, describe_output(setup, BEHAVIOUR, mix_policies(rollouts), self._estimate_mixture())]

    @property
    def waiting(self) -> int:
        """The number of metrics since the last call of `metrics`."""
        return 0 if self.metric_log is None else self.metric_log.waiting

    def metrics(self) -> list[Metric]:
        """Return the numbers since the last call, where they are gathered."""
        return [] if self.metric_log is None else self.metric_log.take()

    def _timed(self) -> LearnState:
        return replace(self.state, seconds=self.seconds)

    def _evaluate(
        self, returned: ReturnedPolicy, knowledge: AbstractKnowledge, count: int
    ) -> tuple[Estimates, AbstractKnowledge]:
        """Evaluate the policy on fresh episodes; return the estimates and what is known after them."""
        if count == 0:
            return estimate_in_model(self.setup.program, returned.embedding), knowledge
        first, number = self.state.spent, self.state.rounds + 1
        given = self.setup.env, returned.policy, self.setup.seed
        if self._deadline.exists:
            extent, deadline = range(first, first + count), self._deadline.after_share(_EVALUATING)
            episodes = run_episodes_until(self._collect, *given, extent, deadline)
        else:
            episodes = self._collect(*given, first, count)
        self.state = replace(self.state, rounds=number, spent=first + len(episodes))
        cut = len(episodes) < count
        return evaluate_policy(self.setup, returned.policy, knowledge, number, episodes, uniform=cut)

    def _count_batch(self, state: LearnState) -> LearnState:
        """Count the pending episodes of a state, and log their values."""
        if self.metric_log is not None and state.pending:
            self.metric_log.record_values(state.executed.count + 1, self.setup.linear.payments(state.pending))
        return count_pending(self.setup, state)

    def _estimate_mixture(self) -> Estimates:
        setup, state = self.setup, self.state
        embedding = None if state.sums is None else state.sums.mean(latest=False)
        delta = setup.split.mixture(max(1, setup.linear.numbers.size))
        return estimate_executed(setup.program, setup.linear, state.executed, embedding, state.executed.count, delta)

    def _estimate_last_half(self) -> Estimates:
        setup, state = self.setup, self.state
        count = state.restarts.count - state.restarts.since
        embedding = None if state.sums is None else state.sums.mean(latest=True)
        delta = setup.split.last_half(max(1, setup.linear.numbers.size))
        return estimate_executed(setup.program, setup.linear, state.restarts, embedding, count, delta)


def _continue_numbering(setup: LearnSetup, learn_state: LearnState) -> LearnSetup:
    """Return the set-up with the observations that were met before a state; what was met later is forgotten."""
    numbering = setup.env.numbering
    if numbering is None or not numbering.grows:
        return setup
    return replace(setup, env=setup.env.with_numbering(numbering.with_keys(learn_state.met)))
