"""What every explorer, replanning rule and inner solver promises while a model is being learned."""

import copy
import itertools
from dataclasses import fields, is_dataclass, replace

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual._base.keys import Draw, Purpose
from bidual.dual import FollowTheLeader, GradientAscent
from bidual.learning.setup import set_up
from bidual.loop.explorers import (
    AbstractExplorer,
    AbstractInner,
    AbstractReplanning,
    Alternating,
    Always,
    Conic,
    Controls,
    Corrective,
    EpsilonGreedy,
    Greedy,
    Growth,
    Hoeffding,
    Linearised,
    Optimistic,
    PlanMixture,
    PlanOrigin,
    PrimalDual,
    Riccati,
    Thompson,
)
from bidual.loop.explorers._explorers import AbstractReplanned
from bidual.loop.explorers._linearised import choose_inner
from bidual.loop.explorers._steps import lift_to_occupancies
from bidual.loop.vpdpo import start_state, vpdpo
from bidual.models import Tabular
from bidual.planners import BackwardInduction, ExtendedValueIteration
from bidual.problem.convex import VariationalProgram
from bidual.tasks.rover import rover
from bidual.world.policies import DeterministicPolicy, embedding
from tests.learning import SHAPE, after, beginning, random_episodes, random_world

H, S, A = SHAPE
EXPLORERS = {
    "optimistic": Optimistic(),
    "optimistic, always": Optimistic(replanning=Always()),
    "thompson": Thompson(),
    "thompson, always": Thompson(replanning=Always()),
    "greedy": Greedy(),
    "alternating": Alternating(),
    "three in turn": Alternating((Greedy(), Thompson(), Optimistic())),
    "epsilon-greedy": EpsilonGreedy(0.3),
    "bonus": Hoeffding(),
    "primal-dual": PrimalDual(),
    "primal-dual, literal": PrimalDual(GradientAscent(Gamma=2.0, literal=True)),
    "primal-dual, canonical": PrimalDual(GradientAscent(literal=True), canonical=True),
    "primal-dual, follow the leader": PrimalDual(FollowTheLeader()),
}
RULES = {"growth": Growth(), "slow growth": Growth(share=2.0, fraction=1.0), "always": Always()}
INNERS = {
    "corrective": Corrective(),
    "corrective, two plans": Corrective(max_plans=2),
    "linearised": Linearised(),
    "linearised, forgetful": Linearised(memory=1),
    "conic": Conic(),
    "conic, two plans": Conic(max_plans=2),
    "conic, heuristic plans": Conic(gap=None),
}


def test_every_implementation_is_here():
    # Controls are for vectors: see units/test_controls.py.
    kinds = {*AbstractExplorer.__subclasses__(), *AbstractReplanned.__subclasses__()} - {AbstractReplanned}
    assert {type(one) for one in EXPLORERS.values()} | {Controls, Riccati} == kinds
    assert {type(one) for one in RULES.values()} == set(AbstractReplanning.__subclasses__())
    assert {type(one) for one in INNERS.values()} == set(AbstractInner.__subclasses__())


WORLD = random_world(3, masked=True)
COST = np.random.default_rng(0).normal(size=(S, A))
FEATURES = bd.features.signals(a=COST, b=COST[:, ::-1])  # what is cheap in one is mostly dear in the other


def _problems():
    """With a limit that is active, so that policies have to be mixed; and with one that cannot hold."""
    x = FEATURES.embedding(H)
    limits = {"b": cp.sum(x.b) <= LIMIT}
    return {
        "linear": bd.Problem(cp.Minimize(cp.sum(x.a)), limits),
        "convex": bd.Problem(cp.Minimize(cp.sum_squares(cp.sum(x, axis=0) - np.array([0.0, 2.0]))), limits),
        "other variables": bd.Problem(
            cp.Minimize(HIGHEST), {"t": cp.sum(x.a) <= HIGHEST, "u": 1 - cp.sum(x.b) <= HIGHEST}
        ),
        "impossible": bd.Problem(cp.Minimize(cp.sum(x.a)), {"b": cp.sum(x.b) <= -9.0}),
    }


LIMIT, HIGHEST = 0.9, cp.Variable(name="highest")
PROBLEMS = _problems()
PROGRAMS = {name: problem.program() for name, problem in PROBLEMS.items()}


@pytest.fixture(params=EXPLORERS)
def explorer(request):
    return EXPLORERS[request.param]


@pytest.fixture(params=PROGRAMS)
def program(request, explorer):
    if request.param in ("convex", "other variables") and isinstance(explorer, Hoeffding):
        return PROGRAMS["linear"]  # that is all it is for: see below
    return PROGRAMS[request.param]


def test_a_bonus_is_for_linear_problems():
    with pytest.raises(bd.ProblemError, match=r"linear objectives and constraints only: .* Optimistic\(\)"):
        Hoeffding().init(PROGRAMS["convex"], _knowledge())


@pytest.mark.parametrize("name", ["linear", "convex"])
def test_every_turn_of_the_primal_dual_loop_plans(name):
    """One plan and one step per episode, whether anything was learned or not: the cost has moved."""
    explorer, knowledge, program = PrimalDual(GradientAscent(Gamma=2.0)), _knowledge(8), PROGRAMS[name]
    memory = explorer.init(program, knowledge)
    thetas = []
    for number in (1, 2, 3):
        choice, memory = explorer(program, memory, knowledge, _draw(number))
        assert choice.plans >= 1
        thetas.append(memory.duals.theta)
    assert not np.array_equal(thetas[0], thetas[2])


def test_gamma_is_doubled_with_patience():
    """Steps are as long as Gamma: here each round overshoots and comes back. It grew to 1e102 in 9800 episodes."""
    task = rover(budget=0.2)
    setting = set_up(task.problem, task.mdp, Tabular(task.mdp), None, delta=0.1, seed=0)
    explorer = PrimalDual(GradientAscent(literal=True))
    start = start_state(setting.program, explorer, setting.knowledge)
    turns = vpdpo(setting.program, setting.env, explorer, start, seed=0)
    states = [turn.state.memory.duals.memory for turn in itertools.islice(turns, 150)]
    assert states[-1].Gamma <= 4 * states[0].Gamma
    assert states[-1].enough == 16 * states[-1].Gamma / states[0].Gamma


def test_the_canonical_embedding_pays_the_same():
    """Objective and constraints of a policy, from occupancies and from its signals."""
    program, pieces = PROGRAMS["linear"], _knowledge().pieces
    lifted = lift_to_occupancies(program, pieces)
    assert lifted is not None  # linear, and paid by state and action
    functions, occupancies = lifted
    policy = DeterministicPolicy(np.argmax(WORLD.mdp.actions, axis=1)[None].repeat(H, axis=0), A)
    f, g = functions.values(functions.image(embedding(WORLD.mdp, occupancies.psi, policy)))
    expected_f, expected_g = program.values(embedding(WORLD.mdp, pieces.psi, policy))
    np.testing.assert_allclose([f, *g], [expected_f, *expected_g], rtol=1e-12)
    assert functions.f.function.lipschitz == pytest.approx(np.linalg.norm(COST) * np.sqrt(H))
    assert lift_to_occupancies(PROGRAMS["convex"], pieces) is None


def test_random_actions_are_as_many_as_asked_for():
    """None: the policies of the plan; all: fair coins, where two actions are allowed."""
    knowledge, program = _knowledge(8), PROGRAMS["linear"]
    for epsilon in (0.0, 1.0):
        explorer = EpsilonGreedy(epsilon)
        memory = explorer.init(program, knowledge)
        policies = []
        for number in range(1, 60):
            choice, memory = explorer(program, memory, knowledge, _draw(number))
            policies.append(choice.policy.actions)
        spread = np.std(policies, axis=0)[:, WORLD.mdp.actions.all(axis=1)]
        if not epsilon:
            assert {p.tobytes() for p in policies} <= {m.actions.tobytes() for m in memory.mixed.policies}
        else:
            assert 0.2 < spread.min() <= spread.max() <= 0.5  # of fair coins it is 0.5
    with pytest.raises(bd.ProblemError, match="epsilon is a probability"):
        EpsilonGreedy(1.5)


def _knowledge(episodes=8, *, hidden_start=False):
    mdp = WORLD.mdp
    initial = None if hidden_start else mdp.initial
    start = beginning(FEATURES, SHAPE, Tabular(WORLD.padded), allowed=mdp.actions, initial=initial)
    return after(start, random_episodes(mdp, episodes, 1))


def _draw(number=1, seed=5):
    return Draw(seed, Purpose.PLAN, number)


def _same(one, other):
    """Whether two memories are the same, number by number."""
    leaves = [list(_numbers(part)) for part in (one, other)]
    return len(leaves[0]) == len(leaves[1]) and all(np.array_equal(a, b) for a, b in zip(*leaves, strict=True))


def _numbers(memory):
    """All arrays and numbers in tuples and frozen classes; a problem's functions are made once and stay."""
    if isinstance(memory, VariationalProgram):
        return
    if is_dataclass(memory):
        memory = tuple(getattr(memory, field.name) for field in fields(memory))
    if isinstance(memory, tuple):
        for part in memory:
            yield from _numbers(part)
    elif memory is not None:
        yield memory


# Explorers.


def test_chooses_a_policy_of_the_right_shape_with_allowed_actions(explorer, program):
    knowledge = _knowledge()
    memory = explorer.init(program, knowledge)
    for number in (1, 2, 3):
        choice, memory = explorer(program, memory, knowledge, _draw(number))
        assert isinstance(choice.policy, DeterministicPolicy)
        assert choice.policy.shape == SHAPE
        assert WORLD.mdp.actions[np.arange(S), choice.policy.actions].all()
        assert choice.plans >= 0


@pytest.mark.parametrize("episodes", [0, 1])
def test_the_first_episodes_need_no_start_law(explorer, program, episodes):
    knowledge = _knowledge(episodes, hidden_start=True)
    memory = explorer.init(program, knowledge)
    for number in (1, 2, 3):
        choice, memory = explorer(program, memory, knowledge, _draw(number))
        assert choice.policy.shape == SHAPE


def test_the_same_draw_gives_the_same_choice(explorer, program):
    knowledge = _knowledge()
    choices, memories = [], []
    for _ in range(2):
        memory = explorer.init(program, knowledge)
        for number in (1, 2):
            choice, memory = explorer(program, memory, knowledge, _draw(number))
        choices.append(choice)
        memories.append(memory)
    np.testing.assert_array_equal(choices[0].policy.actions, choices[1].policy.actions)
    assert choices[0].plans == choices[1].plans
    assert _same(*memories)


def test_memory_and_knowledge_are_left_alone(explorer, program):
    knowledge = _knowledge()
    memory = explorer.init(program, knowledge)
    for number in (1, 2, 3):
        before, counts = copy.deepcopy(memory), knowledge.counts.transitions.copy()
        _, later = explorer(program, memory, knowledge, _draw(number))
        assert _same(before, memory)
        np.testing.assert_array_equal(counts, knowledge.counts.transitions)
        memory, knowledge = later, knowledge.update(random_episodes(WORLD.mdp, 1, number)[0])


def test_plans_first_and_again_once_the_counts_have_grown(explorer, program):
    """Between, the policies of the last plan are played. Each of those who take turns plans for itself."""
    if isinstance(explorer, PrimalDual):
        return  # plans in every turn: see above
    knowledge = _knowledge(8)
    memory = explorer.init(program, knowledge)
    turns = len(explorer.members) if isinstance(explorer, Alternating) else 1
    plans = []
    for number in range(1, 2 * turns + 1):
        choice, memory = explorer(program, memory, knowledge, _draw(number))
        plans.append(choice.plans)
    assert all(count > 0 for count in plans[:turns])
    assert not any(plans[turns:])  # nothing was learned in between
    doubled = after(knowledge, random_episodes(WORLD.mdp, 8, 1))
    choice, _ = explorer(program, memory, doubled, _draw(2 * turns + 1))
    assert choice.plans > 0


def test_says_what_is_guaranteed(explorer):
    assert explorer.guarantee
    if isinstance(explorer, Alternating):
        assert all(member.guarantee in explorer.guarantee for member in explorer.members)


def test_those_who_take_turns_do_so_by_the_number_of_the_episode():
    """Episode t is of member t - 1 modulo their number; the memories of the others stay."""
    members, program, knowledge = (Greedy(), Thompson()), PROGRAMS["linear"], _knowledge()
    both = Alternating(members)
    memory = both.init(program, knowledge)
    for number in (1, 2, 3, 4):
        turn = (number - 1) % 2
        alone, _ = members[turn](program, memory[turn], knowledge, _draw(number))
        choice, later = both(program, memory, knowledge, _draw(number))
        np.testing.assert_array_equal(choice.policy.actions, alone.policy.actions)
        assert later[1 - turn] is memory[1 - turn]
        memory = later


def test_draws_from_the_posterior_differ_and_others_do_not():
    """Little data: 20 draws of a law give more than one policy. Greedy and optimistic ones have one law, or one set."""
    program, knowledge = PROGRAMS["linear"], _knowledge(2)
    found = {}
    for name in ("thompson", "greedy", "optimistic"):
        explorer = replace(EXPLORERS[name], inner=Corrective(max_plans=1))  # a single plan, so no mixture to draw from
        start = explorer.init(program, knowledge)
        chosen = [explorer(program, start, knowledge, _draw(number))[0].policy for number in range(1, 21)]
        found[name] = len({policy.actions.tobytes() for policy in chosen})
    assert found["thompson"] > 1
    assert found["greedy"] == found["optimistic"] == 1


# Inner solvers.


@pytest.fixture(params=INNERS)
def inner(request):
    return INNERS[request.param]


def _kind(inner):
    return {Corrective: "linear", Linearised: "convex", Conic: "other variables"}[type(inner)]


def _suited(inner):
    return PROGRAMS[_kind(inner)]


def _worlds(knowledge):
    model, psi = knowledge.estimate
    yield knowledge.confidence_set, knowledge.layout, ExtendedValueIteration()
    yield model, model.restrict(psi), BackwardInduction()


def test_an_inner_solver_mixes_policies_over_any_model(inner):
    program, knowledge = _suited(inner), _knowledge()
    for world in _worlds(knowledge):
        warm = inner.init(program)
        for _ in range(3):
            before = copy.deepcopy(warm)
            mixed, later = inner(program, *world, warm)
            again, _ = inner(program, *world, warm)
            assert _same(before, warm)
            assert mixed.plans > 0
            assert len(mixed.policies) == mixed.weights.size > 0
            assert mixed.weights.min() > 0
            assert abs(mixed.weights.sum() - 1) <= 1e-9
            assert all(policy.shape == SHAPE for policy in mixed.policies)
            np.testing.assert_array_equal(mixed.weights, again.weights)
            warm = later


@pytest.mark.parametrize("name", [name for name in INNERS if "two plans" not in name])  # which stop too early
def test_an_inner_solver_approaches_the_optimum_of_a_model_that_stands_still(name):
    """Corrective solves at once, to 1 % of a range of about 5; the average of the others improves with every answer."""
    inner, knowledge = INNERS[name], _knowledge(30)
    kind = _kind(inner)
    program, mdp = PROGRAMS[kind], knowledge.smoothed_model()
    best = bd.solve(PROBLEMS[kind], mdp, gap=1e-8)
    assert best.constraints[0].price > 0.01
    model, psi = knowledge.estimate
    mixed, warm = None, inner.init(program)
    for _ in range(40 if kind == "convex" else 1):
        mixed, warm = inner(program, model, model.restrict(psi), BackwardInduction(), warm)
    if kind != "convex":
        found = [embedding(mdp, psi, policy) for policy in mixed.policies]
        f, g = program.at(np.tensordot(mixed.weights, np.array(found), axes=1))
    else:
        f, g = program.functions.values(warm.image, np.zeros(0))
    assert abs(f - best.value) <= 0.06
    assert g.max() <= 0.02


def test_a_mixture_is_drawn_by_its_weights():
    """1000 draws of weight 0.3 are within 5 standard deviations (0.0145) of it: false alarm below 1e-6."""
    policies = tuple(DeterministicPolicy(np.full((H, S), a), A) for a in range(A))
    mixed = PlanMixture(policies, np.array([0.3, 0.7]), 2)
    rng = np.random.default_rng(0)
    assert abs(np.mean([mixed.pick(rng.random()) is policies[0] for _ in range(1000)]) - 0.3) <= 5 * 0.0145


def test_frank_wolfe_steps_are_for_functions_of_the_embedding_alone():
    with pytest.raises(bd.ProblemError, match="other variables besides the embedding, which Linearised cannot"):
        Linearised().init(PROGRAMS["other variables"])
    assert isinstance(choose_inner(None, PROGRAMS["other variables"]), Conic)


def test_the_second_solve_starts_with_the_multipliers_of_the_first():
    """In a model that stands still these are nearly optimal, so that few plans are needed."""
    inner, knowledge, program = Conic(), _knowledge(30), PROGRAMS["other variables"]
    model, psi = knowledge.estimate
    first, warm = inner(program, model, model.restrict(psi), BackwardInduction(), None)
    again, _ = inner(program, model, model.restrict(psi), BackwardInduction(), warm)
    assert again.plans <= first.plans


# Replanning.


@pytest.fixture(params=RULES)
def rule(request):
    return RULES[request.param]


def test_a_plan_is_not_due_at_once_and_is_due_after_as_many_episodes_again(rule):
    counts = _knowledge(20).counts
    planned = PlanOrigin(counts.episodes, counts.pairs)
    assert not rule.due(planned, counts)
    assert rule.due(planned, after(_knowledge(20), random_episodes(WORLD.mdp, 60, 9)).counts)


def test_a_plan_made_from_nothing_is_due_after_the_first_episode(rule):
    before = _knowledge(0).counts
    assert rule.due(PlanOrigin(before.episodes, before.pairs), _knowledge(1).counts)


@pytest.mark.parametrize(("grown", "due"), [(1.25, False), (1.26, True)])
def test_growth_waits_for_a_quarter_more_of_some_pair(grown, due):
    counts = _knowledge(20).counts
    pairs = counts.pairs.copy()
    pairs[pairs == pairs.max()] /= grown
    assert Growth(fraction=1e9).due(PlanOrigin(20, pairs), counts) is due


@pytest.mark.parametrize(("planned", "due"), [(18, False), (17, True)])
def test_growth_waits_for_a_tenth_more_episodes_and_one(planned, due):
    """At episode 20: 20 - 18 = 2 <= 1 + 1.8, and 20 - 17 = 3 > 1 + 1.7."""
    counts = _knowledge(20).counts
    assert Growth().due(PlanOrigin(planned, counts.pairs), counts) is due


@pytest.mark.parametrize("settings", [{"share": 0.0}, {"share": -1.0}, {"fraction": 0.0}, {"share": float("nan")}])
def test_growth_refuses_what_would_never_end(settings):
    with pytest.raises(bd.ProblemError, match="share and fraction must be positive"):
        Growth(**settings)
