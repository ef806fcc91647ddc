"""Devices as processes, for tests of what they do when things go wrong."""

import json
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import small_splits
from patience import LONG

from forerun.splitting.device.greeting import Greeting, Identity
from forerun.splitting.device.links import HEADER
from forerun.splitting.device.sockets import address, bound, end_of
from forerun.splitting.running import Local, Session, device_command, new_secret

# A device for which no time passes until there is a file.
_HELD = """\
import os, runpy, sys, time
go, sys.argv = sys.argv[1], sys.argv[2:]
clock = time.monotonic
time.monotonic = lambda: 1e6 + clock() if os.path.exists(go) else 0.0
runpy.run_path(sys.argv[0], run_name="__main__")
"""
_held: list[socket.socket] = []  # for as long as the tests run

# Two boards, whose addresses are to be filled in.
BOARDS = """
name: shelf
boards:
  fast: {{count: 1, processors: {{microarchitecture: cortex_a72, cores: 4}}, memory: 1 GiB,
         link: {{bandwidth: 100 Mbit/s}}, speed: 0.3, addresses: ["{0}"]}}
  slow: {{count: 1, processors: {{microarchitecture: cortex_a72, cores: 4}}, memory: 1 GiB,
         link: {{bandwidth: 100 Mbit/s}}, speed: 0.1, addresses: ["{1}"]}}
"""


def patient(patch: pytest.MonkeyPatch) -> None:
    """Let devices be waited for, greeted and listened to as long as a machine may stand still."""
    patch.setattr("forerun.splitting.device.network.SECONDS", LONG)
    patch.setattr("forerun.splitting.session._LAST_WORDS", LONG)
    _by_default(patch, Session, "start_within", "timeout")
    _by_default(patch, Local, "timeout")


def _by_default(patch: pytest.MonkeyPatch, kind: Any, *names: str) -> None:
    made = kind.__init__

    def make(self: object, *given: Any, **more: Any) -> None:
        made(self, *given, **{**dict.fromkeys(names, LONG), **more})

    patch.setattr(kind, "__init__", make)


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody gets unless he asks for them by number, as a device does.

    A socket that does not listen keeps each of them: whoever else lets others have his address,
    which devices do, can listen there.
    """
    made = [bound(("127.0.0.1", 0)) for _ in range(count)]
    _held.extend(made)
    return [one.getsockname()[1] for one in made]


class Bed:
    """A small split in a folder, and the processes that a test starts from it."""

    def __init__(self, folder: Path, devices: int = 2) -> None:
        self.folder = folder
        self.split = "ab" * 32
        self.network = small_splits.rows(folder, devices, self.split)
        self.addresses = [f"127.0.0.1:{port}" for port in free_ports(devices)]
        self.secret_file = folder / "secret"
        self.secret = new_secret(self.secret_file)
        self.processes: list[subprocess.Popen[str]] = []

    def command(self, number: int, **options: Any) -> list[str]:
        package = self.folder / f"device-{number}"
        given = {"timeout": LONG, **options}
        return device_command(package, self.addresses, self.secret_file, **given)

    @property
    def held(self) -> dict[str, Any]:
        """Options of a device for which no time passes until `go`."""
        return {"python": (sys.executable, "-c", _HELD, str(self.folder / "go"))}

    def go(self) -> None:
        """From now on time passes for all devices; much of it has."""
        (self.folder / "go").touch()

    def start(self, words: list[str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process

    def started(self, number: int, **options: Any) -> subprocess.Popen[str]:
        process = self.start(self.command(number, **options))
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        assert ready["ready"]["device"] == number
        assert ready["ready"]["address"] == self.addresses[number]
        return process

    def refused(self, words: list[str]) -> str:
        """The one line that a device ends with, by exit code 2."""
        done = subprocess.run(words, capture_output=True, text=True, timeout=LONG, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        (line,) = done.stderr.splitlines()
        assert line.startswith("forerun device: ")
        return line.removeprefix("forerun device: ")

    def close(self) -> None:
        for process in self.processes:
            with suppress(ProcessLookupError):
                process.kill()
            process.communicate()


def ended(process: subprocess.Popen[str], seconds: float = LONG) -> tuple[int, str, str]:
    out, errors = process.communicate(timeout=seconds)
    return process.returncode, out, errors


def greeted(bed: Bed, device: int) -> socket.socket:
    """A connection to a device by somebody who has the secret, and says that it is the host."""
    return _greeted(bed, device, 0)[0]


def known_session(bed: Bed, device: int) -> int:
    """The session that a device says it has heard of, to a host that came before all others."""
    connection, greeting = _greeted(bed, device, 1)
    with connection:
        assert greeting.hello is not None
        assert greeting.is_outdone
        assert connection.recv(1) == b""  # it stays with the host that has it
        return greeting.hello.session


def _greeted(bed: Bed, device: int, host: int) -> tuple[socket.socket, Greeting]:
    devices = len(bed.addresses)
    connection = socket.create_connection(address(bed.addresses[device]))
    ends = end_of(connection.getsockname()) + end_of(connection.getpeername())
    me = Identity(devices, devices, bed.split, bed.secret, 0, host)
    greeting = Greeting(me, device, frozenset(), ends)
    _exchange(connection, greeting, greeting.first())
    return connection, greeting


def _exchange(connection: socket.socket, greeting: Greeting, said: bytes) -> None:
    connection.sendall(said)
    while not greeting.done:
        said = greeting.take(_received(connection, greeting.wanted))
        assert not greeting.failed
        connection.sendall(said)


def _received(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        assert piece, "the other side closed it"
        data += piece
    return data


class Impostor:
    """Who has the secret and is a device, but answers every frame with the same one."""

    def __init__(self, bed: Bed, device: int, answer: int, payload: bytes) -> None:
        self._me = Identity(device, len(bed.addresses), bed.split, bed.secret, 1)
        self._frame = HEADER.pack(answer, 0, len(payload), 0) + payload
        self._listening = socket.create_server(address(bed.addresses[device]))
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _serve(self) -> None:
        connection, place = self._listening.accept()
        ends = end_of(place) + end_of(connection.getsockname())
        greeting = Greeting(self._me, None, frozenset({self._me.devices}), ends)
        with connection, suppress(OSError):
            _exchange(connection, greeting, b"")
            while connection.recv(4096):
                connection.sendall(self._frame)


class Relay:
    """Passes connections on, to the last byte, by an address of its own."""

    def __init__(self, target: str) -> None:
        self._target = address(target)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                near = self._listening.accept()[0]
                far = socket.create_connection(self._target)
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=_pump, args=(one, other), daemon=True).start()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(4096):
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
