"""Times taken from what a program prints anyway."""

from __future__ import annotations

import math
import re
import time
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

import regex

from forerun.errors import InputError

LIMIT = 10.0  # seconds that the matching of one output may take

_ESCAPED = re.compile(r"\\.", re.DOTALL)
_CALL = re.compile(r"\(\?(?:R|\d|&|P>)")  # of a group by itself, which may take all memory


@dataclass(frozen=True, slots=True)
class Printed:
    """What a program printed, and when: by `times[i]` the first `offsets[i]` bytes had come."""

    text: bytes
    offsets: list[int] = field(default_factory=list)  # rising, each past the end of a line
    times: list[float] = field(default_factory=list)  # seconds, on the same clock
    whole: bool = True  # false where only the end was kept

    def time_of(self, end: int) -> float:
        """When the line that ends here had come: a last one without an end of line came last."""
        return self.times[min(bisect_left(self.offsets, end), len(self.times) - 1)]


@dataclass(frozen=True, slots=True)
class Marker:
    """A regular expression that finds a run's seconds in what it prints, line by line.

    Without a group: the mean time between two lines that match, from the first to the last.
    With one: the last number that it captured, in seconds.
    """

    pattern: str

    def __post_init__(self) -> None:
        if _CALL.search(_ESCAPED.sub("", self.pattern)):
            raise InputError("marker", self.pattern, "a pattern that does not call itself")
        try:
            groups = regex.compile(self.pattern).groups
        except (regex.error, RecursionError) as error:
            raise InputError("marker", self.pattern, f"a regular expression: {error}") from None
        if groups > 1:
            raise InputError("marker", self.pattern, "one capture group at most, (?:…) aside")

    @property
    def captures(self) -> bool:
        """Whether it has a group: then it does not matter when lines came."""
        return regex.compile(self.pattern).groups == 1

    def seconds(self, printed: Printed) -> float:
        """The time that the output tells; InputError where it tells none."""
        return self._captured(printed) if self.captures else self._between(printed)

    def _captured(self, printed: Printed) -> float:
        found = [match[1] for _, match in self._matches(printed.text) if match[1] is not None]
        if not found:
            raise InputError("marker", "no match in the output", f"a match of {self.pattern}")
        try:
            seconds = float(found[-1])
        except ValueError:
            seconds = math.nan
        if not 0 < seconds < math.inf:
            raise InputError("marker", found[-1], "a number of seconds above 0")
        return seconds

    def _between(self, printed: Printed) -> float:
        if not printed.whole:
            raise InputError("marker", "more output than is kept", "all of it, or a capture group")
        ends = [end for end, _ in self._matches(printed.text)]
        if len(ends) < 2:
            found = f"{len(ends) or 'no'} match{'' if ends else 'es'} in the output"
            raise InputError("marker", found, f"two or more of {self.pattern}")
        first, last = printed.time_of(ends[0]), printed.time_of(ends[-1])
        if first >= last:
            found = f"{len(ends)} matches that came at once"
            raise InputError("marker", found, "a program that writes each line out when it is due")
        return (last - first) / (len(ends) - 1)

    def _matches(self, text: bytes) -> Iterator[tuple[int, regex.Match[str]]]:
        """Where each matching line ends, and the first match in it."""
        search = regex.compile(self.pattern).search
        limit = time.monotonic() + LIMIT
        for line in re.finditer(rb"[^\r\n]+", text):
            left = limit - time.monotonic()
            try:
                if left <= 0:
                    raise TimeoutError
                match = search(line[0].decode(errors="replace"), timeout=left)
            except TimeoutError:
                expected = f"a pattern that is matched within {LIMIT:g} s"
                raise InputError("marker", self.pattern, expected) from None
            if match:
                yield line.end(), match
