"""Expressions of the exact verifier against NumPy: every affine atom, every shape, and which functions leaves are."""

from fractions import Fraction

import numpy as np
import pytest

from bidual.certificate import verify_expressions
from bidual.certificate.verify import NotDecidedError
from bidual.certificate.verify_expressions import Array, Tree, common, difference, places, scale

Y, V = {"variable": 0}, {"variable": 1}
NUMBERS = np.arange(1.0, 7.0).reshape((2, 3), order="F") * [1, -1, 2]
MATRIX, ROW, CUBE = np.array([[1.0, 2.0], [0.0, -1.0], [4.0, 0.5]]), np.array([2.0, 4.0, -8.0]), np.ones((2, 1, 3))
STORED = {"matrix": MATRIX, "row": ROW, "cube": CUBE, "rest": np.zeros((2, 3))}


def atom(name, *arguments, data=()):
    return {"atom": f"cvxpy.atoms.some.{name}", "arguments": list(arguments), "data": {"list": list(data)}}


def constant(value):
    return {"constant": value}


def array(name):
    return constant({"array": name})


def pair(*numbers):
    return {"tuple": list(numbers)}


def cut(*numbers):
    return {"slice": list(numbers)}


def tree(images=((2, 3),), auxiliary=((2,),)):
    arrays = {f"problem_{name}": (a.shape, a.ravel().tolist()) for name, a in STORED.items()}
    return Tree({"images": [list(x) for x in images], "auxiliary": [list(x) for x in auxiliary]}, arrays)


def values(found):
    """Return an array of forms as numbers, with y as the numbers above and v = (10, 20)."""
    names = {("y", i): x for i, x in enumerate(NUMBERS.ravel(order="F"))} | {("v", 0): 10, ("v", 1): 20, None: 1}
    assert list(found.forms) == places(found.shape)
    result = np.zeros(found.shape)
    for index, form in found.forms.items():
        result[index] = sum(float(c) * names[name] for name, c in form.items())
    return result


AFFINE = {
    "variable": (Y, NUMBERS),
    "free variable": (V, np.array([10.0, 20.0])),
    "number": (constant(2.5), np.array(2.5)),
    "exact number": (constant({"number": "0x1.8p1"}), np.array(3.0)),
    "array": (array("matrix"), MATRIX),
    "three dimensions": (array("cube"), CUBE),
    "sum": (atom("AddExpression", Y, array("row"), constant(1.0)), NUMBERS + ROW + 1),
    "negative": (atom("NegExpression", Y), -NUMBERS),
    "product": (atom("multiply", Y, array("row")), NUMBERS * ROW),
    "product from the left": (atom("multiply", array("row"), Y), NUMBERS * ROW),
    "product of constants": (atom("multiply", constant(3.0), array("row")), 3 * ROW),
    "quotient": (atom("DivExpression", Y, array("row")), NUMBERS / ROW),
    "quotient of constants": (atom("DivExpression", array("row"), constant(4.0)), ROW / 4),
    "promotion": (atom("Promote", constant(2.0), data=[pair(2, 2)]), np.full((2, 2), 2.0)),
    "broadcast": (atom("broadcast_to", array("row"), data=[pair(2, 3)]), np.broadcast_to(ROW, (2, 3))),
    "broadcast in the middle": (atom("broadcast_to", array("cube"), data=[pair(2, 4, 3)]), np.ones((2, 4, 3))),
    "beside": (atom("Hstack", Y, Y), np.hstack([NUMBERS, NUMBERS])),
    "numbers beside": (atom("Hstack", constant(1.0), V), np.array([1.0, 10.0, 20.0])),
    "alone": (atom("Hstack", V), np.array([10.0, 20.0])),
    "vectors beside": (atom("Hstack", V, array("row")), np.concatenate([[10.0, 20.0], ROW])),
    "below": (atom("Vstack", Y, array("row")), np.vstack([NUMBERS, ROW])),
    "numbers below": (atom("Vstack", constant(1.0), constant(2.0)), np.array([[1.0], [2.0]])),
    "matrices": (atom("MulExpression", Y, array("matrix")), NUMBERS @ MATRIX),
    "matrix from the left": (atom("MulExpression", array("matrix"), Y), MATRIX @ NUMBERS),
    "matrix and vector": (atom("MulExpression", Y, array("row")), NUMBERS @ ROW),
    "vector and matrix": (atom("MulExpression", V, Y), None),
    "vectors": (atom("MulExpression", array("row"), array("row")), np.array(ROW @ ROW)),
    "sum of all": (atom("Sum", Y, data=[None, False]), np.array(NUMBERS.sum())),
    "sum of all, kept": (atom("Sum", Y, data=[None, True]), NUMBERS.sum(keepdims=True)),
    "sum of columns": (atom("Sum", Y, data=[0, False]), NUMBERS.sum(axis=0)),
    "sum of rows, kept": (atom("Sum", Y, data=[1, True]), NUMBERS.sum(axis=1, keepdims=True)),
    "sum from the end": (atom("Sum", Y, data=[-1, False]), NUMBERS.sum(axis=-1)),
    "sum of axes": (atom("Sum", array("cube"), data=[{"list": [0, 2]}, False]), CUBE.sum(axis=(0, 2))),
    "row": (atom("index", Y, data=[pair(cut(1, 2, 1), cut(0, 3, 1)), pair(1, cut(None, None, None))]), NUMBERS[1]),
    "entry": (atom("index", Y, data=[pair(cut(1, 2, 1), cut(2, 3, 1)), pair(1, 2)]), np.array(NUMBERS[1, 2])),
    "every other": (atom("index", V, data=[pair(cut(0, 2, 2)), cut(0, 2, 2)]), np.array([10.0])),
    "backwards": (atom("index", V, data=[pair(cut(1, None, -1)), cut(1, None, -1)]), np.array([20.0, 10.0])),
    "key that is short": (atom("index", Y, data=[pair(cut(0, 1, 1), cut(0, 3, 1)), pair(0)]), NUMBERS[0]),
    "columns first": (atom("reshape", Y, data=[pair(3, 2), "F"]), NUMBERS.reshape((3, 2), order="F")),
    "rows first": (atom("reshape", Y, data=[pair(3, 2), "C"]), NUMBERS.reshape((3, 2))),
    "transpose": (atom("transpose", Y, data=[None]), NUMBERS.T),
    "transpose of three": (atom("transpose", array("cube"), data=[None]), CUBE.T),
}


@pytest.mark.parametrize("name", AFFINE)
def test_affine_expressions_are_those_of_numpy(name):
    node, expected = AFFINE[name]
    if expected is None:
        with pytest.raises(NotDecidedError, match="a product of two variables"):
            tree().read(node)
        return
    found = values(tree().read(node))
    assert found.shape == expected.shape
    assert (found == expected).all()


def test_all_affine_atoms_are_tried():
    tried = {node["atom"].rpartition(".")[2] for node, _ in AFFINE.values() if "atom" in node}
    assert tried == set(verify_expressions.AFFINE)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (atom("multiply", Y, Y), "a product of two variables"),
        (atom("DivExpression", constant(1.0), Y), "a product of two variables"),
        (atom("DivExpression", Y, constant(0.0)), "DivExpression of these arguments"),
        (atom("MulExpression", array("matrix"), array("matrix")), "MulExpression of these arguments"),
        (atom("AddExpression", Y, V), "AddExpression of these arguments"),
        (atom("Hstack", Y, array("matrix")), "Hstack of these arguments"),
        (atom("Vstack", V, array("row")), "Vstack of these arguments"),
        (atom("broadcast_to", array("row"), data=[pair(2)]), "broadcast_to of these arguments"),
        (atom("reshape", Y, data=[pair(2, 2), "F"]), "reshape of these arguments"),
        (atom("index", V, data=[pair(cut(0, 2, 1)), 0]), "index of these arguments"),
        (atom("geo_mean", Y), "the atom geo_mean"),
        (atom("Pnorm", Y, data=[3, None]), "Pnorm with the exponent 3"),
        (atom("Power", Y, data=[{"fraction": [1, 2]}]), "Power with the exponent 1/2"),
        (atom("huber", Y, data=[constant(-1.0) | {"expression": constant(-1.0)}]), "negative threshold"),
        (constant({"sparse": 1}), "a sparse constant"),
    ],
)
def test_what_is_not_known_is_not_decided(node, message):
    with pytest.raises(NotDecidedError, match=message):
        tree().read(node)


def leaves(node):
    reader = tree()
    found = reader.read(node)
    arguments = [[values(Array((), {(): form})) for form in leaf.arguments] for leaf in reader.leaves]
    signs = [{name: c for name, c in form.items()} for form in found.forms.values()]
    assert signs == [{("leaf", n): leaf.sign} for n, leaf in enumerate(reader.leaves)]
    return found.shape, [(leaf.function, leaf.sign, leaf.p) for leaf in reader.leaves], np.array(arguments).tolist()


ALL, FLAT = NUMBERS.ravel(order="F").tolist(), [[x] for x in NUMBERS.ravel(order="F")]
LEAVES = {
    **{name: (atom(name, Y), (name, 1, None), (2, 3), FLAT) for name in ("exp", "logistic")},
    "abs": (atom("abs", Y), ("norm1", 1, None), (2, 3), FLAT),
    "log": (atom("log", Y), ("log", -1, None), (2, 3), FLAT),
    "entr": (atom("entr", Y), ("entropy", -1, None), (2, 3), FLAT),
    **{
        name: (
            atom(name, Y, array("row")),
            (name, 1, None),
            (2, 3),
            np.stack(np.broadcast_arrays(NUMBERS, ROW)).reshape(2, -1, order="F").T.tolist(),
        )
        for name in ("kl_div", "rel_entr")
    },
    "maximum": (
        atom("maximum", V, constant(15.0)),
        ("max", 1, None),
        (2,),
        [[10.0, 15.0], [20.0, 15.0]],
    ),
    "minimum": (atom("minimum", V, constant(15.0)), ("max", -1, None), (2,), [[-10.0, -15.0], [-20.0, -15.0]]),
    "max": (atom("max", Y, data=[None, False]), ("max", 1, None), (), [ALL]),
    "min": (atom("min", Y, data=[None, False]), ("max", -1, None), (), [[-x for x in ALL]]),
    "max of rows": (atom("max", Y, data=[1, True]), ("max", 1, None), (2, 1), NUMBERS.tolist()),
    "max of rows, dropped": (atom("max", Y, data=[1, False]), ("max", 1, None), (2,), NUMBERS.tolist()),
    **{name: (atom(name, Y, data=[0]), (name, 1, None), (3,), NUMBERS.T.tolist()) for name in ("norm1", "norm_inf")},
    "norm1 of all": (atom("norm1", Y), ("norm1", 1, None), (), [ALL]),
    "log_sum_exp": (atom("log_sum_exp", Y, data=[None, True]), ("log_sum_exp", 1, None), (1, 1), [ALL]),
    "sum_largest": (atom("sum_largest", Y, data=[1.5]), ("sum_largest", 1, 1.5), (), [ALL]),
    "1-norm": (atom("Pnorm", Y, data=[1, None]), ("norm1", 1, 1), (), [ALL]),
    "2-norm": (atom("PnormApprox", Y, data=[2, 0, True]), ("norm", 1, 2), (1, 3), NUMBERS.T.tolist()),
    "square": (atom("PowerApprox", Y, data=[2]), ("quad", 1, 2), (2, 3), [[x, 1.0] for x in ALL]),
    "quotient of squares": (
        atom("quad_over_lin", Y, constant(7.0)),
        ("quad", 1, None),
        (),
        [[*ALL, 7.0]],
    ),
    "huber": (
        atom("huber", Y, data=[{"expression": constant(0.5)}]),
        ("huber", 1, Fraction(1, 2)),
        (2, 3),
        FLAT,
    ),
}


@pytest.mark.parametrize("name", LEAVES)
def test_functions_become_leaves(name):
    node, kind, shape, arguments = LEAVES[name]
    found, kinds, given = leaves(node)
    assert found == shape
    assert set(kinds) == {kind}
    assert given == arguments


def test_all_functions_are_tried():
    assert {node["atom"].rpartition(".")[2].removesuffix("Approx") for node, *_ in LEAVES.values()} == set(
        verify_expressions.ATOMS
    )


def test_a_negative_threshold_is_told_from_none():
    nothing = atom("NegExpression", constant(0.0))
    assert leaves(atom("huber", Y, data=[{"expression": nothing}]))[1][0] == ("huber", 1, 0)
    assert leaves(atom("huber", Y, data=[{"expression": constant(0.0)}]))[1][0] == ("huber", 1, 0)


def test_forms_are_multiplied_by_constants_alone():
    x, two = {"x": Fraction(3), None: Fraction(1)}, {None: Fraction(2)}
    assert scale(x, two) == scale(two, x) == {"x": 6, None: 2}
    assert scale(x, two, inverse=True) == {"x": Fraction(3, 2), None: Fraction(1, 2)}
    assert scale(x, {}) == {}
    assert difference(x, two) == {"x": 3, None: -1}


def test_shapes_are_those_of_numpy():
    for shapes in (((2, 3), (3,)), ((2, 1), (1, 3)), ((), (4,)), ((1,), (1,)), ((0, 3), (1, 3)), ((1, 3), (3,))):
        arrays = [Array(shape, {}) for shape in shapes]
        assert common(arrays) == np.broadcast_shapes(*shapes)
    assert places((2, 2)) == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert places(()) == [()]
    assert places((1,) * 30) == [(0,) * 30]


# What may swell.


def test_room_is_spent_by_everything_that_is_read(monkeypatch):
    assert tree().room == 10**6 + 8 * sum(a.size for a in STORED.values()) - 8
    reader = tree()
    before = reader.room
    reader.read(atom("AddExpression", Y, constant(1.0)))
    assert before - reader.room == 12 + 2 + 6 * 3  # of every array its entries and coefficients
    reader.room = 18
    reader.read(atom("NegExpression", constant(1.0)))
    reader.room = 3
    with pytest.raises(NotDecidedError, match="more coefficients than FILE"):
        reader.read(atom("NegExpression", constant(1.0)))
    reader.room = 2
    reader.read(constant(1.0))
    assert reader.room == 0


def test_arrays_have_a_largest_size():
    most = verify_expressions.MOST
    verify_expressions.check_size(most)
    verify_expressions.check_size(most // 2, 2)
    for factors in ((most + 1,), (most // 2, 3)):
        with pytest.raises(NotDecidedError, match="an array of more than"):
            verify_expressions.check_size(*factors)
    with pytest.raises(NotDecidedError, match="an array of more than"):
        places((most + 1, 0))
    several = atom("Hstack", constant(1.0), atom("Sum", Y, data=[None, False]))  # one coefficient, and a thousand
    column = atom("reshape", several, data=[pair(2, 1), "F"])
    for node in (
        atom("broadcast_to", several, data=[pair(1000, 2)]),
        atom("MulExpression", column, atom("Promote", constant(1.0), data=[pair(1, 1000)])),
    ):
        with pytest.raises(NotDecidedError, match="an array of more than"):
            tree(images=((1000,),)).read(node)
    assert tree().read(atom("Promote", constant(1.0), data=[pair(*(1,) * 30)])).shape == (1,) * 30
    nothing = tree(images=((2, 3), (0,))).read({"variable": 1})
    assert (nothing.shape, nothing.forms) == ((0,), {})


def test_variables_are_numbered_on():
    reader = tree(images=((2,), (1, 2)), auxiliary=((2,), ()))
    names = [[next(iter(form)) for form in a.forms.values()] for a in reader.variables]
    assert names == [[("y", 0), ("y", 1)], [("y", 2), ("y", 3)], [("v", 0), ("v", 1)], [("v", 2)]]
