"""Whether a plan stages data where that pays, and says what it gains.

    python benchmarks/staging.py [--repeats N] [--epochs 1,2,5] [--work 1,4]

A real data set lies on a real disk that a control group makes slow; memory that is a file system
(/dev/shm) is the faster storage. A training that reads all of it in each epoch, which is
read_and_compute.py, is measured on the faster storage with a few epochs, by `forerun measure`, and
`forerun plan` is asked about more of them, with the bandwidths that were measured just before. Then
both ways are run: from the slow disk; and copied from there first, then run.

Claim: a plan stages the data where that is quicker, and never for a single pass; and the gain that
it predicts (seconds without staging over seconds with it) is within 15 % of the measured one. The
exit code is 1 where the claim does not hold.

It needs root, control groups of version 1 and a processor to itself, and takes about twelve
minutes. On a busy machine a run that waits for its disk gets the processor at once when it wants
it, and one that only computes does not, so that staging seems to gain less than it does.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from throttled import Group, throttled, why_not

from forerun.infrastructure.detection import machine

SCRIPT = Path(__file__).with_name("read_and_compute.py")
FAST = Path("/dev/shm")
# Bytes. The kernel counts a throttled group's bytes in slices of 100 ms: who computes for a part of
# one gets the time back as faster reading, which no disk gives. With files this large computing on
# one takes longer than a slice, where computing is a share of the time that matters.
FILE = 6_000_000
MOST = 0.15  # by which the predicted gain may be off
MEASURED = "1,2"  # epochs of the runs that the plan knows
FEWEST = 5  # runs of each, so that the model knows their noise
FORERUN = (sys.executable, "-m", "forerun")


@dataclass(frozen=True)
class Case:
    """A way to train: steps on each file, and whether files are read ahead."""

    work: int
    prefetch: bool = False

    @property
    def name(self) -> str:
        return f"{self.work} steps a file{', reads ahead' if self.prefetch else ''}"

    @property
    def study(self) -> str:
        """The file with its measured runs."""
        return f"{self.work}{'-ahead' if self.prefetch else ''}.db"

    def words(self, data: Path, epochs: object) -> list[str]:
        """The command that trains so."""
        words = [sys.executable, str(SCRIPT), "--data", str(data), "--epochs", str(epochs)]
        return [*words, "--work", str(self.work), *(["--prefetch"] if self.prefetch else [])]


@dataclass(frozen=True)
class Gain:
    """What staging gains by the plan, and what it gained."""

    staged: bool  # whether the plan does so
    predicted: float
    slow: Sequence[float]  # seconds from the slow disk
    quick: Sequence[float]  # seconds of copying and of running then
    copying: float  # of these

    @property
    def measured(self) -> float:
        return statistics.median(self.slow) / statistics.median(self.quick)

    @property
    def spread(self) -> float:
        """Half of what the gains of single repeats span."""
        gains = [slow / quick for slow, quick in zip(self.slow, self.quick, strict=True)]
        return (max(gains) - min(gains)) / 2

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1

    def holds(self, epochs: int) -> bool:
        """Whether the plan was right: close, and staged where that is surely quicker."""
        wrong = self.staged if epochs == 1 else self.staged != (self.measured > 1)
        unsure = epochs > 1 and abs(self.measured - 1) < 0.05
        return abs(self.error) <= MOST and (unsure or not wrong)


class Place:
    """The data on its slow disk, a copy on fast storage, and what both are worth."""

    def __init__(self, slow: Path, fast: Path, group: Group, size: float) -> None:
        self.slow, self.fast, self.group = slow, fast, group
        for number in range(max(1, round(size / FILE))):
            _write(slow / f"{number:05}.raw", os.urandom(FILE))
        self.size = sum(path.stat().st_size for path in slow.iterdir())
        self.stage()
        self.rates = {"disk": self._rate(slow), "fast": self._rate(fast)}

    def stage(self) -> float:
        """Copy the data from the slow disk; the seconds that it takes."""
        for path in self.fast.iterdir():
            path.unlink()
        began = time.perf_counter()
        self.group.run(["cp", "-r", f"{self.slow}/.", str(self.fast)])
        taken = time.perf_counter() - began
        self.forget()
        return taken

    def run(self, case: Case, epochs: int, data: Path) -> float:
        """The seconds of one training."""
        began = time.perf_counter()
        self.group.run(case.words(data, epochs))
        return time.perf_counter() - began

    def forget(self) -> None:
        """Drop the slow disk's files from the page cache."""
        for path in self.slow.iterdir():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def _rate(self, data: Path) -> float:
        """Bytes a second that the training reads when it does nothing else; the median of three."""
        said = [self.group.run(Case(0).words(data, 1)).split() for _ in range(3)]
        return statistics.median(float(words[0]) / float(words[3]) for words in said)


def _write(path: Path, content: bytes) -> None:
    """A file that is on the disk, and no longer in the page cache."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@contextmanager
def placed(folder: Path, size: float, rate: float) -> Iterator[Place]:
    """Data on a disk that is made slow; all of it is gone afterwards."""
    with (
        tempfile.TemporaryDirectory(dir=folder) as slow,
        tempfile.TemporaryDirectory(dir=FAST) as fast,
        throttled(Path(slow), rate) as group,
    ):
        yield Place(Path(slow), Path(fast), group, size)


def describe(place: Place, file: Path) -> None:
    """Write what there is to run on: this machine, and both storages as they were measured."""
    document = yaml.safe_load(machine().to_yaml())
    document["storage"] = {
        name: {"bandwidth": f"{rate / 1e6:.4g} MB/s"} for name, rate in place.rates.items()
    }
    file.write_text(yaml.safe_dump(document, sort_keys=False))


def study(place: Place, case: Case, folder: Path) -> None:
    """Measure a few epochs on the fast storage, as a user would."""
    command = " ".join(case.words(place.fast, "{epochs}"))
    words = ["measure", command, "-f", f"epochs={MEASURED}", "--design", "grid"]
    _forerun(*words, "--repeats", str(FEWEST), "-o", str(folder / case.study))


def planned(place: Place, case: Case, epochs: int, folder: Path) -> tuple[bool, float]:
    """Whether the plan stages, and what that gains by its own figures."""
    request = {
        "application": {"command": " ".join(case.words(place.fast, "{epochs}"))},
        "study": case.study,
        "fixed": {"epochs": epochs},
        "data": {
            "size": place.size,
            "at": "disk",
            "passes": epochs,
            "measured_at": "fast",
            "overlap": case.prefetch,
        },
    }
    (folder / "request.yaml").write_text(yaml.safe_dump(request))
    words = ("plan", str(folder / "request.yaml"), "--on", str(folder / "here.yaml"), "--json")
    found = json.loads(_forerun(*words))
    seconds = {one["staged"]: float(one["seconds"]) for one in found["candidates"]}
    return found["candidates"][0]["staged"], seconds[False] / seconds[True]


def _forerun(*words: str) -> str:
    done = subprocess.run([*FORERUN, *words], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def compare(place: Place, case: Case, epochs: int, folder: Path, repeats: int) -> Gain:
    """Plan, then run both ways in turn."""
    staged, predicted = planned(place, case, epochs, folder)
    slow, quick, copying = [], [], []
    for _ in range(repeats):
        place.forget()
        slow.append(place.run(case, epochs, place.slow))
        copying.append(place.stage())
        quick.append(copying[-1] + place.run(case, epochs, place.fast))
    return Gain(staged, predicted, slow, quick, statistics.median(copying))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--epochs", default="1,2,5")
    parser.add_argument("--work", default="1,4", help="steps on each file")
    parser.add_argument("--rate", type=float, default=5.0, help="of the slow disk, in MB/s")
    parser.add_argument("--size", type=float, default=30.0, help="of the data, in MB")
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp"), help="on the disk")
    given = parser.parse_args()
    if reason := why_not(given.folder):
        sys.exit(f"staging.py: {reason}")
    os.environ["OMP_NUM_THREADS"] = "1"
    epochs = [int(word) for word in given.epochs.split(",")]
    works = [int(word) for word in given.work.split(",")]
    cases = [*map(Case, works), Case(works[-1], prefetch=True)]
    errors = Console(stderr=True)
    table = Table("training", "epochs", "plan", "from disk", "staged", "gain", "predicted", "off")
    held = True
    with (
        placed(given.folder, given.size * 1e6, given.rate * 1e6) as place,
        tempfile.TemporaryDirectory() as work,
        Progress(console=errors) as progress,
    ):
        folder = Path(work)
        describe(place, folder / "here.yaml")
        doing = progress.add_task("measuring", total=len(cases) * (1 + len(epochs)))
        for case in cases:
            study(place, case, folder)
            progress.advance(doing)
            for count in epochs:
                gain = compare(place, case, count, folder, given.repeats)
                held &= gain.holds(count)
                table.add_row(case.name, str(count), *row(gain))
                errors.print(case.name, count, *row(gain), sep="; ", highlight=False)
                progress.advance(doing)
        told = ", ".join(f"{name} {rate / 1e6:.1f} MB/s" for name, rate in place.rates.items())
    console = Console(width=120)
    console.print(f"{given.size:g} MB of data; measured: {told}; ± over {given.repeats} repeats")
    busy = f"load average {os.getloadavg()[1]:.1f} on {os.cpu_count()} processors"
    console.print(f"{time.strftime('%Y-%m-%d')}; {busy}, of which this benchmark is at most 1")
    console.print(table)
    console.print(f"within {MOST:.0%}, and staged where it pays: {'yes' if held else 'no'}")
    sys.exit(0 if held else 1)


def row(gain: Gain) -> list[str]:
    """What the table says of one comparison."""
    seconds = (
        f"{statistics.median(each):.1f} s ± {spread(each):.1f} s"
        for each in (gain.slow, gain.quick)
    )
    return [
        "stages" if gain.staged else "does not",
        *seconds,
        f"{gain.measured:.2f} ± {gain.spread:.2f}",
        f"{gain.predicted:.2f}",
        f"{gain.error:+.1%}",
    ]


def spread(values: Sequence[float]) -> float:
    """Half of what repeats span."""
    return (max(values) - min(values)) / 2


if __name__ == "__main__":
    main()
