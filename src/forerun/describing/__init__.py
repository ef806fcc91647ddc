"""What a network asks of a machine, read from an ONNX file or a PyTorch module.

Multiply-accumulates, parameters and activation bytes of one forward pass are intrinsic factors that
say more of a network than its name, and nobody has to touch its code for them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from forerun.describing.description import Description, OperatorTotal, Shape
from forerun.errors import InputError

__all__ = ["Description", "OperatorTotal", "Shape", "describe"]

_MODULE = re.compile(r"(?P<module>.+):(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)")


def describe(
    source: str, inputs: Mapping[str, Shape] | None = None, batch: int | None = None
) -> Description:
    """Describe `model.onnx`, or a PyTorch module `file.py:name` or `package.module:name`.

    `inputs` gives the shapes of inputs that the source leaves open, by name, and `batch` the first
    size of all of them. A module is imported, so its code runs; an ONNX file is only read.
    """
    if batch is not None and batch < 1:
        raise InputError("batch", batch, "a whole number of at least 1")
    for name, shape in (inputs or {}).items():
        if any(size < 1 for size in shape):
            raise InputError(f"input {name}", as_text(shape), "sizes of at least 1")
    found = _MODULE.fullmatch(source)
    if found is None or Path(source).exists():
        from forerun.describing.onnx_file import describe_file

        return describe_file(Path(source), inputs or {}, batch)
    from forerun.describing.torch_module import describe_module

    return describe_module(found["module"], found["name"], inputs or {}, batch)


def as_text(shape: Shape) -> str:
    """A shape as it is typed: `1x3x224x224`."""
    return "x".join(map(str, shape))
