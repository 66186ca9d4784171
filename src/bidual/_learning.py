"""What a run of `learn` leaves behind: more evaluation, a file, and regret in a model that is true."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from bidual._announce import output_of, verdict
from bidual._errors import ProblemError
from bidual._prepare import Setting
from bidual._solve import solve
from bidual.certificate import Controlled, Sampled, within_class
from bidual.learned import AbstractLearning, Learned, Look
from bidual.mdp import TabularMDP
from bidual.models import AbstractCounted, AbstractKnowledge, ClassKnowledge, ControlKnowledge
from bidual.outputs import (
    Estimates,
    Made,
    Regret,
    Shown,
    evaluated,
    fresh_episodes,
    regret_of,
    spans_of,
)
from bidual.policies import AbstractPolicy, ControlPolicy, DecodedPolicy, MarkovPolicy, Mixture
from bidual.problem import Line
from bidual.saved import Claim, linear_rows, save_controlled, save_learned


def still_true(looks: Sequence[Look], knowledge: AbstractKnowledge) -> tuple[Look, ...]:
    """Looks without their bounds, once a signal was seen to be no function of the transition: they rest on that."""
    return tuple(looks) if knowledge.told else tuple(replace(look, bound=None) for look in looks)


def fresh_look(
    setting: Setting, policy: AbstractPolicy, knowledge: AbstractKnowledge, number: int, first: int, count: int
) -> tuple[Estimates, AbstractKnowledge]:
    """Evaluate a policy on fresh episodes, and learn from them too: the set holds whatever the episodes are for."""
    episodes = fresh_episodes(setting.env, policy, setting.seed, first, count)
    knowledge = knowledge.update(*episodes)
    return evaluated(setting.program, setting.linear, episodes, setting.corners, setting.split, number), knowledge


def proving(shown: Shown, knowledge: AbstractCounted) -> AbstractCounted:
    """What the bound was shown with; but whether a signal is steady is what all episodes say, later ones too."""
    counts = shown.counts or knowledge.counts
    return knowledge.at(replace(counts, steady=knowledge.counts.steady))


def shown_of(
    setting: Setting, made: Made, shown: Shown, knowledge: AbstractKnowledge, estimates: Estimates
) -> Estimates:
    """What is shown about the policy: by episodes of it, and by the class of laws where there is one."""
    if not (isinstance(knowledge, ClassKnowledge) and isinstance(made.policy, MarkovPolicy)):
        return estimates
    program, known = setting.program, proving(shown, knowledge)
    return within_class(estimates, program, linear_rows(program), made.policy, known, made.embedding)


@final
@dataclass(frozen=True, eq=False)
class Learning(AbstractLearning):
    """What a run leaves behind: the environment, and how often it was asked already."""

    setting: Setting
    shown: Shown
    made: Made
    estimates: Estimates
    knowledge: AbstractKnowledge
    rounds: int
    spent: int
    goal: float | None

    def certify(self, solution: Learned, episodes: int) -> Learned:
        """One more evaluation round; the bounds of all rounds hold together."""
        setting, number = self.setting, self.rounds + 1
        new, knowledge = fresh_look(setting, solution.policy, self.knowledge, number, self.spent, episodes)
        both = self.estimates.within(new)
        shown = self.shown.or_better(setting.final(setting.program, knowledge), told=knowledge.told)
        after = replace(
            self, estimates=both, shown=shown, knowledge=knowledge, rounds=number, spent=self.spent + episodes
        )
        told = shown_of(setting, self.made, shown, knowledge, both)
        first = output_of(setting, solution.outputs[0].name, solution.policy, told)
        return replace(
            solution,
            **verdict(setting, shown, self.made, told, goal=self.goal)._asdict(),
            knowledge=knowledge,
            history=still_true(solution.history, knowledge),
            outputs=(first, *solution.outputs[1:]),
            evaluation_episodes=after.spent,
            _learning=after,
        )

    def save(self, solution: Learned, path: str | os.PathLike[str]) -> None:
        """Write what was seen and what is claimed of it to one file."""
        setting, policy = self.setting, solution.policy
        if isinstance(self.knowledge, ControlKnowledge):
            self._save_controls(solution, self.knowledge, path)
            return
        if isinstance(policy, DecodedPolicy):
            policy.save(path)  # nothing is claimed that a file could prove
            return
        assert isinstance(self.knowledge, AbstractCounted)  # as every table is
        assert isinstance(policy, MarkovPolicy)
        evidence = Sampled(
            program=setting.program,
            knowledge=proving(self.shown, self.knowledge),
            policy=policy,
            record=self.shown.record,
            split=setting.split,
            linear=spans_of(setting.linear),
            corners=None if setting.corners is None else setting.corners.spans,
            rounds=self.estimates.rounds,
            embedding=self.made.embedding,
        )
        save_learned(path, evidence, self._lines(solution), self.goal, solution.to_dict())

    def _lines(self, solution: Learned) -> list[Line]:
        """With the limits of that time: parameters may have other values by now."""
        told = zip(self.setting.problem.lines(), solution.constraints, strict=True)
        return [line._replace(bounds=constraint.limits) for line, constraint in told]

    def _save_controls(self, solution: Learned, knowledge: ControlKnowledge, path: str | os.PathLike[str]) -> None:
        setting, proving = self.setting, self.shown.controls or knowledge
        assert isinstance(solution.policy, ControlPolicy | Mixture)
        evidence = Controlled(
            program=setting.program,
            pieces=knowledge.pieces,
            record=self.shown.record,
            laws=None if self.shown.controls is None else self.shown.controls.laws,
            split=setting.split,
            linear=spans_of(setting.linear),
            corners=None if setting.corners is None else setting.corners.spans,
            rounds=self.estimates.rounds,
            embedding=self.made.embedding,
        )
        claim = Claim(self._lines(solution), self.goal, solution.to_dict())
        save_controlled(path, solution.policy, evidence, proving, claim)

    def regret(self, solution: Learned, truth: TabularMDP) -> Regret:
        """Every policy that was run, evaluated in `truth`, against the optimum there."""
        executed = [policy for policy in solution.executed if not isinstance(policy, ControlPolicy)]
        if len(executed) < len(solution.executed):
            raise ProblemError("regret is told for finite models: controllers have none to be evaluated in")
        best = solve(self.setting.problem, truth)
        psi = self.setting.problem.embedding.features.stage(truth.successors)
        optimum = best.lower if best.sense == "minimize" else None if best.upper is None else -best.upper
        if optimum is None:
            raise ProblemError("the problem has no known optimum in this model, so there is no regret against it")
        return regret_of(self.setting.program, psi, truth, executed, optimum)
