"""Measure the cells of the table, each by turns with dense float32 on one board.

`split.csv` has rows for each visit to a cell, appended as it is measured: a second start goes on
where the first one stopped. `split-calibration.csv` says how slow the boards of each start were,
and `split.json` on what machine it was.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import rows
from boards import DILATION, RATE, SPEED, Boards, boards
from calibrate_boards import COLUMNS as CALIBRATED
from calibrate_boards import calibrate
from hosts import stolen
from lenet_runs import machine
from rich.console import Console
from split_devices import PORT, Asked, Devices, Floats, Turn, by_turns, devices
from split_prepared import Prepared, baseline, ideal, prepared
from split_rows import COLUMNS, KEY, Row, Watched, disturbed
from split_ways import COUNTS, Cell, cells

import forerun
from forerun.errors import InputError

HERE = Path(__file__).parent
ROUNDS = 5
SECONDS, QUICK = 8.0, 1.5  # of samples of each kind, about
FEWEST, MOST = 10, 100  # samples of each kind
WARMING = 2  # samples
TRIES = 3  # calibrations, until one is kept

One = TypeVar("One", bound=Watched)
progress = Console(stderr=True, highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class Bed:
    """Boards that were calibrated, and where all else is."""

    boards: Boards
    calibration: str
    work: Path
    seconds: float


def measure(asked: argparse.Namespace) -> None:
    """Make every row that is not there yet."""
    wanted = list(cells(asked.only, asked.ways, asked.boards))
    if asked.prepare:
        for cell in wanted:
            prepared(asked.work, cell)
            progress.print(f"prepared: {cell}")
        return
    table = asked.out / "split.csv"
    visited = [found for found in rows.recorded(table) if found["in_flight"] == "1"]
    done = [tuple(found[name] for name in KEY[:-1]) for found in visited]
    todo = list(rows.missing(wanted * asked.visits, done, lambda cell: cell.key))
    limit = time.monotonic() + 60 * (asked.minutes or 1e9)
    with bed(asked) as made:
        for number, cell in enumerate(todo, start=1):
            if time.monotonic() > limit:
                progress.print(f"the time is over: {len(todo) - number + 1} cells are left")
                return
            found = undisturbed(partial(measured, made, cell))
            rows.append(table, COLUMNS, [rows.written(row) for row in found])
            progress.print(f"{number} of {len(todo)}: {told(cell, found)}")


def told(cell: Cell, found: list[Row]) -> str:
    """A line on a cell."""
    first, last = found[0], found[-1]
    reached = "" if first.reached is None else f", {first.reached:.0%} of the ceiling"
    return (
        f"{cell}: {first.p50_ms:.1f} ms, {first.faster:.2f} times as fast{reached}; "
        f"{last.more:.2f} times the throughput; off by {first.largest_error:.1e}"
    )


@contextmanager
def bed(asked: argparse.Namespace) -> Iterator[Bed]:
    """Boards, calibrated; what was found is kept in any case."""
    if os.geteuid() != 0:
        raise InputError("user", os.geteuid(), "root (0), who may make network namespaces")
    asked.out.mkdir(parents=True, exist_ok=True)
    describe(asked.out / "split.json")
    with boards(max(COUNTS)) as made:
        for _ in range(TRIES):
            found = calibrate(made, SPEED, RATE)
            path = asked.out / "split-calibration.csv"
            rows.append(path, CALIBRATED, [rows.written(check) for check in found])
            for check in found:
                progress.print(f"calibration: {check}")
            if max(check.off for check in found) <= 1:
                break
        else:
            progress.print("the boards are not as slow as they should be: not to be quoted")
        seconds = QUICK if asked.hasty else SECONDS
        yield Bed(made, found[0].started, asked.work, seconds)


def undisturbed(work: Callable[[], list[One]]) -> list[One]:
    """The try that others disturbed least: the first below the limit, or the best of three."""
    tries: list[list[One]] = []
    while len(tries) < TRIES:
        tries.append(work())
        if disturbed(tries[-1][0]) == 0:
            break
    return min(tries, key=lambda found: disturbed(found[0]))


def measured(bed: Bed, cell: Cell) -> list[Row]:
    """A cell without scheme 3, and with it where there are several boards."""
    own, dense = prepared(bed.work, cell), baseline(bed.work, cell)
    started = datetime.now(UTC).isoformat(timespec="seconds")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        alone = run_alone(own, dense, folder, ideal(bed.work, cell))
        answers: Floats = np.load(folder / "answers.npy")
        with (
            devices(bed.boards, dense, folder, port=PORT + 1) as one,
            devices(bed.boards, own, folder, wire=cell.wire, in_flight=cell.in_flight) as several,
        ):
            watch = Watch((one, several))
            turns, rates = asked(bed, cell, one, several)
            load, taken = watch.others()
            image = several.send(np.load(own.inputs))
            resident = max(found["memory_bytes"] for found in several.totals())
    common: dict[str, Any] = {
        **dict(zip(KEY, (cell.network, cell.devices, cell.way.name, cell.wire), strict=False)),
        **static(own),
        **transfers(turns[1], alone),
        "resident_bytes": resident,
        "baseline_p50_ms": milliseconds(statistics.median(turns[0].latencies)),
        "baseline_throughput": rates[0] / DILATION,
        "image_ms": milliseconds(
            statistics.median(image.latencies) - statistics.median(turns[1].latencies)
        ),
        "calibration": bed.calibration,
        "started": started,
        "other_load": load,
        "stolen": taken,
    }
    kinds = ((1, 1), (cell.in_flight, 2))[: 1 if cell.in_flight == 1 else 2]
    return [
        Row(
            in_flight=in_flight,
            samples=len(turns[turn].latencies),
            p50_ms=milliseconds(statistics.median(turns[turn].latencies)),
            p99_ms=milliseconds(float(np.quantile(turns[turn].latencies, 0.99))),
            throughput=rates[turn] / DILATION,
            waiting=turns[turn].waiting,
            answers=len(turns[turn].outputs),
            same_class=turns[turn].same_class(answers),
            largest_error=turns[turn].error(answers),
            **common,
        )
        for in_flight, turn in kinds
    ]


def asked(bed: Bed, cell: Cell, one: Devices, several: Devices) -> tuple[list[Asked], list[float]]:
    """The baseline, the cell's devices and, last, these with scheme 3, by turns; their rates."""
    copies = cell.copies
    counts = [
        samples(bed, each, several_at_once)
        for each, several_at_once in ((one, 1), (several, copies))
    ]
    turns = [Turn(one, counts[0]), Turn(several, counts[1], 1, copies)]
    if cell.in_flight > 1:
        turns.append(Turn(several, counts[1], cell.in_flight, copies))
    found = by_turns(turns, ROUNDS)
    return [answered for answered, _ in found], [rate for _, rate in found]


def samples(bed: Bed, each: Devices, copies: int) -> int:
    """How many to ask in a round: what they take is known once these are warm."""
    each.ask(WARMING * copies)
    seconds = statistics.median(each.ask(WARMING * copies).latencies) / copies
    count = min(max(bed.seconds / seconds, FEWEST), MOST) / ROUNDS
    return max(math.ceil(count / copies), 2) * copies


def run_alone(
    own: Prepared, dense: Prepared, folder: Path, share: Path | None = None
) -> dict[str, Any]:
    """See split_alone.py."""
    words = [own.network, own.split, dense.split, own.inputs, folder / "answers.npy"]
    words += [] if share is None else [share]
    done = subprocess.run(
        [sys.executable, str(HERE / "split_alone.py"), *map(str, words)],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def static(own: Prepared) -> dict[str, object]:
    """What the packages themselves say: the layout, and the device that needs most memory."""
    needs = [
        (sum(segment["weights_bytes"] for segment in one["segments"]), one["activations_bytes"])
        for one in own.descriptions()
    ]
    weights, activations = max(needs, key=sum)
    about = own.about
    layout = "replicas" if about["kind"] == "replicas" else about["layout"]
    return {"layout": layout, "weights_bytes": weights, "activations_bytes": activations}


def transfers(found: Asked, alone: Mapping[str, Any]) -> dict[str, object]:
    """What devices compute alone, and what the one that sends or receives most needs for that.

    Links send and receive at the same time.
    """
    sent, received = (found.bytes_a_sample(name) for name in ("sent_bytes", "received_bytes"))
    return {
        "alone_ms": milliseconds(max(alone["devices"]) / SPEED),
        "ideal_ms": milliseconds(sum(alone["ideal"]) / SPEED),
        "transfer_ms": milliseconds(max(*sent, *received) * 8 / (RATE * 1e6)),
        "baseline_alone_ms": milliseconds(alone["dense"] / SPEED),
        "sent_bytes": round(max(sent)),
    }


def milliseconds(seconds: float) -> float:
    """Of a quoted board, what so many seconds of a board here are."""
    return seconds * DILATION * 1e3


class Watch:
    """How much of the machine others use from now on."""

    def __init__(self, ours: Sequence[Devices]) -> None:
        self._ours = ours
        self._before = self._now()

    def others(self) -> tuple[float, float]:
        """Processors that others kept busy, what the network costs among it; and stolen ones."""
        clock, free, own, taken = (
            now - before for now, before in zip(self._now(), self._before, strict=True)
        )
        processors = os.cpu_count() or 1
        return max(processors - (free + own + taken) / clock, 0.0), taken / clock

    def _now(self) -> tuple[float, float, float, float]:
        _, nice, _, idle, disk = map(int, Path("/proc/stat").read_text().split()[1:6])
        free = (nice + idle + disk) / os.sysconf("SC_CLK_TCK")  # nice: see `awake`
        own = sum(one["computing_seconds"] for each in self._ours for one in each.totals())
        return time.monotonic(), free, own + time.process_time(), stolen()


def describe(path: Path) -> None:
    """Write on what machine and with what versions the cells are measured."""
    known = json.loads(path.read_text()) if path.exists() else {}
    names = ("numpy", "onnxruntime", "torch")
    document = {
        "started": known.get("started") or datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "forerun": forerun.__version__,
        "versions": {name: version(name) for name in names},
        "boards": {"speed": SPEED, "megabits": RATE, "dilation": DILATION},
    }
    path.write_text(json.dumps(document, indent=2) + "\n")
