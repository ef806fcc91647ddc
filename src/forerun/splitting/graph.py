"""A network as splitting sees it: operations on tensors of channels, rows and columns, batch 1.

It is an ONNX graph, whoever made it, in a normal form: constants are folded, normalisations are
part of their convolutions, and what only moves channels about is one operation.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from forerun.splitting.inputs import Normal
from forerun.splitting.regions import Region, whole

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

Constant = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a tensor; a vector has one row and one column.

    A tensor that is neither [1, channels, rows, columns] nor [1, channels] can only be had whole,
    and counts as one vector; `dims` are its sizes as its operation knows them.
    """

    channels: int
    rows: int = 1
    columns: int = 1
    dims: tuple[int, ...] = ()

    @classmethod
    def of(cls, dims: tuple[int, ...]) -> Shape:
        """The shape of a tensor with these sizes."""
        if len(dims) == 4 and dims[0] == 1:
            return cls(*dims[1:], dims)
        return cls(prod(dims), 1, 1, dims)

    @property
    def is_usual(self) -> bool:
        """Whether it can be cut at all."""
        return len(self.dims) in (2, 4) and self.dims[0] == 1

    @property
    def whole(self) -> Region:
        """All of it."""
        return whole(self.channels, self.rows)

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return self.channels * self.rows * self.columns

    def of_region(self, region: Region) -> list[int]:
        """The sizes of the array that holds a part of it."""
        return self._sizes(len(region.channels), len(region.rows))

    @property
    def laid_out(self) -> list[int]:
        """The sizes of the array that holds all of it, between devices and at the host."""
        return self._sizes(self.channels, self.rows)

    def _sizes(self, channels: int, rows: int) -> list[int]:
        is_map = self.is_usual and len(self.dims) == 4
        return [1, channels, rows, self.columns] if is_map else [1, channels]


@dataclass(frozen=True, eq=False)
class Operation:
    """One step of a network: what it is, what it reads, and its weights."""

    name: str
    kind: str  # ONNX's name, or one of Select, Flatten, Unflatten, Unruled
    inputs: tuple[str, ...]  # tensors; constants stand in `constants`
    outputs: tuple[str, ...]  # one, but for operations that have no rule
    attributes: Mapping[str, Any] = field(default_factory=dict)
    constants: Mapping[str, Constant] = field(default_factory=dict)
    node: NodeProto | None = None  # as the file has it, where there is no rule

    @property
    def output(self) -> str:
        """The tensor that it makes."""
        return self.outputs[0]

    def update(self, digest: Any) -> None:
        """Feed all that the operation is to a digest."""
        plain = [self.kind, self.inputs, self.outputs, sorted(self.attributes.items())]
        digest.update(json.dumps(plain, default=_plain).encode())
        if self.node is not None:
            digest.update(self.node.SerializeToString(deterministic=True))
        for name, value in sorted(self.constants.items()):
            digest.update(f"{name} {value.dtype} {value.shape}".encode())
            digest.update(np.ascontiguousarray(value).tobytes())


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else repr(value)


@dataclass(frozen=True, eq=False)
class Graph:
    """A network of operations, each after those whose results it reads."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    operations: tuple[Operation, ...]
    tensors: Mapping[str, Shape]
    opsets: Mapping[str, int] = field(default_factory=lambda: {"": 17})
    types: Mapping[str, int] = field(default_factory=dict)  # ONNX's number, where not float32
    normal: Normal | None = None  # of pictures that it was trained with, where the file says so

    @classmethod
    def load(cls, path: str | Path) -> Graph:
        """Read an ONNX file; InputError names what cannot be read."""
        from forerun.splitting.reading import load

        return load(Path(path))

    @classmethod
    def of(cls, model: ModelProto, where: str = "network") -> Graph:
        """The graph of an ONNX model."""
        from forerun.splitting.reading import read

        return read(model, where)

    @property
    def unruled(self) -> tuple[tuple[str, str], ...]:
        """Operations that have no rule, and so run whole: their names, and what they are."""
        return tuple(
            (op.name, op.node.op_type)
            for op in self.operations
            if op.kind == "Unruled" and op.node is not None
        )

    @cached_property
    def makers(self) -> Mapping[str, Operation]:
        """The operation that makes each tensor, but for the network's inputs."""
        return {name: op for op in self.operations for name in op.outputs}

    @cached_property
    def readers(self) -> Mapping[str, tuple[Operation, ...]]:
        """The operations that read each tensor, in their order."""
        found: dict[str, list[Operation]] = {name: [] for name in self.tensors}
        for op in self.operations:
            for name in dict.fromkeys(op.inputs):
                found[name].append(op)
        return {name: tuple(ops) for name, ops in found.items()}

    @cached_property
    def digest(self) -> str:
        """What tells one network from another: SHA-256 of all its operations and weights."""
        made = hashlib.sha256(b"forerun network 1\n")
        shapes = {name: self.tensors[name].dims for name in (*self.inputs, *self.outputs)}
        about = [self.inputs, self.outputs, shapes, sorted(self.opsets.items())]
        made.update(json.dumps(about).encode())
        for op in self.operations:
            op.update(made)
        return made.hexdigest()
