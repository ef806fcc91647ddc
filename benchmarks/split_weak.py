"""The decoupled ResNet-50 on boards with little memory, on links that are weak, and scheme 3.

Every experiment is made by turns with plain conditions: with one sample in flight where scheme 3
is judged, else without loss, or at a steady rate that is the mean of the swing.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import rows
from boards import DILATION, RATE, SPEED, triangle
from split_claims import BOARDS, LOSSES, MEMORY_LIMIT, SHOWN
from split_devices import Asked, Devices, Floats, Turn, devices, timed
from split_prepared import Prepared, baseline, prepared
from split_runs import Bed, Watch, bed, progress, run_alone, undisturbed
from split_ways import DENSE, IN_FLIGHT, WAYS, Cell
from split_weak_rows import COLUMNS, KEY, Weak

from forerun.errors import InputError

LOW, HIGH, PERIOD = 10.0 * DILATION, 100.0 * DILATION, 4.0 / DILATION  # of the swing
SLOWER = 4.0  # times, the link on which exchanging takes most of the time
ROUNDS = 3
WAY = next(way for way in WAYS if way.name == "decnn-1.75" and way.runs_on(BOARDS))

Conditions = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True)
class Experiment:
    """What is done, under what name."""

    experiment: str
    name: str
    wire: str
    make: Callable[[Bed, Experiment], Weak]
    loss: float = 0.0
    way: str = WAY.name

    @property
    def key(self) -> tuple[str, ...]:
        """What tells it from others in a file."""
        return tuple(str(getattr(self, name)) for name in KEY)

    @property
    def cell(self) -> Cell:
        """The network and the boards."""
        if self.way == DENSE.name:
            return Cell(SHOWN, 1, DENSE, self.wire)
        return Cell(SHOWN, BOARDS, WAY, self.wire)


def measure(asked: argparse.Namespace) -> None:
    """Make every experiment that is not there yet."""
    table = asked.out / "split-weak.csv"
    done = {tuple(found[name] for name in KEY) for found in rows.recorded(table)}
    todo = [one for one in experiments() if one.key not in done]
    limit = time.monotonic() + 60 * (asked.minutes or 1e9)
    if not todo:
        return
    with bed(asked) as made:
        for one in todo:
            if time.monotonic() > limit:
                progress.print("the time is over")
                return
            (found,) = undisturbed(partial(made_once, made, one))
            rows.append(table, COLUMNS, [rows.written(found)])
            progress.print(
                f"{one.experiment} {one.name}, {one.way}: {found.throughput:.3f} samples a second, "
                f"plain {found.plain_throughput:.3f}, ratio {found.gain:.3f}, killed {found.killed}"
            )


def made_once(bed: Bed, one: Experiment) -> list[Weak]:
    """An experiment's row."""
    return [one.make(bed, one)]


def experiments() -> Iterator[Experiment]:
    """All of them, what is claimed first."""
    yield Experiment("scheme 3", "equal", "float32", equal)
    yield Experiment("memory", f"{MEMORY_LIMIT / 1e6:.0f} MB", "int8", little_memory)
    yield Experiment("memory", f"{MEMORY_LIMIT / 1e6:.0f} MB", "float32", killed, way=DENSE.name)
    for share in LOSSES:
        yield Experiment("loss", f"{share:.0%}", "int8", lossy, share)
    yield Experiment("swing", f"{LOW / DILATION:.0f} to {HIGH / DILATION:.0f}", "int8", swing)
    yield Experiment("scheme 3", "slow", "float32", slow)


def equal(bed: Bed, one: Experiment) -> Weak:
    """Scheme 3 at the rate at which a device's compute and its exchange take the same time."""
    return gained(bed, one, 1.0)


def slow(bed: Bed, one: Experiment) -> Weak:
    """Scheme 3 where the exchange takes most of the time."""
    return gained(bed, one, SLOWER)


def gained(bed: Bed, one: Experiment, slower: float) -> Weak:
    """The throughput with several samples in flight, beside that with one."""
    with running(bed, one) as (several, answers):
        megabits = balanced(several) / slower
        bed.boards.limit_links(megabits)
        found = by_turns(
            bed, several, (nullcontext, 1), (nullcontext, IN_FLIGHT), at_most=RATE / megabits
        )
        return written(bed, one, answers, found, megabits=megabits)


def balanced(several: Devices) -> float:
    """Megabits a second at which a device sends and receives for as long as it computes."""
    several.ask(2)
    found = several.ask(4)
    costs = zip(
        found.spent,
        *(found.bytes_a_sample(name) for name in ("sent_bytes", "received_bytes")),
        strict=True,
    )
    rates = [
        max(sent, received) * 8 / (spent["computing_seconds"] / len(found.outputs) / SPEED) / 1e6
        for spent, sent, received in costs
    ]
    return statistics.fmean(rates)


def lossy(bed: Bed, one: Experiment) -> Weak:
    """Scheme 3 where frames are lost."""
    with running(bed, one) as (several, answers):
        losing = partial_of(bed.boards.losing, one.loss)
        found = by_turns(bed, several, (nullcontext, IN_FLIGHT), (losing, IN_FLIGHT))
        return written(bed, one, answers, found)


def swing(bed: Bed, one: Experiment) -> Weak:
    """Scheme 3 where the rate swings."""
    mean = (LOW + HIGH) / 2
    with running(bed, one) as (several, answers):
        bed.boards.limit_links(mean)
        swings = partial_of(bed.boards.swinging, triangle(LOW, HIGH, PERIOD))

        @contextmanager
        def swinging() -> Iterator[None]:
            with swings():
                yield
            bed.boards.limit_links(mean)

        found = by_turns(bed, several, (nullcontext, IN_FLIGHT), (swinging, IN_FLIGHT))
        return written(bed, one, answers, found, megabits=mean)


def little_memory(bed: Bed, one: Experiment) -> Weak:
    """Answers on boards that have little memory, beside the same boards with much."""
    with running(bed, one) as (several, _):
        before = by_turns(bed, several, (nullcontext, 1), (nullcontext, 1))
    bed.boards.limit_memory(MEMORY_LIMIT)
    try:
        with running(bed, one) as (several, answers):
            found = by_turns(bed, several, (nullcontext, 1), (nullcontext, 1))
            found.plain_rate = before.rate
            return written(bed, one, answers, found, limit_bytes=MEMORY_LIMIT)
    finally:
        bed.boards.limit_memory(None)


def killed(bed: Bed, one: Experiment) -> Weak:
    """Dense on one board that has as little memory: whether its process is killed."""
    bed.boards.limit_memory(MEMORY_LIMIT)
    before = bed.boards.killed_for_memory(0)
    found = Found(Asked(), 0.0, 0.0, 0, 0.0, 0.0)
    try:
        with running(bed, one) as (device, answers):
            found = by_turns(bed, device, (nullcontext, 1), (nullcontext, 1))
    except InputError as error:
        progress.print(f"dense on {MEMORY_LIMIT / 1e6:.0f} MB: {error}")
        answers = np.zeros((0, 0), np.float32)
    finally:
        bed.boards.limit_memory(None)
    return written(
        *(bed, one, answers, found),
        limit_bytes=MEMORY_LIMIT,
        killed=bed.boards.killed_for_memory(0) - before,
    )


@dataclass
class Found:
    """What the turns have shown."""

    asked: Asked  # under hard conditions
    rate: float  # samples a second
    plain_rate: float
    resident_bytes: int
    other_load: float
    stolen: float


@contextmanager
def running(bed: Bed, one: Experiment) -> Iterator[tuple[Devices, Floats]]:
    """The devices of an experiment at the usual rate, and what the single process answers."""
    own: Prepared = prepared(bed.work, one.cell)
    bed.boards.limit_links(RATE)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        run_alone(own, baseline(bed.work, one.cell), folder)
        in_flight = 1 if one.experiment == "memory" else IN_FLIGHT
        options: dict[str, Any] = {"wire": one.wire, "in_flight": in_flight}
        with devices(bed.boards, own, folder, **options) as several:
            several.ask(2)
            yield several, np.load(folder / "answers.npy")


def by_turns(
    bed: Bed,
    several: Devices,
    plain: tuple[Conditions, int],
    hard: tuple[Conditions, int],
    at_most: float = 1.0,
) -> Found:
    """Samples under plain and under hard conditions, by turns; `at_most` how much slower."""
    seconds = statistics.median(several.ask(2).latencies) * at_most
    count = max(round(bed.seconds / seconds), 3 * IN_FLIGHT)
    watch, found = Watch([several]), Asked()
    rates: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(ROUNDS):
        for is_hard, (conditions, in_flight) in ((False, plain), (True, hard)):
            with conditions():
                asked, answers_a_second = timed(Turn(several, count, in_flight))
            rates[is_hard].append(answers_a_second)
            found.add(asked)
    resident = max(int(one["memory_bytes"]) for one in several.totals())
    middle = {is_hard: statistics.median(some) for is_hard, some in rates.items()}
    return Found(found, middle[True], middle[False], resident, *watch.others())


def partial_of(
    conditions: Callable[[Any], AbstractContextManager[None]], given: object
) -> Conditions:
    """Conditions that can be made again and again."""
    return lambda: conditions(given)


def written(
    bed: Bed,
    one: Experiment,
    answers: Floats,
    found: Found,
    *,
    megabits: float = RATE,
    limit_bytes: int = 0,
    killed: int = 0,
) -> Weak:
    """A row."""
    return Weak(
        experiment=one.experiment,
        name=one.name,
        network=one.cell.network,
        devices=one.cell.devices,
        way=one.way,
        wire=one.wire,
        in_flight=1 if one.experiment == "memory" else IN_FLIGHT,
        megabits=megabits / DILATION,
        loss=one.loss,
        limit_bytes=limit_bytes,
        throughput=found.rate / DILATION,
        plain_throughput=found.plain_rate / DILATION,
        killed=killed,
        resident_bytes=found.resident_bytes,
        answers=len(found.asked.outputs),
        largest_error=found.asked.error(answers) if found.asked.outputs else 0.0,
        calibration=bed.calibration,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        other_load=found.other_load,
        stolen=found.stolen,
    )
