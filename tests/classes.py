"""Random classes of low-rank laws, for tests."""

from dataclasses import dataclass

import numpy as np

import bidual as bd
from bidual.models import Factors, Plausible
from bidual.models.counts._counts import start_counts
from bidual.models.counts._support import read_support
from bidual.problem.features import Pieces


@dataclass(frozen=True)
class Case:
    """A class with every candidate in it still possible, features, and one combination that is called true."""

    model: Plausible
    pieces: Pieces
    truth: tuple[int, ...]

    @property
    def layout(self):
        return self.model.restrict(self.pieces)

    def law(self, h, number):
        return self.model.factors[h].laws(np.array([number]))[0]


def near(rng, base, shape, count, far):
    """Laws near a base, mixed with others: `count` of them along a new first axis."""
    others = rng.dirichlet(np.ones(shape[-1]), (count, *shape[:-1]))
    return (1 - far) * base[None] + far * others


def random_factors(rng, size, counts, far=0.3):
    """phi(s, a) is a law over d, and every row of mu a law over S, so that all products are laws."""
    (S, A, d), (first, second) = size, counts
    phis = near(rng, rng.dirichlet(np.ones(d), (S, A)), (S, A, d), first, far)
    mus = near(rng, rng.dirichlet(np.ones(S), d), (d, S), second, far)
    return Factors(phis, mus)


def random_case(
    seed, size=(6, 3, 3), counts=(3, 3), horizon=4, signals=2, arrivals=0, masked=False, start=True, far=0.3
):
    rng = np.random.default_rng(seed)
    S, A, _ = size
    allowed = np.ones((S, A), dtype=bool)
    if masked:
        allowed = rng.random((S, A)) < 0.6
        allowed[:, 0] = True
    factors = tuple(random_factors(rng, size, counts, far) for _ in range(horizon))
    support = read_support(np.broadcast_to(np.arange(S), (S, A, S)), np.zeros(0, dtype=np.int64), allowed)
    stage = rng.normal(size=(1, signals + arrivals, S, A))
    stage[:, signals:] = 0.0
    paid = tuple((signals + i, rng.normal(size=(1, S, A, S))) for i in range(arrivals))
    pieces = Pieces(stage, paid)
    counts_ = start_counts(support, np.zeros(0, dtype=bool), horizon)
    n = counts[0] * counts[1]
    truth = tuple(rng.integers(0, n, horizon).tolist())
    model = Plausible(
        factors=factors,
        inside=np.ones((horizon, n), dtype=bool),
        best=np.array(truth),
        counts=counts_,
        initial=rng.dirichlet(np.ones(S)) if start else None,
        delta=0.1,
        log_share=float(np.log(10 * horizon)),
    )
    return Case(model, pieces, truth)


def dense(mdp):
    """The law of a model as an array (S, A, S)."""
    lists = mdp.successors
    S, A, K = lists.states.shape[1:]
    law = np.zeros((S, A, S))
    for k in range(K):
        np.add.at(law, (*np.indices((S, A)), lists.states[0, :, :, k]), lists.probabilities[0, :, :, k])
    return law


def around(mdp, count, seed=0, far=0.4):
    """Factors of a class that holds the law of a model, the last of all, and others with the same successors.

    With an indicator of state and action for phi every row of mu is a row of the law.
    """
    law = dense(mdp)
    S, A, _ = law.shape
    rng = np.random.default_rng(seed)
    others = np.where(law > 0, rng.random((count - 1, *law.shape)), 0.0)
    others /= others.sum(axis=-1, keepdims=True)
    laws = [*((1 - far) * law + far * others), law]
    return [np.eye(S * A).reshape(S, A, S * A)], [one.reshape(S * A, S) for one in laws]


@dataclass(frozen=True)
class World:
    """A model whose law is one of a class at every step, and the class."""

    mdp: object
    phis: list
    mus: list
    truth: tuple


def world(seed, size=(5, 2, 2), counts=(2, 2), horizon=3, far=0.6):
    """Every step has candidates of its own."""
    rng = np.random.default_rng(seed)
    steps = [random_factors(rng, size, counts, far) for _ in range(horizon)]
    truth = tuple(rng.integers(0, steps[0].count, horizon).tolist())
    law = np.stack([one.laws(np.array([m]))[0] for one, m in zip(steps, truth, strict=True)])
    law = np.maximum(law, 0) / law.sum(axis=-1, keepdims=True)
    mdp = bd.TabularMDP(law, rng.dirichlet(np.ones(size[0])), horizon)
    return World(mdp, [one.phis for one in steps], [one.mus for one in steps], truth)
