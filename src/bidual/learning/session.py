"""The session behind a `Learned`: more evaluation, a file, and regret in a true model."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np

from bidual._base.errors import ProblemError
from bidual._base.types import Episode
from bidual.certificate import ControlEvidence, Round, SampledEvidence, estimate_round, narrow_by_class
from bidual.learning.curve import LearnedCurve, Limits
from bidual.learning.learned import AbstractLearnSession, Learned, LearnProgress
from bidual.learning.outputs import (
    DualBound,
    Estimates,
    PolicyBounds,
    Regret,
    ReturnedPolicy,
    bound_policy,
    compute_exact_regret,
    compute_regret,
    drop_random_controls,
    estimate_paired_regret,
    estimate_policy,
    find_cautious_policy,
    list_spans,
    run_fresh_episodes,
)
from bidual.learning.pricing import price_learned
from bidual.learning.setup import LearnSetup
from bidual.learning.suggestions import Standing, suggest
from bidual.learning.summary import Summary, describe_output, summarise
from bidual.models import AbstractCounted, AbstractKnowledge, ControlKnowledge
from bidual.planners.control import LinearQuadratic
from bidual.problem.modelling import Line, assign_values
from bidual.solving.options import SolveOptions
from bidual.solving.solve import solve_silently
from bidual.storage import Claim, collect_linear_rows, digest_policy, save_controlled, save_learned
from bidual.world.mdp import TabularMDP
from bidual.world.policies import (
    AbstractPolicy,
    ControlPolicy,
    DecodedPolicy,
    MarkovPolicy,
    Mixture,
    Played,
    write_functions,
)


def drop_invalid_bounds(history: Sequence[LearnProgress], knowledge: AbstractKnowledge) -> tuple[LearnProgress, ...]:
    """Drop past bounds once an observed signal proves not to be a function of the transition; they assumed it was."""
    return (
        tuple(history) if knowledge.signals_consistent else tuple(replace(progress, bound=None) for progress in history)
    )


def evaluate_policy(
    setup: LearnSetup,
    policy: AbstractPolicy,
    knowledge: AbstractKnowledge,
    number: int,
    episodes: Sequence[Episode],
    *,
    uniform: bool = False,
) -> tuple[Estimates, AbstractKnowledge]:
    """Evaluate a policy on fresh episodes, and learn from them too: the set holds whatever the episodes are for.

    `uniform` where their number was not fixed beforehand.
    """
    knowledge = knowledge.update(*episodes)
    given = setup.program, setup.linear, episodes, setup.corners, setup.split, number
    estimates = estimate_policy(*given, uniform=uniform)
    own = tuple(replace(seen, policy=digest_policy(policy)) for seen in estimates.rounds)
    return replace(estimates, rounds=own), knowledge


def estimate_further(setup: LearnSetup, seen: Round) -> Estimates:
    """Estimate the policy from a round that may go on."""
    spans = None if setup.corners is None else setup.corners.spans
    return estimate_round(setup.program, list_spans(setup.linear), spans, setup.split, seen)


def restore_bound_knowledge(dual_bound: DualBound, knowledge: AbstractCounted) -> AbstractCounted:
    """Return the knowledge that the bound was proved with, but with the signals' consistency in all episodes so far."""
    counts = dual_bound.counts or knowledge.counts
    return knowledge.at(replace(counts, steady=knowledge.counts.steady))


@final
@dataclass(frozen=True, eq=False)
class LearnSession(AbstractLearnSession):
    """The state of a finished run: its set-up, and the episodes that its policy was evaluated on."""

    setup: LearnSetup
    dual_bound: DualBound
    returned: ReturnedPolicy
    estimates: Estimates
    knowledge: AbstractKnowledge
    rounds: int  # with numbers of episodes that were fixed before
    spent: int
    goal: float | None
    before: Estimates  # from those rounds
    further: Round | None = None  # the episodes of all calls of `certify`

    @cached_property
    def bounds(self) -> Estimates:
        """The estimates from episodes, combined with the bounds over the class of laws, where there is one."""
        returned, program, counted = self.returned, self.setup.program, self.knowledge.counted
        if counted is None or not (counted.bounds_policies and isinstance(returned.policy, MarkovPolicy)):
            return self.estimates
        known, rows = restore_bound_knowledge(self.dual_bound, counted), collect_linear_rows(program)
        return narrow_by_class(self.estimates, program, rows, returned.policy, known, returned.embedding)

    def summary(self) -> Summary:
        """Derive status, bounds and constraints of the policy."""
        return summarise(self.setup, self.dual_bound, self.returned, self.bounds, goal=self.goal)

    def certify(self, solution: Learned, episodes: int) -> Learned:
        """Run more fresh episodes of the policy: all of them, over all calls, are one round for any number of them.

        This object cannot know what else was asked of it. But episodes are numbered, so that every call continues or
        repeats the same ones, and the bounds of the round hold for all its beginnings at once.
        """
        setup, number = self.setup, self.rounds + 1
        seen, knowledge = self._extend(solution.policy, number, episodes)
        both = self.before.combine(estimate_further(setup, seen))
        dual_bound = self.dual_bound.or_better(
            setup.final(setup.program, knowledge), signals_consistent=knowledge.signals_consistent
        )
        after = replace(
            self, estimates=both, dual_bound=dual_bound, knowledge=knowledge, further=seen, spent=self.spent + episodes
        )
        first = describe_output(setup, solution.outputs[0].name, solution.policy, after.bounds)
        return replace(
            solution,
            **after.summary()._asdict(),
            knowledge=knowledge,
            history=drop_invalid_bounds(solution.history, knowledge),
            outputs=(first, *solution.outputs[1:]),
            evaluation_episodes=after.spent,
            _session=after,
        )

    def _extend(self, policy: AbstractPolicy, number: int, episodes: int) -> tuple[Round, AbstractKnowledge]:
        """Run episodes after those so far, and learn from them too."""
        fresh = run_fresh_episodes(self.setup.env, policy, self.setup.seed, self.spent, episodes)
        new, knowledge = evaluate_policy(self.setup, policy, self.knowledge, number, fresh)
        (seen,) = new.rounds
        return replace(seen, uniform=True) if self.further is None else self.further.extend(seen), knowledge

    def suggest(self, solution: Learned) -> tuple[str, ...]:
        """Return what would make the result certain or tighter."""
        further = 0 if self.further is None else len(self.further.values)
        standing = Standing(
            setup=self.setup,
            knowledge=self.knowledge,
            dual_bound=self.dual_bound,
            estimates=self.bounds,
            embedding=self.returned.embedding,
            number=self.rounds + 1,
            further=further,
            goal=self.goal,
        )
        return tuple(suggest(standing, solution))

    def assign(self, solution: Learned) -> None:
        """Set the problem's variables to their values at the policy."""
        assign_values(self.setup.problem, solution.embedding, self.returned.auxiliary)

    def save(self, solution: Learned, path: str | os.PathLike[str], signals: Mapping[str, str] | None) -> None:
        """Write evidence and claims to one file."""
        setup, policy = self.setup, solution.policy
        counted, controlled = self.knowledge.counted, self.knowledge.controlled
        if controlled is not None:
            self._save_controls(solution, controlled, path, signals)
            return
        if signals:
            raise ProblemError("signals are written as text where a policy plans with them, and this one is a table")
        if isinstance(policy, DecodedPolicy):
            policy.save(path)  # nothing is claimed that a file could prove
            return
        assert isinstance(policy, MarkovPolicy)  # as all others of numbered states are
        assert counted is not None
        evidence = SampledEvidence(
            program=setup.program,
            knowledge=restore_bound_knowledge(self.dual_bound, counted),
            policy=policy,
            record=self.dual_bound.record,
            split=setup.split,
            linear=list_spans(setup.linear),
            corners=None if setup.corners is None else setup.corners.spans,
            rounds=self.estimates.rounds,
            embedding=self.returned.embedding,
        )
        save_learned(path, evidence, self._lines(solution), self.goal, solution.to_dict())

    def _lines(self, solution: Learned) -> list[Line]:
        """Return the constraint rows with the limits of the solution: parameters may have other values by now."""
        pairs = zip(self.setup.problem.lines(), solution.constraints, strict=True)
        return [line._replace(bounds=constraint.limits) for line, constraint in pairs]

    def _save_controls(
        self,
        solution: Learned,
        knowledge: ControlKnowledge,
        path: str | os.PathLike[str],
        signals: Mapping[str, str] | None,
    ) -> None:
        """Save a solution for dynamics of vectors, with the evidence of its bounds."""
        setup, source = self.setup, self.dual_bound.controls or knowledge
        policy = solution.policy
        assert isinstance(policy, ControlPolicy | Mixture)
        stored = write_functions(policy, signals)
        own = digest_policy(policy), digest_policy(stored)
        rounds = [replace(one, policy=own[1]) if one.policy == own[0] else one for one in self.estimates.rounds]
        evidence = ControlEvidence(
            program=setup.program,
            pieces=knowledge.pieces,
            record=self.dual_bound.record,
            laws=None if self.dual_bound.controls is None else self.dual_bound.controls.laws,
            split=setup.split,
            linear=list_spans(setup.linear),
            corners=None if setup.corners is None else setup.corners.spans,
            rounds=tuple(rounds),
            embedding=self.returned.embedding,
        )
        claim = Claim(self._lines(solution), self.goal, solution.to_dict())
        save_controlled(path, stored, evidence, source, claim)

    def price(self, solution: Learned, constraint: str | None, points: int, limits: Limits | None) -> LearnedCurve:
        """Bound and estimate the optimum at several limits, from all episodes so far."""
        return price_learned(self.setup, self.knowledge, solution, constraint, points=points, limits=limits)

    def bound_policy(self, solution: Learned, policy: Played | None) -> PolicyBounds:
        """Bound what a policy pays under every law that may be true, in the set of all episodes so far."""
        chosen = solution.policy if policy is None else policy
        return bound_policy(chosen, self._require_controlled(), self.setup.program, self.setup.sense)

    def find_cautious_policy(self) -> ControlPolicy:
        """Find a policy that keeps the constraints under every law that may be true."""
        return find_cautious_policy(self._require_controlled(), self.setup.program)

    def _require_controlled(self) -> ControlKnowledge:
        if self.knowledge.controlled is None:
            raise ProblemError("bounds over linear laws are for models of vectors under controls, bd.models.KNR")
        return self.knowledge.controlled

    def regret(
        self,
        solution: Learned,
        truth: TabularMDP | LinearQuadratic | None,
        optimum: float | None,
        reference: Played | None,
        paths: int,
    ) -> Regret:
        """Evaluate every executed policy in `truth`, against the optimum there; or beside a reference policy."""
        if self.knowledge.controlled is not None:
            return self._regret_of_controls(solution, self.knowledge.controlled, truth, optimum, reference, paths)
        if not isinstance(truth, TabularMDP):
            raise ProblemError("the regret of policies of finite models is computed in one: regret(TabularMDP)")
        executed = [policy for policy in solution.executed if not isinstance(policy, ControlPolicy)]
        best = solve_silently(self.setup.problem, truth, SolveOptions())
        psi = self.setup.problem.embedding.features.stage(truth.successors)
        optimum = best.lower if best.sense == "minimize" else None if best.upper is None else -best.upper
        if optimum is None:
            raise ProblemError("the problem has no known optimum in this model, so there is no regret against it")
        return compute_regret(self.setup.program, psi, truth, executed, optimum)

    def _regret_of_controls(
        self,
        solution: Learned,
        knowledge: ControlKnowledge,
        truth: TabularMDP | LinearQuadratic | None,
        optimum: float | None,
        reference: Played | None,
        paths: int,
    ) -> Regret:
        planned = drop_random_controls(solution.executed)
        if reference is not None:
            return estimate_paired_regret(self.setup.program, self.setup.env, planned, reference, paths=paths)
        first = knowledge.declared.first
        if not isinstance(truth, LinearQuadratic) or optimum is None or first is None:
            raise ProblemError(
                "the regret of policies of controls is exact in a linear law, regret(bd.control.LinearQuadratic(...), "
                "optimum=...) with KNR(first=...), or paired with a policy in the environment, regret(reference=policy)"
            )
        start = np.array(first, dtype=np.float64)
        least = self.setup.sense * optimum
        return compute_exact_regret(self.setup.program, knowledge.features, truth, start, planned, least)
