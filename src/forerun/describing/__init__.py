"""What a network asks of a machine, read from an ONNX file or a PyTorch module.

Multiply-accumulates, parameters and activation bytes of one forward pass are intrinsic factors that
say more of a network than its name, and nobody has to touch its code for them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from forerun.describing.description import Description, OperatorTotal, Shape
from forerun.errors import InputError

__all__ = ["Description", "OperatorTotal", "Shape", "describe"]

_LARGEST = 2**31 - 1  # size of a dimension
_MODULE = re.compile(r"(?P<module>.+):(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)")


def describe(
    source: str,
    inputs: Mapping[str, Shape] | None = None,
    batch: int | None = None,
    types: Mapping[str, str] | None = None,
) -> Description:
    """Describe `model.onnx`, or a PyTorch module `file.py:name` or `package.module:name`.

    `inputs` gives the shapes of inputs that the source leaves open, by name, and `batch` the first
    size of all of them; `types` names what a module's inputs hold where that is not float32, such
    as int64. A module is imported, so its code runs; an ONNX file is only read.
    """
    inputs, types = inputs or {}, types or {}
    _check(inputs, batch, types)
    found = _MODULE.fullmatch(source)
    if found is None or _exists(source):
        from forerun.describing.onnx_file import describe_file

        for name, kind in types.items():
            raise InputError(f"input {name}", kind, "no type: an ONNX file says it itself")
        return describe_file(Path(source), inputs, batch)
    from forerun.describing.torch_module import describe_module

    return describe_module(found["module"], found["name"], inputs, batch, types)


def _exists(source: str) -> bool:
    with suppress(OSError):  # a module's name may be longer than a file's can be
        return Path(source).exists()
    return False


def _check(inputs: Mapping[str, Shape], batch: int | None, types: Mapping[str, str]) -> None:
    if batch is not None and not 1 <= batch <= _LARGEST:
        raise InputError("batch", batch, f"a whole number from 1 to {_LARGEST}")
    for name, shape in inputs.items():
        if not shape:
            raise InputError(f"input {name}", "no sizes", "a shape, such as 1x3x224x224")
        if any(not 1 <= size <= _LARGEST for size in shape):
            raise InputError(f"input {name}", as_text(shape), f"sizes from 1 to {_LARGEST}")
    for name in types:
        if name not in inputs:
            raise InputError("type of an input", name, f"one of {', '.join(inputs) or 'none'}")


def as_text(shape: Shape) -> str:
    """A shape as it is typed: `1x3x224x224`."""
    return "x".join(map(str, shape))
