"""Numberings of observations: canonical texts, finite spaces, and numbers in the order of meeting."""

import itertools
import json

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Sequence, Text, Tuple

import bidual as bd
from bidual.world.envs import gymnasium_environment
from bidual.world.observations import (
    Book,
    FiniteSpace,
    Met,
    Numbering,
    NumberRange,
    format_value,
    list_leaves,
    read_numbering,
)
from bidual.world.policies import MarkovPolicy


class Shows(gymnasium.Env):
    """An environment with these observations, one after the other and again."""

    action_space = Discrete(2)

    def __init__(self, space, shown):
        self.observation_space, self.visible = space, shown

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.source = itertools.cycle(self.visible)
        return next(self.source), {}

    def step(self, action):
        return next(self.source), 0.0, False, False, {}


def _numbering(space, **named):
    return gymnasium_environment(Shows(space, [0]), 3, **named).numbering


SMALL = {  # a space, an element, and its number counted by hand
    "discrete": (Discrete(5), 3, 3),
    "discrete from 2": (Discrete(5, start=2), 3, 1),
    "multi discrete": (MultiDiscrete([2, 3]), np.array([1, 2]), 5),
    "multi discrete from": (MultiDiscrete([2, 3], start=[5, -1]), np.array([6, 0]), 4),
    "multi discrete square": (MultiDiscrete([[2, 3], [1, 2]]), np.array([[1, 0], [0, 1]]), 7),
    "multi binary": (MultiBinary(3), np.array([1, 0, 1], dtype=np.int8), 5),
    "box of numbers": (Box(-1, 1, (2,), np.int32), np.array([0, 1], dtype=np.int32), 5),
    "box with own ends": (Box(np.array([0, 5]), np.array([1, 7]), dtype=np.int64), np.array([1, 6]), 4),
    "box without axes": (Box(3, 6, (), np.int16), np.int16(4), 1),
    "tuple": (Tuple((Discrete(2), MultiBinary(2))), (1, np.array([1, 0])), 6),
    "dict": (Dict({"b": Discrete(3), "a": Discrete(2, start=1)}), {"b": 2, "a": 2}, 5),
    "nested": (Tuple((Dict({"x": Tuple((Discrete(2), Discrete(3)))}), Discrete(4))), ({"x": (1, 2)}, 3), 23),
}


@pytest.mark.parametrize("name", SMALL)
def test_elements_of_small_spaces_have_numbers_beforehand(name):
    space, element, expected = SMALL[name]
    numbering = _numbering(space)
    assert not numbering.grows
    assert numbering.number(element, numbering.evaluate(element)) == expected
    assert read_numbering(json.loads(json.dumps(numbering.to_json()))).read(0, element) == expected


@pytest.mark.parametrize("name", SMALL)
def test_numbers_are_one_to_one_and_names_are_the_elements(name):
    space, *_ = SMALL[name]
    numbering = _numbering(space)
    space.seed(0)
    found = {}
    for _ in range(30 * numbering.size):
        element = space.sample()
        found.setdefault(numbering.number(element, element), set()).add(format_value(element))
    assert sorted(found) == list(range(numbering.size))
    assert all(len(texts) == 1 for texts in found.values())
    if isinstance(numbering.numbers, FiniteSpace):
        assert [found[number] for number in range(numbering.size)] == [{text} for text in numbering.numbers.texts]
        assert numbering.names.states[-1] == "ended"


WRONG = {
    "outside": (MultiDiscrete([2, 3]), np.array([1, 3]), r"is outside 0 to 1 x 0 to 2"),
    "below": (Box(1, 2, (1,), np.int32), np.array([0]), r"is outside 1 to 2"),
    "shape": (MultiBinary(3), np.zeros(2, dtype=int), r"has the shape \(2,\), not \(3,\)"),
    "halves": (MultiBinary(2), np.array([0.5, 1.0]), "is not of whole numbers"),
    "text": (MultiBinary(2), "ab", "is not of whole numbers"),
    "key": (Dict(a=Discrete(2)), {"b": 1}, "has no entry 'a'"),
    "short": (Tuple((Discrete(2), Discrete(2))), (1,), "has no entry 1"),
    "inside": (Dict(a=Tuple((Discrete(2), Discrete(2)))), {"a": (0, 2)}, r"its entry a.1 = 2 is outside 0 to 1"),
}


@pytest.mark.parametrize("name", WRONG)
def test_observations_outside_their_space_are_named(name):
    space, shown, message = WRONG[name]
    env = gymnasium_environment(Shows(space, [shown]), 3)
    policy = bd.policies.DeterministicPolicy(np.zeros(env.shape[:2], dtype=int), 2)
    with pytest.raises(bd.EnvError, match=f"gave the observation .* at the reset, episode 1: .*{message}.*correct it"):
        env.collect(policy, bd_draw())
    with pytest.raises(bd.PolicyError, match=message):
        MarkovPolicy(np.full(env.shape, 0.5)).with_numbering(env.numbering).reset(0).act(shown)


def bd_draw():
    from bidual._base.keys import Draw, Purpose

    return Draw(0, Purpose.LEARN, 1)


TEXTS = [
    (3, "3"),
    (np.int8(-3), "-3"),
    (True, "1"),
    (2.0, "2"),
    (0.1, "0.1"),
    (np.float32(0.5), "0.5"),
    ("é", '"\\u00e9"'),
    (np.str_("a"), '"a"'),
    (None, "null"),
    ((1, (2, "x")), '[1,[2,"x"]]'),
    (np.array([[1, 0], [0, 1]], dtype=np.uint8), "[[1,0],[0,1]]"),
    (np.array([True, False]), "[1,0]"),
    (np.array(7), "7"),
    ({"b": 1, "a": np.zeros(2, dtype=int)}, '{"a":[0,0],"b":1}'),
]


@pytest.mark.parametrize(("value", "text"), TEXTS)
def test_texts_of_observations(value, text):
    assert format_value(value) == text


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.nan, "nan is no number"),
        ((1, np.inf), "inf is no number"),
        ({1, 2}, "a set is no number"),
        (object(), "a object is no number"),
        ({1: 2}, "the key 1 of a dictionary is no text"),
        (np.zeros(9000, dtype=int), "takes 18001 characters, and at most 16384"),
        (np.array(object()), "no number"),
    ],
)
def test_what_has_no_text_is_named(value, message):
    with pytest.raises(ValueError, match=message):
        format_value(value)


LARGE = [
    (MultiDiscrete([100, 100]), [np.array([7, 7]), np.array([3, 3]), np.array([7, 7])], [0, 1, 0]),
    (Text(5), ["ab", "", "ab"], [0, 1, 0]),
    (Dict(a=Text(3), b=Discrete(2)), [{"a": "x", "b": 1}, {"b": 1, "a": "x"}, {"a": "x", "b": 0}], [0, 0, 1]),
    (Sequence(Discrete(3)), [(1, 2), (), (1,)], [0, 1, 2]),
    (Box(0, 255, (2, 2), np.uint8), [np.ones((2, 2), np.uint8), np.zeros((2, 2), np.uint8)] * 2, [0, 1, 0]),
]


@pytest.mark.parametrize(("space", "shown", "numbers"), LARGE)
def test_other_observations_are_numbered_as_they_are_met(space, shown, numbers):
    env = gymnasium_environment(Shows(space, shown), 2)
    policy = bd.policies.DeterministicPolicy(np.zeros(env.shape[:2], dtype=int), 2)
    assert env.shape == (2, 1001, 2)
    assert env.collect(policy, bd_draw()).states.tolist() == numbers
    assert env.numbering.keys[0] == format_value(shown[0])
    assert env.names.states[-1] == "ended"


def test_a_limit_decides_between_both():
    space = MultiDiscrete([10, 10])
    assert isinstance(_numbering(space).numbers, FiniteSpace)
    assert _numbering(space, states_limit=100).size == 100
    assert _numbering(space, states_limit=99).numbers == Met(99)
    assert _numbering(Discrete(5000)).numbers == NumberRange(5000)
    assert _numbering(Discrete(5000), states_limit=50).numbers == Met(50)


def test_one_more_than_declared_is_an_error_with_its_remedy():
    env = gymnasium_environment(Shows(Text(1), ["a", "b", "c"]), 3, states_limit=2)
    policy = bd.policies.DeterministicPolicy(np.zeros(env.shape[:2], dtype=int), 2)
    with pytest.raises(
        bd.EnvError, match=r'more than 2 different observations, .* "c" at step 2 of 3, .*states_limit='
    ):
        env.collect(policy, bd_draw())


@pytest.mark.parametrize("space", [Box(0, 1, (2,)), Dict(a=Discrete(2), b=Box(0, 1)), None])
def test_real_numbers_need_a_function(space):
    with pytest.raises(bd.EnvError, match=r"(?s)has real numbers.*states="):
        gymnasium_environment(Shows(space, [0]), 3)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"num_states": 4}, "give it with that function"),
        ({"states": abs, "num_states": 4, "states_limit": 4}, "not with states_limit"),
        ({"states_limit": 0}, "states_limit must be a whole number, at least 1; got 0"),
    ],
)
def test_bad_numberings_are_named(named, message):
    with pytest.raises(bd.ModelError, match=message):
        gymnasium_environment(Shows(Discrete(3), [0]), 3, **named)


def test_values_of_a_function_may_be_anything_with_a_text():
    env = gymnasium_environment(
        Shows(Box(0, 1, (2,)), [[0.1, 0.9], [0.9, 0.1], [0.2, 0.7]]), 2, states=lambda obs: (obs[0] > obs[1], "x")
    )
    policy = bd.policies.DeterministicPolicy(np.zeros(env.shape[:2], dtype=int), 2)
    assert env.collect(policy, bd_draw()).states.tolist() == [0, 1, 0]
    assert env.numbering.keys == ('[0,"x"]', '[1,"x"]')
    bad = gymnasium_environment(Shows(Box(0, 1, (2,)), [[0.1, 0.9]]), 2, states=lambda obs: {1, 2})
    with pytest.raises(bd.EnvError, match=r"states\(\[0.1, 0.9\]\) gave \{1, 2\} at the reset.*a set is no number"):
        bad.collect(policy, bd_draw())


def test_signals_see_what_is_numbered():
    seen = []
    env = gymnasium_environment(Shows(Text(1), ["a", "b"]), 2, states=str.upper)
    env = env.with_signals([("one", bd.features.observed(lambda t: seen.append((t.state, t.next_state)) or 0.0))])
    env.collect(bd.policies.DeterministicPolicy(np.zeros(env.shape[:2], dtype=int), 2), bd_draw())
    assert seen == [("A", "B"), ("B", "A")]


def test_a_policy_acts_alike_in_all_that_was_not_met():
    numbering = Numbering(Met(3, ('"a"',)))
    table = np.zeros((2, 4, 2))
    table[:, 0, 0] = table[:, 1:, 1] = 1.0
    policy = MarkovPolicy(table).with_numbering(numbering)
    actor = policy.reset(0)
    assert (actor.act("a"), actor.act("z")) == (0, 1)
    full = MarkovPolicy(table).with_numbering(Numbering(Met(3, ('"a"', '"b"', '"c"'))))
    with pytest.raises(bd.PolicyError, match=r"'z' was not met .*states_limit"):
        full.reset(0).act("z")


def test_a_book_does_not_touch_the_numbering_it_began_with():
    numbering = Numbering(Met(3))
    book = Book(numbering)
    assert [book.place(one, "here").number for one in ("a", "b", "a")] == [0, 1, 0]
    assert numbering.keys == ()
    assert book.numbering.keys == ('"a"', '"b"')


MALFORMED = [
    None,
    {},
    {"kind": "range", "size": 0, "first": 0, "function": False, "entries": None},
    {"kind": "range", "size": 10**9, "first": 0, "function": False, "entries": None},
    {"kind": "range", "size": True, "first": 0, "function": False, "entries": None},
    {"kind": "range", "size": 2, "first": 0, "function": 1, "entries": None},
    {"kind": "range", "size": 2, "first": 0, "function": False, "entries": -1},
    {"kind": "pickle", "size": 2, "first": 0, "function": False, "entries": None},
    {"kind": "met", "limit": 1, "keys": ["a", "b"], "function": False, "entries": None},
    {"kind": "met", "limit": 3, "keys": ["a", "a"], "function": False, "entries": None},
    {"kind": "met", "limit": 3, "keys": [1], "function": False, "entries": None},
    {"kind": "met", "limit": 3, "keys": ["a" * 20000], "function": False, "entries": None},
    {"kind": "space", "leaves": [[["a"], [2], [0], [2]]], "function": False, "entries": None},
    {"kind": "space", "leaves": [[["a"], [], [0], [2.5]]], "function": False, "entries": None},
    {"kind": "space", "leaves": [[[None], [], [0], [2]]], "function": False, "entries": None},
    {"kind": "space", "leaves": [[[], [], [0], [10**6]], [[], [], [0], [10**6]]], "function": False, "entries": None},
]


@pytest.mark.parametrize("header", MALFORMED)
def test_malformed_numberings_are_refused(header):
    with pytest.raises(ValueError, match=r"its |there are"):
        read_numbering(header)


def test_leaves_are_found_in_whole_spaces_only():
    assert list_leaves(Tuple((Discrete(2), Text(3)))) is None
    assert [leaf.path for leaf in list_leaves(Dict(b=Tuple((Discrete(2),)), a=Discrete(3)))] == [("a",), ("b", 0)]
