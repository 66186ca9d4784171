"""The figure of a controller's episodes: what it draws, and what it refuses."""

import numpy as np
import pytest

import bidual as bd
from bidual._base.types import Episode
from bidual.report import control_figure
from bidual.tasks import Picture

H = 6
LINE = Picture(("position", "speed"), ("force",), seconds=0.5)
ANGLE = Picture(("cosine", "sine", "speed"), ("torque",), angle=(0, 1))
PLANE = Picture(("x", "y"), ("left", "right"), plane=(0, 1), goal=(5.0, 5.0), discs=((2.0, 2.0, 0.5),))


def _episode(observations, controls, length=None):
    nowhere = np.zeros(H + 1, dtype=np.int32)
    return Episode(nowhere, nowhere[1:], np.zeros((H, 0)), observations=observations, controls=controls, length=length)


def _line(length=None):
    return _episode(np.arange(2.0 * (H + 1)).reshape(H + 1, 2), np.arange(1.0 * H)[:, None], length)


def _drawn(axes):
    """Lines with more than two points: the others are marks."""
    return [line for line in axes.lines if len(line.get_xdata()) > 2]


def test_every_variable_and_control_has_a_panel_in_seconds():
    figure = control_figure([_line(), _line()], LINE, "words")
    assert [axes.get_ylabel() for axes in figure.axes] == ["position", "speed", "force"]
    assert figure.axes[0].get_title() == "words"
    assert figure.axes[-1].get_xlabel() == "seconds"
    first, second = _drawn(figure.axes[1])
    np.testing.assert_allclose(np.asarray(first.get_xdata()), 0.5 * np.arange(H + 1))
    np.testing.assert_allclose(np.asarray(first.get_ydata()), 1 + 2 * np.arange(H + 1))
    assert first.get_color() != second.get_color()
    values, edges, _ = figure.axes[2].patches[0].get_data()
    np.testing.assert_allclose(values, np.arange(H))
    np.testing.assert_allclose(edges, 0.5 * np.arange(H + 1))


def test_nothing_is_drawn_after_the_end():
    figure = control_figure([_line(length=4)], LINE)
    assert len(_drawn(figure.axes[0])[0].get_xdata()) == 5
    assert len(figure.axes[2].patches[0].get_data().values) == 4


def test_further_angles_are_drawn_by_their_names():
    """Two and a half turns of the second: few numbers at its side, and no line that says upright."""
    picture = Picture(("a", "b", "c", "d"), ("torque",), turns=(("upper", 0, 1), ("lower", 2, 3)))
    angles = np.stack([np.linspace(0, 1, H + 1), np.linspace(0, 5 * np.pi, H + 1)], axis=1)
    shown = np.stack([part(angles[:, i]) for i in range(2) for part in (np.cos, np.sin)], axis=1)
    figure = control_figure([_episode(shown, np.zeros((H, 1)))], picture)
    assert [axes.get_ylabel() for axes in figure.axes] == ["upper", "lower", "torque"]
    for axes, angle in zip(figure.axes, angles.T, strict=False):
        np.testing.assert_allclose(np.asarray(_drawn(axes)[0].get_ydata()), angle, atol=1e-9)
        inside = [tick for tick in axes.get_yticks() if axes.get_ylim()[0] <= tick <= axes.get_ylim()[1]]
        assert len(inside) <= 5
        assert len(axes.lines) == 2  # the path, and zero


def test_an_angle_goes_on_where_it_is_wrapped():
    """Once around from hanging, whichever sign of pi that is shown with."""
    for sign in (1.0, -1.0):
        angle = sign * np.pi + np.linspace(0, 2 * np.pi, H + 1)
        shown = np.stack([np.cos(angle), np.sin(angle), np.zeros(H + 1)], axis=1)
        figure = control_figure([_episode(shown, np.zeros((H, 1)))], ANGLE)
        assert [axes.get_ylabel() for axes in figure.axes] == ["angle (dashed: upright)", "speed", "torque"]
        np.testing.assert_allclose(
            np.asarray(_drawn(figure.axes[0])[0].get_ydata()), np.linspace(np.pi, 3 * np.pi, H + 1)
        )
        (upright,) = [line for line in figure.axes[0].lines if len(line.get_xdata()) == 2]
        assert np.asarray(upright.get_ydata())[0] == 2 * np.pi


def test_a_plane_has_paths_regions_and_a_goal():
    shown = np.stack([np.arange(H + 1.0), np.arange(H + 1.0) ** 2], axis=1)
    figure = control_figure([_episode(shown, np.zeros((H, 2)))], PLANE, "words")
    plane, *controls = figure.axes
    assert [axes.get_ylabel() for axes in controls] == ["left", "right"]
    (path,) = _drawn(plane)
    np.testing.assert_allclose(np.asarray(path.get_ydata()), shown[:, 1])
    (disc,) = plane.patches
    assert (disc.center, disc.radius) == ((2.0, 2.0), 0.5)
    assert [text.get_text() for text in plane.get_legend().get_texts()] == ["start", "goal"]


@pytest.mark.parametrize(
    ("episodes", "words"),
    [
        ([], "at least one episode"),
        ([Episode(np.zeros(H + 1, dtype=np.int32), np.zeros(H, dtype=np.int32), np.zeros((H, 0)))], "numbered states"),
        ([_episode(np.zeros((H + 1, 3)), np.zeros((H, 1)))], "names 2 numbers and 1 controls, the episode has 3 and 1"),
    ],
)
def test_what_cannot_be_drawn_is_refused(episodes, words):
    with pytest.raises(bd.ProblemError, match=words):
        control_figure(episodes, LINE)
