"""What every feature map promises."""

import numpy as np
import pytest

import bidual as bd
from bidual.problem.features import AbstractFeatures, Computed, concat, occupancy, signals, visits
from tests.helpers import random_instance

MDP = random_instance(0, (4, 3, 3, 5)).mdp
RNG = np.random.default_rng(0)
FEATURES = {
    "signals": signals(by_state=RNG.random(4), pair=RNG.random((4, 3)), arrival=RNG.random((4, 3, 4))),
    "signals by step": signals(step=RNG.random((5, 4, 3)), pair=RNG.random((4, 3))),
    "visits": visits(4),
    "occupancy": occupancy(4, 3),
    "concat": concat(occupancy(4, 3), visits(4), signals(step=RNG.random((5, 4, 3))), signals(pair=RNG.random((4, 3)))),
}


def test_every_implementation_is_here():
    # Computed signals are functions of vectors, which no finite model has: see contracts/test_control.py.
    assert {type(f) for f in FEATURES.values()} | {Computed} == set(AbstractFeatures.__subclasses__())


@pytest.fixture(params=FEATURES)
def features(request):
    return FEATURES[request.param]


def test_the_stage_fits_the_model(features):
    psi = features.stage(MDP.successors)
    assert psi.dimension == features.dimension
    assert psi.signals.shape[2:] == (MDP.num_states, MDP.num_actions)
    assert psi.signals.shape[0] in (1, MDP.horizon)
    assert np.isfinite(psi.signals).all()


def test_pay_and_expectation_are_transposes(features):
    """<theta, E psi> = E <theta, psi>, whichever way it is computed: sums of 60 numbers below 1."""
    psi = features.stage(MDP.successors)
    theta, law = RNG.normal(size=features.dimension), RNG.dirichlet(np.ones(12)).reshape(4, 3)
    for h in range(MDP.horizon):
        assert abs(theta @ psi.expect(law, h) - np.sum(psi.pay(theta, h) * law)) <= 1e-13


def test_parts_sit_where_the_features_are(features):
    """The named parts of the embedding, filled with E psi, are the signals, visits and occupancies of the law."""
    psi, law = features.stage(MDP.successors), RNG.dirichlet(np.ones(12)).reshape(4, 3)
    x = features.embedding(MDP.horizon)
    x.value = np.stack([psi.expect(law, h) for h in range(MDP.horizon)])
    for part in features.parts:
        expected = {"visits": law.sum(axis=1), "occupancy": law}.get(part.name)
        if expected is not None:
            for h in range(MDP.horizon):
                np.testing.assert_allclose(getattr(x, part.name).value[h], expected, atol=1e-15)


@pytest.mark.parametrize("total", [False, True])
def test_the_embedding_has_a_part_per_name(features, total):
    x = features.embedding(MDP.horizon, total=total)
    assert x.shape == ((features.dimension,) if total else (MDP.horizon, features.dimension))
    for part in features.parts:
        assert getattr(x, part.name).shape == (part.shape if total else (MDP.horizon, *part.shape))


def test_an_unknown_part_is_an_attribute_error(features):
    with pytest.raises(AttributeError, match="no part 'nothing'"):
        _ = features.embedding(MDP.horizon).nothing


def test_arrival_signals_are_expectations():
    paid = RNG.random((4, 3, 4))
    psi = signals(paid=paid).stage(MDP.successors).signals[0, 0]
    lists = MDP.successors
    for s, a in np.ndindex(4, 3):
        expected = sum(
            p * paid[s, a, t] for t, p in zip(lists.states[0, s, a], lists.probabilities[0, s, a], strict=True)
        )
        assert abs(psi[s, a] - expected) <= 1e-15


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((3, 2)), r"shape \(3, 2\)"),
        (np.full((4, 3), np.nan), r"is nan at \[0, 0\]"),
        ("reward", "must be an array of real numbers"),
        (np.full((4, 3), 1j), "it is complex"),
        (bd.features.on_arrival(np.zeros((4, 4, 3))), "paid on arrival and must have shape"),
    ],
)
def test_bad_signals_are_named(array, message):
    with pytest.raises(bd.ModelError, match=message):
        MDP.embedding(reward=array)


def test_an_ambiguous_shape_is_refused_with_its_remedy():
    mdp = random_instance(0, (3, 3, 2, 3)).mdp
    with pytest.raises(bd.ModelError, match="on_arrival"):
        mdp.embedding(reward=np.zeros((3, 3, 3)))
    mdp.embedding(reward=bd.features.on_arrival(np.zeros((3, 3, 3))))


@pytest.mark.parametrize(
    "name", ["value", "T", "size", "sign", "features", "horizon", "_hidden", "shape", "id", "args", "bounds"]
)
def test_names_that_cvxpy_uses_are_refused(name):
    with pytest.raises(bd.ProblemError, match="use that name themselves"):
        MDP.embedding(**{name: np.zeros(4)})


def test_no_signal_at_all_is_refused():
    with pytest.raises(bd.ModelError, match="at least one"):
        MDP.embedding()


def test_visits_of_another_model_are_refused():
    with pytest.raises(bd.ModelError, match="declared for"):
        visits(5).stage(MDP.successors)
    with pytest.raises(bd.ModelError, match="declared for"):
        occupancy(4, 2).stage(MDP.successors)


def test_concat_refuses_a_name_twice_and_nothing_at_all():
    with pytest.raises(bd.ModelError, match="two features are called 'visits'"):
        concat(visits(4), visits(4))
    with pytest.raises(bd.ModelError, match="at least one"):
        concat()


@pytest.mark.parametrize("number", [0, -1, True])
def test_a_number_of_states_is_positive(number):
    with pytest.raises(bd.ModelError, match="at least 1"):
        visits(number)


def test_the_pieces_make_up_the_stage(features):
    """What is paid at once, plus what is paid on arrival expected over the successors, is the stage."""
    psi, pieces = features.stage(MDP.successors), features.pieces(MDP.successors.shape)
    assert (pieces.visits, pieces.occupancy) == (psi.visits, psi.occupancy)
    total = np.array(np.broadcast_to(pieces.stage, psi.signals.shape))
    lists = MDP.successors
    for position, values in pieces.arrivals:
        arrived = np.take_along_axis(values[0], lists.states[0], axis=-1)
        total[:, position] += np.sum(arrived * lists.probabilities[0], axis=-1) * lists.allowed
    np.testing.assert_allclose(total, psi.signals, atol=1e-14)


def test_functions_are_observed_within_their_bounds():
    pieces = signals(pay=np.ones((4, 3)), seen=lambda t: t.reward, far=bd.features.observed(abs, -2.0, 3.0)).pieces(
        (5, 4, 3)
    )
    assert [(i, one.low, one.high) for i, one in pieces.observed] == [(1, 0.0, 1.0), (2, -2.0, 3.0)]
    assert pieces.stage[0, 1:].max() == 0.0
    for low, high in ((1.0, 0.0), (float("nan"), 1.0), (0.0, float("inf"))):
        with pytest.raises(bd.ModelError, match="finite bounds"):
            bd.features.observed(abs, low, high)
    with pytest.raises(bd.ModelError, match="'seen' is a function"):
        signals(seen=abs).stage(MDP.successors)
