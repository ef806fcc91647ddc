"""The boards of an infrastructure, one by one: device 0 is the first board that it lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from forerun.errors import InputError

if TYPE_CHECKING:
    from forerun.infrastructure import Infrastructure

PORT = 7100  # where a device listens, unless its address says otherwise


@dataclass(frozen=True, slots=True)
class Place:
    """One board: what it is called, how fast it is, and where packages for it go."""

    name: str
    speed: float
    address: str = ""  # with its port; empty where the infrastructure has none
    user: str = ""
    directory: str = ""

    @property
    def host(self) -> str:
        """Its name or address, as ssh takes it."""
        return self.address.rpartition(":")[0].strip("[]")


def places_of(infrastructure: Infrastructure) -> list[Place]:
    """Every board, in order; InputError where there are none."""
    if not infrastructure.boards:
        raise InputError(infrastructure.name, "no boards", "an infrastructure with boards")
    return [
        Place(
            name if board.count == 1 else f"{name}-{number}",
            1.0 if board.speed is None else board.speed,
            _with_port(board.addresses[number]) if board.addresses else "",
            board.user,
            board.directory,
        )
        for name, board in infrastructure.boards.items()
        for number in range(board.count)
    ]


def addressed(infrastructure: Infrastructure, devices: int) -> list[Place]:
    """The boards for so many devices; InputError unless there are as many, with addresses."""
    found = places_of(infrastructure)[:devices]
    if len(found) < devices:
        raise InputError(infrastructure.name, f"{len(found)} boards", f"{devices}: one a device")
    for place in found:
        if not place.address:
            where = f"{infrastructure.name}, {place.name}"
            raise InputError(where, "no address", "addresses: [10.0.0.2, 10.0.0.3 …], one a board")
    return found


def _with_port(address: str) -> str:
    """The address, with the usual port where it has none; that of IPv6 is in brackets."""
    has_port = ":" in address.rpartition("]")[2]
    return address if has_port else f"{address}:{PORT}"
