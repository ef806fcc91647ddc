"""How far a job is, and how long it will still take, with an interval.

Two sources, the second where there is enough of it:

    the prediction   the run's time T is log-normal with its median and its 90 % interval; once e
                     seconds have gone by, what is left is T - e given that T > e
    the output       k of K steps are printed; each of those to come takes the mean of those seen,
                     and the interval holds both their spread and the mean's own error
"""

from __future__ import annotations

import math
import re
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from statistics import NormalDist

from forerun.deploying.record import Predicted
from forerun.errors import InputError

COVERAGE = 0.9
FEWEST = 3  # steps seen from which on their pace counts for more than the prediction
_CHUNK = 2**20  # bytes of an output that are read at a time
_PIECES = re.compile(r"\{(n|of)\}")
_Z = NormalDist().inv_cdf(0.5 + COVERAGE / 2)


@dataclass(frozen=True, slots=True)
class Left:
    """Seconds that are left, with their 90 % interval, and how far it is."""

    seconds: float
    low: float
    high: float
    share: float  # of the whole that is done, from 0 to 1
    source: str  # `prediction`, or `output`


def by_prediction(predicted: Predicted, elapsed: float) -> Left:
    """What is left of a run after so many seconds, by what was predicted."""
    likely = max(predicted.run, 1e-9)
    spread = math.log(max(predicted.run_high, likely) / max(predicted.run_low, 1e-9 * likely))
    normal = NormalDist(math.log(likely), max(spread / (2 * _Z), 1e-6))
    gone = normal.cdf(math.log(elapsed)) if elapsed > 0 else 0.0

    def left(quantile: float) -> float:
        place = min(max(gone + (1 - gone) * quantile, 1e-12), 1 - 1e-12)
        return max(0.0, math.exp(normal.inv_cdf(place)) - elapsed)

    seconds, low, high = map(left, (0.5, (1 - COVERAGE) / 2, (1 + COVERAGE) / 2))
    whole = elapsed + seconds
    return Left(seconds, low, high, elapsed / whole if whole else 0.0, "prediction")


@dataclass(frozen=True)
class Pattern:
    """A line that tells how far a program is: `epoch {n}`, or `epoch {n}/{of}`."""

    text: str
    total: int | None = None

    def __post_init__(self) -> None:
        if self.text.count("{n}") != 1 or self.text.count("{of}") > 1:
            raise InputError("--marker", self.text, "a text with {n} in it, and {of} at most once")
        if self.total is not None and self.total < 1:
            raise InputError("--of", self.total, "a whole number of at least 1")

    def search(self, line: str) -> tuple[int, int | None] | None:
        """The step that a line tells, and of how many; None where it tells nothing."""
        found = self._compiled.search(line)
        if found is None:
            return None
        groups = found.groupdict()
        return int(groups["n"]), int(groups["of"]) if groups.get("of") else self.total

    @property
    def _compiled(self) -> re.Pattern[str]:
        parts = _PIECES.split(self.text)  # text and names by turns
        made = [
            rf"(?P<{part}>[0-9]{{1,12}})" if place % 2 else re.escape(part)
            for place, part in enumerate(parts)
        ]
        ending = r"(?![0-9])" if len(parts) > 1 and not parts[-1] else ""
        return re.compile("".join(made) + ending, re.ASCII | re.IGNORECASE)


@dataclass
class Steps:
    """The steps that an output has told, and when they came."""

    pattern: Pattern
    seen: list[tuple[float, int]] = field(default_factory=list)  # (when, which), rising
    total: int | None = None

    def take(self, text: str, now: float) -> None:
        """Read lines that have come."""
        for line in re.split(r"[\r\n]+", text):
            found = self.pattern.search(line)
            if found is None:
                continue
            step, total = found
            self.total = total or self.total
            if not self.seen or step > self.seen[-1][1]:
                if self.seen and self.seen[-1][0] == now:
                    self.seen[-1] = (now, step)  # came together: the last of them counts
                else:
                    self.seen.append((now, step))

    @property
    def last(self) -> int | None:
        """The last step that was told."""
        return self.seen[-1][1] if self.seen else None

    @property
    def are_all(self) -> bool:
        """Whether the last one has been told."""
        return self.last is not None and self.total is not None and self.last >= self.total

    def left(self, now: float) -> Left | None:
        """What is left; None until there is enough to tell, or where nobody knows of how many."""
        if self.total is None or len(self.seen) < 2:
            return None
        (start, first), (end, last) = self.seen[0], self.seen[-1]
        paces = [
            (after - before) / (step - previous)
            for (before, previous), (after, step) in zip(self.seen, self.seen[1:], strict=False)
        ]
        count, mean = last - first, (end - start) / (last - first)
        spread = statistics.stdev(paces) if len(paces) > 1 else mean / 2
        rest = max(self.total - last, 0)
        half = _Z * spread * math.sqrt(rest + rest**2 / count)
        gone = max(0.0, min(now - end, rest * mean))  # into the next step already
        seconds = max(0.0, rest * mean - gone)
        low, high = max(0.0, seconds - half), seconds + half
        return Left(seconds, low, high, min(last / self.total, 1.0), "output")


class Tail:
    """What is added to a file, as it comes; a file that was cut or replaced begins anew."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._place = 0
        self._file: int | None = None
        self._rest = b""

    def read(self) -> str:
        """The whole lines that have come since; nothing where there is no file yet."""
        try:
            with self.path.open("rb") as file:
                status = self.path.stat()
                if status.st_ino != self._file or status.st_size < self._place:
                    self._file, self._place, self._rest = status.st_ino, 0, b""
                file.seek(self._place)
                found = file.read(_CHUNK)
        except OSError:
            return ""
        self._place += len(found)
        found = self._rest + found
        end = max(found.rfind(b"\n"), found.rfind(b"\r")) + 1  # bars of progress end in the latter
        end = end if len(found) - end < _CHUNK else len(found)  # a line without an end
        self._rest = found[end:]
        return found[:end].decode(errors="replace")

    def rest(self) -> str:
        """A last line that has no end."""
        found, self._rest = self._rest.decode(errors="replace"), b""
        return found
