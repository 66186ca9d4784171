"""The combination lock: its observations, its payments, and that it is a well-behaved Gymnasium environment."""

import cvxpy as cp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import bidual as bd
from bidual.problem.features import signals
from bidual.tasks._lock_env import ACTIONS, DEAD, LockEnv, build_hadamard, choose_dimension, draw_combination


def _decoded(obs, horizon):
    """The vector before the Hadamard matrix."""
    matrix = build_hadamard(choose_dimension(horizon))
    return matrix @ obs / len(matrix)


def _episode(lock, seed, choose):
    """Latents, rewards and decoded observations of an episode; `choose(h, latent)` is the action."""
    obs, _ = lock.reset(seed=seed)
    latents, rewards, vectors, done = [], [], [_decoded(obs, lock.horizon)], False
    for h in range(lock.horizon):
        latents.append(int(np.argmax(vectors[-1][:3])))
        obs, reward, done, truncated, info = lock.step(choose(h, latents[-1]))
        assert not truncated
        assert info == {}
        assert done == (h == lock.horizon - 1)
        rewards.append(reward)
        vectors.append(_decoded(obs, lock.horizon))
    return latents, rewards, vectors


def _right(lock):
    return lambda h, latent: int(lock.right[h, latent]) if latent < DEAD else 0


def _wrong(lock):
    return lambda h, latent: int(lock.right[h, min(latent, 1)] + 1) % ACTIONS


@pytest.mark.filterwarnings("ignore:.*A Box observation space")  # noise is not bounded
def test_it_is_a_gymnasium_environment():
    check_env(LockEnv(4, 1), skip_render_check=True)


@pytest.mark.parametrize(("horizon", "size"), [(1, 8), (4, 8), (5, 16), (12, 16), (13, 32), (25, 32), (100, 128)])
def test_observations_have_the_size_of_the_literature(horizon, size):
    assert choose_dimension(horizon) == size == LockEnv(horizon).observation_space.shape[0]
    np.testing.assert_array_equal(build_hadamard(size) @ build_hadamard(size).T, size * np.eye(size))


def test_the_combination_opens_it():
    lock = LockEnv(6, 3)
    seen = set()
    for seed in range(50):
        latents, rewards, _ = _episode(lock, seed, _right(lock))
        assert rewards == [0.0] * 5 + [1.0]
        assert DEAD not in latents
        seen |= set(enumerate(latents))
    assert seen == {(h, latent) for h in range(6) for latent in (0, 1)}


def test_a_wrong_action_is_for_ever_and_consoles_half_of_the_time():
    lock, paid = LockEnv(4, 0), []
    for seed in range(400):
        latents, rewards, _ = _episode(lock, seed, _wrong(lock))
        assert latents[1:] == [DEAD] * 3
        assert rewards[1:] == [0.0] * 3
        paid.append(rewards[0])
    assert set(paid) == {0.0, 0.1}
    assert abs(np.mean(np.array(paid) > 0) - 0.5) <= 5 * 0.5 / np.sqrt(400)


def test_a_wrong_action_at_the_end_opens_nothing():
    lock = LockEnv(3, 0)
    right = _right(lock)
    for seed in range(20):
        _, rewards, _ = _episode(lock, seed, lambda h, z: right(h, z) if h < 2 else (right(h, z) + 1) % ACTIONS)
        assert rewards[-1] in (0.0, 0.1)


def test_observations_are_one_hots_with_noise():
    """Latent and step in their places; noise of 0.1 on the first H + 3 numbers and nowhere else."""
    lock, noise = LockEnv(5, 0), []
    for seed in range(200):
        latents, _, vectors = _episode(lock, seed, _right(lock))
        for h, (latent, vector) in enumerate(zip(latents, vectors, strict=False)):
            expected = np.zeros(16)
            expected[[latent, 3 + h]] = 1.0
            noise.append((vector - expected)[:8])
            assert np.abs((vector - expected)[8:]).max() <= 1e-12
    noise = np.array(noise)
    assert abs(noise.std() / 0.1 - 1) <= 5 / np.sqrt(2 * noise.size)
    assert abs(noise.mean()) <= 5 * 0.1 / np.sqrt(noise.size)


def test_draws_belong_to_the_seed_alone():
    one, other = LockEnv(5, 0), LockEnv(5, 0)
    other.reset(seed=3)
    first, second = _episode(one, 7, _right(one)), _episode(other, 7, _right(other))
    for mine, theirs in zip(first[2], second[2], strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert not np.array_equal(one.reset(seed=7)[0], one.reset(seed=8)[0])
    assert not np.array_equal(draw_combination(20, 0), draw_combination(20, 1))


def _over_latents(name):
    """The task's problem over the latent chain, where it can be solved."""
    from bidual.tasks.lock import build_latent_chain, compute_goal_signal

    mdp = build_latent_chain(5, 1)
    shares = {f"latent_{z}": np.eye(3)[z] for z in range(3)}
    x = signals(goal=compute_goal_signal(5, 1), **shares).embedding(5, total=True)
    if name == "lock":
        return bd.Problem(cp.Maximize(x.goal)), mdp
    spread = cp.norm(cp.hstack([x.latent_0, x.latent_1, x.latent_2]) / 5 - np.full(3, 1 / 3))
    return bd.Problem(cp.Minimize(spread), {"goal": x.goal >= 0.8}), mdp


@pytest.mark.parametrize("name", ["lock", "lock-spread"])
def test_the_pinned_optimum_is_that_of_the_latent_chain(name):
    """Consolations are worth less than opening: an episode has at most one, of 0.1."""
    solution = bd.solve(*_over_latents(name), gap=1e-7)
    assert abs(solution.value - bd.tasks.find(name).optimum) <= 2e-6


def test_the_environment_is_that_of_the_latent_chain():
    """The right actions of the chain open the environment."""
    task = bd.tasks.find("lock").with_settings({"horizon": "4", "combination": "7"})
    lists, lock = task.mdp.successors, task.env
    alive = (lists.probabilities * (lists.states < DEAD)).sum(axis=-1)  # H S A
    assert (alive[:, :2].argmax(axis=-1) == lock.right).all()
    assert alive[:, :2].sum() == 8


def test_a_task_over_observations_cannot_be_solved():
    from bidual.cli._target import load_target, load_unknown

    with pytest.raises(bd.TaskError, match=r"learn it with 'bidual learn lock'"):
        load_target("lock", [])
    with pytest.raises(bd.TaskError, match="--support declared is for tasks and simulated models"):
        load_unknown("lock", [], "declared")
    target = load_unknown("lock", ["horizon=7"], None)
    assert target.problem.embedding.horizon == target.env.horizon == 7
    assert target.truth is None
    with pytest.raises(bd.TaskError, match="probability of opening"):
        load_unknown("lock-spread", ["budget=1.5"], None)


def test_options_about_counts_are_refused():
    from bidual.cli._options import Options, load_declared

    for settings in ({"confidence": "box"}, {"per_step": True}):
        with pytest.raises(bd.TaskError, match="this model has latents"):
            load_declared(Options(target="lock", **settings))
