"""The moving parts of a call of `learn`: what is gathered while the loop turns, and what is made of it in the end."""

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bidual._announce import assumptions_of, exploration_of, mixture_of_policies, output_of, verdict
from bidual._course import Course
from bidual._keys import Draw, Purpose
from bidual._learning import Learning, fresh_look, shown_of, still_true
from bidual._measured import Measured, Measurement
from bidual._paid import paid_by_each, told_of_each
from bidual._prepare import Setting
from bidual._types import Episode
from bidual.learned import Learned, Look
from bidual.models import AbstractKnowledge
from bidual.outputs import Estimates, Made, executed, in_model
from bidual.vpdpo import Iteration

_FIRST_LOOK = 16  # looks are at this many episodes and its doubles, and at the end
_BLOCK = 64  # episodes that are counted together: one by one takes long, and how many it is changes the last bits
_SECONDS_BETWEEN_WORDS = 0.2


class Running:
    """A course that moves on."""

    def __init__(self, setting: Setting, course: Course, measured: Measured | None) -> None:
        self.setting, self.measured = setting, measured
        self.started = time.perf_counter() - course.seconds
        self.state = course.loop
        self.executed, self.restarts, self.sums, self.paid = course.executed, course.restarts, course.sums, course.paid
        self.pending, self.policies, self.looks = list(course.pending), list(course.policies), list(course.looks)
        self.shown, self.plans, self.rounds, self.spent = course.shown, course.plans, course.rounds, course.spent
        self.said, self._place, self._whole = time.perf_counter(), course, True

    def course(self) -> Course:
        """Where it stands or, during a look and what comes of it, where it stood before: a place to go on from."""
        return self._course() if self._whole else self._place

    def _course(self) -> Course:
        return Course(
            loop=self.state,
            executed=self.executed,
            restarts=self.restarts,
            sums=self.sums,
            pending=tuple(self.pending[: self.state.episodes - self.executed.count]),  # an interrupt may leave more
            policies=tuple(self.policies[: self.state.episodes]),
            looks=tuple(self.looks),
            shown=self.shown,
            plans=self.plans,
            rounds=self.rounds,
            spent=self.spent,
            seconds=self.seconds,
            paid=self.paid,
        )

    @property
    def seconds(self) -> float:
        """Since the run began, without the time that it was stopped."""
        return time.perf_counter() - self.started

    @property
    def looked(self) -> int:
        """After how many episodes the last look was."""
        return self.looks[-1].episodes if self.looks else 0

    def take(self, turn: Iteration) -> None:
        """Remember one turn of the loop. The state comes last: an interrupt before it has the turn made again."""
        self.policies += [turn.choice.policy] * len(turn.episodes)
        self.pending += turn.episodes
        if self.measured is not None:
            self.measured.plans(turn.state.episodes, turn.choice.plans)
            if turn.choice.expected is not None:
                planned = self.setting.linear.payments.expected(turn.choice.expected)
                self.measured.planned(turn.state.episodes, planned)
        self.plans, self.state, self._whole = self.plans + turn.choice.plans, turn.state, True
        if len(self.pending) >= _BLOCK:
            self._count()

    def look_is_due(self) -> bool:
        """Whether a power of two was passed since the last look."""
        latest = 1 << (self.state.episodes.bit_length() - 1) if self.state.episodes else 0
        return latest >= _FIRST_LOOK and self.looked < latest

    def words_are_due(self) -> bool:
        """Whether it is time to say something."""
        return time.perf_counter() - self.said > _SECONDS_BETWEEN_WORDS

    def words(self) -> Look:
        """The last look with the present numbers of episodes and plans."""
        self.said = time.perf_counter()
        last = self.looks[-1] if self.looks else Look(0, None, None, None, 0, 0.0)
        return replace(last, episodes=self.state.episodes, plans=self.plans, seconds=self.seconds)

    def look(self) -> Look:
        """Bounds at this moment: what no policy beats, and what the mixture so far reaches."""
        self._place = self.course()
        self._whole, self.said = False, time.perf_counter()
        self._count()
        shown = self.setting.final.rough(self.setting.program, self.state.knowledge)
        self.plans += shown.plans
        told = self.state.knowledge.told
        self.shown = shown if self.shown is None else self.shown.or_better(shown, told=told)
        mixture = self._mixture()
        look = Look(
            episodes=self.state.episodes,
            bound=self.setting.sense * self.shown.lower if self.shown.lower is not None else None,
            reached=float(self.setting.sense * mixture.upper[0]) if np.isfinite(mixture.upper[0]) else None,
            violation=self.setting.violation(mixture),
            plans=self.plans,
            seconds=self.seconds,
            candidates=self.state.knowledge.candidates,
        )
        self.looks.append(look)
        if self.measured is not None:
            self.measured.look(look)
        return look

    def concluded(self, count: int, goal: float | None = None) -> Learned:
        """The policies, evaluated and certified."""
        setting, knowledge = self.setting, self.state.knowledge
        assert self.shown is not None  # a look comes before
        made = setting.certainty(setting.problem, knowledge, Draw(setting.seed, Purpose.PLAN, 0).generator())
        self.plans += made.plans
        estimates, knowledge = self._evaluated(made, knowledge, count)
        shown = self.shown
        if count:
            shown = shown.or_better(setting.final(setting.program, knowledge), told=knowledge.told)
        told = shown_of(setting, made, shown, knowledge, estimates)
        after = Learning(setting, shown, made, estimates, knowledge, self.rounds, self.spent, goal)
        ran = [knowledge.rollout(policy, number).policy for number, policy in enumerate(self.policies, 1)]
        since = self.restarts.since
        return Learned(
            **verdict(setting, shown, made, told, goal=goal)._asdict(),
            sense="maximize" if setting.problem.maximises else "minimize",
            outputs=(
                output_of(setting, "certainty-equivalent policy", made.policy, told),
                output_of(setting, "uniform mixture", mixture_of_policies(ran), self._mixture()),
                output_of(setting, "last-half mixture", mixture_of_policies(ran[since:]), self._last_half()),
            ),
            model=made.mdp,
            knowledge=knowledge,
            embedding=made.embedding.sum(axis=0) if setting.problem.embedding.total else made.embedding,
            visits=made.visits,
            assumptions=assumptions_of(setting, knowledge),
            exploration=exploration_of(setting),
            history=still_true(self.looks, knowledge),
            executed=tuple(self.policies),
            episodes=self.state.episodes,
            evaluation_episodes=self.spent,
            plans=self.plans,
            seconds=self.seconds,
            seed=setting.seed,
            delta=setting.split.delta,
            paid=None if self.paid is None else told_of_each(setting, self.paid),
            _learning=after,
        )

    def measurements(self) -> list[Measurement]:
        """The numbers since the last time, where they are gathered."""
        return [] if self.measured is None else self.measured.take()

    def _evaluated(self, made: Made, knowledge: AbstractKnowledge, count: int) -> tuple[Estimates, AbstractKnowledge]:
        """What fresh episodes say about the policy, and what is known after them."""
        if count == 0:
            return in_model(self.setting.program, made.embedding), knowledge
        self.rounds += 1
        first, self.spent = self.spent, self.spent + count
        return fresh_look(self.setting, made.policy, knowledge, self.rounds, first, count)

    def _count(self) -> None:
        """Bring what is known of executed episodes up to date."""
        if self.pending:
            self._counted(self.pending)
            self.pending = []

    def _counted(self, episodes: Sequence[Episode]) -> None:
        paid = self.setting.linear.payments(episodes)
        if self.measured is not None:
            self.measured.paid(self.executed.count + 1, paid)
        executed, restarts = self.executed.add_batch(paid), self.restarts.add_batch(paid)
        sums = None if self.sums is None else self.sums.add(self.setting.knowledge.pieces, episodes)
        each = (
            None if self.paid is None else np.concatenate([self.paid, paid_by_each(self.setting, self.sums, episodes)])
        )
        self.executed, self.restarts, self.sums, self.paid = executed, restarts, sums, each

    def _mixture(self) -> Estimates:
        setting, count = self.setting, self.executed.count
        embedding = None if self.sums is None else self.sums.mean(latest=False)
        delta = setting.split.mixture(max(1, setting.linear.numbers.size))
        return executed(setting.program, setting.linear, self.executed, embedding, count, delta)

    def _last_half(self) -> Estimates:
        setting, count = self.setting, self.restarts.count - self.restarts.since
        embedding = None if self.sums is None else self.sums.mean(latest=True)
        delta = setting.split.last_half(max(1, setting.linear.numbers.size))
        return executed(setting.program, setting.linear, self.restarts, embedding, count, delta)
