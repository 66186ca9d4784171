"""What figures draw, not how it looks: arrows, lines, shades, words and files."""

from dataclasses import replace
from functools import cache

import cvxpy as cp
import numpy as np
import pytest
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_rgb
from matplotlib.quiver import Quiver

import bidual as bd
from bidual.report._canvas import DARK, VERMILLION
from bidual.solving.solution import Progress
from bidual.tasks import Grid
from bidual.world.policies import MarkovPolicy

UP, RIGHT, DOWN, LEFT, STAY = range(5)
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1), (0, 0))
# Five states on a map of six cells: 1 and 2 share a cell, 3 is never visited, 4 cannot be left.
GRID = Grid(("S..", "WGP"), np.array([0, 1, 1, 2, 4]), MOVES)


@cache
def _solved(name, *settings, **budget):
    task = bd.tasks.find(name).with_settings(dict(settings))
    return task.grid, replace(bd.solve(task.problem, task.mdp, **budget), task=name)


@cache
def _by_hand():
    """Two steps whose visits and probabilities are chosen, over a model of five states."""
    law = np.full((5, 5, 5), 0.2)
    law[4] = np.eye(5)[4]
    mdp = bd.TabularMDP(law, 0, 2)
    solution = bd.solve(bd.Problem(cp.Minimize(cp.sum(mdp.embedding(one=np.ones(5)).one))), mdp)
    table = np.zeros((2, 5, 5))
    table[:, :, UP] = 1.0
    table[0, 0] = [0, 0.75, 0.25, 0, 0]
    table[1, 1], table[1, 2] = np.eye(5)[DOWN], np.eye(5)[STAY]
    visits = np.array([[1, 0, 0, 0, 0], [0, 0.5, 0.25, 0, 0.25]])
    return replace(solution, policy=MarkovPolicy(table), visits=visits)


def _arrows(figure):
    """{(row, column): {(down, right): (length, colour)}} with whole directions."""
    (quiver,) = [c for c in figure.axes[0].collections if isinstance(c, Quiver)]
    found = {}
    for (x, y), u, v, colour in zip(quiver.XY, quiver.U, quiver.V, quiver.get_facecolors(), strict=True):
        length = np.hypot(u, v)
        found.setdefault((int(y), int(x)), {})[round(v / length), round(u / length)] = (length, colour)
    return found


def _dots(figure):
    (dots,) = [c for c in figure.axes[0].collections if isinstance(c, PathCollection)]
    return dots


def _line(axes, start):
    (line,) = [line for line in axes.lines if str(line.get_label()).startswith(start)]
    return line


def _shades(axes):
    """The x ranges of the shaded spans."""
    return [(patch.get_x(), patch.get_x() + patch.get_width()) for patch in axes.patches]


def _known(values):
    return [np.nan if value is None else value for value in values]


# Maps


def test_arrows_are_where_the_policy_goes_and_point_where_it_goes():
    arrows = _arrows(bd.report.policy_figure(_by_hand(), GRID))
    # Nothing where it never goes (row 0, column 2), in the goal that nothing leaves (1, 1), or in walls and pits.
    assert {cell: set(ways) for cell, ways in arrows.items()} == {(0, 0): {(0, 1), (1, 0)}, (0, 1): {(1, 0)}}


def test_a_larger_share_is_a_longer_and_darker_arrow_within_the_cell():
    arrows = _arrows(bd.report.policy_figure(_by_hand(), GRID))
    right, down = arrows[0, 0][0, 1], arrows[0, 0][1, 0]
    # In the next cell, two visits in three go down: the share lies between the two above, and so does the length.
    between = arrows[0, 1][1, 0]
    assert 0.5 > right[0] > between[0] > down[0] > 0
    assert right[1][3] > between[1][3] > down[1][3] > 0
    slope = (right[0] - down[0]) / (0.75 - 0.25)
    assert between[0] == pytest.approx(down[0] + slope * (2 / 3 - 0.25), abs=1e-12)


def test_staying_is_a_dot():
    dots = _dots(bd.report.policy_figure(_by_hand(), GRID))
    assert dots.get_offsets().tolist() == [[1, 0]]


def test_a_draw_has_another_colour_than_a_change_over_time():
    arrows = _arrows(bd.report.policy_figure(_by_hand(), GRID))
    assert tuple(arrows[0, 0][0, 1][1][:3]) == to_rgb(VERMILLION)
    assert tuple(arrows[0, 1][1, 0][1][:3]) == to_rgb(DARK)


def test_cells_hardly_ever_visited_are_faint():
    solution = _by_hand()
    visits = solution.visits.copy()
    visits[1, 3] = 1e-6
    arrows = _arrows(bd.report.policy_figure(replace(solution, visits=visits), GRID))
    assert min(arrows[0, 2][-1, 0][1][:3]) > 0.6


def test_one_step_shows_that_step_only():
    first = bd.report.policy_figure(_by_hand(), GRID, step=0)
    assert set(_arrows(first)) == {(0, 0)}
    assert "at step 0" in first.axes[0].get_title()
    second = bd.report.policy_figure(_by_hand(), GRID, step=1)
    assert set(_arrows(second)) == {(0, 1)}


def test_actions_of_the_same_direction_share_an_arrow():
    moves = ((-1, 0), (0, 1), (0, 2), (0, -1), (0, 0))
    arrows = _arrows(bd.report.policy_figure(_by_hand(), replace(GRID, moves=moves)))
    assert list(arrows[0, 0]) == [(0, 1)]
    assert arrows[0, 0][0, 1][1][3] == 1.0


@pytest.mark.parametrize("figure", [bd.report.visits_figure, bd.report.policy_figure])
def test_marks_are_told(figure):
    words = [text.get_text() for text in figure(_by_hand(), GRID).axes[0].texts]
    assert [word for word in words if word.isalpha()] == ["start", "goal", "pit"]


def test_a_map_too_fine_for_words_has_letters():
    solution = _by_hand()
    grid = Grid(("S" + "." * 38 + "G",) * 3, np.array([0, 1, 1, 2, 4]), MOVES)
    figure = bd.report.visits_figure(solution, grid)
    assert {text.get_text() for text in figure.axes[0].texts} == {"S", "G", ""}
    assert figure.get_figwidth() < 14


def test_the_figure_shows_every_step_that_is_spent():
    """The numbers on the map add up to the horizon."""
    grid, solution = _solved("rover")
    image = bd.report.visits_figure(solution, grid).axes[0].images[0].get_array()
    assert abs((np.asarray(image) ** 2).sum() - 30) <= 1e-9


def test_the_rover_draws_its_turn_towards_the_pit():
    grid, solution = _solved("rover")
    turn = _arrows(bd.report.policy_figure(solution, grid))[0, 3]
    assert set(turn) == {(0, 1), (1, 0)}
    assert tuple(turn[1, 0][1][:3]) == to_rgb(VERMILLION)


def test_a_map_of_another_model_is_refused():
    for figure in (bd.report.visits_figure, bd.report.policy_figure):
        with pytest.raises(bd.PolicyError, match="draw it on the map of its own states"):
            figure(_solved("media")[1], GRID)


def test_a_step_that_is_not_there_is_refused():
    with pytest.raises(bd.PolicyError, match="the steps are 0 to 1"):
        bd.report.policy_figure(_by_hand(), GRID, step=2)


# Without a map


def test_without_a_map_the_likeliest_action_is_drawn_as_opaque_as_it_is_likely():
    _, solution = _solved("riverswim")
    figure = bd.report.policy_figure(solution)
    image = np.asarray(figure.axes[0].images[0].get_array())
    assert image.shape == (6, 20, 4)
    np.testing.assert_allclose(image[..., 3], np.where(solution.visits > 0, solution.policy.table.max(2), 0).T)
    colours = {tuple(image[s, h, :3]) for h, s in np.argwhere(solution.visits > 0)}
    assert len(colours) == 2
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["action 0", "action 1", "never there"]
    # The one draw of the optimal policy is written out.
    (percent,) = [text.get_text() for text in figure.axes[0].texts]
    h, s = np.argwhere((solution.visits > 0) & (solution.policy.table.max(2) < 1 - 1e-9))[0]
    assert percent == f"{100 * solution.policy.table[h, s].max():.0f}%"


def test_a_policy_too_large_to_read_is_refused():
    _, solution = _solved("rover")
    assert not bd.report.can_draw_policy(solution, None)
    with pytest.raises(bd.PolicyError, match="unreadable without a map"):
        bd.report.policy_figure(solution)


# Bounds


@pytest.mark.parametrize("name", ["rover", "media"])
def test_lines_are_the_history_in_the_users_sense(name):
    _, solution = _solved(name)
    top, bottom = bd.report.bounds_figure(solution).axes
    plans = [state.plans for state in solution.history]
    for side in ("lower", "upper"):
        line = _line(top, side)
        np.testing.assert_array_equal(line.get_xdata(), plans)
        np.testing.assert_array_equal(line.get_ydata(), _known(getattr(state, side) for state in solution.history))
    gap = np.array(_known(state.gap for state in solution.history))
    shown = np.asarray(_line(bottom, "gap between").get_ydata())
    np.testing.assert_allclose(shown, np.maximum(gap, 2.0**-52 * max(1, solution.value)))
    assert bottom.get_yscale() == "log"
    reached = _line(top, "lower" if name == "rover" else "upper").get_label()
    assert "reached by a feasible policy" in reached
    unbeaten = _line(top, "upper" if name == "rover" else "lower").get_label()
    assert ("above" if name == "rover" else "below") in unbeaten


def test_the_marks_are_the_certificates():
    _, solution = _solved("rover")
    top, bottom = bd.report.bounds_figure(solution).axes
    assert _line(top, "certified").get_ydata().tolist() == [solution.lower, solution.upper]
    assert _line(bottom, "certified").get_ydata().tolist() == [solution.gap]
    assert _line(bottom, "certified").get_xdata().tolist() == [solution.plans]


def test_plans_without_a_feasible_policy_are_shaded():
    _, solution = _solved("rover")
    assert [state.lower is None for state in solution.history[:2]] == [True, False]
    for axes in bd.report.bounds_figure(solution).axes:
        assert _shades(axes) == [(0.5, 2)]


def test_without_such_plans_nothing_is_shaded():
    figure = bd.report.bounds_figure(_by_hand())
    assert [_shades(axes) for axes in figure.axes] == [[], []]
    assert not [line for line in figure.axes[1].lines if "violation" in line.get_label()]


def test_an_infeasible_problem_is_shaded_throughout_and_shows_its_violation():
    _, solution = _solved("rover", ("budget", "0"))
    top, bottom = bd.report.bounds_figure(solution).axes
    assert _shades(top) == _shades(bottom) == [(0.5, solution.plans + 0.5)]
    violation = np.asarray(_line(bottom, "largest violation").get_ydata())
    np.testing.assert_allclose(violation, [state.violation for state in solution.history])
    assert _line(bottom, "certified").get_ydata().tolist() == [solution.conflict.least["pits"]]
    assert not [line for line in top.lines if line.get_label().startswith("certified")]
    assert "infeasible" in top.get_title()


def test_one_plan_is_enough(tmp_path):
    _, solution = _solved("rover", max_plans=1)
    figure = bd.report.bounds_figure(solution)
    bd.report.save_figure(figure, tmp_path / "bounds.png")
    top = figure.axes[0]
    np.testing.assert_array_equal(_line(top, "certified").get_ydata(), [np.nan, solution.upper])
    assert _line(top, "upper").get_marker() == "o"
    assert [tick for tick in top.get_xticks() if 0.5 <= tick <= 1.5] == [1]
    # The solver's and the certified bound differ by rounding, which is not to be magnified.
    assert np.ptp(top.get_ylim()) > 0.1


def test_five_hundred_plans_stay_readable():
    """No dots, and a first bound that is far off does not flatten the rest."""
    history = [Progress(n, None if n < 4 else 1 - 1 / n, 1 + 1e9 / n**6, 0.5, 0.0) for n in range(1, 501)]
    solution = replace(_solved("rover")[1], history=tuple(history), lower=0.998, upper=1.001, plans=500)
    top, bottom = bd.report.bounds_figure(solution).axes
    assert _line(top, "upper").get_marker() == "None"
    assert np.ptp(top.get_ylim()) < 1
    assert bottom.get_xlim() == (0.5, 500.5)


# Price curves

CURVE = {"limits": [0.0, 1, 2], "lower": [np.nan, 3, 4], "upper": [np.nan, 3.5, 4], "prices": [np.nan, 1.5, 0.5]}


def _tangents(figure):
    (strokes,) = [c for c in figure.axes[0].collections if c.get_label() == "slope: the price"]
    assert isinstance(strokes, LineCollection)
    return [np.diff(segment, axis=0)[0] for segment in strokes.get_segments()]


@pytest.mark.parametrize(
    ("sense", "relation", "sign"),
    [
        ("maximize", "<=", 1),
        ("maximize", ">=", -1),
        ("maximize", "==", 1),
        ("minimize", "<=", -1),
        ("minimize", ">=", 1),
        ("minimize", "==", -1),
    ],
)
def test_tangents_have_the_price_as_slope(sense, relation, sign):
    figure = bd.report.curve_figure(**CURVE, sense=sense, relation=relation)
    assert [dy / dx for dx, dy in _tangents(figure)] == pytest.approx([1.5 * sign, 0.5 * sign])


@pytest.mark.parametrize("name", ["media", "riverswim"])
def test_tangents_touch_the_curve_of_a_solved_task(name):
    """The slope lies between those of the chords to either side, as on any convex or concave curve."""
    limits = [4.0, 5.0, 6.0]
    solutions = [_solved(name, ("budget", repr(limit)))[1] for limit in limits]
    figure = bd.report.curve_figure(
        limits=limits,
        lower=[s.lower for s in solutions],
        upper=[s.upper for s in solutions],
        prices=[s.constraints[0].price for s in solutions],
        sense=solutions[0].sense,
    )
    values = [s.value for s in solutions]
    dx, dy = _tangents(figure)[1]
    # The values are within 1e-6 of the optimum, so chords of length 1 are within 2e-6; the price adds its own 1e-6.
    assert min(np.diff(values)) - 3e-6 <= dy / dx <= max(np.diff(values)) + 3e-6


def test_optimum_and_price_are_the_arrays():
    top, bottom = bd.report.curve_figure(**CURVE, constraint="pits").axes
    np.testing.assert_array_equal(_line(top, "optimum").get_ydata(), [np.nan, 3.25, 4])
    np.testing.assert_array_equal(bottom.lines[0].get_ydata(), CURVE["prices"])
    assert "pits" in bottom.get_xlabel()
    assert "pits" in top.get_title()


@pytest.mark.parametrize(
    ("relation", "shaded", "idle"),
    [("<=", ["left"], [1.7]), (">=", ["right"], [0.4]), ("==", ["left", "right"], [])],
)
def test_limits_that_no_policy_keeps_are_shaded(relation, shaded, idle):
    figure = bd.report.curve_figure(**CURVE, relation=relation, achievable=(0.4, 1.7))
    for axes in figure.axes:
        left, right = axes.get_xlim()
        spans = {"left": (left, 0.4), "right": (1.7, right)}
        np.testing.assert_allclose(_shades(axes), [spans[side] for side in shaded])
        lines = [line for line in axes.lines if str(line.get_label()).startswith("every policy")]
        assert [np.asarray(line.get_xdata())[0] for line in lines] == idle


def test_curves_of_one_point_and_of_none(tmp_path):
    one = bd.report.curve_figure(limits=[1.0], lower=[2.0], upper=[2.0], prices=[0.3])
    assert len(_tangents(one)) == 1
    nothing = {name: [np.nan] for name in ("lower", "upper", "prices")}
    none = bd.report.curve_figure(limits=[1.0], **nothing, achievable=(3.0, 4.0))
    assert none.axes[0].texts[0].get_text() == "no optimum is known at these limits"
    assert _shades(none.axes[0]) == [none.axes[0].get_xlim()]
    for figure in (one, none):
        bd.report.save_figure(figure, tmp_path / "curve.png")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prices": [1.0]}, r"prices must have one entry per limit, shape \(3,\); its shape is \(1,\)"),
        ({"lower": np.array(1.0)}, r"lower must have one entry per limit"),
        ({"limits": np.array([[1.0]])}, r"limits must be a vector with at least one entry; its shape is \(1, 1\)"),
        ({"limits": []}, "at least one entry"),
        ({"limits": [0.0, 2, 1]}, "strictly increasing"),
        ({"limits": [0.0, 1, np.nan]}, "finite"),
        ({"lower": [0.0, 9, 4]}, "lower is above upper at limit 1"),
        ({"achievable": (2.0, 1.0)}, "least and most"),
        ({"relation": "<"}, "relation must be one of '<=', '>=', '=='; got '<'"),
        ({"sense": "max"}, "sense must be one of 'maximize', 'minimize'; got 'max'"),
    ],
)
def test_arrays_that_do_not_belong_together_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        bd.report.curve_figure(**{**CURVE, **change})


# Learning


@cache
def _learned(name, *settings, episodes=40, evaluation=60):
    task = bd.tasks.find(name).with_settings(dict(settings))
    model = bd.models.Tabular(support=task.mdp)
    learned = bd.learn(task.problem, task.mdp, model, episodes=episodes, evaluation=evaluation)
    return task.grid, replace(learned, task=name)


def _mark(axes, start):
    """The diamond of the returned policy: its place, its value, and the ends of its bar."""
    (bar,) = [c for c in axes.containers if c.get_label().startswith(start)]
    marker, _, bars = bar.lines
    ends = [segment[:, 1] for collection in bars for segment in collection.get_segments()]
    return marker.get_xdata()[0], marker.get_ydata()[0], ends[0].tolist() if ends else None


@pytest.mark.parametrize("name", ["rover", "media"])
def test_learning_lines_are_the_looks_in_the_users_sense(name):
    _, solution = _learned(name)
    top, bottom = bd.report.learning_figure(solution, optimum=2.5).axes
    looks = solution.history
    side = "above" if name == "rover" else "below"
    unbeaten = _line(top, f"no feasible policy\nis {side}")
    final = solution.upper if name == "rover" else solution.lower
    np.testing.assert_array_equal(np.asarray(unbeaten.get_xdata())[:-1], [look.episodes for look in looks])
    np.testing.assert_array_equal(unbeaten.get_ydata(), _known([*(look.bound for look in looks), final]))
    for axes, start, values in (
        (top, "the mixture", [look.reached for look in looks]),
        (bottom, "of that mixture", [look.violation for look in looks]),
    ):
        line = _line(axes, start)
        np.testing.assert_array_equal(line.get_xdata(), [look.episodes for look in looks])
        np.testing.assert_array_equal(line.get_ydata(), _known(values))
    assert f"run so far is {side}" in _line(top, "the mixture").get_label()
    assert _line(top, "the true optimum").get_ydata() == [2.5, 2.5]
    assert bottom.get_xscale() == "log"
    assert "probability 0.95" in bottom.get_xlabel()


def test_the_returned_policy_stands_at_the_right_end_with_its_interval():
    _, solution = _learned("media")
    top, bottom = bd.report.learning_figure(solution).axes
    own = solution.outputs[0].objective
    x, value, ends = _mark(top, "the policy returned,\non 60 fresh episodes")
    assert x > solution.episodes
    assert value == own.value
    assert ends == pytest.approx([own.lower, own.upper])
    worst = solution.constraints[0].violation_upper
    assert _mark(bottom, "of the policy returned")[1:] == (worst, None)
    assert not [line for line in top.lines if line.get_label() == "the true optimum"]


def test_early_bounds_do_not_flatten_the_end():
    _, solution = _learned("media")
    first, *rest = solution.history
    wild = replace(solution, history=(replace(first, reached=1e6, episodes=2), *rest))
    top = bd.report.learning_figure(wild).axes[0]
    low, high = top.get_ylim()
    assert high < 200
    assert low < solution.lower
    assert solution.upper < high


def test_a_policy_without_episodes_of_its_own_has_no_bar():
    _, solution = _learned("media", episodes=2, evaluation=0)
    top, bottom = bd.report.learning_figure(solution).axes
    assert _mark(top, "the policy returned,\nin the learned model")[1:] == (solution.value, None)
    assert not bottom.containers  # nothing is claimed about its violation


def test_learning_without_bounds_or_constraints_is_drawn_all_the_same(tmp_path):
    _, infeasible = _learned("media", ("budget", "-1"))
    top = bd.report.learning_figure(infeasible).axes[0]
    labels = [text.get_text() for text in top.get_legend().get_texts()]
    assert not [label for label in labels if label.startswith("no feasible policy")]
    _, solution = _learned("media")
    unknown = tuple(replace(look, bound=None, reached=None, violation=None) for look in solution.history)
    figures = [bd.report.learning_figure(replace(solution, history=unknown))]
    figures.append(bd.report.learning_figure(replace(solution, constraints=())))
    assert [len(figure.axes) for figure in figures] == [2, 1]
    for number, figure in enumerate(figures):
        bd.report.save_figure(figure, tmp_path / f"{number}.png")


def test_visits_of_a_learned_policy_are_those_in_its_model():
    grid, solution = _learned("rover")
    figure = bd.report.visits_figure(solution, grid)
    image = np.asarray(figure.axes[0].images[0].get_array())
    np.testing.assert_allclose(image**2, solution.visits.sum(axis=0).reshape(8, 8), atol=1e-12)
    assert "learned policy" in figure.axes[0].get_title()


# Files


@pytest.mark.parametrize("name", ["rover", "box", "media"])
def test_figures_are_drawn_without_a_display(name, tmp_path, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    grid, solution = _solved(name)
    figures = {
        "visits": bd.report.visits_figure(solution, grid),
        "policy": bd.report.policy_figure(solution, grid),
        "bounds": bd.report.bounds_figure(solution),
    }
    for kind, figure in figures.items():
        path = tmp_path / f"{kind}.png"
        bd.report.save_figure(figure, path)
        # A whole PNG from its first to its last chunk.
        assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
        assert path.read_bytes().endswith(b"IEND\xaeB`\x82")
        assert path.stat().st_size > 10_000


def test_a_title_of_ones_own():
    grid, solution = _solved("rover")
    for figure in (
        bd.report.visits_figure(solution, grid, title="mine"),
        bd.report.policy_figure(solution, grid, title="mine"),
        bd.report.bounds_figure(solution, title="mine"),
        bd.report.curve_figure(**CURVE, title="mine"),
        bd.report.learning_figure(_learned("media")[1], title="mine"),
    ):
        assert figure.axes[0].get_title() == "mine"
