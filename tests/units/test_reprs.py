"""The `repr` of every public object fits on a screen, however large the object is."""

import dataclasses
import inspect

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual._base.brief import MOST, describe_briefly
from tests.learning import SHAPE

H, S, A = SHAPE
MODULES = [bd, *(getattr(bd, name) for name in bd.__all__ if inspect.ismodule(getattr(bd, name)))]
PUBLIC = {thing for module in MODULES for name in module.__all__ if inspect.isclass(thing := getattr(module, name))}
CLASSES = sorted(filter(dataclasses.is_dataclass, PUBLIC), key=lambda kind: kind.__qualname__)
BRIEF = [kind for kind in CLASSES if kind.__repr__ is describe_briefly]
GENERATED = [kind for kind in CLASSES if "__create_fn__" in getattr(kind.__repr__, "__qualname__", "")]
# Settings that stored runs are compared by, so that their repr has to stay complete, and short lists of numbers.
COMPLETE = {"Alternating", "FullyCorrective", "Fourier", "KNR", "Regulator", "Folder", "Mapped"}
LARGE = ("ndarray", "ArrayLike", "tuple", "Mapping", "dict", "Sequence", "Policy", "Mixture", "TabularMDP", "Program")


@pytest.mark.parametrize("kind", BRIEF, ids=lambda kind: kind.__qualname__)
@pytest.mark.parametrize(
    "value", [np.zeros((30, 40, 50)), "x" * 10_000, {str(i): i for i in range(999)}, (1e-300,) * 9]
)
def test_fields_of_any_size_are_described_briefly(kind, value):
    thing = object.__new__(kind)
    for field in dataclasses.fields(kind):
        object.__setattr__(thing, field.name, value)
    assert repr(thing).startswith(f"{kind.__name__}(")
    assert len(repr(thing)) <= MOST


def test_what_can_be_large_is_described_briefly():
    """A repr that the dataclass wrote itself prints all fields: only settings may have such a one."""
    assert len(BRIEF) > 40
    for kind in set(GENERATED) - set(BRIEF):
        large = [field.name for field in dataclasses.fields(kind) if any(one in str(field.type) for one in LARGE)]
        assert not large or kind.__name__ in COMPLETE, (kind, large)


def _parts(thing, seen):
    """Collect the public objects within a result, through fields and short sequences."""
    if id(thing) in seen:
        return
    if type(thing) in PUBLIC:
        seen[id(thing)] = thing
    if dataclasses.is_dataclass(thing):
        for field in dataclasses.fields(thing):
            _parts(getattr(thing, field.name), seen)
    elif isinstance(thing, tuple | list):
        for one in thing[:5]:
            _parts(one, seen)


def test_results_and_all_their_parts_fit_on_a_screen(tmp_path):
    mdp = bd.TabularMDP(np.full((S, A, S), 1 / S), 0, H)
    x = mdp.embedding(reward=np.eye(S)[0], damage=np.eye(S)[1])
    objective = cp.Maximize(sum(cp.sum(i * x.reward) for i in range(1, 30)))
    problem = bd.Problem(objective, {"limit " * 100: cp.sum(x.damage) <= 2})
    solution = bd.solve(problem, mdp)
    solution.save(tmp_path / "one.bidual")
    learned = bd.learn(problem, mdp, bd.models.Tabular(support=mdp), episodes=32, evaluation=8)
    things = [mdp, x, x.damage, problem, solution, learned, learned.regret(mdp), bd.check(tmp_path / "one.bidual")]
    things += [bd.price(problem, mdp, points=2), bd.evaluate(problem, mdp, solution.policy, episodes=8)]
    things += [bd.policies.Mixture(np.full(99, 1 / 99), solution.mixture.members[:1] * 99), solution.policy.reset(0)]
    things += [bd.tasks.find("rover"), bd.tasks.find("rover").with_settings({}), learned.knowledge, learned.outputs[0]]
    seen = {}
    for thing in things:
        _parts(thing, seen)
    assert len({type(one) for one in seen.values()}) >= 15
    for thing in (*things, *seen.values()):
        assert len(repr(thing)) <= MOST, type(thing)
    assert repr(solution).startswith("Solution(optimal, maximize ")
