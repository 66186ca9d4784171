"""CVXPY expressions as plain data: names of atoms, arrays, and nothing that could be executed.

An expression is stored as its tree. Reading one back looks atoms up by name among the classes that CVXPY itself
defines, and calls them with numbers and arrays; a file can name nothing else.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.atoms.atom import Atom

from bidual.problem.modelling._exact import rebuild_exactly
from bidual.problem.modelling._functions import Functions

Arrays = dict[str, np.ndarray]


def write_tree(expression: cp.Expression, variables: Sequence[cp.Variable], arrays: Arrays) -> dict[str, Any]:
    """Return the tree of an expression over `variables`; its constants are added to `arrays`."""
    if isinstance(expression, cp.Variable):
        return {"variable": [v.id for v in variables].index(expression.id)}
    if isinstance(expression, cp.Constant):
        return {"constant": _write(expression.value, variables, arrays)}
    if not isinstance(expression, Atom):
        raise TypeError(f"{type(expression).__name__} cannot be stored")
    return {
        "atom": _name(type(expression)),
        "arguments": [write_tree(argument, variables, arrays) for argument in expression.args],
        "data": _write(expression.get_data(), variables, arrays),
    }


def read_tree(tree: dict[str, Any], variables: Sequence[cp.Variable], arrays: Arrays) -> cp.Expression:
    """Read the expression of a tree; `ValueError` or `TypeError` where it is not one."""
    if "variable" in tree:
        return variables[tree["variable"]]
    if "constant" in tree:
        return cp.Constant(_read(tree["constant"], variables, arrays))
    kinds = {_name(kind): kind for kind in _list_kinds(Atom)}
    if tree["atom"] not in kinds:
        raise ValueError(f"this version of CVXPY has no atom {tree['atom']!r}")
    kind = kinds[tree["atom"]]
    arguments = [read_tree(argument, variables, arrays) for argument in tree["arguments"]]
    if kind is cp.AddExpression:
        return cp.AddExpression(arguments)
    expression = kind(*arguments, *(_read(tree["data"], variables, arrays) or []))
    return rebuild_exactly(expression, expression.args)  # a file may name an approximation, too


def write_functions(functions: Functions, arrays: Arrays) -> dict[str, Any]:
    """Return functions without parameters as plain data; their constants are added to `arrays`."""
    variables = (*functions.images, *functions.auxiliary)
    return {
        "images": [list(v.shape) for v in functions.images],
        "auxiliary": [list(v.shape) for v in functions.auxiliary],
        "objective": write_tree(functions.objective, variables, arrays),
        "sides": [[write_tree(side, variables, arrays) for side in sides] for sides in functions.sides],
        "equality": list(functions.equality),
    }


def read_functions(data: dict[str, Any], arrays: Arrays) -> Functions:
    """Read the functions that `write_functions` wrote."""
    images = tuple(cp.Variable(tuple(shape)) for shape in data["images"])
    auxiliary = tuple(cp.Variable(tuple(shape)) for shape in data["auxiliary"])
    variables = (*images, *auxiliary)

    def side(tree: dict[str, Any]) -> cp.Expression:
        return read_tree(tree, variables, arrays)

    return Functions(
        objective=read_tree(data["objective"], variables, arrays),
        sides=tuple((side(left), side(right)) for left, right in data["sides"]),
        equality=tuple(equal is True for equal in data["equality"]),
        images=images,
        auxiliary=auxiliary,
    )


def _list_kinds(kind: type) -> Iterator[type]:
    for child in kind.__subclasses__():
        if child.__module__.startswith("cvxpy."):
            yield child
            yield from _list_kinds(child)


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _write(value: object, variables: Sequence[cp.Variable], arrays: Arrays) -> object:
    """Encode an atom's data or an expression as JSON values, arrays by their names."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, list | tuple):
        return {type(value).__name__: [_write(item, variables, arrays) for item in value]}
    if isinstance(value, slice):
        return {"slice": [_write(item, variables, arrays) for item in (value.start, value.stop, value.step)]}
    if isinstance(value, Fraction):
        return {"fraction": [value.numerator, value.denominator]}
    if isinstance(value, cp.Expression):
        return {"expression": write_tree(value, variables, arrays)}
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return {"number": float(value).hex()}
    name = f"constant_{len(arrays)}"
    if sp.issparse(value):
        matrix = sp.coo_array(value)
        rows, columns = matrix.shape or (0, 0)
        arrays[name] = np.stack([matrix.row, matrix.col])
        arrays[f"{name}_values"] = matrix.data.astype(np.float64)
        return {"sparse": name, "shape": [int(rows), int(columns)]}
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf":
        raise TypeError(f"{type(value).__name__} cannot be stored")
    arrays[name] = value
    return {"array": name}


def _read(value: Any, variables: Sequence[cp.Variable], arrays: Arrays) -> Any:  # noqa: ANN401 - data of any atom
    """Restore data or an expression from JSON values."""
    if not isinstance(value, dict):
        return value
    if "list" in value or "tuple" in value:
        items = [_read(item, variables, arrays) for item in value["list" if "list" in value else "tuple"]]
        return items if "list" in value else tuple(items)
    if "slice" in value:
        return slice(*(_read(item, variables, arrays) for item in value["slice"]))
    if "fraction" in value:
        return Fraction(*value["fraction"])
    if "expression" in value:
        return read_tree(value["expression"], variables, arrays)
    if "number" in value:
        return float.fromhex(value["number"])
    if "sparse" in value:
        row, column = arrays[value["sparse"]]
        return sp.csc_array((arrays[f"{value['sparse']}_values"], (row, column)), shape=tuple(value["shape"]))
    return arrays[value["array"]]
