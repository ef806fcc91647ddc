"""The boards of an infrastructure, one by one: device 0 is the first that it lists.

A board goes by the name of its kind, with a number where there are several: camera-0, camera-1.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    kind: str
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
            name,
            1.0 if board.speed is None else board.speed,
            _with_port(board.addresses[number]) if board.addresses else "",
            board.user,
            board.directory,
        )
        for name, board in infrastructure.boards.items()
        for number in range(board.count)
    ]


def addressed(
    infrastructure: Infrastructure, devices: int, names: Sequence[str] = ()
) -> list[Place]:
    """The boards for so many devices; InputError unless there are as many, with addresses.

    `names` are those of boards, or of kinds for all of theirs: these boards, in this order, rather
    than the first ones that there are.
    """
    places = places_of(infrastructure)
    found = (_named(infrastructure, places, names, devices) if names else places)[:devices]
    if len(found) < devices:
        where = "--boards" if names else infrastructure.name
        raise InputError(where, f"{len(found)} boards", f"{devices}: one a device")
    for place in found:
        if not place.address:
            where = f"{infrastructure.name}, {place.name}"
            raise InputError(where, "no address", "addresses: [10.0.0.2, 10.0.0.3 …], one a board")
    return found


def _named(
    infrastructure: Infrastructure, places: Sequence[Place], names: Sequence[str], devices: int
) -> list[Place]:
    """The boards of these names, each once; InputError for one that is no board's, or too much."""
    found: dict[Place, None] = {}
    for name in names:
        own = [one for one in places if name == one.name]
        if len(own) > 1:
            raise InputError("--boards", name, "a name that one board has, not several")
        own = own or [one for one in places if name == one.kind]
        if not own:
            raise InputError("--boards", name, f"one of {_known(infrastructure)}")
        if len(found) >= devices:
            expected = f"no more: there are {devices} devices, and boards for all of them"
            raise InputError("--boards", name, expected)
        found |= dict.fromkeys(own)
    return list(found)


def _known(infrastructure: Infrastructure) -> str:
    """The names of all boards; a kind of several is one too."""
    return ", ".join(
        name if board.count == 1 else f"{name} ({name}-0 to {name}-{board.count - 1})"
        for name, board in infrastructure.boards.items()
    )


def _with_port(address: str) -> str:
    """The address, with the usual port where it has none; that of IPv6 is in brackets."""
    has_port = ":" in address.rpartition("]")[2]
    return address if has_port else f"{address}:{PORT}"
