"""Sockets: addresses as they are written, and what is asked of the kernel."""

from __future__ import annotations

import re
import socket
import struct
from typing import Any

from .faults import DeviceError

_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9_.-]{1,253})):([0-9]{1,5})", re.ASCII)
_LEAST_BUFFER, _LARGEST_BUFFER = 2**18, 2**22  # bytes of the kernel's, each way
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33  # of socket(7): above the system's limit, for root
_ALL_ADDRESSES = ("0.0.0.0", "::", "::ffff:0.0.0.0")
_LONGEST_PAUSE = 32767  # seconds between signs of life, which tcp(7) takes
_LONGEST_SILENCE = 2**31 - 1  # milliseconds


def address(text: str) -> tuple[str, int]:
    """Host and port of `10.0.0.1:7000`, `board-1:7000` or `[fe80::1]:7000`."""
    found = _ADDRESS.fullmatch(text)
    if found is None or not 1 <= int(found[3]) <= 65535:
        raise DeviceError(f"{text}: found no address, expected one such as 10.0.0.1:7000")
    return found[1] or found[2], int(found[3])


def written(place: tuple[str, int]) -> str:
    """An address as `address` reads it."""
    host, port = place
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def end_of(place: Any) -> bytes:
    """One end of a connection, as both sides see it: its address as IPv6 has it, and its port.

    Which of its own links a machine has the address on (`fe80::1%eth0`) is no part of it.
    """
    host = place[0].partition("%")[0]
    plain = socket.inet_pton(socket.AF_INET6, host if ":" in host else f"::ffff:{host}")
    return plain + struct.pack(">H", place[1])


def resolved(place: tuple[str, int]) -> tuple[int, Any]:
    """The family of an address and what the kernel takes for it; OSError where there is none."""
    try:
        family, _, _, _, where = socket.getaddrinfo(*place, type=socket.SOCK_STREAM)[0]
    except UnicodeError:  # of a name with a part that is empty, or too long
        raise OSError(f"{place[0]} can be no name") from None
    return family, where


def bound(place: tuple[str, int], *, anywhere: bool = False) -> socket.socket:
    """A socket at a stated address of this machine's, and at no other.

    `anywhere`: what stands for all addresses, as 0.0.0.0 does, may be stated too.
    """
    try:
        family, where = resolved(place)
        if where[0] in _ALL_ADDRESSES and not anywhere:
            raise DeviceError(
                f"{written(place)}: found all addresses of this machine, expected one of them, "
                "or --listen to say that all are meant"
            )
        made = socket.socket(family, socket.SOCK_STREAM)
        # An address that a device has just left is free at once.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(where)
    except OSError as error:
        raise DeviceError(f"{written(place)}: {error.strerror or error}") from None
    return made


def tuned(made: socket.socket, largest: int) -> None:
    """Kernel buffers that hold a few of the largest messages while the device computes."""
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    size = min(max(_LEAST_BUFFER, 2 * largest), _LARGEST_BUFFER)
    for forced, option in (
        (_SO_SNDBUFFORCE, socket.SO_SNDBUF),
        (_SO_RCVBUFFORCE, socket.SO_RCVBUF),
    ):
        try:
            made.setsockopt(socket.SOL_SOCKET, forced, size)
        except OSError:
            made.setsockopt(socket.SOL_SOCKET, option, size)


def kept_alive(connection: socket.socket, timeout: float) -> None:
    """Let the kernel find out when the other side's machine is gone without a word."""
    pause = max(1, int(timeout / 6))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        (socket.TCP_KEEPIDLE, min(2 * pause, _LONGEST_PAUSE)),
        (socket.TCP_KEEPINTVL, min(pause, _LONGEST_PAUSE)),
        (socket.TCP_KEEPCNT, 4),
        (socket.TCP_USER_TIMEOUT, min(int(1000 * timeout), _LONGEST_SILENCE)),
    ):
        connection.setsockopt(socket.IPPROTO_TCP, option, value)
