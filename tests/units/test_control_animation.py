"""Episodes of controllers in motion: what the frames show, how large they are, and what is refused."""

import io
import itertools
import sys
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import bidual as bd
from bidual._base.types import Episode
from bidual.report import can_animate, control_animation
from bidual.tasks import Picture

ANGLE = Picture(("cosine", "sine", "speed"), ("torque",), angle=(0, 1), seconds=0.05)
PLANE = Picture(("x", "y"), ("left", "right"), plane=(0, 1), goal=(2.0, 0.0), discs=((1.0, 0.0, 0.3),), seconds=0.1)
BLUE = np.array([0x00, 0x72, 0xB2])


def _episode(observations, controls, length=None):
    nowhere = np.zeros(len(controls) + 1, dtype=np.int32)
    nothing = np.zeros((len(controls), 0))
    return Episode(nowhere, nowhere[1:], nothing, observations=observations, controls=controls, length=length)


def _swing(angles, length=None):
    shown = np.stack([np.cos(angles), np.sin(angles), np.zeros_like(angles)], axis=1)
    return _episode(shown, np.linspace(-1, 1, len(angles) - 1)[:, None], length)


def _flight(H=8):
    x = np.linspace(0, 2, H + 1)
    return _episode(np.stack([x, 0.5 * np.sin(np.pi * x / 2)], axis=1), np.ones((H, 2)))


def _cart(s):
    cart = np.stack([s[0], np.zeros_like(s[0])])
    return np.stack([cart, cart + np.stack([np.sin(s[1]), np.cos(s[1])])])


def _frames(gif):
    """Frames as arrays, and how many milliseconds each is shown."""
    image = Image.open(io.BytesIO(gif))
    frames, times = [], []
    for number in range(getattr(image, "n_frames", 1)):
        image.seek(number)
        frames.append(np.asarray(image.convert("RGB"), dtype=float))
        times.append(image.info["duration"])
    return frames, times


def _blue(frame):
    """The middle of what is blue, as shares of the width from the left and of the height from above."""
    rows, columns = np.nonzero(np.abs(frame - BLUE).max(axis=2) <= 20)
    return columns.mean() / frame.shape[1], rows.mean() / frame.shape[0]


def test_the_same_episode_is_the_same_file():
    assert control_animation(_flight(), PLANE) == control_animation(_flight(), PLANE)


def test_a_pendulum_is_where_its_angle_says():
    """Upright, to the left a quarter of a turn later (angles grow against the clock), hanging, to the right."""
    frames, times = _frames(control_animation(_swing(np.array([0.0, 1.0, 2.0, 3.0]) * np.pi / 2), ANGLE))
    (top, left, bottom, right) = [_blue(frame) for frame in frames]
    assert times == [50, 50, 50, 1200]
    assert abs(top[0] - bottom[0]) <= 0.02
    assert top[1] + 0.5 <= bottom[1]
    assert left[0] + 0.5 <= right[0]
    assert abs(left[1] - right[1]) <= 0.02


def test_a_point_flies_to_its_goal_and_leaves_a_path():
    frames, times = _frames(control_animation(_flight(), PLANE, "words"))
    assert times == [100] * 8 + [1200]
    blue = [(np.abs(frame - BLUE).max(axis=2) <= 20) for frame in frames]
    right = [np.nonzero(one)[1].max() for one in blue]
    assert all(before < after for before, after in itertools.pairwise(right))
    assert np.nonzero(blue[-1])[1].min() <= np.nonzero(blue[0])[1].max()  # the path still begins where it began


CART = Picture(("place", "angle"), ("force",), joints=_cart, ground=((-2.0, 0.0), (2.0, 0.0)), seconds=0.05)


def test_rods_are_where_their_joints_say():
    """A cart that goes to the right while its pole falls from upright to hanging; the tip is blue."""
    s = np.stack([np.linspace(-1, 1, 5), np.linspace(0, np.pi, 5)], axis=1)
    frames, times = _frames(control_animation(_episode(s, np.ones((4, 1))), CART))
    assert times == [50] * 4 + [1200]
    first, last = _blue(frames[0]), _blue(frames[-1])
    assert first[0] + 0.3 <= last[0]
    assert first[1] + 0.3 <= last[1]


def test_the_same_episode_gives_the_same_bytes_and_few_of_them():
    """A hundred steps, as the pendulum has."""
    episode = _swing(np.pi + np.cumsum(np.sin(np.arange(101) / 9)))
    first = control_animation(episode, ANGLE, "pendulum")
    assert control_animation(episode, ANGLE, "pendulum") == first
    assert len(_frames(first)[0]) == 101
    assert len(first) <= 300_000


def test_long_episodes_are_thinned_and_end_at_their_end():
    angles = np.zeros(402)
    angles[-1] = np.pi
    frames, times = _frames(control_animation(_swing(angles), ANGLE))
    assert len(frames) <= 150
    assert times[0] >= 150  # three steps of 50 ms
    assert _blue(frames[-1])[1] >= 0.5  # hanging, as in the very last step alone


def test_nothing_is_shown_after_the_end():
    angles = np.linspace(0, 3, 9)
    short = control_animation(_swing(angles, length=4), ANGLE)
    assert len(_frames(short)[0]) == 5


def test_what_does_not_move_is_refused():
    line = Picture(("position", "speed"), ("force",))
    assert not can_animate(line)
    assert can_animate(ANGLE)
    assert can_animate(PLANE)
    assert can_animate(CART)
    with pytest.raises(bd.ProblemError, match=r"has none of them: .* bd\.report\.control_figure"):
        control_animation(_episode(np.zeros((3, 2)), np.zeros((2, 1))), line)
    with pytest.raises(bd.ProblemError, match="picture of its own task"):
        control_animation(_flight(), replace(ANGLE, names=("cosine", "sine", "speed")))


def test_without_pillow_it_is_said_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(bd.ProblemError, match="pip install pillow"):
        control_animation(_flight(), PLANE)
