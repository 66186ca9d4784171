"""Tasks with vectors and controls: their environments, their exact optima, and how the command line learns them."""

from dataclasses import replace

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import bidual as bd
from bidual._base.errors import ProblemError, TaskError
from bidual.cli._explorer_options import find_controls_explorer, find_explorer
from bidual.cli._options import Options, find_default_episodes, load_declared
from bidual.cli._target import load_target
from bidual.planners import control
from bidual.tasks import _control_envs, _control_laws
from bidual.tasks.lqr import NOISE, exact
from bidual.tasks.lqr_match import FARTHEST, compute_expert_moments
from bidual.tasks.pendulum_spread import compute_uniform_features
from bidual.tasks.pointmass import compute_expert_features, trace_expert_path

gymnasium = pytest.importorskip("gymnasium")
OWN = [  # not of Gymnasium or MuJoCo; to make all tasks takes seconds, which a test spends
    *("lqr", "lqr-effort", "lqr-match", "pendulum", "pendulum-effort", "pendulum-spread"),
    *("pendulum-sparse", "pendulum-sparse-effort", "pendulum-sparse-spread", "pointmass", "pointmass-match"),
    *("mountain-car", "mountain-car-effort", "cartpole", "cartpole-effort", "acrobot", "acrobot-effort"),
]
NAMES = [*OWN, "inverted-pendulum", "inverted-pendulum-effort"]
START = np.array([1.0, 0.0])


def test_every_task_with_controls_is_here():
    built = {entry.name: entry.build() for entry in bd.tasks.ENTRIES}
    tasks = {name: task for name, task in built.items() if isinstance(task.model, bd.models.KNR)}
    assert set(NAMES) == set(tasks)
    assert set(OWN) == {name for name, task in tasks.items() if not isinstance(task.env, str)}
    families = {type(None): "tabular", bd.models.LowRank: "class", bd.models.Latent: "latent", bd.models.KNR: "control"}
    for entry in bd.tasks.ENTRIES:  # while they are all here: what `bidual tasks` says is what they are
        problem = built[entry.name].problem
        assert entry.family == families[type(built[entry.name].model)]
        assert entry.objective.split()[0] == ("max" if problem.maximises else "min")
        assert entry.limits == tuple(f"{one.name} {one.sense} {one.limit}" for one in problem.limits)


def test_the_pendulum_is_gymnasiums():
    """Step by step; Gymnasium shows single precision, and goes on in double."""
    env = _control_envs.Pendulum(_control_laws.DENSE)
    theirs = gymnasium.make("Pendulum-v1", max_episode_steps=-1).unwrapped
    shown, _ = env.reset(seed=0)
    theirs.reset(seed=0)
    theirs.state = env.state.copy()
    np.testing.assert_allclose(shown, [-1.0, 0.0, 0.0], atol=1e-12)
    rng = np.random.default_rng(0)
    features = bd.tasks.find("pendulum").build().problem.embedding.features
    for _ in range(200):
        u = rng.uniform(-2.5, 2.5, 1)  # also beyond the limits
        then, *_ = env.step(u)
        other, reward, *_ = theirs.step(u)
        np.testing.assert_allclose(then, other, atol=2e-6)
        paid = features.values(jnp.asarray(shown), jnp.clip(jnp.asarray(u), -2, 2), jnp.asarray(then))
        distance, effort = np.asarray(paid, dtype=float)
        assert abs(distance + 0.001 * effort + reward) <= 1e-4  # angles near pi, squared, in single precision
        shown = then


def test_the_double_integrator_has_the_moments_it_says():
    """20000 steps from one state: means within 5 standard errors, variances within 5 of theirs."""
    env = _control_envs.DoubleIntegrator(NOISE, 5.0)
    env.reset(seed=0)
    steps = []
    for _ in range(20000):
        env.state = np.array([1.0, -2.0])
        steps.append(env.step(np.array([3.0]))[0])
    count = len(steps)
    assert np.abs(np.mean(steps, axis=0) - [0.6, -1.4]).max() <= 5 * NOISE / count**0.5
    assert np.abs(np.var(steps, axis=0) / NOISE**2 - 1).max() <= 5 * (2 / count) ** 0.5


def test_the_sparse_pendulum_pays_only_at_the_top():
    """Hanging, fast or far off pays next to nothing, upright and slow 1; torque 1 holds it, and cannot lift it."""
    features = bd.tasks.find("pendulum-sparse").build().problem.embedding.features
    law = _control_laws.SPARSE

    def paid(angle, speed):
        y = jnp.array([np.cos(angle), np.sin(angle), speed])
        return float(features.values(y, jnp.zeros(1), y)[0])

    assert paid(0.0, 0.4) == paid(0.3, -0.5) == 1.0
    assert abs(paid(np.arccos(0.85), 0.0) - 0.1) <= 1e-5
    assert abs(paid(0.0, 1.0) - 0.1) <= 1e-5
    assert paid(np.pi, 0.0) <= 1e-9
    assert law.gain * law.torque < law.pull


def test_the_sparse_pendulum_charges_the_same_for_every_real_push():
    """Nothing up to a tenth, nine tenths of the price at two tenths, nearly all of it at three: not the square."""
    task = bd.tasks.find("pendulum-sparse").build()
    features, hanging = task.problem.embedding.features, jnp.array([-1.0, 0.0, 0.0])

    def charged(u):
        return float(features.values(hanging, jnp.array([u]), hanging)[1])

    assert charged(0.0) == charged(0.1) == charged(-0.1) == 0.0
    assert abs(charged(0.2) - 0.9) <= 1e-5
    assert abs(charged(-0.2) - 0.9) <= 1e-5
    assert abs(charged(0.3) - 0.9999) <= 1e-5
    assert abs(charged(1.0) - 1.0) <= 1e-6
    law = _control_laws.SPARSE
    assert task.problem.embedding.horizon * law.repeat == 400  # steps of 1/80 s: five seconds
    assert abs(law.dt - 1 / 80) <= 1e-12
    with pytest.raises(TaskError, match="at least 0"):
        bd.tasks.find("pendulum-sparse").build(cost=-1.0)


def test_energy_is_only_lost_to_friction():
    """Semi-implicit steps keep energy up to the order of the step."""
    law, s = _control_laws.SPARSE, np.array([2.0, 0.0])
    energies = []
    for _ in range(400):
        s = _control_laws.step_pendulum(law, s, np.zeros(1), np)
        energies.append(s[1] ** 2 / 2 + law.pull * np.cos(s[0]))
    assert energies[-1] < energies[0]
    assert max(energies) <= energies[0] + 0.05 * law.pull


def test_the_point_mass_sinks_in_the_wind_and_has_a_top_speed():
    """At rest it is blown down; under full push speed settles where push and drag agree: 2 = 0.5 v^2."""
    s = _control_laws.step_point_mass(np.zeros(4), np.zeros(2), np)
    np.testing.assert_allclose(s, [0.0, -0.003, 0.0, -0.03], atol=1e-9)
    for _ in range(300):
        s = _control_laws.step_point_mass(s, np.array([1.0, 0.15]), np)  # 0.15 of 2 against the wind
    np.testing.assert_allclose(s[2:], [2.0, 0.0], atol=1e-6)


def test_the_laws_of_planners_are_those_of_environments():
    rng = np.random.default_rng(0)
    for _ in range(20):
        s, u = rng.normal(size=4), rng.uniform(-1, 1, 2)
        there = _control_laws.step_point_mass(jnp.asarray(s), jnp.asarray(u), jnp)
        np.testing.assert_allclose(there, _control_laws.step_point_mass(s, u, np), atol=1e-6)
        there = _control_laws.step_pendulum(_control_laws.SPARSE, jnp.asarray(s[:2]), jnp.asarray(u[:1]), jnp)
        np.testing.assert_allclose(
            there, _control_laws.step_pendulum(_control_laws.SPARSE, s[:2], u[:1], np), atol=1e-5
        )


def test_the_expert_grazes_the_obstacle():
    """So that the limit binds: its share of time there is above .02; and its features are those of its path."""
    features = bd.tasks.find("pointmass-match").build().problem.embedding.features
    path = np.pad(trace_expert_path(30), ((0, 0), (0, 2)))
    paid = np.array([features.values(jnp.asarray(y), jnp.zeros(2), jnp.asarray(y)) for y in path], dtype=float)
    assert 0.02 < paid[:, 2].mean() < 0.1
    np.testing.assert_allclose(paid[:, 3:].mean(axis=0), compute_expert_features(30), atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (dict(centres=np.zeros(3), width=1.0), "shape"),
        (dict(centres=np.zeros((2, 2)), width=0.0), "positive"),
        (dict(centres=np.zeros((2, 2)), width=1.0, of=(0,)), "one place each"),
    ],
)
def test_bumps_are_checked(arguments, words):
    with pytest.raises(bd.ModelError, match=words):
        bd.features.rbf(**arguments)


@pytest.mark.filterwarnings(
    "ignore:.*For Box action spaces:UserWarning", "ignore:.*A Box observation space:UserWarning"
)
@pytest.mark.parametrize("name", OWN)
def test_environments_keep_gymnasiums_contract(name):
    from gymnasium.utils.env_checker import check_env

    check_env(bd.tasks.find(name).build().env, skip_render_check=True)


@pytest.mark.parametrize("name", OWN)
def test_equal_seeds_are_equal_episodes(name):
    env = bd.tasks.find(name).build().env
    paths = []
    for _ in range(2):
        path = [env.reset(seed=7)[0]]
        path += [env.step(env.action_space.high)[0] for _ in range(5)]
        paths.append(path)
    np.testing.assert_array_equal(*paths)


@pytest.mark.parametrize("name", OWN)
def test_a_task_says_how_it_is_drawn_and_explored(name):
    task = bd.tasks.find(name).build()
    assert task.finite is None
    assert isinstance(task.explorer, bd.explorers.Controls | bd.explorers.Riccati)
    assert task.picture is not None
    assert len(task.picture.names) == task.env.observation_space.shape[0]
    assert len(task.picture.controls) == task.env.action_space.shape[0]
    assert tuple(line.name for line in task.problem.lines()) == bd.tasks.find(name).constraints


def test_the_optimum_without_a_limit_is_riccatis():
    assert abs(exact(20).solve().value(START) - bd.tasks.find("lqr").optimum) <= 1e-6


def test_the_optimum_with_a_limit_is_the_largest_of_the_dual():
    """Linear-quadratic problems have no duality gap: the best price of force gives the optimum."""

    def dual(price):
        return exact(20, price).solve().value(START) - 3.0 * price

    best = minimize_scalar(lambda price: -dual(price), bounds=(1e-3, 10.0), method="bounded", options={"xatol": 1e-9})
    assert abs(-best.fun - bd.tasks.find("lqr-effort").optimum) <= 1e-6


def test_no_force_is_near_its_limit_at_the_optimum():
    """So that the limit does not matter: u_h has a mean and a deviation, and 5 is 5 deviations away."""
    laws, mean, spread = exact(20).solve(), START, np.zeros((2, 2))
    for K, k in zip(laws.gains, laws.offsets, strict=True):
        u, deviation = K @ mean + k, np.sqrt(np.diag(K @ spread @ K.T))
        assert np.all(np.abs(u) + 5 * deviation < 5.0)
        mean = _control_laws.A @ mean + _control_laws.B @ u
        closed = _control_laws.A + _control_laws.B @ K
        spread = closed @ spread @ closed.T + NOISE**2 * np.eye(2)


def test_the_optimum_of_the_match_is_that_of_a_convex_program_over_moments():
    """From both sides: every policy has moments that the program allows, and an affine law has those of its optimum.

    That law keeps 5 deviations away from the limits of force and from where positions are held, so they do not matter.
    """
    optimum, law = _matched(20, 6.0)
    assert abs(optimum - bd.tasks.find("lqr-match").optimum) <= 2e-6
    means, covariances = exact(20).moments(law, START)
    seconds = covariances + np.einsum("hi,hj->hij", means, means)
    position, square = compute_expert_moments(20)
    apart = np.concatenate([means[:, 3] - position, seconds[:, 3, 3] - square])
    assert abs(np.linalg.norm(apart) - optimum) <= 1e-5
    assert seconds[:, 2, 2].sum() <= 6.0 + 1e-5
    far = np.abs(means) + 5 * np.sqrt(np.einsum("hii->hi", covariances))
    assert far[:, 2].max() < 5.0
    assert far[:, 3].max() < FARTHEST


def test_the_expert_of_the_match_is_the_optimal_law():
    """It pays the optimum of `lqr`, and needs about twice the force that the match allows."""
    problem = exact(20)
    means, covariances = problem.moments(problem.solve(), START)
    efforts = covariances[:, 2, 2] + means[:, 2] ** 2
    speeds = covariances[:, 4, 4] + means[:, 4] ** 2
    _, square = compute_expert_moments(20)
    paid = square.sum() + 0.1 * speeds.sum() + 0.1 * efforts.sum()
    assert abs(paid - bd.tasks.find("lqr").optimum) <= 1e-6
    assert abs(efforts.sum() - 11.93) <= 5e-3


def _matched(horizon, budget):
    """Least distance over all means and second moments that linear dynamics allow, and the affine law that has them."""
    lift, position, square = np.hstack([_control_laws.A, _control_laws.B]), *compute_expert_moments(horizon)
    means = [cp.Variable((3, 1)) for _ in range(horizon)]
    seconds = [cp.Variable((3, 3), symmetric=True) for _ in range(horizon)]
    limits = [means[0][:2, 0] == START, seconds[0][:2, :2] == np.outer(START, START)]
    limits += [
        cp.bmat([[np.ones((1, 1)), mean.T], [mean, second]]) >> 0 for mean, second in zip(means, seconds, strict=True)
    ]
    after = [(lift @ means[h], lift @ seconds[h] @ lift.T + NOISE**2 * np.eye(2)) for h in range(horizon)]
    for h in range(1, horizon):
        limits += [means[h][:2] == after[h - 1][0], seconds[h][:2, :2] == after[h - 1][1]]
    limits += [sum(second[2, 2] for second in seconds) <= budget]
    apart = [mean[0, 0] - place for (mean, _), place in zip(after, position, strict=True)]
    apart += [second[0, 0] - place for (_, second), place in zip(after, square, strict=True)]
    value = cp.Problem(cp.Minimize(cp.norm(cp.hstack(apart))), limits).solve(solver="CLARABEL")
    gains, offsets = [], []
    for mean, second in zip(means, seconds, strict=True):
        m, spread = mean.value[:, 0], second.value - mean.value @ mean.value.T
        K = spread[2:, :2] @ np.linalg.pinv(spread[:2, :2], rcond=1e-5)
        gains.append(K)
        offsets.append(m[2:] - K @ m[:2])
    return value, control.RiccatiLaws(np.stack(gains), np.stack(offsets), np.zeros((2, 2)), np.zeros(2), 0.0)


@pytest.mark.parametrize("name", ["pendulum-spread", "pendulum-sparse-spread"])
def test_a_pendulum_at_all_angles_alike_pays_nothing(name):
    """A uniform angle has the mean features that the objective asks for; hanging still is far from them."""
    features = bd.tasks.find(name).build().problem.embedding.features
    angles = 2 * np.pi * (np.arange(1000) + 0.3) / 1000
    shown = jnp.asarray(np.stack([np.cos(angles), np.sin(angles), np.zeros(1000)], axis=1))
    near = np.asarray(jax.vmap(lambda s: features.values(s, jnp.zeros(1), s)[:-1])(shown), dtype=float)
    assert np.linalg.norm(near.mean(axis=0) - compute_uniform_features()) <= 1e-5
    assert np.linalg.norm(near[500] - compute_uniform_features()) >= 1.0


def test_such_tasks_can_be_learned_and_not_solved():
    with pytest.raises(TaskError, match="bidual learn lqr"):
        load_target("lqr", [])
    with pytest.raises(TaskError, match="an environment"):
        load_declared(Options("lqr", support="declared"))
    with pytest.raises(TaskError, match="moves vectors"):
        load_declared(Options("lqr", confidence="ball"))


def test_a_task_says_how_many_episodes_it_is_worth():
    """An episode of controls takes a second, one of a finite model a thousandth of it."""
    for entry in bd.tasks.ENTRIES:
        assert entry.episodes == 1000 if entry.name not in NAMES else 12 <= entry.episodes <= 120
    assert (find_default_episodes("pendulum"), find_default_episodes("rover"), find_default_episodes("mine.py")) == (
        12,
        1000,
        1000,
    )


def test_names_of_explorers_mean_an_optimism_here():
    own = bd.tasks.find("lqr").build().explorer
    assert load_declared(Options("lqr")).explorer == own
    assert load_declared(Options("lqr", dual="corrective")).explorer == own
    suited = own.otherwise  # where an optimism is asked for, plans are sampled
    kinds = {
        "thompson": control.Thompson,
        "greedy": control.Mean,
        "bonus": control.Bonus,
        "best-of": control.BestOf,
        "hallucinated": control.Hallucinated,
    }
    for name, kind in kinds.items():
        explorer = load_declared(Options("lqr", explorer=name)).explorer
        assert isinstance(explorer.optimism, kind)
        assert explorer.sampler == suited.sampler
    # Numbers that suit the task are kept.
    own = bd.explorers.Controls(control.Hallucinated(0.5))
    assert find_controls_explorer("hallucinated", None, own).optimism == control.Hallucinated(0.5)
    assert find_controls_explorer("optimistic", None, own).optimism == control.Hallucinated(share=1.0)
    both = find_controls_explorer("thompson", "paper", own)
    assert (both.optimism, both.dual) == (control.Thompson(), bd.dual.GradientAscent(steps="adaptive", floor=3e-3))
    assert find_controls_explorer(None, "ftl", own).dual == bd.dual.FollowTheLeader()
    assert find_controls_explorer(None, "corrective", own) == own


def test_explorers_of_another_kind_of_model_are_refused():
    with pytest.raises(ProblemError, match=r"--explorer alternating .* moves vectors under controls"):
        load_declared(Options("lqr", explorer="alternating"))
    with pytest.raises(ProblemError, match=r"--explorer hallucinated .* moves between states"):
        load_declared(Options("rover", explorer="hallucinated"))
    with pytest.raises(ProblemError, match="leave out --explorer greedy"):
        find_explorer("greedy", "ftl")


def test_the_double_integrator_has_a_bound_on_all_policies():
    """Quadratic costs, linear dynamics, everything declared; the set of laws is wide after four episodes."""
    task = bd.tasks.find("lqr").build()
    solution = bd.learn(task.problem, task.env, task.model, episodes=4, evaluation=10, explorer=task.explorer)
    assert 1.0 <= solution.lower <= bd.tasks.find("lqr").optimum
    assert solution.upper is None
    assert "the bound on other policies is Riccati's" in solution.assumptions[0]
    more = solution.certify(episodes=40)
    assert solution.lower < more.lower <= bd.tasks.find("lqr").optimum  # they are learned from as well


def test_a_limit_has_its_price_in_the_bound():
    task = bd.tasks.find("lqr-effort").build()
    solution = bd.learn(task.problem, task.env, task.model, episodes=4, evaluation=30, explorer=task.explorer)
    free = bd.learn(
        bd.Problem(task.problem.objective), task.env, task.model, episodes=4, evaluation=30, explorer=task.explorer
    )
    assert free.lower < solution.lower <= bd.tasks.find("lqr-effort").optimum


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"first": None}, "first of the linear model not declared"),
        ({"bound": None, "noise": None}, "noise and bound of the linear model not declared"),
        pytest.param({"box": ((-9.0, -9.0), (9.0, 9.0))}, "states are held to a box", marks=pytest.mark.slow),
        pytest.param({"model_features": bd.features.fourier(16)}, "heuristic planner", marks=pytest.mark.slow),
    ],
)
def test_without_a_declaration_no_bound_is_claimed_and_the_report_says_why(changed, words):
    task = bd.tasks.find("lqr").build()
    solution = bd.learn(
        *(task.problem, task.env, replace(task.model, **changed)), episodes=2, evaluation=3, explorer=task.explorer
    )
    assert solution.lower is None
    assert solution.assumptions[0].startswith("no lower bound: heuristic planner")
    assert words in solution.assumptions[0]


@pytest.mark.slow
def test_costs_that_are_held_to_an_end_have_no_bound_from_below():
    task = bd.tasks.find("lqr").build(highest=20.0)
    solution = bd.learn(task.problem, task.env, task.model, episodes=2, evaluation=3, explorer=task.explorer)
    assert solution.lower is None
    assert solution.upper is not None
    assert "not declared as quadratic" in solution.assumptions[0]


def test_an_episode_that_begins_elsewhere_is_an_error():
    task = bd.tasks.find("lqr").build()
    with pytest.raises(bd.EnvError, match=r"began in \[1.0, 0.0\], but every one was declared to begin in"):
        bd.learn(task.problem, task.env, replace(task.model, first=(0.0, 0.0)), episodes=1, explorer=task.explorer)
