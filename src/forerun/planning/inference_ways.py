"""The ways to run a network on boards: one device, replicas, a pipeline, exact or decoupled splits.

What cannot work, or must not be chosen, is kept with its reason: who asks for an answer within
50 ms on small boards wants to see how near each way comes to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from forerun.errors import InputError
from forerun.factors import Value
from forerun.infrastructure import Infrastructure
from forerun.planning.inference_request import InferenceRequest, Served
from forerun.splitting.cost import Device, devices_of
from forerun.splitting.layers import PRECISIONS, WIRES, Precision, Wire

# By simplicity: of two that are nearly as good the first is taken.
ONE, REPLICAS, PIPELINE = "alone", "replicas", "pipeline"
GROUPS, CHOSEN, FUSED, ROWS = "groups", "chosen", "fused", "rows"
OUTPUTS, INPUTS = "outputs", "inputs"
SIMPLEST = (ONE, REPLICAS, PIPELINE, GROUPS, ROWS, FUSED, OUTPUTS, INPUTS, CHOSEN)
EXACT = (ROWS, FUSED, OUTPUTS, INPUTS, CHOSEN)


@dataclass(frozen=True)
class Fleet:
    """Devices that could run a network together."""

    name: str  # of the boards
    devices: tuple[Device, ...]


@dataclass(frozen=True, slots=True)
class Way:
    """How a network would be run, and on what."""

    way: str
    network: str  # the name of its file
    boards: str
    devices: int
    precision: Precision = "float32"
    wire: Wire = "float32"
    in_flight: int = 1

    @property
    def setting(self) -> dict[str, Value]:
        """All that tells it from others, as factors."""
        sends = self.way not in (ONE, REPLICAS)
        return {
            "way": self.way,
            "network": self.network,
            "boards": self.boards,
            "devices": self.devices,
            "numbers": self.precision,
            "wire": self.wire if sends else "",
            "in flight": self.in_flight,
        }


def fleets(request: InferenceRequest, infrastructure: Infrastructure) -> list[Fleet]:
    """The boards that the request allows: some and all of each kind, and all kinds together."""
    target, boards = request.target, infrastructure.boards
    if target.infrastructure not in (None, infrastructure.name):
        where = f"target of {request.name}"
        raise InputError(where, target.infrastructure, f"{infrastructure.name}, what is given")
    if not boards:
        raise InputError(infrastructure.name, "partitions alone", "boards to run a network on")
    if target.boards is not None:
        if target.boards not in boards:
            expected = f"one of {', '.join(boards)}"
            raise InputError(f"target of {request.name}, boards", target.boards, expected)
        boards = {target.boards: boards[target.boards]}
    kinds = {name: devices_of({name: board}) for name, board in boards.items()}
    found = [
        Fleet(name, tuple(every[:count]))
        for name, every in kinds.items()
        for count in _counts(len(every), target.devices)
    ]
    together = tuple(device for every in kinds.values() for device in every)
    if len(kinds) > 1 and target.devices in (None, len(together)):
        found.append(Fleet(" + ".join(kinds), together))
    if not found:
        most = max(len(every) for every in kinds.values())
        raise InputError(f"target of {request.name}, devices", target.devices, f"at most {most}")
    return found


def _counts(most: int, wanted: int | None) -> list[int]:
    """How many devices are considered: one, two, four and so on, and all of them."""
    if wanted is not None:
        return [wanted] if wanted <= most else []
    return sorted({*(2**power for power in range(most.bit_length()) if 2**power <= most), most})


def ways(request: InferenceRequest, fleet: Fleet, served: Served, decoupled: bool) -> Iterator[Way]:
    """All for one network on these devices."""
    many, network = len(fleet.devices), served.path.name
    at_once = sorted({1, request.in_flight}) if request.wants_throughput else [1]
    if many == 1:
        for precision in PRECISIONS:
            yield Way(ONE, network, fleet.name, 1, precision)
        return
    for precision in PRECISIONS:
        yield Way(REPLICAS, network, fleet.name, many, precision)
    for flight in at_once:
        yield Way(PIPELINE, network, fleet.name, many, in_flight=flight)
        for wire in _wires(served, decoupled):
            for layout in (GROUPS,) if decoupled else EXACT:
                yield Way(layout, network, fleet.name, many, "float32", wire, flight)
            best = GROUPS if decoupled else CHOSEN
            yield Way(best, network, fleet.name, many, "int8", wire, flight)


def _wires(served: Served, decoupled: bool) -> list[Wire]:
    """What may go over the wire: an exact split stays exact unless its accuracy was measured."""
    return [one for one in WIRES if decoupled or one == "float32" or one in served.wire]
