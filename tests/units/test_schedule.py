"""Checkpoints by a clock that the test sets: what they cost and what may be lost are both small."""

import itertools
import time

import pytest

from bidual.learning.runs._checkpoints import Schedule


class Clock:
    """A clock that stands still until it is told."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(time, "perf_counter", clock)
    return clock


def _writes(clock, schedule, until, cost, episode=0.01):
    """Return the times of the checkpoints of a run, of which number i takes `cost(i)` seconds."""
    began, times = clock.now, []
    while clock.now - began < until:
        clock.now += episode
        if schedule.due(1):
            times.append(clock.now - began)
            started = clock.now
            clock.now += cost(len(times))
            schedule.record(started, 1)
    return times


def _gaps(times):
    return [later - earlier for earlier, later in itertools.pairwise(times)]


def test_the_first_is_due_after_two_seconds_and_others_when_a_fiftieth_of_the_time_has_passed(clock):
    times = _writes(clock, Schedule(0.0, 0, None), 400.0, lambda _: 0.0)
    assert times[0] == pytest.approx(2.0, abs=0.02)
    assert all(gap <= max(2.0, 0.02 * later) + 0.02 for gap, later in zip(_gaps(times), times[1:], strict=True))
    assert all(gap >= max(2.0, 0.02 * earlier) - 0.02 for gap, earlier in zip(_gaps(times), times, strict=False))


def test_long_runs_write_one_every_five_minutes(clock):
    times = _writes(clock, Schedule(0.0, 0, None), 100_000.0, lambda _: 0.1, episode=1.0)
    assert max(_gaps(times)) < 302.0


def test_a_resumed_run_counts_the_time_before(clock):
    times = _writes(clock, Schedule(5000.0, 10, None), 500.0, lambda _: 0.0)
    assert times[0] == pytest.approx(2.0, abs=0.02)
    assert _gaps(times)[0] == pytest.approx(100.0, rel=0.05)


def test_one_that_waited_for_the_disk_does_not_put_off_the_next(clock):
    """The first and the fifth take five seconds, others a hundredth: there were 240 seconds without one."""
    times = _writes(clock, Schedule(0.0, 0, None), 383.0, lambda number: 5.0 if number in (1, 5) else 0.01)
    assert max(_gaps(times)) < 5.0 + 0.02 * 383.0 + 0.02


@pytest.mark.parametrize("cost", [0.05, 0.5, 5.0, 50.0])
def test_a_twentieth_of_the_time_goes_into_checkpoints_at_most(clock, cost):
    """But they are never more than five minutes apart."""
    until = 3000.0
    times = _writes(clock, Schedule(0.0, 0, None), until, lambda _: cost)
    assert max(_gaps(times)) <= max(2.0, 0.02 * until, min(20.0 * cost, 300.0)) + cost + 0.02
    assert len(times) * cost <= max(until / 20, until * cost / 300.0) + 2 * cost


def test_episodes_are_counted_where_they_are_asked_for(clock):
    schedule = Schedule(0.0, 7, 5)
    clock.now += 1e6
    assert [schedule.due(episodes) for episodes in (7, 11, 12)] == [False, False, True]
    schedule.record(clock.now, 12)
    assert [schedule.due(episodes) for episodes in (16, 17)] == [False, True]
