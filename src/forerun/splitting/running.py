"""Run a split: all of its devices as processes of this machine, or the host of devices elsewhere.

    with Local("split/", in_flight=2) as devices:
        for answer in devices.run(images):
            print(answer.outputs["logits"].argmax())

The devices of this machine get a secret of their own, listen on loopback alone, and end with the
process that started them, however it ends: their standard input is a lifeline.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from forerun.errors import InputError
from forerun.splitting import device
from forerun.splitting.device.sockets import written
from forerun.splitting.packages import Sample, read_packages
from forerun.splitting.session import Answer, Session

__all__ = ["Answer", "Local", "Session", "device_command", "new_secret"]

_PATIENCE = 10.0  # seconds for a device that was told to end
_PROGRAM = Path(device.__file__).parent  # the folder, as a board has it


def new_secret(path: Path) -> bytes:
    """Write a new secret into a file that only this user can read."""
    secret = secrets.token_hex(32).encode()
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(secret + b"\n")
    return secret


def device_command(
    package: str | Path,
    addresses: Sequence[str],
    secret_file: str | Path,
    *,
    wire: str = "float32",
    in_flight: int = 1,
    speed: float | None = None,
    inputs: str | Path | None = None,
    threads: int = 1,
    timeout: float = 60.0,
    start_within: float | None = None,
    trace: str | Path | None = None,
    report_error: bool = False,
    python: Sequence[str] = (sys.executable,),
    program: str | Path = _PROGRAM,
) -> list[str]:
    """The words that start one device; on a board, with its own `python` and `program`.

    It waits for its first host for `start_within` seconds, or for ever; later for `timeout`.
    """
    words = [*python, str(program), str(package), "--secret-file", str(secret_file)]
    for i, place in enumerate(addresses):
        words += ["--device-at", f"{i}={place}"]
    words += ["--wire", wire, "--in-flight", str(in_flight), "--threads", str(threads)]
    words += ["--timeout", str(timeout)]
    if start_within is not None:
        words += ["--start-within", str(start_within)]
    if speed is not None:
        words += ["--speed", str(speed)]
    if inputs is not None:
        words += ["--inputs", str(inputs)]
    if trace is not None:
        words += ["--trace", str(trace)]
    return [*words, "--report-error"] if report_error else words


class Local:
    """All devices of a split as processes of this machine."""

    def __init__(
        self,
        folder: str | Path,
        *,
        wire: str = "float32",
        in_flight: int = 1,
        speed: float | Sequence[float] | None = None,
        threads: int = 1,
        inputs: str | Path | None = None,
        timeout: float = 60.0,
        trace: str | Path | None = None,
        report_error: bool = False,
    ) -> None:
        """`speed`: of all devices, or of each; `trace`: a folder for what each device did when."""
        self.folder = Path(folder)
        self.processes: list[subprocess.Popen[str]] = []
        self.addresses: list[str] = []
        self.ended: list[dict[str, Any]] = []  # what each device has done, when all is over
        self._wire, self._in_flight, self._threads, self._timeout = (
            wire,
            in_flight,
            threads,
            timeout,
        )
        self._speed, self._inputs, self._trace = speed, inputs, trace
        self._report_error = report_error
        self._stack = ExitStack()
        self._errors: list[IO[str]] = []
        self.session: Session

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with suppress(OSError):
            self.ended = self.session.end()
        self._stop()

    def run(self, samples: Iterable[Sample]) -> Iterator[Answer]:
        """Answers, in the order of the samples."""
        return self.session.run(samples)

    def go(self, count: int) -> Iterator[Answer]:
        """Answers to samples that the devices have, by `inputs`."""
        return self.session.go(count)

    def totals(self) -> list[dict[str, Any]]:
        """What each device has done so far."""
        return self.session.totals()

    def _start(self) -> None:
        packages = read_packages(self.folder)
        place = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="forerun-")))
        secret = new_secret(place / "secret")
        count = len(packages.programs)
        with ExitStack() as sockets:
            listening = [sockets.enter_context(_loopback()) for _ in range(count)]
            self.addresses = [written(one.getsockname()) for one in listening]
            for i in range(count):
                self.processes.append(self._started(i, place, listening[i]))
        until = time.monotonic() + self._timeout
        for i in range(count):
            self._await_ready(i, until)
        self.session = Session(
            self.folder,
            self.addresses,
            secret,
            timeout=self._timeout,
            alive=self._check_alive,
        )

    def _started(self, i: int, place: Path, listening: socket.socket) -> subprocess.Popen[str]:
        speed = self._speed[i] if isinstance(self._speed, Sequence) else self._speed
        words = device_command(
            self.folder / f"device-{i}",
            self.addresses,
            place / "secret",
            wire=self._wire,
            in_flight=self._in_flight,
            speed=speed,
            inputs=self._inputs,
            threads=self._threads,
            timeout=self._timeout,
            trace=None if self._trace is None else Path(self._trace) / f"device-{i}.jsonl",
            report_error=self._report_error,
        )
        errors = self._stack.enter_context((place / f"errors-{i}").open("w+"))
        self._errors.append(errors)
        return subprocess.Popen(
            [*words, "--lifeline", "--socket", str(listening.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            pass_fds=[listening.fileno()],
        )

    def _await_ready(self, i: int, until: float) -> None:
        stdout = self.processes[i].stdout
        assert stdout is not None
        left = max(0.0, until - time.monotonic())
        line = stdout.readline() if select.select([stdout], [], [], left)[0] else ""
        if not line:
            self.processes[i].kill()  # unless it has ended by itself
            self.processes[i].wait()
            raise InputError(f"device {i}: {self._complaint(i) or 'it is not ready in time'}")
        if "ready" not in json.loads(line):
            raise InputError(f"device {i}", line, "that it is ready")

    def _check_alive(self, i: int) -> None:
        code = self.processes[i].poll()
        if code is not None:
            why = self._complaint(i) or f"its process has ended with code {code}"
            raise InputError(f"device {i}: {why}")

    def _complaint(self, i: int) -> str:
        """The last line that a device has written to standard error."""
        self._errors[i].seek(0)
        lines = self._errors[i].read().strip().splitlines()
        return lines[-1].removeprefix("forerun device: ") if lines else ""

    def _stop(self) -> None:
        """End what is left of the devices: by their lifelines, then by force."""
        for process in self.processes:
            if process.stdin is not None:
                with suppress(OSError):
                    process.stdin.close()
        until = time.monotonic() + _PATIENCE
        for process in self.processes:
            try:
                process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        self._stack.close()


def _loopback() -> socket.socket:
    """A socket with a free port of loopback, which nobody listens on yet."""
    made = socket.socket()
    made.bind(("127.0.0.1", 0))
    return made
