"""What somebody wants of a trained network on small boards, and what matters to them.

    name: shelf
    task: inference
    network: { file: resnet50.onnx, accuracy: 76.1% }     # or the file's name alone
    decoupled:
      - { file: resnet50-wide.onnx, accuracy: 75.9%, wire: { int8: 75.8% } }
      - file: resnet50-x1.5.onnx                           # not trained yet
        training: { network: resnet-50, width: 1.5, data: images, epochs: 90 }
    objective: time                                        # of an answer; or throughput, energy
    constraints: { latency: 300ms, memory: 128 MB, accuracy: 75% }

The networks are ONNX files beside the request. What changes the answers (whole numbers of 8 bits,
a decoupled network) is chosen only where somebody has measured how accurate it is.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from forerun._documents import (
    Count,
    Duration,
    NotNegative,
    Share,
    Size,
    Table,
    read_yaml,
    validated,
)
from forerun.errors import InputError
from forerun.planning.request import Line, Positive, Request, Text

InferenceGoal = Literal["time", "throughput", "energy"]


def _goals(value: object) -> object:
    """One goal alone is all that matters."""
    return {value: 1.0} if isinstance(value, str) else value


def _filed(value: object) -> object:
    """A network of which only the file is said."""
    return {"file": value} if isinstance(value, str) else value


class Training(Table):
    """How a decoupled network is trained, as `python -m forerun.splitting.train` takes it."""

    network: Line  # what it was decoupled from: resnet-50
    groups: Count = 4
    width: Positive = 1.75
    shuffles: Line = "stages"
    data: Line  # the folder of the data set
    epochs: Count = 15
    teacher: Line | None = None  # the dense network's weights, to be distilled


class Served(Table):
    """A network that could be run, and how accurate it is, where somebody has measured that."""

    file: Line
    accuracy: Share | None = None
    int8: Share | None = None  # its accuracy where it computes in whole numbers of 8 bits
    wire: dict[Literal["float16", "int8"], Share] = Field(default_factory=dict)  # or sends them
    training: Training | None = None

    @property
    def path(self) -> Path:
        """Where it is."""
        return Path(self.file)

    def accuracy_of(self, precision: str, wire: str) -> float | None:
        """With these numbers inside and on the wire; None where nobody has measured it.

        Numbers of 16 bits on the wire keep eleven digits of each: as good as those of 32, unless
        the request says otherwise. What both change together nobody has measured.
        """
        plain = wire == "float32" or (wire == "float16" and wire not in self.wire)
        if precision == "int8":
            return self.int8 if plain else None
        measured = (share for name, share in self.wire.items() if name == wire)
        return self.accuracy if plain else next(measured, None)


Given = Annotated[Served, BeforeValidator(_filed)]


class InferenceConstraints(Table):
    """What must hold for a candidate to be chosen."""

    latency: Duration | None = None  # from a sample to its answer
    memory: Size | None = None  # of each device's process
    accuracy: Share | None = None  # at least
    throughput: Positive | None = None  # samples a second, at least


class InferenceTarget(Table):
    """Which boards; all of the infrastructure where nothing is said."""

    infrastructure: Text | None = None  # by its name, where it must be that one
    boards: Text | None = None  # by their name
    devices: Count | None = None  # exactly so many of them


class InferenceRequest(Table):
    """All of it."""

    name: Line = "request"
    task: Literal["inference"] = "inference"
    network: Given
    decoupled: Annotated[tuple[Given, ...], Field(strict=False)] = ()
    layers: Line | None = None  # a study of timed layers; None: the user's own
    objective: Annotated[dict[InferenceGoal, NotNegative], BeforeValidator(_goals)] = Field(
        {"time": 1.0}
    )
    constraints: InferenceConstraints = InferenceConstraints()
    target: InferenceTarget = InferenceTarget()
    in_flight: Annotated[int, Field(ge=1, le=64)] = 4  # samples at a time, where throughput counts

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if not any(self.objective.values()):
            raise ValueError("an objective with at least one weight above 0")
        files = [one.file for one in (self.network, *self.decoupled)]
        if len(set(files)) < len(files):
            raise ValueError("each network once")
        return self

    @classmethod
    def load(cls, path: Path) -> Self:
        """The request of a YAML file; its networks and its layers are relative to the file."""
        return cls.of(read_yaml(path), path)

    @classmethod
    def of(cls, document: dict[str, Any], path: Path) -> Self:
        """The request of a file's document."""
        found = validated(cls, document, f"{path}: ")
        for where, one in found.named:
            if not one.file.endswith(".onnx"):
                raise InputError(f"{path}: {where}", one.file, "an ONNX file")
        return found.beside(path.parent)

    def beside(self, folder: Path) -> Self:
        """The same with files that are found from here."""

        def at(one: Served) -> Served:
            return one.model_copy(update={"file": str(folder / one.file)})

        layers = None if self.layers is None else str(folder / self.layers)
        decoupled = tuple(map(at, self.decoupled))
        return self.model_copy(
            update={"network": at(self.network), "decoupled": decoupled, "layers": layers}
        )

    def absolute(self) -> Self:
        """The same, understood from wherever."""
        return self.beside(Path(os.path.abspath(".")))  # noqa: PTH100 - without its dots

    @property
    def named(self) -> list[tuple[str, Served]]:
        """All networks, each with the field that it stands in."""
        several = [(f"decoupled.{place}", one) for place, one in enumerate(self.decoupled)]
        return [("network", self.network), *several]

    @property
    def wants_throughput(self) -> bool:
        """Whether more than one sample at a time may be of use."""
        wanted = self.objective.get("throughput"), self.constraints.throughput
        return any(wanted)

    @property
    def main_goal(self) -> InferenceGoal:
        """What weighs most."""
        return max(self.objective, key=lambda goal: self.objective[goal])


def load_request(path: Path) -> Request | InferenceRequest:
    """The request of a YAML file, for a command that is measured or a network on boards."""
    document = read_yaml(path)
    if document.get("task") == "inference" and "application" not in document:
        return InferenceRequest.of(document, path)
    return Request.load(path)
