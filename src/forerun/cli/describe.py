"""`forerun describe`: what a network asks of a machine, as intrinsic factors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forerun.cli.common import Json, print_json, results, shown, table, warn
from forerun.errors import InputError
from forerun.quantities import amount, percent

if TYPE_CHECKING:
    from forerun.describing import Description, Shape

_INPUT = re.compile(
    r"(?P<name>[^=]+)=(?P<sizes>[0-9]{1,9}(?:x[0-9]{1,9})*)(?::(?P<type>[a-z]\w*))?", re.ASCII
)
_ROWS = 12  # operators in the table


def describe(
    source: Annotated[
        str,
        typer.Argument(
            metavar="NETWORK",
            help="An ONNX file, or a PyTorch module: file.py:name or package.module:name.",
            show_default=False,
        ),
    ],
    input_: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="NAME=SHAPE",
            help="The shape of an input, x=1x3x224x224; a module's in the order of its arguments, "
            "with what it holds unless that is float32: x=1x64:int64.",
            show_default=False,
        ),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(metavar="N", help="The first size of all inputs.", show_default=False),
    ] = None,
    factors: Annotated[
        bool,
        typer.Option(
            "--factors", metavar="", help="Print only the figures, as `-f NAME=VALUE` to paste."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Describe a network: multiply-accumulates, parameters, activation bytes of a forward pass.

    They are intrinsic factors, found without touching the code. An ONNX file is only read (it
    needs `pip install 'forerun[onnx]'`); a module is imported, so its code runs.
    """
    from forerun.describing import describe as described

    shapes, types = _inputs(input_ or [])
    found = described(source, shapes, batch, types)
    for line in found.notes:
        warn(line)
    if json:
        print_json(_document(found))
    elif factors:
        words = " ".join(f"-f {name}={value}" for name, value in found.factors.items())
        results().print(words, soft_wrap=True)
    else:
        _print(found)


def _inputs(texts: list[str]) -> tuple[dict[str, Shape], dict[str, str]]:
    """The shape of each input, and the types that are given."""
    shapes: dict[str, Shape] = {}
    types: dict[str, str] = {}
    for text in texts:
        found = _INPUT.fullmatch(text)
        if found is None:
            expected = "NAME=SHAPE, such as x=1x3x224x224 or x=1x64:int64"
            raise InputError("--input", text, expected)
        name = found["name"]
        if name in shapes:
            raise InputError("--input", f"{name} twice", "each input once")
        shapes[name] = tuple(map(int, found["sizes"].split("x")))
        if found["type"]:
            types[name] = found["type"]
    return shapes, types


def _document(found: Description) -> dict[str, Any]:
    return {
        "source": found.source,
        **found.factors,
        "parameter_bytes": found.parameter_bytes,
        "inputs": {name: list(shape) for name, shape in found.inputs.items()},
        "operators": [
            {
                "operator": one.operator,
                "layers": one.layers,
                "macs": one.macs,
                "activation_bytes": one.activation_bytes,
            }
            for one in found.operators
        ],
        "notes": list(found.notes),
    }


def _print(found: Description) -> None:
    from forerun.describing import as_text

    to = results()
    fed = ", ".join(f"{name} {as_text(shape)}" for name, shape in found.inputs.items())
    to.print(f"{shown(found.source)}: one forward pass of {shown(fed)}", soft_wrap=True)
    to.print(f"multiply-accumulates  {found.macs:,}")
    stored = amount(found.parameter_bytes, "memory_bytes")
    to.print(f"parameters            {found.parameters:,} ({stored})")
    to.print(f"activations           {amount(found.activation_bytes, 'memory_bytes')}")
    columns = ("layers", "multiply-accumulates", "share", "activations")
    made = table("operator", *columns, numeric=columns)
    counted = [one for one in found.operators if one.macs or one.activation_bytes]
    for one in counted[:_ROWS]:
        made.add_row(
            shown(one.operator),
            str(one.layers),
            f"{one.macs:,}",
            percent(one.macs / found.macs) if found.macs else "–",
            amount(one.activation_bytes, "memory_bytes"),
        )
    to.print(made)
    if len(counted) > _ROWS:
        to.print(f"and {len(counted) - _ROWS} more operators with less")
