"""Finite classes of low-rank laws: planning over them, and their likelihoods, against plain ways to do the same.

    make bench-classes

One core, CPU time, the median of many calls, three times over in turn with the alternative; the ratio is that of the
median of the three. Planning is over the task `perturbation` with six steps: 30 states, 4 actions, rank 4, 64
candidates at every step, all of which may be true, for 20 random costs. The alternative keeps every candidate as a law
(S, A, S), made beforehand, and multiplies with that; both must give the same value. `search` is all that `ClassSearch`
does without branch and bound: the relaxation, and coordinate descent from two starts; then with some nodes of it.

Likelihoods are those of 100 phis with 100 mus over the same states and actions, after one episode of six steps at a
time and after 64 of them at once. One alternative multiplies the factors of one pair after the other; another looks
probabilities up in a table of all laws, 288 MB for a single step. Both are timed for single transitions.
Results go to benchmarks/results/classes.json.
"""

import json
import os
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # One core for everything, before any library counts them.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import numpy as np
from jaxtyping import Float, Int

import bidual as bd
from bidual._base.types import Episode
from bidual.learning.setup import set_up
from bidual.models import ClassKnowledge, Factors, Layout, Plausible
from bidual.models.classes._likelihood import add_episodes, start_likelihoods
from bidual.planners import ClassSearch
from bidual.planners._class_search import descend_coordinates
from bidual.planners._class_steps import ClassSteps

RESULTS = Path(__file__).parent / "results" / "classes.json"
REPEATS, COSTS, HORIZON = 3, 20, 6
NODES = 20  # of branch and bound
EACH, BATCH = 100, 64


class Dense:
    """The same steps back with every candidate as a law (S, A, S)."""

    def __init__(self, model: Plausible, psi: Layout) -> None:
        *earlier, last = model.members
        laws = [np.matmul(one.phi, one.mu[:, None]) for one in (*earlier, last.one(0))]  # as in Steps: the last is idle
        self.S, self.A = laws[0].shape[1:3]
        self.laws = [law.reshape(len(law), self.S * self.A, self.S) for law in laws]
        assert model.initial is not None  # a simulated model tells its start law
        self.psi, self.start = psi.psi, model.initial

    def rectangular_bound(self, theta: Float[np.ndarray, "H d"]) -> float:
        """A candidate for every state and action."""
        V = np.zeros(self.S)
        for h in reversed(range(HORIZON)):
            Q = (self.laws[h] @ V).reshape(-1, self.S, self.A) + self.psi.pay(theta[h], h)
            V = Q.min(axis=0).min(axis=-1)
        return float(self.start @ V)

    def descend_coordinates(self, theta: Float[np.ndarray, "H d"]) -> float:
        """Coordinate descent from the first candidates, as `descended` does it."""
        combination, value = [0] * HORIZON, np.inf
        costs = [self.psi.pay(theta[h], h) for h in range(HORIZON)]
        while True:
            before, V = value, np.zeros(self.S)
            for h in reversed(range(HORIZON)):
                each = ((self.laws[h] @ V).reshape(-1, self.S, self.A) + costs[h]).min(axis=-1)
                values = self._back(combination[:h], each, costs)
                best = int(values.argmin())
                if values[best] < values[combination[h]] - 1e-12:
                    combination[h] = best
                value, V = float(values[combination[h]]), each[combination[h]]
            if before - value <= 1e-12:
                return value

    def _back(
        self, combination: list[int], V: Float[np.ndarray, "b S"], costs: list[Float[np.ndarray, "S A"]]
    ) -> Float[np.ndarray, "b"]:
        for h, m in reversed(list(enumerate(combination))):
            Q = (V @ self.laws[h][m].T).reshape(-1, self.S, self.A) + costs[h]
            V = Q.min(axis=-1)
        return V @ self.start


def planning() -> list[dict[str, Any]]:
    """Milliseconds of one answer."""
    task = bd.tasks.find("perturbation").build(horizon=HORIZON)
    knowledge = set_up(task.problem, task.mdp, task.model, None, delta=0.05, seed=0).knowledge
    assert isinstance(knowledge, ClassKnowledge)
    model, psi = knowledge.confidence_set, knowledge.layout
    assert isinstance(model, Plausible)
    dense, rng = Dense(model, psi), np.random.default_rng(0)
    costs = rng.normal(size=(COSTS, HORIZON, psi.psi.signals.shape[1]))
    first, search = np.zeros(HORIZON, dtype=np.int64), ClassSearch()
    proving = ClassSearch(nodes=NODES)

    def rectangular_bound(theta: Float[np.ndarray, "H d"]) -> float:
        return ClassSteps(model, psi, theta).rectangular_bound()

    def descent(theta: Float[np.ndarray, "H d"]) -> float:
        return descend_coordinates(ClassSteps(model, psi, theta), first)[1]

    for theta in costs:
        np.testing.assert_allclose(rectangular_bound(theta), dense.rectangular_bound(theta), rtol=0, atol=1e-10)
        np.testing.assert_allclose(descent(theta), dense.descend_coordinates(theta), rtol=0, atol=1e-10)
    rows = [
        _row(
            "rectangular relaxation", 1e3, "ms", _each(costs, rectangular_bound), _each(costs, dense.rectangular_bound)
        ),
        _row("coordinate descent", 1e3, "ms", _each(costs, descent), _each(costs, dense.descend_coordinates)),
        _row("search", 1e3, "ms", _each(costs, lambda theta: search.search(model, psi, theta))),
        _row(f"search, {NODES} nodes", 1e3, "ms", _each(costs, lambda theta: proving.search(model, psi, theta))),
    ]
    for row, planner in zip(rows[-2:], (search, proving), strict=True):
        found = [planner.search(model, psi, theta) for theta in costs]
        row["gap_that_is_left"] = float(np.mean([one.upper - one.lower for one in found]))
    return rows


def likelihoods() -> list[dict[str, Any]]:
    """Microseconds of one update of 10 000 pairs."""
    rng = np.random.default_rng(0)
    S, A, d = 30, 4, 4
    factors = [
        Factors(rng.dirichlet(np.ones(d), (EACH, S, A)), rng.dirichlet(np.ones(S), (EACH, d))) for _ in range(HORIZON)
    ]
    episodes = [_episode(rng, S, A) for _ in range(BATCH)]
    many, single = start_likelihoods(factors), start_likelihoods(factors[:1])
    one_by_one = [[episode] for episode in episodes]
    transitions = [[_first(episode)] for episode in episodes]
    table = factors[0].laws(np.arange(factors[0].count))

    def looked_up(seen: list[Episode]) -> Float[np.ndarray, "1 n"]:
        s, a, t = _transition(seen[0])
        return single + np.log(table[:, s, a, t])

    def looped(seen: list[Episode]) -> Float[np.ndarray, "1 n"]:
        s, a, t = _transition(seen[0])
        return single + np.log([phi[s, a] @ mu[:, t] for phi in factors[0].phis for mu in factors[0].mus])

    def ours(seen: list[Episode]) -> Float[np.ndarray, "1 n"]:
        return add_episodes(single, factors[:1], seen)

    for seen in transitions[:3]:
        np.testing.assert_allclose(ours(seen), looked_up(seen), rtol=1e-9)
        np.testing.assert_allclose(ours(seen), looped(seen), rtol=1e-9)
    batches = _row("64 episodes at once", 1e6, "us", lambda: add_episodes(many, factors, episodes))
    per_episode = round(batches["us"] / BATCH, 1)
    return [
        _row("one transition", 1e6, "us", _each(transitions, ours), _each(transitions, looked_up)),
        _row("one transition, against a loop", 1e6, "us", _each(transitions, ours), _each(transitions, looped)),
        _row("one episode", 1e6, "us", _each(one_by_one, lambda seen: add_episodes(many, factors, seen))),
        batches | {"us_per_episode": per_episode, "us_per_transition": round(per_episode / HORIZON, 1)},
    ]


def _episode(rng: np.random.Generator, S: int, A: int) -> Episode:
    return Episode(rng.integers(0, S, HORIZON + 1), rng.integers(0, A, HORIZON), np.zeros((HORIZON, 0)))


def _first(episode: Episode) -> Episode:
    """Its first transition."""
    return Episode(episode.states[:2], episode.actions[:1], episode.observed[:1])


def _transition(episode: Episode) -> Int[np.ndarray, "3"]:
    return np.array([episode.states[0], episode.actions[0], episode.states[1]])


def _each(things: Any, function: Callable[[Any], object]) -> Callable[[], object]:  # noqa: ANN401 - whatever it takes
    """The function with one thing after the other."""
    turns = cycle(things)
    return lambda: function(next(turns))


def _row(
    name: str, scale: float, unit: str, ours: Callable[[], object], other: Callable[[], object] | None = None
) -> dict[str, Any]:
    """Times in turn, three times over, in a unit of which a second has `scale`."""
    times = np.array([[_seconds(ours), np.nan if other is None else _seconds(other)] for _ in range(REPEATS)]) * scale
    own, others = np.median(times, axis=0)
    row: dict[str, Any] = {"what": name, unit: round(float(own), 2), "all": times[:, 0].round(2).tolist()}
    if other is not None:
        row |= {f"alternative_{unit}": round(float(others), 2), "ratio": round(float(others / own), 2)}
    print(row, flush=True)
    return row


def _seconds(call: Callable[[], object]) -> float:
    """CPU seconds of a call, the median of those in about a third of a second."""
    call()
    taken: list[float] = []
    until = time.perf_counter() + 0.3
    while time.perf_counter() < until or len(taken) < 3:
        started = time.process_time()
        call()
        taken.append(time.process_time() - started)
    return float(np.median(taken))


if __name__ == "__main__":
    report = {"command": "make bench-classes", "planning": planning(), "likelihoods": likelihoods()}
    RESULTS.write_text(json.dumps(report, indent=1) + "\n")
