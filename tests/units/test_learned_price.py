"""The price of a limit where the model was learned: what is certified, what is an estimate, and what neither claims."""

import json
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest
from matplotlib.figure import Figure

import bidual as bd
from bidual.cli import main
from tests.learning import random_world

SHARES = np.array([0.02, 0.2, 0.5, 1.2])  # of the way from the least to the most that policies make of the cost


def problem_over(world, limit, relation="<="):
    S, A = world.mdp.actions.shape
    rng = np.random.default_rng(5)
    x = world.mdp.embedding(reward=rng.random((S, A)), cost=rng.random((S, A)))
    total = cp.sum(x.cost)
    sides = {"<=": total <= limit, ">=": total >= limit, "==": total == limit}
    return bd.Problem(cp.Maximize(cp.sum(x.reward)), {"cost": sides[relation]})


@pytest.fixture(scope="module", params=[0, 1, 2])
def learned(request):
    """A world, limits of which the first cannot be kept, and a result at the last but one of them."""
    world = random_world(request.param)
    truth = bd.price(problem_over(world, 0.0), world.mdp, limits=[0.0])
    least, most = truth.least.upper, truth.most.lower
    limits = [-0.5, *(least + SHARES * (most - least)).tolist()]
    problem, model = problem_over(world, limits[-2]), bd.models.Tabular(support=world.padded)
    return world, limits, bd.learn(problem, world.mdp, model, episodes=60, evaluation=200, seed=request.param)


def optimum(world, limit):
    solution = bd.solve(problem_over(world, limit), world.mdp)
    return None if solution.status is bd.Status.INFEASIBLE else solution.value


def test_no_policy_beats_the_bounds_in_the_true_model(learned):
    """All limits at once; a set that misses the truth (probability 0.025) would show here."""
    world, limits, solution = learned
    curve = solution.price("cost", limits=limits)
    for limit, bound, status in zip(limits, curve.bounds, curve.statuses, strict=True):
        truth = optimum(world, limit)
        if status is bd.Status.INFEASIBLE:
            assert truth is None
        elif truth is not None:
            assert bound >= truth - 1e-6  # the gap of the solve
    assert curve.statuses[0] is bd.Status.INFEASIBLE  # a sum of numbers of at least 0
    assert np.isnan([curve.bounds[0], curve.estimates[0], curve.reached[0]]).all()


def test_bounds_are_those_of_the_result_at_its_own_limit(learned):
    """Both solve the same optimistic problem, each to a gap of 2e-5; the result keeps the best of several."""
    _, limits, solution = learned
    (bound,) = solution.price("cost", limits=limits[-2:-1]).bounds
    assert solution.upper - 4e-5 <= bound + 4e-5
    assert bound <= solution.upper + 4e-5


def test_bounds_rise_with_the_limit_and_lie_above_the_estimates(learned):
    """The estimated law is in the set here; bounds are off by a gap of 2e-5 each, estimates by a millionth."""
    _, limits, solution = learned
    curve = solution.price(limits=limits[2:])
    assert np.all(np.diff(curve.bounds) >= -4e-5)
    known = ~np.isnan(curve.estimates)
    assert known[-1]
    assert np.all(curve.bounds[known] >= curve.estimates[known] - 3e-5)


def test_feasible_is_what_the_interval_of_the_policy_proves(learned):
    _, _, solution = learned
    interval = solution.outputs[0].constraints["cost"]
    curve = solution.price(limits=[interval.upper - 1e-6, interval.upper + 1e-6])
    assert list(curve.statuses) == [bd.Status.UNDECIDED, bd.Status.FEASIBLE]
    assert np.isnan(curve.reached[0])
    assert curve.reached[1] == solution.lower


def test_what_is_not_guaranteed_is_not_called_infeasible(learned):
    """A limit that the estimated model cannot keep, and that no episode excludes."""
    world, limits, solution = learned
    problem, model = problem_over(world, limits[-2]), bd.models.Tabular(support=world.padded)
    blind = bd.learn(problem, world.mdp, model, episodes=1, evaluation=0)
    least = bd.price(problem, blind.model, limits=limits[-2:]).least.lower
    curve = blind.price(limits=[0.9 * least, 3.0])
    assert np.isnan(curve.estimates[0])
    assert list(curve.statuses) == [bd.Status.UNDECIDED] * 2
    assert np.isfinite(curve.bounds).all()
    assert "infeasible" not in str(curve)
    assert "no policy is guaranteed to keep the limit" in str(curve)
    assert solution.delta == blind.delta


@pytest.mark.parametrize(("relation", "ends"), [("<=", (None, 1.0)), (">=", (3.0, None)), ("==", None)])
def test_figures_claim_nothing_between_limits(relation, ends):
    """Shade reaches from a refuted limit to all tighter ones; bounds between limits are those of the looser one."""
    nan = np.nan
    numbers = {"<=": (nan, 5.0, 4.0), ">=": (4.0, 5.0, nan), "==": (nan, 5.0, 4.0)}[relation]
    figure = bd.report.learned_curve_figure(
        limits=[1.0, 2.0, 3.0],
        bounds=numbers,
        estimates=[nan, nan, nan],
        reached=[nan, nan, nan],
        infeasible=np.isnan(numbers),
        relation=relation,
        sense="minimize",
    )
    (axes,) = figure.axes
    line = axes.get_lines()[0]
    style = {"<=": "steps-pre", ">=": "steps-post", "==": "default"}[relation]
    assert line.get_drawstyle() == style
    assert (line.get_linestyle() == "None") == (relation == "==")
    spans = [patch.get_extents().transformed(axes.transData.inverted()) for patch in axes.patches]
    left, right = axes.get_xlim()
    if ends is None:
        assert not spans
    else:
        low, high = (edge if end is None else end for end, edge in zip(ends, (left, right), strict=True))
        assert [spans[0].x0, spans[0].x1] == pytest.approx([low, high])


@pytest.mark.parametrize("relation", [">=", "=="])
def test_other_relations(relation):
    world = random_world(0)
    problem = problem_over(world, 1.4, relation)
    solution = bd.learn(problem, world.mdp, bd.models.Tabular(support=world.padded), episodes=40, evaluation=100)
    curve = solution.price(limits=[1.2, 1.4, 9.0])
    assert curve.relation == relation
    assert curve.statuses[2] is bd.Status.INFEASIBLE  # three steps pay at most 3
    truth = bd.solve(problem, world.mdp).value
    assert curve.bounds[1] >= truth - 1e-6


def test_curved_problems():
    world = random_world(1)
    x = world.mdp.embedding(a=np.eye(4)[0], b=np.eye(4)[1])
    y = cp.hstack([cp.sum(x.a), cp.sum(x.b)])
    problem = bd.Problem(cp.Minimize(cp.sum_squares(y - 1)), {"norm": cp.norm(y) <= 1.0})
    solution = bd.learn(problem, world.mdp, bd.models.Tabular(support=world.padded), episodes=40, evaluation=40)
    curve = solution.price("norm", limits=[0.5, 1.0])
    truths = [bd.price(problem, world.mdp, limits=[limit]).lower[0] for limit in (0.5, 1.0)]
    for bound, truth in zip(curve.bounds, truths, strict=True):
        assert not bound > truth + 1e-5  # NaN where the limit is excluded or nothing is proved


def test_forms(learned):
    _, limits, solution = learned
    curve = solution.price(points=3)
    assert isinstance(curve, bd.LearnedCurve)
    assert len(curve.limits) <= 3
    data = json.loads(json.dumps(curve.to_dict(), allow_nan=False))
    assert data["constraint"] == "cost"
    assert set(data["points"][0]) == {"limit", "bound", "estimate", "price", "reached", "status"}
    assert len(curve.to_frame()) == len(curve.limits)
    assert "no certificate" in str(curve)
    assert "no certificate" in curve._repr_html_()
    assert len(repr(curve)) < 600
    figure = solution.price(limits=limits).figure()
    assert isinstance(figure, Figure)
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert {"estimate\n(no certificate)", "no policy beats this\n(certified)"} <= set(labels)
    assert "no policy keeps the limit\n(certified)" in labels


def test_bad_input(learned):
    _, _, solution = learned
    with pytest.raises(bd.ProblemError, match="no constraint 'cots'; did you mean 'cost'"):
        solution.price("cots")
    with pytest.raises(bd.ProblemError, match="increasing"):
        solution.price(limits=[1.0, 0.5])


def test_the_price_of_a_run(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    river = bd.tasks.find("riverswim").build()
    folder = bd.runs.Folder("runs/river", task="riverswim", options={"target": "riverswim"})
    bd.learn(river.problem, river.mdp, bd.models.Tabular(support=river.mdp), episodes=20, evaluation=5, run=folder)
    assert main(["price", "runs/river", "--constraint", "right", "--points", "2", "--json", "--out", "here"]) == 0
    curve = json.loads(capsys.readouterr().out)
    assert (curve["constraint"], curve["episodes"], len(curve["points"])) == ("right", 20, 2)
    assert {path.name for path in Path("here").iterdir()} == {"curve.json", "curve.png"}
    assert main(["price", "runs/river", "--set", "budget=3"]) == 2
    assert main(["price", "riverswim", "mine.py"]) == 2
    assert "goes with the folder of a run" in capsys.readouterr().err
