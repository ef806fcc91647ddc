"""`forerun split decouple`: a network whose groups need each other less, to be trained."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from forerun.cli.common import Json, print_json, results, shown, table, working
from forerun.cli.split_common import need
from forerun.errors import InputError
from forerun.quantities import amount, large, number

_MODULE = re.compile(r"(?P<module>.+):(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)")
_SHAPE = re.compile(r"[0-9]{1,6}(?:x[0-9]{1,6}){3}", re.ASCII)


def decouple(
    source: Annotated[
        str,
        typer.Argument(
            metavar="NETWORK",
            help="resnet-50 and others by name, or a PyTorch module: file.py:name or "
            "package.module:name.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="FILE.onnx", help="Where it is written.", show_default=False
        ),
    ],
    groups: Annotated[
        int, typer.Option(metavar="G", min=2, help="Groups of channels: as many as devices.")
    ] = 4,
    width: Annotated[
        float, typer.Option(metavar="TIMES", help="How many times as many channels.")
    ] = 1.75,
    shuffles: Annotated[
        str,
        typer.Option(
            metavar="WHERE",
            help="Where groups exchange channels: stages, blocks, none, or modules by name: a,b.",
        ),
    ] = "stages",
    shape: Annotated[
        str | None,
        typer.Option(
            "--input",
            metavar="SHAPE",
            help="Of a module's input: 1x3x224x224.",
            show_default="the network's own, or 1x3x224x224",
        ),
    ] = None,
    classes: Annotated[
        int | None,
        typer.Option(metavar="N", help="Of a network by name.", show_default="as published"),
    ] = None,
    json: Json = False,
) -> None:
    """Decouple a network (DeCNN): grouped, shuffled between stages, and widened.

    Devices that hold a group each exchange data at the shuffles alone. It is another network, with
    fresh weights: train it first (`python -m forerun.splitting.train` does, for networks by name),
    then cut what that exports. A module is imported, so its code runs.
    """
    need("torch", "onnxscript", "safetensors")
    if output.suffix != ".onnx":
        raise InputError("--output", output, "a name that ends in .onnx")
    dims = _dims(shape)
    with working(f"decoupling {source}"):
        dense, module = _networks(source, groups, width, shuffles, dims, classes)
        found = {"dense": _counted(dense), "decoupled": _counted(module)}
        from forerun.splitting.export import to_onnx

        to_onnx(module, output)
    document = {
        "source": source,
        "output": str(output),
        "groups": groups,
        "width": width,
        "shuffles": shuffles,
        **found,
    }
    if json:
        print_json(document)
    else:
        _print(document)


def _networks(
    source: str,
    groups: int,
    width: float,
    shuffles: str,
    dims: tuple[int, ...] | None,
    classes: int | None,
) -> tuple[Any, Any]:
    """The dense network, and the one in groups."""
    from forerun.splitting.decouple import decouple as decoupled
    from forerun.splitting.networks import build

    where: Any = shuffles.split(",") if shuffles not in ("stages", "blocks", "none") else shuffles
    found = _MODULE.fullmatch(source)
    if found is None:
        if dims is not None:
            raise InputError("--input", "x".join(map(str, dims)), "none: networks by name have one")
        dense = build(source, classes)
    else:
        from forerun.describing.torch_module import module_of

        if classes is not None:
            raise InputError("--classes", classes, "none: a module has its own")
        dense = module_of(found["module"], found["name"])
        dense.input_shape = dims or getattr(dense, "input_shape", (1, 3, 224, 224))
    module = decoupled(dense, groups, width, where, _example(dense))
    module.input_shape = dense.input_shape
    return dense, module


def _example(module: Any) -> Any:
    """An input of the network's shape, in whatever its weights are in."""
    weights = next(iter(module.parameters()), None)
    return None if weights is None else weights.new_zeros(module.input_shape)


def _dims(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    found = tuple(map(int, text.split("x"))) if _SHAPE.fullmatch(text) else ()
    if not found or found[0] != 1 or min(found) < 1:
        raise InputError("--input", text, "one sample, its channels, rows, columns: 1x3x224x224")
    return found


def _counted(module: Any) -> dict[str, int]:
    from forerun.splitting.networks import count

    found = count(module)
    shuffles = sum(type(one).__name__ == "Shuffle" for one in module.modules())
    return {"macs": found.macs, "parameters": found.parameters, "shuffles": shuffles}


def _print(document: Mapping[str, Any]) -> None:
    to = results()
    columns = ("MACs", "parameters", "weights", "shuffles")
    made = table("network", *columns, numeric=columns)
    times = f"decoupled, {document['groups']} groups, x{number(document['width'])}"
    for name, key in (("dense", "dense"), (times, "decoupled")):
        one = document[key]
        stored = amount(4 * one["parameters"], "bytes")
        cells = (large(one["macs"]), large(one["parameters"]), stored, str(one["shuffles"]))
        made.add_row(name, *cells)
    to.print(made)
    to.print(f"written to {shown(document['output'])}; it is to be trained yet", soft_wrap=True)
