"""Metric math, as far as alarms here use it: numbers, arithmetic, comparisons, FILL and IF. Pure.

A further function is a line of _FUNCTIONS.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence

from slipway.yard.services.cloudwatch.evaluation import Datapoint

Series = Sequence[Datapoint]


class UnknownExpression(Exception):
    """The yard cannot compute this expression."""


def compute(expression: str, series: Mapping[str, Series], length: int) -> list[Datapoint]:
    """Return the expression's value for every period, None where it has none."""
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
    except SyntaxError as error:
        raise UnknownExpression(expression) from error
    return list(_value(tree, series, length))


def _value(node: ast.expr, series: Mapping[str, Series], length: int) -> Series:
    match node:
        case ast.Constant(value=int() | float() as number):
            return [float(number)] * length
        case ast.Name(id=name) if name in series:
            return series[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _each(_OPERATORS[type(op)], _value(left, series, length), _value(right, series, length))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _OPERATORS:
            return _each(_OPERATORS[type(op)], _value(left, series, length), _value(right, series, length))
        case ast.Call(func=ast.Name(id=name), args=args) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*[_value(arg, series, length) for arg in args])
    raise UnknownExpression(ast.unparse(node))


def _each(op: Callable[[float, float], float], left: Series, right: Series) -> Series:
    pairs = zip(left, right, strict=True)
    return [None if a is None or b is None else float(op(a, b)) for a, b in pairs]


def _fill(values: Series, default: Series) -> Series:
    """Fill gaps; a metric without any datapoint in the range stays without."""
    if all(value is None for value in values):
        return values
    return [other if value is None else value for value, other in zip(values, default, strict=True)]


def _if(condition: Series, then: Series, otherwise: Series) -> Series:
    triples = zip(condition, then, otherwise, strict=True)
    return [None if test is None else (yes if test else no) for test, yes, no in triples]


_OPERATORS: Mapping[type[ast.AST], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda a, b: a / b if b else 0.0,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
}
_FUNCTIONS: Mapping[str, Callable[..., Series]] = {"FILL": _fill, "IF": _if}
