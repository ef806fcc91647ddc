"""How well forerun times a command, beside hyperfine.

    python benchmarks/timing.py [--rounds SHARE]

Commands of about 5 ms, 100 ms and 1 s, one kind that waits and one that computes all the time, are
timed in turn by `hyperfine -N` (which starts them without a shell, as forerun does) and by forerun,
so that both see the same machine. They take so long by the clock, whatever they get done: a set
amount of work takes 20 % more or less from run to run on a shared machine, whoever times it. Only
the 5 ms are a set amount, since a program takes longer than that to find the clock.

Claim: the means agree within 1 % or 0.5 ms. Then what a run costs besides the time that it is given
(claim: 1 % or 50 ms), what a program pays that prints a lot, and how long `forerun --help` takes,
beside the import of the libraries that print it (no claim: it is theirs for the most part). The
exit code is 1 where a claim does not hold.

hyperfine 1.13 or newer must be on the PATH: it is a package of Debian, Ubuntu, Fedora, Homebrew and
conda-forge, and `cargo install hyperfine` builds it. It takes about three minutes.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from forerun.jobs import Command, Timing, check_program, time_command

Words = tuple[str, ...]

LENGTHS = {0.005: 400, 0.1: 40, 1.0: 12}  # seconds of a command, and how often it is run
MOST_SHARE, MOST_SECONDS = 0.01, 0.0005  # by which means may differ
MOST_COST = 0.05  # seconds of a run that are not the program's
PRINTED_LINES = 20_000
START = 0.01  # seconds until a Perl program has a clock finer than a second
TURNS = 60_000  # of an empty loop in about 5 ms, Perl's start included


@dataclass
class Case:
    """A command, and what each side found for it, run by run."""

    name: str
    words: Words
    rounds: int
    theirs: list[float] = field(default_factory=list)
    ours: list[float] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)  # seconds of our call besides
    loads: list[float] = field(default_factory=list)  # processors that others kept busy

    @property
    def difference(self) -> float:
        return statistics.mean(self.ours) - statistics.mean(self.theirs)

    @property
    def agrees(self) -> bool:
        return abs(self.difference) <= max(MOST_SECONDS, MOST_SHARE * statistics.mean(self.theirs))

    def uncertainty(self) -> float:
        """The standard error of the difference."""
        return math.sqrt(sum(statistics.variance(s) / len(s) for s in (self.ours, self.theirs)))


def by_hyperfine(words: Words, directory: Path) -> float:
    """One run as hyperfine times it, in seconds."""
    found = directory / "hyperfine.json"
    options = ["-N", "--runs", "1", "--style", "none", "--export-json", str(found)]
    subprocess.run(
        ["hyperfine", *options, shlex.join(words)], check=True, capture_output=True, timeout=60
    )
    return float(json.loads(found.read_text())["results"][0]["times"][0])


def by_forerun(words: Words, directory: Path) -> Timing:
    timing = time_command(Command(words), directory / "output.txt")
    if timing.status != "ok":
        sys.exit(f"{shlex.join(words)}: {timing.reason}")
    return timing


def busy(seconds: float) -> Words:
    """A program that only computes, for so long; for the shortest, about so long."""
    if seconds < START:
        return ("perl", "-e", f"for (my $i = 0; $i < {TURNS}; $i++) {{}}")
    loop = f"my $end = time + {seconds:.6f}; my $turns = 0; $turns++ while time < $end;"
    return ("perl", "-MTime::HiRes=time", "-e", loop)


def compare(cases: list[Case], directory: Path) -> None:
    """Both sides by turns, and the first of the two by turns as well."""

    def theirs(case: Case) -> None:
        case.theirs.append(by_hyperfine(case.words, directory))

    def ours(case: Case) -> None:
        began = time.monotonic()
        timing = by_forerun(case.words, directory)
        case.costs.append(time.monotonic() - began - timing.wall_seconds)
        case.ours.append(timing.wall_seconds)
        case.loads.append(timing.other_load)

    sides: list[Callable[[Case], None]] = [theirs, ours]
    most = max(case.rounds for case in cases)
    for number in track(range(most), "timing", console=Console(stderr=True)):
        for case in cases:
            # Spread over the whole time, whatever their number.
            if number * case.rounds // most != (number + 1) * case.rounds // most:
                for side in sides if len(case.ours) % 2 else sides[::-1]:
                    side(case)


def table(cases: list[Case]) -> Table:
    shown = Table("command", "runs", "hyperfine", "forerun", "difference", "", "agree", box=None)
    for case in cases:
        sides = [
            f"{1000 * statistics.mean(side):.2f} ± {1000 * statistics.stdev(side):.2f} ms"
            for side in (case.theirs, case.ours)
        ]
        shown.add_row(
            case.name,
            str(case.rounds),
            *sides,
            f"{1000 * case.difference:+.2f} ± {1000 * case.uncertainty():.2f} ms",
            f"{case.difference / statistics.mean(case.theirs):+.2%}",
            "yes" if case.agrees else "NO",
        )
    return shown


def printing(directory: Path) -> float:
    """How much longer a program takes that prints line by line, when its lines are kept."""
    loop = f"i=0; while [ $i -lt {PRINTED_LINES} ]; do echo line $i; i=$((i+1)); done"
    kept, dropped = [], []
    for _ in range(10):
        kept.append(by_forerun(("sh", "-c", loop), directory).wall_seconds)
        silent = ("sh", "-c", f"{{ {loop}; }} > /dev/null")
        dropped.append(by_forerun(silent, directory).wall_seconds)
    return (statistics.mean(kept) - statistics.mean(dropped)) / PRINTED_LINES


def helping(directory: Path) -> tuple[float, float]:
    """Seconds of `forerun --help`, and of importing what prints it, in turn."""
    ours, theirs = [], []
    for _ in range(10):
        ours.append(by_forerun((sys.executable, "-m", "forerun", "--help"), directory))
        bare = (sys.executable, "-c", "import typer, typer.rich_utils")
        theirs.append(by_forerun(bare, directory))
    mean = [statistics.mean(one.wall_seconds for one in side) for side in (ours, theirs)]
    return mean[0], mean[1]


def main() -> int:
    parser = argparse.ArgumentParser(description="Time commands with forerun and with hyperfine.")
    parser.add_argument("--rounds", type=float, default=1.0, help="how many, as a share of all")
    share = parser.parse_args().rounds
    for program in ("hyperfine", "perl"):
        check_program([program])
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        cases = []
        for seconds, count in LENGTHS.items():
            rounds = max(2, round(share * count))
            wait = ("sleep", f"{seconds:g}")
            cases.append(Case(f"waits {1000 * seconds:g} ms", wait, rounds))
            cases.append(Case(f"computes {1000 * seconds:g} ms", busy(seconds), rounds))
        compare(cases, directory)
        line = printing(directory)
        shown, bare = helping(directory)
    Console(width=110).print(table(cases))
    cost = statistics.mean(cost for case in cases for cost in case.costs)
    load = statistics.mean(load for case in cases[-2:] for load in case.loads)
    print(f"Others kept {load:.2f} processors busy meanwhile; with 0 the spreads are small.")
    print(f"A run costs {1000 * cost:.0f} ms besides its time (claim {1000 * MOST_COST:g} ms).")
    print(f"A line that is printed and kept costs the program {1e6 * line:.1f} µs more than none.")
    print(f"forerun --help takes {1000 * shown:.0f} ms, {1000 * bare:.0f} of them its libraries.")
    return 0 if all(case.agrees for case in cases) and cost <= MOST_COST else 1


if __name__ == "__main__":
    sys.exit(main())
