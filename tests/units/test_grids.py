"""`bd.Grid`: maps of one's own, their states and moves, and figures on them."""

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual.cli._target import load_target, load_unknown

ROWS = ["S..B", ".##.", "..PG"]


@pytest.fixture(scope="module")
def grid():
    return bd.Grid(ROWS, marks={"B": "bin"})


@pytest.fixture(scope="module")
def solved(grid):
    mdp = bd.TabularMDP(
        grid.successors(slip=0.2, absorbing="G"), grid.find("S"), 8, states=grid.states, actions=grid.actions
    )
    x = mdp.embedding(goal=grid.indicator("G"), pits=grid.indicator("P"))
    problem = bd.Problem(cp.Maximize(cp.sum(x.goal)), {"pits": cp.sum(x.pits) <= 0.05})
    return mdp, problem, bd.solve(problem, mdp)


def test_states_are_the_cells_that_are_no_walls(grid):
    assert (grid.shape, grid.num_states) == ((3, 4), 10)
    assert [grid.cell(s) for s in (0, 4, 5, 9)] == [(0, 0), (1, 0), (1, 3), (2, 3)]
    assert grid.state(2, 3) == grid.find("G") == 9
    assert grid.states[4:6] == ("1,0", "1,3")
    assert grid.actions == ("up", "right", "down", "left")
    np.testing.assert_array_equal(np.flatnonzero(grid.indicator("PG")), [8, 9])
    assert str(grid) == "S..B\n.##.\n..PG"


def test_moves_stop_at_walls_and_at_the_border(grid):
    right = grid.neighbours[:, 1]
    np.testing.assert_array_equal(right, [1, 2, 3, 3, 4, 5, 7, 8, 9, 9])
    np.testing.assert_array_equal(grid.neighbours[0], [0, 1, 4, 0])


def test_slips_are_even_and_ends_stay(grid):
    mdp = bd.TabularMDP(grid.successors(slip=0.4, absorbing="G"), 0, 2)
    lists = mdp.successors
    law = np.zeros((10, 4, 10))
    np.add.at(law, (*np.indices(lists.states[0].shape)[:2], lists.states[0]), lists.probabilities[0])
    expected = np.zeros(10)
    expected[[0, 1, 4]] = 0.2, 0.7, 0.1  # right from the corner: up and left stay there
    np.testing.assert_allclose(law[0, 1], expected, rtol=1e-15)
    np.testing.assert_array_equal(np.flatnonzero(mdp.absorbing), [9])
    sure = bd.TabularMDP(grid.successors(), 0, 2).successors
    assert sure.states.shape == (1, 10, 4, 1)


def test_a_shape_with_walls_is_a_grid_too():
    grid = bd.Grid((2, 3), walls=[(0, 1)], moves=[(0, 1), (0, 0), (1, -2)])
    assert grid.num_states == 5
    assert grid.actions == ("right", "stay", "+1,-2")
    assert grid.neighbours.tolist() == [[0, 0, 0], [1, 1, 2], [3, 2, 2], [4, 3, 3], [4, 4, 4]]


@pytest.mark.unchecked_shapes(reason="the subject is bad input")
@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: bd.Grid(["S..", ".G"]), r"row 1 of the map, '.G', has 2 cells, but row 0 has 3"),
        (lambda: bd.Grid([]), "rows of text"),
        (lambda: bd.Grid("S.G"), "rows of text"),
        (lambda: bd.Grid((0, 3)), "rows of text"),
        (lambda: bd.Grid((2, 2), walls=[(2, 0)]), r"wall \(2, 0\) is outside"),
        (lambda: bd.Grid((2, 2), walls=[3]), "letters, '#', or pairs"),
        (lambda: bd.Grid(["##"]), "one per state"),
        (lambda: bd.Grid(["S."], cells=[0, 2]), r"cells\[1\] is 2"),
        (lambda: bd.Grid(["S."], moves=[]), "moves is empty"),
        (lambda: bd.Grid(["S."], moves=[1]), "moves must be pairs"),
        (lambda: bd.Grid(ROWS).state(1, 1), r"cell \(1, 1\) holds no state, as in a wall"),
        (lambda: bd.Grid(ROWS).state(3, 0), "rows are 0 to 2, columns 0 to 3"),
        (lambda: bd.Grid(ROWS).cell(10), "states are 0 to 9"),
        (lambda: bd.Grid(ROWS).find("."), r"6 states are in cells marked '.'"),
        (lambda: bd.Grid(ROWS).indicator("X"), "no cell of the map is marked 'X': its letters are '#.BGPS'"),
        (lambda: bd.Grid(ROWS).successors(slip=1.5), "slip=1.5"),
        (lambda: bd.Grid(["S."], cells=[0, 0]).neighbours, r"2 states share cell \(0, 0\)"),
    ],
)
def test_bad_grids(make, text):
    with pytest.raises(bd.ModelError, match=text):
        make()


def test_figures_draw_on_the_map(grid, solved):
    _, _, solution = solved
    visits, policy = bd.report.visits_figure(solution, grid), bd.report.policy_figure(solution, grid)
    for figure in (visits, policy):
        words = {text.get_text() for text in figure.axes[0].texts}
        assert {"start", "goal", "pit", "bin"} <= words
    drawn = np.ma.asarray(visits.axes[0].images[0].get_array())
    assert drawn.mask.sum() == 2  # the walls
    assert (drawn**2).sum() == pytest.approx(8)


def test_learned_visits_are_drawn_too(grid, solved):
    mdp, problem, _ = solved
    learned = bd.learn(problem, mdp, bd.models.Tabular(support=grid.neighbours), episodes=16, evaluation=0)
    assert set(learned.policy.to_frame().action) <= set(grid.actions)
    assert bd.report.visits_figure(learned, grid).axes


def test_the_state_of_ended_episodes_needs_no_cell():
    mdp = bd.TabularMDP.from_gymnasium("FrozenLake-v1", 10, map_name="4x4")
    x = mdp.embedding(goal=lambda t: t.reward)
    solution = bd.solve(bd.Problem(cp.Maximize(cp.sum(x.goal))), mdp)
    lake = bd.Grid(["SFFF", "FHFH", "FFFH", "HFFG"], moves=[(0, -1), (1, 0), (0, 1), (-1, 0)])
    drawn = np.ma.asarray(bd.report.visits_figure(solution, lake).axes[0].images[0].get_array())
    assert (drawn**2).sum() == pytest.approx(10 - solution.visits[:, 16].sum())
    with pytest.raises(bd.PolicyError, match="the map is of 9 states and 4 actions, the policy of 17"):
        bd.report.visits_figure(solution, bd.Grid((3, 3)))


def test_a_file_may_define_the_map(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(
        "import bidual as bd\nimport cvxpy as cp\n"
        "grid = bd.Grid((2, 2))\n"
        "mdp = bd.TabularMDP(grid.successors(), 0, 3)\n"
        "x = mdp.embedding(right=[0, 1.0, 0, 1])\n"
        "problem = bd.Problem(cp.Maximize(cp.sum(x.right)))\n"
    )
    for target in (load_target(str(path), []), load_unknown(str(path), [], None)):
        assert target.grid is not None
        assert target.grid.shape == (2, 2)
    path.write_text(path.read_text() + "grid = 3\n")
    with pytest.raises(bd.TaskError, match=r"'grid' must be a bidual\.Grid; got int"):
        load_target(str(path), [])
