"""Environments in other processes: the same episodes, and every way in which a process can let one down."""

import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import bidual as bd
from bidual._base.keys import Draw, Purpose
from bidual.problem.features import observed
from bidual.world.envs import _parallel, _remote, gymnasium_environment, parallel, processes
from bidual.world.policies import AbstractPolicy, DeterministicPolicy, MarkovPolicy, Mixture
from tests import remote_envs
from tests.remote_envs import CRASH, EXIT, HANG, LOCK, RAISE, WALK, Trouble, Walk

LIMIT = 1.0  # generous, for machines that are busy
THREADS = remote_envs.threads()  # before any process was started
SIGNALS = (("noise", observed(remote_envs.noise, -9.0, 9.0)), ("right", observed(remote_envs.right)))
SLOW = [Draw(0, Purpose.LEARN, n) for n in range(40) if Draw(0, Purpose.LEARN, n).integers()[0] % 5 == 0]
QUICK = [Draw(0, Purpose.LEARN, n) for n in range(40) if Draw(0, Purpose.LEARN, n).integers()[0] % 5 != 0]


def _draws(count):
    return [Draw(3, Purpose.LEARN, number) for number in range(count)]


def _mixture(environment):
    """A policy that uses all the randomness there is."""
    H, S, A = environment.shape
    rng = np.random.default_rng(0)
    table = rng.random((H, S, A))
    members = (
        MarkovPolicy(table / table.sum(axis=-1, keepdims=True)),
        DeterministicPolicy(rng.integers(0, A, (H, S)), A),
    )
    return Mixture(np.array([0.7, 0.3]), members)


def _constant(environment, *actions):
    """These actions at the first steps, then 0."""
    H, S, A = environment.shape
    table = np.zeros((H, S), dtype=int)
    table[: len(actions)] = np.array(actions)[:, None]
    return DeterministicPolicy(table, A)


def _assert_same(some, others):
    assert len(some) == len(others)
    for one, other in zip(some, others, strict=True):
        for field in ("states", "actions", "observed"):
            assert getattr(one, field).dtype == getattr(other, field).dtype
            assert getattr(one, field).tobytes() == getattr(other, field).tobytes()


def _alive(pid):
    """A process that runs; one that has ended and waits to be noticed does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _ends(pid, seconds=60.0):
    deadline = time.monotonic() + seconds
    while _alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not _alive(pid)


def _pid(environment):
    return environment.env._child.process.pid


# A process of its own


@pytest.fixture(scope="module")
def trouble():
    """A walk of four steps that must answer in time; whatever a test does to its process, the next one gets another."""
    environment = gymnasium_environment(Trouble, 4, step_limit=LIMIT)
    yield environment
    environment.close()


def test_episodes_are_the_same_as_in_this_process():
    for make, signals in (("FrozenLake-v1", ()), (remote_envs.walk, SIGNALS)):
        here, there = (gymnasium_environment(make, 12, signals, step_limit=limit) for limit in (None, 20.0))
        policy = _mixture(here)
        assert here.shape == there.shape
        _assert_same(here.collect_many(policy, _draws(20)), there.collect_many(policy, _draws(20)))
        pid = _pid(there)
        there.close()
        assert not _alive(pid)
    assert len({episode.states.tobytes() for episode in here.collect_many(policy, _draws(20))}) > 10


def test_a_function_is_called_once_without_a_limit():
    remote_envs.made.clear()
    environment = gymnasium_environment(remote_envs.walk, 3)
    environment.collect_many(_mixture(environment), _draws(3))
    assert remote_envs.made == [environment.env]


def _fails(environment, policy, draw, message):
    """It fails with this message, its process is gone, and the next episode is fine."""
    environment.collect(_constant(environment, WALK), QUICK[0])  # a process is there
    pid = _pid(environment)
    with pytest.raises(bd.EnvError, match=message):
        environment.collect(policy, draw)
    assert not _alive(pid)
    np.testing.assert_array_equal(environment.collect(_constant(environment, WALK), QUICK[0]).states, range(5))


def test_a_step_that_hangs(trouble):
    message = (
        rf"env.step\({HANG}\) at step 3 of 4, episode {QUICK[1].number} gave no answer within 1 s. Its process was "
        "killed, and the next episode starts a fresh one. Raise step_limit, or correct"
    )
    _fails(trouble, _constant(trouble, WALK, WALK, HANG), QUICK[1], message)


def test_a_reset_that_hangs(trouble):
    seed, number = SLOW[0].integers()[0], SLOW[0].number
    message = rf"env.reset\(seed={seed}\) at the reset, episode {number} gave no answer within 1 s.*Raise step_limit"
    _fails(trouble, _constant(trouble, WALK), SLOW[0], message)


def test_a_process_that_ends(trouble):
    where = f"at step 2 of 4, episode {QUICK[0].number} gave no answer: the process of the environment ended with exit"
    _fails(trouble, _constant(trouble, WALK, EXIT), QUICK[0], rf"env.step\({EXIT}\) {where} code 7\. The next episode")


def test_a_process_that_crashes(trouble):
    with pytest.raises(bd.EnvError, match=rf"env.step\({CRASH}\) .* ended with exit code -11 \(SIGSEGV\)"):
        trouble.collect(_constant(trouble, CRASH), QUICK[0])


def test_exceptions_have_the_same_words_as_in_this_process(trouble):
    told = []
    for environment in (gymnasium_environment(Trouble(), 4), trouble):
        with pytest.raises(
            bd.EnvError, match=r"failed at step 2 of 4, episode \d+: KeyError: 'missing'. Correct"
        ) as caught:
            environment.collect(_constant(environment, WALK, RAISE), QUICK[0])
        told.append(str(caught.value))
    assert told[0] == told[1]
    assert 'raise KeyError("missing")' in caught.value.__cause__.__notes__[0]


def test_an_answer_that_cannot_be_sent_is_named(trouble):
    """The process is none the worse for it."""
    message = rf"env.step\({LOCK}\) at step 1 of 4, .* cannot be sent to another process \(TypeError: .*lock.*info what"
    before = trouble.collect(_constant(trouble, WALK), QUICK[0]) and _pid(trouble)
    with pytest.raises(bd.EnvError, match=message):
        trouble.collect(_constant(trouble, LOCK), QUICK[0])
    trouble.collect(_constant(trouble, WALK), QUICK[0])
    assert _pid(trouble) == before


def test_ctrl_c_passes_through_and_leaves_no_old_answer(trouble, monkeypatch):
    trouble.collect(_constant(trouble, WALK), QUICK[0])
    pid = _pid(trouble)
    timer = threading.Timer(0.1, signal.pthread_kill, [threading.get_ident(), signal.SIGINT])
    monkeypatch.setattr(trouble.env, "_limit", 60.0)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            trouble.collect(_constant(trouble, HANG), QUICK[0])
    finally:
        signal.signal(signal.SIGINT, before)
    assert not _alive(pid)


def test_close_ends_the_process(trouble):
    trouble.collect(_constant(trouble, WALK), QUICK[0])
    pid = _pid(trouble)
    trouble.close()
    assert not _alive(pid)
    trouble.close()


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (remote_envs.Unwilling, r"Unwilling\(\) was to make the environment and failed: FileNotFoundError: no map"),
        (remote_envs.Deadly, r"process that was to make the environment ended with exit code 5: .*__main__"),
        ("Nothing-v3", r"gymnasium cannot make 'Nothing-v3': NameNotFound"),
    ],
)
def test_what_cannot_be_made_is_named(env, message):
    with pytest.raises(bd.EnvError, match=message):
        gymnasium_environment(env, 4, step_limit=LIMIT)


def test_an_environment_that_is_never_made_is_named(monkeypatch):
    monkeypatch.setattr(_remote, "ALLOWANCE", 0.05)
    with pytest.raises(bd.EnvError, match=r"was not made within 0.05 s"):
        gymnasium_environment(Trouble, 4, step_limit=LIMIT)


def test_what_another_process_cannot_make_is_refused_at_once():
    with pytest.raises(bd.EnvError, match=r"a name, or a function .* with step_limit: .*; got a Trouble"):
        gymnasium_environment(Trouble(), 4, step_limit=LIMIT)
    with pytest.raises(
        bd.ModelError, match=r"env must be sent to another process, and cannot be: .*top level of a mod"
    ):
        gymnasium_environment(lambda: Trouble(), 4, step_limit=LIMIT)
    with pytest.raises(bd.ModelError, match=r"options must be sent to another process"):
        gymnasium_environment("FrozenLake-v1", 4, options={"lock": threading.Lock()}, step_limit=LIMIT)
    for limit in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(bd.ModelError, match="step_limit must be a positive number of seconds; got"):
            gymnasium_environment("FrozenLake-v1", 4, step_limit=limit)


def test_functions_that_make_no_environment_are_named():
    with pytest.raises(bd.EnvError, match=r"nothing\(\) was to make a gymnasium.Env; it made a int"):
        gymnasium_environment(remote_envs.nothing, 4)
    with pytest.raises(bd.EnvError, match=r"Unwilling\(\) was to make the environment and failed: FileNotFoundError"):
        gymnasium_environment(remote_envs.Unwilling, 4)


PARENT = f"""
import threading, time
from bidual.world.envs import gymnasium_environment, processes
from tests.remote_envs import Trouble, os

idle = gymnasium_environment(Trouble, 4, step_limit=9.0)
busy = gymnasium_environment(Trouble, 4, step_limit=99.0)
executor = processes(1)
worker = executor.submit(os.getpid).result()
busy.env.reset(seed=1)
threading.Thread(target=busy.env.step, args=({HANG},), daemon=True).start()
time.sleep(0.2)
print(idle.env._child.process.pid, busy.env._child.process.pid, worker, flush=True)
time.sleep(99)
"""


def test_nothing_outlives_a_parent_that_is_killed():
    """An environment that waits, one that hangs and does not see its pipe close, and a worker."""
    root = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", PARENT], cwd=root, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        alive = [_alive(pid) for pid in pids]
        parent.kill()
    assert alive == [True] * 3
    assert [_ends(pid) for pid in pids] == [True] * 3


# Many processes


@pytest.fixture(scope="module")
def executor():
    with processes(2) as executor:
        yield executor


class Inline(Executor):
    """It does everything at once, in this process, and counts."""

    def __init__(self):
        self.shares = []

    def submit(self, fn, /, *args, **kwargs):
        assert not kwargs
        self.shares.append(args[-1])
        future = Future()
        try:
            future.set_result(fn(*args))
        except Exception as error:
            future.set_exception(error)
        return future


@pytest.mark.parametrize("name", ["FrozenLake-v1", "walk"])
def test_parallel_episodes_are_the_same(executor, name):
    env = remote_envs.walk if name == "walk" else name
    here, there = gymnasium_environment(env, 12), parallel(env, 12, executor, workers=2)
    policy = _mixture(here)
    assert here.shape == there.shape
    assert here.initial is there.initial is None
    np.testing.assert_array_equal(here.absorbing, there.absorbing)
    np.testing.assert_array_equal(here.allowed, there.allowed)
    one_by_one = [here.collect(policy, draw) for draw in _draws(20)]
    _assert_same(one_by_one, there.collect_many(policy, _draws(20)))
    _assert_same(one_by_one[:3], [there.collect(policy, draw) for draw in _draws(3)])


def test_parallel_episodes_have_signals_and_states(executor):
    named = {"states": remote_envs.coarse, "num_states": 6, "options": {"is_slippery": False}}
    here, there = (
        gymnasium_environment("FrozenLake-v1", 5, **named),
        parallel("FrozenLake-v1", 5, executor, workers=2, **named),
    )
    _assert_same(here.collect_many(_mixture(here), _draws(9)), there.collect_many(_mixture(here), _draws(9)))
    here, there = (
        gymnasium_environment(Walk, 12, SIGNALS),
        parallel(Walk, 12, executor, workers=2).with_signals(SIGNALS),
    )
    episodes = there.collect_many(_mixture(here), _draws(20))
    _assert_same([here.collect(_mixture(here), draw) for draw in _draws(20)], episodes)
    assert len(np.unique([episode.observed[:, 0] for episode in episodes])) > 20


def test_parallel_episodes_have_a_limit_too(executor):
    here, there = gymnasium_environment(Trouble, 4), parallel(Trouble, 4, executor, workers=2, step_limit=LIMIT)
    policy = _constant(here, WALK)
    _assert_same(here.collect_many(policy, QUICK[:6]), there.collect_many(policy, QUICK[:6]))
    with pytest.raises(bd.EnvError, match=rf"env.step\({HANG}\) at step 2 of 4, episode {QUICK[0].number} gave no ans"):
        there.collect_many(_constant(here, WALK, HANG), QUICK[:2])
    there.close()
    assert there.local.env._child is None


def test_the_first_failure_is_told_in_the_same_words(executor):
    """Every share fails, the last of them first."""
    here, there = gymnasium_environment(Trouble, 4), parallel(Trouble, 4, executor, workers=2)
    policy, told = _constant(here, WALK, RAISE), []
    for environment in (here, there):
        with pytest.raises(
            bd.EnvError, match=rf"step 2 of 4, episode {QUICK[0].number}: KeyError: 'missing'"
        ) as caught:
            environment.collect_many(policy, QUICK[:8])
        told.append(str(caught.value))
    assert told[0] == told[1]


def test_a_worker_that_dies_is_named():
    with processes(1) as executor:
        environment = parallel(Trouble, 4, executor, workers=1)
        for _ in range(2):
            with pytest.raises(bd.EnvError, match=r"a worker process has died, .* make a new one. .*step_limit"):
                environment.collect_many(_constant(environment, EXIT), QUICK[:2])


def test_executors_that_fail_are_named():
    class Cancels(Executor):
        def submit(self, fn, /, *args, **kwargs):
            future = Future()
            assert future.cancel()
            return future

    closed = ThreadPoolExecutor(1)
    closed.shutdown()
    for executor, message in (
        (Cancels(), "the executor has cancelled episodes"),
        (closed, "failed to run .*RuntimeErr"),
    ):
        environment = parallel(Walk, 4, executor, workers=2)
        with pytest.raises(bd.EnvError, match=message):
            environment.collect_many(_mixture(environment), _draws(4))


def test_the_rest_is_cancelled_after_a_failure():
    jobs = []

    class Keeps(Executor):
        def submit(self, fn, /, *args, **kwargs):
            jobs.append(Future())
            return jobs[-1]

    environment = parallel(Walk, 4, Keeps(), workers=3)
    timer = threading.Timer(0.1, lambda: jobs[0].set_exception(bd.EnvError("gone")))
    timer.start()
    with pytest.raises(bd.EnvError, match=r"^gone$"):
        environment.collect_many(_mixture(environment), _draws(9))
    assert [job.cancelled() for job in jobs] == [False, True, True]


def test_threads_do_not_share_an_environment():
    here = gymnasium_environment(Walk, 12, SIGNALS)
    policy = _mixture(here)
    with ThreadPoolExecutor(3) as executor:
        there = parallel(remote_envs.Slow, 12, executor, SIGNALS, workers=3)
        _assert_same(here.collect_many(policy, _draws(12)), there.collect_many(policy, _draws(12)))


def test_a_worker_makes_an_environment_once_and_few_are_kept():
    executor = Inline()
    remote_envs.made.clear()
    environment = parallel(remote_envs.walk, 5, executor, workers=3)
    for signals in ((), SIGNALS, SIGNALS[:1]):
        environment.with_signals(signals).collect_many(_mixture(environment), _draws(7))
    assert [len(share) for share in executor.shares[:3]] == [2, 2, 3]
    assert [draw for share in executor.shares[:3] for draw in share] == _draws(7)
    assert len(remote_envs.made) == 2  # one here, one in the worker, which is here as well
    for horizon in range(6, 12):
        other = parallel(remote_envs.walk, horizon, executor, workers=1)
        other.collect_many(_mixture(other), _draws(2))
    assert len(_parallel._environments.known) == _parallel.MOST


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_few_episodes_make_few_shares(count):
    executor = Inline()
    environment = parallel(Walk, 5, executor, workers=8)
    assert len(environment.collect_many(_mixture(environment), _draws(count))) == count
    assert [len(share) for share in executor.shares] == [1] * count * (count > 1)


def test_workers_compute_with_one_thread_and_this_process_is_left_alone(executor):
    """What the user has set stays as it is."""
    assert executor.submit(remote_envs.threads).result() == {name: value or "1" for name, value in THREADS.items()}
    assert remote_envs.threads() == THREADS


def test_what_cannot_be_sent_to_workers_is_refused_at_once():
    executor = Inline()
    with pytest.raises(bd.EnvError, match=r"a name, or a function .* for parallel episodes: .*; got a Walk"):
        parallel(Walk(), 4, executor, workers=2)
    with pytest.raises(bd.ModelError, match=r"env must be sent to another process, and cannot be.*no lambda"):
        parallel(lambda: Walk(), 4, executor, workers=2)
    with pytest.raises(bd.ModelError, match=r"states must be sent to another process, and cannot be.*no lambda"):
        parallel(Walk, 4, executor, workers=2, states=lambda obs: 0, num_states=1)
    environment = parallel(Walk, 4, executor, workers=2)
    with pytest.raises(bd.ModelError, match=r"signal 'bad' must be sent to another process, and cannot be.*no lambda"):
        environment.with_signals([*SIGNALS, ("bad", observed(lambda step: 0))])

    @AbstractPolicy.register  # not as a subclass: the contract of policies asks for all of those
    class Local:
        @property
        def shape(self):
            return environment.shape

        def reset(self, rng=None):
            raise AssertionError("it must be refused before it is run")

    with pytest.raises(bd.ModelError, match=r"the policy must be sent to another process"):
        environment.collect_many(Local(), _draws(2))
    with pytest.raises(bd.ModelError, match=r"executor must have a submit.*got a int. Make one with bd.envs.processes"):
        _parallel._check_executor(3)
    for make in (lambda: parallel(Walk, 4, executor, workers=0), lambda: processes(0)):
        with pytest.raises(bd.ModelError, match="workers must be a whole number, at least 1; got 0"):
            make()
