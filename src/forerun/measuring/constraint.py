"""Which points may be run: an expression over the factors, such as `image >= kernel`.

The text is read as Python but never run as Python: it is turned into nested functions, one for
each kind of node that is listed here. Nothing else can be said in it.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from forerun._values import Value, printable
from forerun.errors import InputError
from forerun.factors import Space

_Item = Value | tuple["_Item", ...]
_Values = Mapping[str, Value]
_Evaluate = Callable[[_Values], _Item]

_LONGEST = 1000  # characters of a constraint
_DEEPEST = 50  # expressions within expressions
_LARGEST = 2.0**53  # beyond, floats no longer tell whole numbers apart
_ALLOWED = (
    "comparisons, arithmetic (+ - * / // % **), and, or, not, in, min, max and abs of factors, "
    "numbers and texts"
)
_ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    # Of floats: a power that no float holds is refused at once, where whole numbers would grow.
    ast.Pow: lambda base, exponent: _real(float(base) ** float(exponent)),
}
_COMPARED: dict[type[ast.cmpop], Callable[[Value, Value], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_FUNCTIONS: dict[str, Callable[..., float]] = {"min": min, "max": max, "abs": abs}
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`([^`]*)`")


@dataclass(frozen=True)
class Constraint:
    """An expression that says of each point whether it may be run.

    A name that is not a plain word stands in backquotes: `learning-rate` < 0.1 is written
    "`learning-rate` < 0.1". A yes-or-no factor is compared with True and False.
    """

    text: str

    @classmethod
    def parse(cls, text: str) -> Constraint:
        """The constraint of a text as typed; InputError for anything that it may not say."""
        printable("constraint", text, InputError)
        constraint = cls(text)
        _ = constraint._compiled
        return constraint

    @cached_property
    def _compiled(self) -> tuple[_Evaluate, frozenset[str]]:
        return _Reader(self.text).read()

    @property
    def names(self) -> frozenset[str]:
        """The factors that it speaks of."""
        return self._compiled[1]

    def allows(self, point: _Values) -> bool:
        """Whether the point may be run; InputError where that cannot be computed."""
        try:
            return bool(self._compiled[0](point))
        except KeyError as error:
            raise InputError(f"constraint {self.text}", f"no {error.args[0]}", "a factor") from None
        except (ZeroDivisionError, OverflowError) as error:
            found = f"{error} at {', '.join(f'{name} {point[name]}' for name in self.names)}"
            raise InputError(f"constraint {self.text}", found, "a finite number") from None

    def check(self, space: Space) -> None:
        """InputError unless all its names are factors, and texts are compared with texts alone."""
        for name in sorted(self.names):
            if name not in space:
                expected = f"one of {', '.join(space)}"
                raise InputError(f"constraint {self.text}", name, expected)
        if all(space[name].values for name in self.names):
            self.allows({name: space[name].values[0] for name in self.names})


class _Reader:
    """Turns one text into a function, and collects the names in it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.names: set[str] = set()
        self._odd_names: dict[str, str] = {}  # what stands for a name in backquotes

    def read(self) -> tuple[_Evaluate, frozenset[str]]:
        if len(self.text) > _LONGEST:
            raise InputError("constraint", f"{len(self.text)} characters", f"up to {_LONGEST}")
        try:
            plain = _QUOTED.sub(self._stand_in, self.text).strip()
            with warnings.catch_warnings():
                warnings.simplefilter("error", SyntaxWarning)
                warnings.simplefilter("error", DeprecationWarning)
                tree = ast.parse(plain, mode="eval").body
        except (SyntaxError, ValueError, MemoryError, RecursionError, Warning):
            raise InputError("constraint", self.text, "an expression such as a >= b") from None
        is_question = isinstance(tree, ast.Compare | ast.BoolOp) or (
            isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not)
        )
        if not is_question:
            raise InputError("constraint", self.text, "a comparison, such as a >= b")
        return self._node(tree), frozenset(self.names)

    def _stand_in(self, match: re.Match[str]) -> str:
        name = match.group(1)
        if name is None:
            return match.group()
        stand_in = f"_odd_name_{len(self._odd_names)}"
        self._odd_names[stand_in] = name
        return stand_in

    def _refused(self, node: ast.AST) -> InputError:
        part = type(node).__name__
        if isinstance(node, ast.expr):
            with suppress(RecursionError):  # deeper than it can be written out again
                part = ast.unparse(node)
        return InputError(f"constraint {self.text}", part, _ALLOWED)

    def _node(self, node: ast.expr, depth: int = 0) -> _Evaluate:
        if depth > _DEEPEST:
            raise InputError("constraint", self.text, f"at most {_DEEPEST} brackets in brackets")
        match node:
            case ast.BoolOp():
                return self._both(node, depth)
            case ast.Compare():
                return self._compare(node, depth)
            case ast.UnaryOp(op=ast.Not()):
                asked = self._node(node.operand, depth + 1)
                return lambda values: not asked(values)
            case ast.UnaryOp(op=ast.USub()):
                number = self._node(node.operand, depth + 1)
                return lambda values: -self._number(number(values))
            case ast.BinOp():
                return self._arithmetic(node, depth)
            case ast.Call():
                return self._call(node, depth)
            case ast.Tuple() | ast.List() | ast.Set():
                items = [self._node(item, depth + 1) for item in node.elts]
                return lambda values: tuple(item(values) for item in items)
            case ast.Name():
                return self._name(node.id)
            case ast.Constant():
                return self._constant(node)
        raise self._refused(node)

    def _name(self, written: str) -> _Evaluate:
        name = self._odd_names.get(written, written)
        self.names.add(name)
        return lambda values: values[name]

    def _constant(self, node: ast.Constant) -> _Evaluate:
        value = node.value
        if isinstance(value, bool):
            text = "true" if value else "false"  # as factors have them
            return lambda _: text
        if isinstance(value, str):
            return lambda _: value
        if isinstance(value, int | float) and abs(value) <= _LARGEST:
            return lambda _: value
        raise self._refused(node)

    def _both(self, node: ast.BoolOp, depth: int) -> _Evaluate:
        parts = [self._node(part, depth + 1) for part in node.values]
        if isinstance(node.op, ast.And):
            return lambda values: all(part(values) for part in parts)
        return lambda values: any(part(values) for part in parts)

    def _arithmetic(self, node: ast.BinOp, depth: int) -> _Evaluate:
        if type(node.op) not in _ARITHMETIC:
            raise self._refused(node)
        compute = _ARITHMETIC[type(node.op)]
        left, right = self._node(node.left, depth + 1), self._node(node.right, depth + 1)
        return lambda values: compute(self._number(left(values)), self._number(right(values)))

    def _call(self, node: ast.Call, depth: int) -> _Evaluate:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        fits = len(node.args) == 1 if name == "abs" else len(node.args) > 1
        if name not in _FUNCTIONS or node.keywords or not fits:
            raise self._refused(node)
        compute, parts = _FUNCTIONS[name], [self._node(part, depth + 1) for part in node.args]
        return lambda values: compute(*(self._number(part(values)) for part in parts))

    def _compare(self, node: ast.Compare, depth: int) -> _Evaluate:
        terms = [self._node(part, depth + 1) for part in (node.left, *node.comparators)]
        steps = [self._step(op) for op in node.ops]
        pairs = list(zip(steps, terms, terms[1:], strict=False))
        return lambda values: all(step(left(values), right(values)) for step, left, right in pairs)

    def _step(self, op: ast.cmpop) -> Callable[[_Item, _Item], bool]:
        if isinstance(op, ast.In):
            return self._within
        if isinstance(op, ast.NotIn):
            return lambda left, right: not self._within(left, right)
        if type(op) not in _COMPARED:
            raise self._refused(op)
        compare = _COMPARED[type(op)]

        def step(left: _Item, right: _Item) -> bool:
            if isinstance(left, tuple) or isinstance(right, tuple):
                raise InputError(f"constraint {self.text}", "a list", "one value to compare with")
            if isinstance(left, str) != isinstance(right, str):
                found = f"a text compared with a number ({left}, {right})"
                raise InputError(f"constraint {self.text}", found, "values of one kind")
            return compare(left, right)

        return step

    def _within(self, left: _Item, right: _Item) -> bool:
        if not isinstance(right, tuple):
            raise InputError(f"constraint {self.text}", right, "a list after in, such as (1, 2)")
        return left in right

    def _number(self, value: _Item) -> float:
        if isinstance(value, str | tuple):
            raise InputError(f"constraint {self.text}", value, "a number to compute with")
        return value


def _real(value: float | complex) -> float:
    """The value itself; OverflowError if it is no finite real number."""
    if isinstance(value, complex) or not math.isfinite(value):
        raise OverflowError("not a finite number")
    return value
