"""The devices of a split, each a process on a board, and the host that asks them."""

from __future__ import annotations

import secrets
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from boards import SPEED, STARTING, Boards, end, next_line
from numpy.typing import NDArray
from split_prepared import Prepared

from forerun.errors import InputError
from forerun.splitting.running import Answer, Session, device_command, new_secret

PORT = 7000  # of the devices; those of the baseline have the next
TIMEOUT = 120.0  # seconds for which devices wait for each other

Floats = NDArray[np.float32]


@dataclass
class Asked:
    """Answers to some samples, and what they took."""

    latencies: list[float] = field(default_factory=list)  # seconds
    ended: list[float] = field(default_factory=list)  # when, on a clock of this process
    rows: list[int] = field(default_factory=list)  # the image that was asked about
    outputs: list[Floats] = field(default_factory=list)
    spent: list[Counter[str]] = field(default_factory=list)  # of each device, seconds and bytes

    def add(self, other: Asked) -> None:
        """Those of a later run too."""
        for name in ("latencies", "ended", "rows", "outputs"):
            getattr(self, name).extend(getattr(other, name))
        before = self.spent or [Counter() for _ in other.spent]
        self.spent = [one + more for one, more in zip(before, other.spent, strict=True)]

    def error(self, answers: Floats) -> float:
        """The largest error relative to the largest right answer of each image."""
        return max(
            float(np.max(np.abs(output - answers[row])) / np.max(np.abs(answers[row])))
            for row, output in zip(self.rows, self.outputs, strict=True)
        )

    def same_class(self, answers: Floats) -> int:
        """How many have their largest number where the right answer has it."""
        return sum(
            int(output.argmax()) == int(answers[row].argmax())
            for row, output in zip(self.rows, self.outputs, strict=True)
        )

    @property
    def waiting(self) -> float:
        """The share of their time during which the devices had nothing to do."""
        idle = sum(one["waiting_seconds"] + one["idle_seconds"] for one in self.spent)
        return idle / sum(one["seconds"] for one in self.spent)

    def bytes_a_sample(self, direction: str) -> list[float]:
        """What each device has sent to the others for a sample, or received from them."""
        return [one[direction] / len(self.outputs) for one in self.spent]


@dataclass
class Devices:
    """Device processes that wait for samples."""

    session: Session
    images: int

    def ask(self, count: int, in_flight: int = 1) -> Asked:
        """Let them answer to images that they have, so many at a time."""
        self.session.in_flight = in_flight
        return self._asked(self.session.go, count)

    def send(self, images: Floats) -> Asked:
        """The same for images that are sent to them first, one after the other."""
        self.session.in_flight = 1
        return self._asked(self.session.run, [image[np.newaxis] for image in images])

    def totals(self) -> list[Counter[str]]:
        """What each device has done so far: seconds, and bytes to and from other devices."""
        return [numbers(one) for one in self.session.totals()]

    def _asked(self, ask: Callable[[Any], Iterator[Answer]], what: object) -> Asked:
        before, found = self.totals(), Asked()
        for answer in ask(what):
            (output,) = answer.outputs.values()
            found.ended.append(time.monotonic())
            found.latencies.append(answer.seconds)
            found.rows.append(answer.sample % self.images)
            found.outputs.append(output)
        for one, earlier in zip(self.totals(), before, strict=True):
            one.subtract(earlier)
            found.spent.append(one)
        return found


def numbers(totals: Mapping[str, Any]) -> Counter[str]:
    """What a device says of itself, as far as it can be added up."""
    found: Counter[str] = Counter()
    for name, value in totals.items():
        if isinstance(value, dict):
            found[name] = sum(count for peer, count in value.items() if peer != "host")
        elif isinstance(value, int | float):
            found[name] = value  # type: ignore[assignment]
    return found


@contextmanager
def devices(
    boards: Boards,
    prepared: Prepared,
    folder: Path,
    *,
    wire: str = "float32",
    in_flight: int = 1,
    port: int = PORT,
    speed: float = SPEED,
) -> Iterator[Devices]:
    """The devices of a split on the first boards; those of another may be there too."""
    packages = prepared.packages
    places = [f"{boards.address(board)}:{port}" for board in range(len(packages))]
    secret_file = folder / f"secret-{secrets.token_hex(4)}"
    secret = new_secret(secret_file)
    with ExitStack() as stack:
        programs = []
        for board, package in enumerate(packages):
            words = device_command(
                package,
                places,
                secret_file,
                wire=wire,
                in_flight=in_flight,
                speed=speed,
                inputs=prepared.inputs,
                timeout=TIMEOUT,
                start_within=TIMEOUT,
            )
            errors = folder / f"errors-{port}-{board}"
            programs.append(boards.start(board, words, errors))
            stack.callback(ended, programs[-1])
        for board, program in enumerate(programs):
            if "ready" not in (next_line(program, STARTING) or {}):
                told = (folder / f"errors-{port}-{board}").read_text().strip()
                raise InputError(f"device {board}", told or "silence", "that it is ready")
        stack.enter_context(boards.asking())
        session = stack.enter_context(
            Session(prepared.split, places, secret, timeout=TIMEOUT, alive=partial(check, programs))
        )
        yield Devices(session, len(np.load(prepared.inputs, mmap_mode="r")))
        session.end()


def check(programs: Sequence[subprocess.Popen[str]], board: int) -> None:
    """InputError where a device's process has ended."""
    if (code := programs[board].poll()) is not None:
        raise InputError(f"device {board}", f"its end with code {code}", "that it runs")


def ended(program: subprocess.Popen[str]) -> None:
    """End a device, and let go of its output."""
    end(program)
    if program.stdout is not None:
        program.stdout.close()


@dataclass(frozen=True)
class Turn:
    """Samples that are asked in one go: so many at least that `rate` counts."""

    devices: Devices
    count: int
    in_flight: int = 1
    copies: int = 1  # devices that each have a sample of their own


def by_turns(turns: Sequence[Turn], rounds: int) -> list[tuple[Asked, float]]:
    """Ask these one after the other, and again; answers, and samples a second (the median)."""
    found: list[tuple[Asked, list[float]]] = [(Asked(), []) for _ in turns]
    for _ in range(rounds):
        for turn, (all_of, rates) in zip(turns, found, strict=True):
            one, answers_a_second = timed(turn)
            rates.append(answers_a_second)
            all_of.add(one)
    return [(all_of, statistics.median(rates)) for all_of, rates in found]


def timed(turn: Turn) -> tuple[Asked, float]:
    """Ask a turn; its answers, and samples a second."""
    under_way = turn.in_flight * turn.copies
    start = time.monotonic()
    one = turn.devices.ask(asked_for(turn.count, under_way), turn.in_flight)
    return one, rate(start, one.ended, under_way)


def asked_for(count: int, under_way: int) -> int:
    """The samples of a turn in which `rate` is that of so many at least."""
    return count if under_way == 1 else (-(-count // under_way) + 2) * under_way


def rate(start: float, ended: Sequence[float], under_way: int) -> float:
    """Answers a second while as many samples are under way as there may be.

    In the end there are fewer: what was done of them before would make the last answers seem quick.
    Answers may come in clusters of as many: only whole ones are counted.
    """
    if under_way == 1:
        return len(ended) / (ended[-1] - start)
    full = ended[under_way - 1 : len(ended) - under_way]  # at each of these another sample begins
    counted = (len(full) - 1) // under_way * under_way
    return counted / (full[counted] - full[0])
