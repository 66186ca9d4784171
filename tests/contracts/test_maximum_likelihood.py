"""What every maximum likelihood oracle promises, and what a poor one cannot do."""

from dataclasses import dataclass, replace
from typing import final

import numpy as np
import pytest

import bidual as bd
from bidual.models import (
    AbstractMaximumLikelihood,
    Enumeration,
    ExpectationMaximisation,
    Gaussian,
    MixtureClass,
    Transitions,
)
from bidual.models.classes._enumeration import list_transitions
from bidual.models.classes._likelihood import find_near_best
from tests.classes import random_factors
from tests.units.test_low_rank import MUS, PHIS, RIVER, H


def _class_data(seed):
    rng = np.random.default_rng(seed)
    factors = random_factors(rng, (5, 2, 2), (3, 4))
    s, a = (part.ravel() for part in np.indices((5, 2)))
    s, a, t = np.repeat(s, 5), np.repeat(a, 5), np.tile(np.arange(5), 10)
    return factors, Transitions(s, a, t, rng.integers(0, 4, 50).astype(float))


def _class_likelihood(factors, number, data):
    i, j = divmod(number, len(factors.mus))
    p = np.einsum("td,dt->t", factors.phis[i][data.states, data.actions], factors.mus[j][:, data.arrivals])
    return float(data.times @ np.log(p))


def _mixture_data(seed):
    rng = np.random.default_rng(seed)
    centres = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
    return MixtureClass(Gaussian(), 4), centres[rng.integers(0, 3, 60)] + 0.3 * rng.standard_normal((60, 2))


def _mixture_likelihood(mixtures, emission, data):
    del mixtures
    return float(np.logaddexp.reduce(emission.scores(data), axis=1).sum())


ORACLES = {
    "enumeration": (Enumeration(), _class_data, _class_likelihood, lambda factors, data: range(factors.count)),
    "EM": (
        ExpectationMaximisation(),
        _mixture_data,
        _mixture_likelihood,
        lambda mixtures, data: [mixtures.family.fit(data, np.ones((len(data), 1)))],
    ),
}


def test_every_implementation_is_here():
    shipped = {one for one in AbstractMaximumLikelihood.__subclasses__() if one.__module__.startswith("bidual.")}
    assert {type(one) for one, *_ in ORACLES.values()} == shipped


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("seed", range(5))
def test_nothing_simpler_explains_the_data_better(name, seed):
    """Of a finite class nothing at all does; EM is better than one latent. A start changes none of that."""
    oracle, make, likelihood, others = ORACLES[name]
    hypotheses, data = make(seed)
    first = oracle(hypotheses, data, None)
    for found in (first, oracle(hypotheses, data, None), oracle(hypotheses, data, first)):
        value = likelihood(hypotheses, found, data)
        assert value == pytest.approx(likelihood(hypotheses, first, data), rel=1e-9)
        for other in others(hypotheses, data):
            assert value >= likelihood(hypotheses, other, data) - 1e-9


@final
@dataclass(frozen=True)
class Always(AbstractMaximumLikelihood):
    """An oracle that does not look at the data."""

    number: object = 0

    def __call__(self, hypotheses, data, warm):
        return self.number


def _learn(**settings):
    model = bd.models.LowRank(PHIS, MUS, set="paper", **settings)
    return bd.learn(RIVER.problem, RIVER.mdp, model, episodes=80, evaluation=20, seed=1)


def test_enumeration_given_is_the_default():
    given, default = _learn(oracle=Enumeration()), _learn()
    assert given.to_dict() | {"seconds": 0} == default.to_dict() | {"seconds": 0}
    knowledge = given.knowledge
    assert [
        knowledge.oracle(one, list_transitions(knowledge.counts, h), None) for h, one in enumerate(knowledge.factors)
    ]
    np.testing.assert_array_equal(knowledge.best, knowledge.likelihoods.argmax(axis=1))


def test_a_poor_oracle_makes_a_larger_set_and_no_false_one(tmp_path):
    """By half of what it misses of the logarithm; the truth, the last candidate, stays; the file proves the same."""
    found = _learn(oracle=Always(0))
    knowledge = found.knowledge
    assert knowledge.best.tolist() == [0] * H
    assert knowledge.build_confidence_set().inside[:, len(MUS) - 1].all()
    given = knowledge.likelihoods, knowledge.factors, knowledge.counts.pairs, knowledge._log_share
    centre = np.zeros(H, dtype=int)
    inside = find_near_best(*given, 8.0, centre)
    np.testing.assert_array_equal(inside, knowledge.build_confidence_set().inside)
    for h, one in enumerate(knowledge.factors):
        own, pairs = knowledge.likelihoods[h], knowledge.counts.pairs[h]
        laws = one.laws(np.arange(one.count))
        apart = np.array([np.sum(pairs * np.abs(law - laws[0]).sum(axis=-1) ** 2) for law in laws])
        limit = 8 * (np.log(one.count) + knowledge._log_share + (own.max() - own[0]) / 2)
        np.testing.assert_array_equal(inside[h], apart <= limit)
    best = bd.solve(RIVER.problem, RIVER.mdp).value
    assert found.upper >= best - 1e-6
    found.save(tmp_path / "a.bidual")
    assert bd.check(tmp_path / "a.bidual").claims["upper"] == found.upper


def test_a_run_with_an_oracle_goes_on(tmp_path):
    model = bd.models.LowRank(PHIS, MUS, set="paper", oracle=Always(2))
    arguments = RIVER.problem, RIVER.mdp, model
    bd.learn(*arguments, episodes=10, evaluation=0, run=tmp_path / "run")
    more = bd.learn(*arguments, episodes=20, evaluation=5, run=bd.runs.Folder(tmp_path / "run", resume=True))
    whole = bd.learn(*arguments, episodes=20, evaluation=5)
    assert more.to_dict() | {"seconds": 0} == whole.to_dict() | {"seconds": 0}
    assert more.knowledge.best.tolist() == [2] * H
    other = replace(model, oracle=None)
    with pytest.raises(bd.RunError):
        bd.learn(*arguments[:2], other, episodes=30, run=bd.runs.Folder(tmp_path / "run", resume=True))


@pytest.mark.parametrize("number", [6, -1, 1.0, None, True])
def test_what_is_no_candidate_is_refused(number):
    with pytest.raises(bd.ModelError, match=r"oracle gave .* at step 1: .* a pair of candidates, from 0 to 5"):
        _learn(oracle=Always(number))


@pytest.mark.unchecked_shapes(reason="an oracle of a wrong type")
@pytest.mark.parametrize(
    "model", [lambda: bd.models.LowRank(PHIS, MUS, oracle=3), lambda: bd.models.Latent(2, oracle=3)]
)
def test_what_is_no_oracle_is_refused(model):
    with pytest.raises(bd.ModelError, match="oracle must be an AbstractMaximumLikelihood"):
        model()
