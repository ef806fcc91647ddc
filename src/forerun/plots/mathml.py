"""A formula as MathML, which browsers set themselves: read from its Python form, never executed."""

from __future__ import annotations

import ast
from html import escape

from forerun.quantities import number

_SIGNS = {ast.Add: "+", ast.Sub: "−"}
_LISTED = 6  # levels of a category that are listed inside the formula
_TIGHT, _LOOSE = 2, 1  # how strongly a node binds: a product, a sum


def mathml(python: str, target: str) -> str:
    """`target = …` in MathML, a row of a grid for each term; empty if the text is no formula."""
    try:
        expression = _expression(ast.parse(python))
        terms = [(sign, _node(term)) for sign, term in _terms(expression)]
    except (SyntaxError, ValueError, RecursionError):
        return ""
    first = [_math(_name(target)), _math(_sign("=" if terms[0][0] == "+" else "=−"))]
    cells = [*first, _math(terms[0][1])]
    for sign, term in terms[1:]:
        cells += ["<span></span>", _math(_sign(sign)), _math(term)]
    return "".join(cells)


def _expression(module: ast.Module) -> ast.expr:
    """The last thing that the text computes: an expression, an assignment or a return."""
    for node in reversed(list(ast.walk(module))):
        if isinstance(node, ast.Return | ast.Assign | ast.Expr) and node.value is not None:
            if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                continue  # a docstring
            return node.value
    raise ValueError("no expression")


def _terms(node: ast.expr, sign: str = "+") -> list[tuple[str, ast.expr]]:
    """The terms of a sum with their signs."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _terms(node.left, sign) + _terms(node.right, sign)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and sign == "+":
        return [*_terms(node.left), ("−", node.right)]
    return [(sign, node)]


def _node(node: ast.expr, binding: int = 0) -> str:
    """One node; in brackets where it binds less than its surroundings."""
    match node:
        case ast.Constant(value=bool() | None | bytes()):
            raise ValueError("not a number")
        case ast.Constant(value=int() | float() as value):
            return _number(float(value))
        case ast.Constant(value=value):
            return _name(str(value))
        case ast.Name(id=name):
            return _name(name)
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            parts = _terms(node)
            made = "".join(
                ("" if place == 0 and sign == "+" else _sign(sign)) + _node(term, _LOOSE)
                for place, (sign, term) in enumerate(parts)
            )
            return _bracketed(made) if binding >= _LOOSE else f"<mrow>{made}</mrow>"
        case ast.BinOp(op=ast.Mult() | ast.Div()):
            return _product(node)
        case ast.BinOp(left=base, op=ast.Pow(), right=exponent):
            return _power(base, exponent)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return f"<mrow>{_sign('−')}{_node(inner, _TIGHT)}</mrow>"
        case ast.Subscript():
            return _subscript(node)
        case ast.Call(func=function, args=arguments):
            name = function.attr if isinstance(function, ast.Attribute) else ast.unparse(function)
            listed = "<mo>,</mo>".join(_node(argument) for argument in arguments)
            return f"<mrow>{_name(name)}{_bracketed(listed)}</mrow>"
    raise ValueError(f"no MathML for {type(node).__name__}")


def _product(node: ast.expr) -> str:
    """Factors side by side; those divided by, or with a negative exponent, below a line."""
    above, below = _factors(node)
    top = _side_by_side(above)
    return f"<mfrac>{top}{_side_by_side(below)}</mfrac>" if below else top


def _factors(node: ast.expr) -> tuple[list[ast.expr], list[ast.expr]]:
    """What is multiplied, and what is divided by."""
    match node:
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div() as operator, right=right):
            (above, below), (more, less) = _factors(left), _factors(right)
            if isinstance(operator, ast.Div):
                more, less = less, more
            return above + more, below + less
        case ast.BinOp(left=base, op=ast.Pow(), right=ast.UnaryOp(op=ast.USub(), operand=exponent)):
            return [], [ast.BinOp(base, ast.Pow(), exponent)]
    return [node], []


def _side_by_side(nodes: list[ast.expr]) -> str:
    if not nodes:
        return "<mn>1</mn>"
    numbers_first = sorted(nodes, key=lambda n: not isinstance(n, ast.Constant))
    gap = '<mspace width="0.25em"/>'
    return f"<mrow>{gap.join(_node(n, _TIGHT) for n in numbers_first)}</mrow>"


def _power(base: ast.expr, exponent: ast.expr) -> str:
    if isinstance(exponent, ast.Constant) and exponent.value == 1:
        return _node(base, _TIGHT)
    simple = isinstance(base, ast.Name | ast.Constant | ast.Subscript)
    inner = _node(base, _TIGHT) if simple else _bracketed(_node(base))
    return f"<msup>{inner}{_node(exponent)}</msup>"


def _subscript(node: ast.Subscript) -> str:
    """`x["name"]` is the column `name`; a table of levels is a constant of its factor."""
    if isinstance(node.value, ast.Dict):
        return _levels(node.value, node.slice)
    if isinstance(node.slice, ast.Constant):
        return _node(node.slice)
    return f"<msub>{_node(node.value)}{_node(node.slice)}</msub>"


def _levels(levels: ast.Dict, factor: ast.expr) -> str:
    """A brace with each level's constant, or a symbol where that would be a long list."""
    if len(levels.keys) > _LISTED or None in levels.keys:
        return f"<msub><mi>c</mi>{_node(factor)}</msub>"
    rows = "".join(
        f"<mtr><mtd>{_node(value)}</mtd><mtd>{_node(key)}</mtd></mtr>"
        for key, value in zip(levels.keys, levels.values, strict=True)
        if key is not None
    )
    return f'<mrow><mo stretchy="true">{{</mo><mtable>{rows}</mtable></mrow>'


def _number(value: float) -> str:
    mantissa, _, exponent = number(value).partition("e")
    if not exponent:
        return f"<mn>{mantissa}</mn>"
    power = f"<msup><mn>10</mn><mn>{int(exponent)}</mn></msup>"
    return f"<mrow><mn>{mantissa}</mn><mo>×</mo>{power}</mrow>"


def _name(text: str) -> str:
    return f'<mi mathvariant="normal">{escape(text)}</mi>'


def _math(inner: str) -> str:
    return f'<math displaystyle="true">{inner}</math>'


def _sign(sign: str) -> str:
    return f"<mo>{sign}</mo>"


def _bracketed(inner: str) -> str:
    return f"<mrow><mo>(</mo>{inner}<mo>)</mo></mrow>"
