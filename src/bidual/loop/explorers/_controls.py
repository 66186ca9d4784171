"""Exploration with controls: optimistic dynamics, and the problem solved in them by a sampling planner.

Algorithm 2 of the paper with its oracle replaced: the optimistic plan is found by sampling, so its value bounds
nothing, and this exploration is a heuristic. Dual player, planner and model share the loop of all explorers.
"""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float

from bidual._base.errors import ProblemError
from bidual._base.keys import Draw
from bidual.dual import Duals, FollowTheLeader, GradientAscent
from bidual.loop.explorers._base import AbstractExplorer, AbstractInner, Choice, Corrective, PlanMixture
from bidual.loop.explorers._linearised import choose_inner
from bidual.loop.explorers._steps import DualSteps, compute_first_Gamma, search_Gamma
from bidual.models import AbstractModel, ControlKnowledge
from bidual.planners import AbstractPlanner
from bidual.planners.control import (
    AbstractExecution,
    AbstractOptimism,
    AbstractSearch,
    Among,
    Chain,
    CheapestAmong,
    Descent,
    Mpc,
    Regulator,
    icem,
)
from bidual.planners.control import Thompson as PosteriorSample
from bidual.problem.convex import AbstractProgram, AffineProgram, ConvexProgram, VariationalProgram
from bidual.problem.modelling import make_variational
from bidual.world.policies import ControlPolicy, RandomControls

_SEARCHED = (0, 4, 16, 64)  # plans before which Gamma is searched in the estimate
_ANY = 1e9  # the size of a set that plays no part
_FADES = 0.02  # of debt and spread with every mixture


class TurnState(NamedTuple):
    """The sums of the mixtures so far less the members that were run, and of the variances within mixtures."""

    debt: Float[np.ndarray, "k"]
    spread: Float[np.ndarray, "k"]


class ControlPlans(NamedTuple):
    """The start of the next inner solve or the state of the primal-dual steps, and the debts between members."""

    warm: Any
    steps: DualSteps | None = None
    turn_state: TurnState | None = None


@final
@dataclass(frozen=True)
class Controls(AbstractExplorer[ControlPlans]):
    """An explorer that plans controls before every episode, in the dynamics that an optimism chooses.

    Members of a mixture of plans are run in turn, so that over the episodes they add up to it.

    The defaults failed least, among those tried, on eight tasks with all laws learned (docs/control.md). They plan 50
    steps ahead: if good paths earn nothing within 50 steps, use `Mpc(5, n)` or `Feedback()`.

    Args:
        optimism: the choice of the dynamics to plan in: `bd.control.Thompson()`, `Hallucinated(beta)`, ...
        sampler: the search for sequences of controls: `bd.control.icem()`, `mppi()`, ...; `Chain(icem(), Descent())`
            descends from the sampled sequence.
        execution: the rule that turns a sequence into a policy: `bd.control.Feedback()`, an explicit law that can be
            stored and run by other programs, `Mpc(every=5)` or `OpenLoop()`.
        dual: None, to solve the problem over plans before every episode; or the dual player of primal-dual steps, one
            for every episode, as the paper's Algorithm 2 has it: `GradientAscent()` or `FollowTheLeader()`.
        inner: the solver of the problem without steps; by default the one for its kind of program.
        rollouts: number of paths of the model in the average that estimates an embedding.
        warmup: episodes of random controls before the first plan.
        push: the deviation of these controls, in halves of the range of a control.
    """

    optimism: AbstractOptimism = field(default_factory=lambda: PosteriorSample(0.3))
    sampler: AbstractSearch = field(default_factory=lambda: Chain(icem(64, 3, deviation=1.0), Descent(4)))
    execution: AbstractExecution = field(default_factory=lambda: Mpc(5, 50))
    dual: GradientAscent | FollowTheLeader | None = None
    inner: AbstractInner[Any, Any] | None = None
    rollouts: int = 8
    warmup: int = 1
    push: float = 0.5

    def __post_init__(self) -> None:
        """Check the settings."""
        if self.warmup < 1:
            raise ProblemError(f"warmup must be at least 1: nobody knows where episodes begin; got {self.warmup!r}")

    @property
    def guarantee(self) -> str:
        """None: the planner is a heuristic."""
        steps = "" if self.dual is None else "primal-dual steps and "
        plans = f"by {steps}controls planned in {self.optimism.description}"
        return f"{plans}: a sampling planner is a heuristic, no rate is proved"

    def init(self, program: AbstractProgram, knowledge: ControlKnowledge) -> ControlPlans:
        """Return a memory without plans."""
        if self.dual is None:
            return ControlPlans(self._inner(program).init(program))
        dual = self.dual
        bounded = not (isinstance(dual, GradientAscent) and dual.steps == "adaptive" and program.linear is not None)
        functions = _build_conjugates(program, knowledge, bounded=bounded)
        if dual.Gamma is None:
            dual = replace(dual, Gamma=compute_first_Gamma(functions), doubling=True)
        return ControlPlans(None, DualSteps(functions, knowledge.pieces, dual, dual.init(functions)))

    def __call__(
        self, program: AbstractProgram, memory: ControlPlans, knowledge: ControlKnowledge, draw: Draw
    ) -> tuple[Choice, ControlPlans]:
        """Return random controls during the warm-up, then solve the problem anew."""
        if knowledge.episodes < self.warmup:
            return Choice(draw_controls(knowledge, self.push), 0), memory
        model, planner = self._draw_models(knowledge, draw)
        if memory.steps is not None:
            searched = (
                isinstance(self.dual, GradientAscent) and self.dual.Gamma is None and self.dual.steps == "adaptive"
            )
            return _take_step(memory.steps, model, planner, knowledge, searched=searched)
        mixed, warm = self._inner(program)(program, model, knowledge.stage, planner, memory.warm)
        if not mixed.expected:
            return Choice(mixed.pick(draw.uniform()), mixed.plans), ControlPlans(warm)
        place, turn_state = choose_member(program, mixed, memory.turn_state)
        return Choice(mixed.policies[place], mixed.plans, mixed.expected[place]), ControlPlans(
            warm, turn_state=turn_state
        )

    def _inner(self, program: AbstractProgram) -> AbstractInner[Any, Any]:
        return choose_inner(self.inner, program, Corrective(gap=None, max_plans=8))

    def _draw_models(self, knowledge: ControlKnowledge, draw: Draw) -> tuple[AbstractModel, AbstractPlanner[Any]]:
        members = self.optimism(knowledge.world, draw.generator())
        regulator = Regulator(self.sampler, self.execution, self.rollouts, draw)
        return (members[0], regulator) if len(members) == 1 else (Among(members), CheapestAmong(regulator))


def _take_step(
    steps: DualSteps,
    model: AbstractModel,
    planner: AbstractPlanner[Any],
    knowledge: ControlKnowledge,
    *,
    searched: bool,
) -> tuple[Choice, ControlPlans]:
    """Plan for the present cost, and take one step of the dual player; plans for its bounds are not run."""
    dual, duals, aside = steps.dual, steps.duals, 0
    while duals.soft or duals.memory.bounding:
        duals = dual.step(steps.program, duals, planner(model, knowledge.stage, duals.theta))
        aside += 1
    plan = planner(model, knowledge.stage, duals.theta)
    if searched and duals.memory.t in _SEARCHED:
        Gamma, tried = search_Gamma(steps.program, lambda theta: planner(model, knowledge.stage, theta), plan)
        duals, aside = replace(duals, memory=replace(duals.memory, Gamma=_keep_above(duals, Gamma))), aside + tried
    after = steps._replace(duals=dual.step(steps.program, duals, plan))
    return Choice(plan.actions, aside + 1, plan.embedding), ControlPlans(None, after)


def _keep_above(duals: Duals[Any], Gamma: float) -> float:
    """Return Gamma, or twice the largest multiplier in use: a search in an estimate must not cut that off."""
    if not np.isfinite(Gamma):  # no plan had room
        return duals.memory.Gamma
    return max(Gamma, 2 * max((abs(pair.gamma) for pair in duals.memory.state.now.pairs), default=0.0))


def _build_conjugates(program: AbstractProgram, knowledge: ControlKnowledge, *, bounded: bool) -> VariationalProgram:
    """Build the problem with a conjugate for every function; the compact sets come from the bounds of the signals.

    Of linear functions slopes are known, and adaptive steps do not ask how large values can be: any set will do.
    """

    def least(theta: Float[np.ndarray, "H d"]) -> float:
        low = float(knowledge.pieces.span(theta[None])[0][0])
        if not (bounded or np.isfinite(low)):
            return -_ANY
        if not np.isfinite(low):
            raise ProblemError(
                "primal-dual steps need a compact set that holds every embedding, and a signal of the problem has no "
                "bounds: declare them, bd.features.signal(function, low, high), or leave out the dual player"
            )
        return low

    return make_variational(program, None, least)


def draw_controls(knowledge: ControlKnowledge, push: float) -> ControlPolicy:
    """Return random controls within their limits."""
    H, n, _ = knowledge.shape
    low, high = knowledge.limits
    return ControlPolicy(RandomControls(H, n, low, high, push), low, high, knowledge.discrete)


def choose_member(program: AbstractProgram, mixed: PlanMixture, turn_state: TurnState | None) -> tuple[int, TurnState]:
    """Return the index of the next member, and the debt after it, so that the episodes add up to the mixtures.

    If drawn by weight, n members deviate from the mixture by their spread / sqrt(n): over 64 episodes of a point mass
    that was more than all other errors together. Here a debt is carried from episode to episode, the embeddings of the
    mixtures less those of the members that were run, and the next member leaves the least of it (herding, Welling
    2009). Debts are in the values of the problem's functions, each relative to the spread of members in it so far.
    Both fade, so that plans in the bad models of the first episodes are not compensated later on.
    """
    points, shares = _evaluate_members(program, mixed)
    weights = mixed.weights / mixed.weights.sum()
    mean = weights @ points
    kept = 1 - _FADES
    before = TurnState(np.zeros_like(mean), np.zeros_like(mean)) if turn_state is None else turn_state
    spread = kept * before.spread + weights @ (points - mean) ** 2
    debts = kept * before.debt + (mean - points)
    measured = np.where(spread > 0, debts**2 / np.where(spread > 0, spread, 1.0), 0.0)
    place = int(np.argmin(measured @ shares))
    return place, TurnState(debts[place], spread)


def _evaluate_members(
    program: AbstractProgram, mixed: PlanMixture
) -> tuple[Float[np.ndarray, "members k"], Float[np.ndarray, "k"]]:
    """Return the values of every member, and their weights: the objective's image counts as one constraint."""
    return program.dispatch(lambda rows: _evaluate_values(rows, mixed), lambda cones: _evaluate_images(cones, mixed))


def _evaluate_values(
    program: AffineProgram, mixed: PlanMixture
) -> tuple[Float[np.ndarray, "members k"], Float[np.ndarray, "k"]]:
    points = np.array([np.append(*program.at(embedding)) for embedding in mixed.expected])
    return points, np.ones(points.shape[1])


def _evaluate_images(
    program: ConvexProgram, mixed: PlanMixture
) -> tuple[Float[np.ndarray, "members k"], Float[np.ndarray, "k"]]:
    """Return the image and the constraints of every member, with the weights of their parts."""
    images = np.array([program.image(embedding) for embedding in mixed.expected])
    shares = np.full(images.shape[1], 1 / max(1, images.shape[1]))
    if program.num_auxiliary:  # constraints have no value without the other variables
        return images, shares
    # Curved constraints too: the target is the mean over the members, which can be run, not the mixture's value.
    rows = np.array([program.functions.values(image, np.zeros(0))[1] for image in images])
    return np.hstack([images, rows]), np.append(shares, np.ones(rows.shape[1]))
