"""The ways to run a network on boards that the table compares, most wanted first.

A way is a network (dense, or decoupled and widened), a layout and the precision of its arithmetic;
a cell is a way on so many boards with so many bits on the wire.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

NETWORKS = ("resnet-50", "resnet-34", "vgg-16", "mobilenet-v2")
# Where the authors of DeCNN say which shuffles there are.
DECOUPLED = ("resnet-50", "resnet-34", "vgg-16")
COUNTS = (4, 1, 2)  # of boards, most wanted first
GROUPS = 4
WIRES = ("float32", "float16", "int8")
IN_FLIGHT = 3  # samples, with scheme 3: one computes, one waits, one is about to begin
# Largest error relative to the largest output of the single process, by what goes over the wire
# and by what is computed; random statistics spread the outputs, so that these are strict.
TOLERANCE = {"float32": 1e-4, "float16": 1e-2, "int8": 0.1}


@dataclass(frozen=True, slots=True)
class Way:
    """How a network is run; whatever the number of boards."""

    name: str
    layout: str  # of the cut; "replicas" is none, "exact" is what forerun chooses
    width: float | None = None  # of the decoupled network; None: the dense one
    precision: str = "float32"
    wires: tuple[str, ...] = ("float32",)

    def runs_on(self, devices: int) -> bool:
        """Whether this is a way for so many boards."""
        return devices == 1 if self.layout == "whole" else devices > 1

    @property
    def structure(self) -> str:
        """The network that is run, whichever way."""
        return "dense" if self.width is None else f"decnn-{self.width:g}"


DENSE = Way("dense", "whole")
ALONE = (
    DENSE,
    Way("dense int8", "whole", precision="int8"),
    Way("decnn-1.75", "whole", 1.75),
    Way("decnn-1.5", "whole", 1.5),
)
TOGETHER = (
    Way("exact", "exact"),
    Way("decnn-1.75", "groups", 1.75, wires=("int8", "float32", "float16")),
    Way("exact int8", "exact", precision="int8", wires=("int8", "float32")),
    Way("replicas", "replicas"),
    Way("decnn-1.5", "groups", 1.5, wires=("int8", "float32", "float16")),
    Way("decnn-1.75 int8", "groups", 1.75, precision="int8", wires=("int8",)),
    Way("rows", "rows"),
    Way("outputs", "outputs"),
    Way("pipeline", "pipeline"),
)
WAYS = (*ALONE, *TOGETHER)


@dataclass(frozen=True, slots=True)
class Cell:
    """One line of the table, or two: the same boards with and without scheme 3."""

    network: str
    devices: int
    way: Way
    wire: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What tells it from others in a file."""
        return self.network, str(self.devices), self.way.name, self.wire

    @property
    def in_flight(self) -> int:
        """Samples at a time where throughput counts: enough that no board is ever without one."""
        if self.devices == 1:
            return 1
        # Of replicas each has its own.
        return {"replicas": 2, "pipeline": self.devices + 1}.get(self.way.layout, IN_FLIGHT)

    @property
    def copies(self) -> int:
        """Boards that each have a sample of their own."""
        return self.devices if self.way.layout == "replicas" else 1

    def __str__(self) -> str:
        wire = f", {self.wire} on the wire" if self.devices > 1 else ""
        return f"{self.network} {self.way.name} on {self.devices}{wire}"


def cells(
    networks: Sequence[str] = NETWORKS, ways: Sequence[str] = (), boards: Sequence[int] = COUNTS
) -> Iterator[Cell]:
    """All cells of these networks on so many boards, or those of the ways that are named."""
    for network in networks:
        for devices in boards:
            for way in WAYS:
                known = way.width is None or network in DECOUPLED
                if known and way.runs_on(devices) and (not ways or way.name in ways):
                    yield from (Cell(network, devices, way, wire) for wire in way.wires)
