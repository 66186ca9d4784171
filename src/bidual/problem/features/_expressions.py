"""Signals as text: a few operations on observation, control and next observation, which a file can store.

Text is parsed to a tree, every node of which is one of those listed here, and the tree is evaluated with `jax.numpy`.
Nothing of a text is executed, so that it may come from a file of strangers.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from bidual._base.errors import ModelError
from bidual._base.spelling import list_possible

Values = Mapping[str, Any]
Node = Callable[[Values], Any]

_MOST = 2000  # characters of a text
_DEEPEST = 40  # operations within each other
_VARIABLES = ("obs", "control", "next_obs")
_NUMBERS = {"pi": 3.141592653589793}
_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    **{ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv},
    **{ast.Pow: operator.pow, ast.MatMult: operator.matmul},
    **{ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge},
}
_SIGNS: dict[type, Callable[[Any], Any]] = {ast.USub: operator.neg, ast.UAdd: operator.pos}
# Functions, and how many arguments they take.
_FUNCTIONS: dict[str, tuple[Callable[..., Any], int]] = {
    **{name: (getattr(jnp, name), 1) for name in ("sin", "cos", "tan", "tanh", "exp", "log", "sqrt", "abs", "sign")},
    **{name: (getattr(jnp, name), 1) for name in ("sum", "max", "min", "mean")},
    **{name: (getattr(jnp, name), 2) for name in ("arctan2", "minimum", "maximum")},
    **{"where": (jnp.where, 3), "norm": (jnp.linalg.norm, 1)},
}


@lru_cache(maxsize=256)
def read_expression(text: str) -> Callable[[Array, Array, Array], Array]:
    """Return the function of (obs, control, next_obs) that a text describes; raise `ModelError` for any other text."""
    if len(text) > _MOST:
        raise ModelError(f"a signal given as text has at most {_MOST} characters; got {len(text)}: give a function")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        node = _build(tree.body, text, _DEEPEST)
    except (SyntaxError, ValueError, ArithmeticError, MemoryError, RecursionError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(
            f"the signal {text!r:.80} is no expression ({error}): write it as 'cos(next_obs[2])'"
        ) from None

    def evaluate(obs: Array, control: Array, next_obs: Array) -> Array:
        try:
            return jnp.asarray(node({"obs": obs, "control": control, "next_obs": next_obs}), next_obs.dtype)
        except (TypeError, ValueError, IndexError, ArithmeticError) as error:
            sizes = ", ".join(
                f"{name} {len(one)}" for name, one in zip(_VARIABLES, (obs, control, next_obs), strict=True)
            )
            raise ModelError(f"the signal {text!r:.200} fails on numbers of {sizes}: {error}. Correct it") from None

    return evaluate


def _build(node: ast.AST, text: str, room: int) -> Node:
    """Return a node of the tree as a function of the variables; `room` is how much deeper it may be."""
    if not room:
        raise ModelError(f"the signal {text!r:.80} has more than {_DEEPEST} operations within each other")
    match node:
        case ast.Constant(value=(int() | float()) as value) if type(value) is not bool:
            number = float(value)  # powers of whole numbers could take all memory
            return lambda _: number
        case ast.Name(id=name) if name in _VARIABLES:
            return lambda values: values[name]
        case ast.Name(id=name) if name in _NUMBERS:
            return lambda _: _NUMBERS[name]
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=power)) if type(power) is int:
            base, exponent = _build(left, text, room - 1), min(power, _MOST)
            return lambda values: base(values) ** exponent
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _pair(_OPERATORS[type(op)], _build(left, text, room - 1), _build(right, text, room - 1))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _OPERATORS:
            return _pair(_OPERATORS[type(op)], _build(left, text, room - 1), _build(right, text, room - 1))
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _SIGNS:
            sign, inner = _SIGNS[type(op)], _build(operand, text, room - 1)
            return lambda values: sign(inner(values))
        case ast.Subscript(value=value, slice=place):
            inner, index = _build(value, text, room - 1), _read_place(place, text)
            return lambda values: _take(inner(values), index)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            return _build_call(name, [_build(one, text, room - 1) for one in arguments], text)
        case ast.Name(id=name):
            raise ModelError(f"the signal {text!r:.80} names {name!r}{list_possible(name, (*_VARIABLES, *_NUMBERS))}")
    raise ModelError(
        f"the signal {text!r:.80} has a part that text cannot hold ({ast.unparse(node):.40}): it is made of "
        f"{', '.join(_VARIABLES)}, numbers, + - * / ** @, comparisons, indices and {', '.join(_FUNCTIONS)}; else give "
        "a function written in JAX"
    )


def _pair(function: Callable[[Any, Any], Any], left: Node, right: Node) -> Node:
    return lambda values: function(left(values), right(values))


def _build_call(name: str, arguments: list[Node], text: str) -> Node:
    if name not in _FUNCTIONS:
        raise ModelError(f"the signal {text!r:.80} calls {name!r}{list_possible(name, _FUNCTIONS)}")
    function, count = _FUNCTIONS[name]
    if len(arguments) != count:
        wants = f"{count} argument{'s' if count > 1 else ''}"
        raise ModelError(f"the signal {text!r:.80}: {name} wants {wants}; got {len(arguments)}")
    return lambda values: function(*(argument(values) for argument in arguments))


def _read_place(place: ast.AST, text: str) -> int | slice:
    """Read an index, or a range of them."""
    if isinstance(place, ast.Slice):
        ends = (None if one is None else _read_whole(one, text) for one in (place.lower, place.upper, place.step))
        return slice(*ends)
    return _read_whole(place, text)


def _read_whole(node: ast.AST, text: str) -> int:
    negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    number = node.operand if isinstance(node, ast.UnaryOp) and negative else node
    if not (isinstance(number, ast.Constant) and type(number.value) is int):
        raise ModelError(f"the signal {text!r:.80} has the index {ast.unparse(node):.40}: give a whole number, obs[2]")
    return -number.value if negative else number.value


def _take(array: Any, index: int | slice) -> Any:  # noqa: ANN401 - an array or, wrongly, a number
    """Take an entry; JAX would clip an index that does not exist to one that does."""
    size = len(array)
    if isinstance(index, int) and not -size <= index < size:
        raise IndexError(f"there is no entry {index} among {size}")
    return array[index]
