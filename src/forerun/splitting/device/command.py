"""The command of a board: read a package, join the other devices, work until the host ends it.

One JSON line says that it is ready, another what it has done. Whatever goes wrong is one line on
standard error, and exit code 2.
"""

from __future__ import annotations

import argparse
import errno
import json
import math
import os
import signal
import socket
import stat
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .arrivals import expect, largest_from
from .engine import Engine
from .faults import DeviceError, SilenceError
from .greeting import FEWEST_BYTES, Identity
from .links import FAULT, TOTALS, Link, what
from .network import Network
from .pace import Pace
from .reading import read_program
from .schedule import Schedule
from .sockets import address, bound, written
from .totals import Totals
from .trace import Trace
from .wire import WIRES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from .program import Program

_LAST_WORDS = 1.0  # seconds to send them
_LARGEST_SECRET = 4096  # bytes
_LONGEST_FAULT = 1000  # bytes


def main(words: Sequence[str] | None = None) -> int:
    """Run one device; its exit code."""
    given = _parser().parse_args(words)
    try:
        _Device(given).run()
    except DeviceError as error:
        print(f"forerun device: {error}", file=sys.stderr, flush=True)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="forerun device", description=__doc__)
    add = parser.add_argument
    add("package", type=Path, help="the folder of this device's package")
    add(
        "--device-at",
        action="append",
        default=[],
        metavar="NUMBER=ADDRESS:PORT",
        help="where a device is, this one included: it listens there and nowhere else",
    )
    add("--secret-file", type=Path, required=True, help="the secret of all devices, mode 0600")
    add("--listen", metavar="ADDRESS:PORT", help="listen here instead; 0.0.0.0 is everywhere")
    add("--socket", type=int, metavar="DESCRIPTOR", help="listen on this inherited socket")
    add("--wire", choices=WIRES, default="float32", help="how activations are sent")
    add("--in-flight", type=_count, default=1, help="samples in progress at a time")
    add("--speed", type=_share, default=1.0, help="work at the pace of so much of a processor")
    add("--inputs", type=Path, metavar="FILE.npy", help="samples that this device has already")
    add("--threads", type=_count, default=1, help="that compute a segment")
    add("--timeout", type=_seconds, default=60.0, help="seconds to wait for others that are gone")
    add(
        "--start-within",
        type=_seconds,
        default=math.inf,
        metavar="SECONDS",
        help="how long to wait for the first host; for ever, unless it is said",
    )
    add("--report-error", action="store_true", help="state the error that the wire type makes")
    add("--trace", type=Path, metavar="FILE", help="write when everything happened")
    add("--lifeline", action="store_true", help="end when standard input does")
    return parser


def _count(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 256:
        raise ValueError
    return value


def _share(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1:
        raise ValueError
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e6:
        raise ValueError
    return value


class _Device:
    """All parts of a device, put together."""

    def __init__(self, given: argparse.Namespace) -> None:
        began = time.monotonic()
        secret = read_secret(given.secret_file)
        self._program = program = read_program(given.package)
        self._places = _places(given.device_at, program)
        self._socket, self._address = self._bound(given)
        # Not before all that can be wrong with what was given is known: it takes its time.
        from .computing import loaded

        schedule = Schedule(program)
        segments = loaded(program, given.threads)
        self._pace = Pace(given.speed)
        self._file = given.trace.open("w") if given.trace else None
        self._trace = Trace(program, self._file) if self._file else None
        self._engine = Engine(
            schedule,
            segments,
            wire=WIRES[given.wire],
            in_flight=given.in_flight,
            pace=self._pace,
            samples=_samples(given.inputs, program) if given.inputs else None,
            trace=self._trace,
            errors={} if given.report_error else None,
        )
        me = Identity(program.device, program.devices, program.split, secret, given.in_flight)
        links = [self._link(schedule, peer) for peer in (program.devices, *program.peers)]
        self._network = Network(
            me, links, given.timeout, self._engine.opened, self._tell, given.start_within
        )
        self._engine.join(self._network)
        self._host = self._network.links[program.devices]
        for link in links:
            expect(self._engine, link, self._answer)
        self._wake_on_signals()
        if given.lifeline:
            self._network.watch(sys.stdin.fileno(), self._lifeline)
        self._loading = time.monotonic() - began

    def run(self) -> None:
        """Say that it is ready, work, and say what was done."""
        self._network.listen(self._socket)
        ready = {"device": self._program.device, "address": self._address}
        _say({"ready": {**ready, "split": self._program.split, "seconds": self._loading}})
        self._totals = Totals(self._engine, self._network, self._pace)
        try:
            self._engine.run()
        except SilenceError as error:
            # A host that has gone when nothing was left to do has simply finished.
            if error.peer != self._program.devices or self._engine.is_busy or not self._was_asked():
                self._tell_host(error)
                raise
        except DeviceError as error:
            self._tell_host(error)
            raise
        except Exception as error:
            if not type(error).__module__.startswith("onnxruntime"):
                raise
            told = DeviceError(f"onnxruntime: {error}")
            self._tell_host(told)
            raise told from None
        finally:
            if self._trace is not None:
                self._trace.write()
            self._answer()
            self._network.finish(_LAST_WORDS)
            _say(self._totals.so_far())

    def _was_asked(self) -> bool:
        return self._host.received_bytes > 0

    def _link(self, schedule: Schedule, peer: int) -> Link:
        program = self._program
        largest = largest_from(schedule, peer)
        if peer == program.devices:
            return Link(peer, "the host", None, largest)
        name, place = f"device {peer}", None
        if peer < program.device:  # of two, the one with the larger number connects
            if peer not in self._places:
                raise DeviceError(
                    f"--device-at: device {peer} is missing, which this one exchanges data with"
                )
            place = self._places[peer]
            name = f"{name} at {written(place)}"
        return Link(peer, name, place, largest)

    def _bound(self, given: argparse.Namespace) -> tuple[socket.socket, str]:
        if given.socket is not None:
            try:
                inherited = socket.socket(fileno=given.socket)
            except OSError as error:
                raise DeviceError(f"--socket {given.socket}: {error.strerror}") from None
            return inherited, written(inherited.getsockname()[:2])
        number = self._program.device
        if given.listen:
            place = address(given.listen)
            return bound(place, anywhere=True), written(place)
        if number in self._places:
            place = self._places[number]
        else:
            raise DeviceError(f"--device-at: device {number} is missing, which this one is")
        return bound(place), written(place)

    def _wake_on_signals(self) -> None:
        """SIGTERM and SIGINT end the device, also while it waits: by a socket that wakes it."""
        self._ends = socket.socketpair()
        for end in self._ends:
            end.setblocking(False)
        signal.set_wakeup_fd(self._ends[1].fileno())
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._engine.stop())
        self._network.watch(self._ends[0].fileno(), lambda _: self._engine.stop())

    def _lifeline(self, _event: int) -> None:
        if not os.read(sys.stdin.fileno(), 4096):
            self._engine.stop()

    def _answer(self) -> None:
        text = json.dumps(self._totals.so_far()).encode()
        self._host.send(what(TOTALS), 0, text, None)

    def _tell_host(self, error: DeviceError) -> None:
        text = str(error).encode()[:_LONGEST_FAULT]
        self._host.send(what(FAULT), 0, text, None)

    def _tell(self, line: str) -> None:
        print(f"forerun device {self._program.device}: {line}", file=sys.stderr, flush=True)


def _say(what_: dict[str, object]) -> None:
    try:
        print(json.dumps(what_), flush=True)
    except BrokenPipeError:  # nobody listens any more, nor need Python complain when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _places(given: Sequence[str], program: Program) -> dict[int, tuple[str, int]]:
    """Where the devices are, by number."""
    places = {}
    for text in given:
        number, equals, place = text.partition("=")
        if not equals or not number.isdecimal() or int(number) >= program.devices:
            expected = f"a number below {program.devices}, = and an address"
            raise DeviceError(f"--device-at {text}: expected {expected}")
        places[int(number)] = address(place)
    return places


def read_secret(path: Path) -> bytes:
    """The secret in a file that nobody else can read, or has made."""
    try:
        # Without waiting for whoever writes into a pipe.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as file:
            about = os.fstat(handle)
            secret = file.read(_LARGEST_SECRET).strip() if stat.S_ISREG(about.st_mode) else b""
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise DeviceError(f"{path}: found a symbolic link, expected a file") from None
        raise DeviceError(f"{path}: {error.strerror or error}") from None
    mode = stat.S_IMODE(about.st_mode)
    if not stat.S_ISREG(about.st_mode):
        raise DeviceError(f"{path}: found something else, expected a file")
    if about.st_uid not in (0, os.geteuid()):
        mine = os.geteuid()
        raise DeviceError(f"{path}: found a file of user {about.st_uid}, expected one of {mine}")
    if mode & 0o077:
        raise DeviceError(
            f"{path}: found mode {mode:04o}, expected 0600: others can read the secret"
        )
    if len(secret) < FEWEST_BYTES:
        raise DeviceError(
            f"{path}: found {len(secret)} bytes, expected a secret of {FEWEST_BYTES} at least"
        )
    return secret


def _samples(path: Path, program: Program) -> NDArray[np.float32]:
    """The network inputs of a file, one after the other."""
    try:
        found: NDArray[np.float32] = np.lib.format.open_memmap(path, mode="r")
    except Exception as error:  # of many kinds, by what is wrong with its head
        raise DeviceError(f"{path}: {error}") from None
    for piece in program.inputs:
        dims, box = program.buffers[piece.buffer].dims, piece.box
        sizes = (box.stop, box.bottom, *dims[3:])[: len(dims) - 1]
        if (
            found.dtype != np.float32
            or found.ndim != len(dims)
            or not len(found)
            or any(a < b for a, b in zip(found.shape[1:], sizes))
            or found.shape[3:] != dims[3:]
        ):
            raise DeviceError(
                f"{path}: found {found.dtype} of {list(found.shape)}, "
                f"expected float32 samples of the network's input {piece.name}"
            )
    if len({piece.name for piece in program.inputs}) > 1:
        raise DeviceError(f"{path}: the network has several inputs; the host must send them")
    return found
