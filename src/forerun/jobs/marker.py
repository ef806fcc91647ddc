"""Times taken from what a program prints anyway."""

from __future__ import annotations

import math
import re
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import regex

from forerun.errors import InputError

if TYPE_CHECKING:
    from regex import Pattern

LIMIT = 5.0  # seconds that all matching of one output may take

Mark = tuple[int, float]  # bytes printed so far, and when: seconds since the start


@dataclass(frozen=True)
class Marker:
    """A regular expression that finds a run's seconds in its output, line by line.

    Without a group: the mean time between two lines that match, from the first to the last.
    With a group: the last number that it captured, in seconds.
    """

    pattern: str

    def __post_init__(self) -> None:
        if self._compiled.groups > 1:
            raise InputError("marker", self.pattern, "one capture group at most")

    @cached_property
    def _compiled(self) -> Pattern[str]:
        try:
            return regex.compile(self.pattern)
        except regex.error as error:
            raise InputError("marker", self.pattern, f"a regular expression: {error}") from None

    def seconds(self, output: bytes, marks: Sequence[Mark], whole: bool) -> float:
        """The time that the output tells; InputError where it tells none.

        `whole` says whether nothing of the output was left out.
        """
        if self._compiled.groups:
            return self._captured(output)
        if not whole:
            raise InputError("marker", "an output that was not kept whole", "all of its lines")
        return self._between(output, marks)

    def _captured(self, output: bytes) -> float:
        found = [match[1] for _, match in self._matches(output) if match[1] is not None]
        if not found:
            raise InputError("marker", "no number in the output", f"a match of {self.pattern}")
        try:
            seconds = float(found[-1])
        except ValueError:
            seconds = math.nan
        if not (math.isfinite(seconds) and seconds > 0):
            raise InputError("marker", found[-1], "a number of seconds above 0")
        return seconds

    def _between(self, output: bytes, marks: Sequence[Mark]) -> float:
        ends = [end for end, _ in self._matches(output)]
        if len(ends) < 2:
            raise InputError("marker", f"{len(ends)} matching lines", "two or more in the output")
        first, last = (_time_of(end, marks) for end in (ends[0], ends[-1]))
        if first == last:
            raise InputError(
                "marker", f"{len(ends)} lines at one instant", "a program that prints at once"
            )
        return (last - first) / (len(ends) - 1)

    def _matches(self, output: bytes) -> Iterator[tuple[int, regex.Match[str]]]:
        """Where each matching line ends, and its first match."""
        limit = time.monotonic() + LIMIT
        for line in re.finditer(rb"[^\r\n]+", output):
            text = line[0].decode(errors="replace")
            try:
                match = self._compiled.search(text, timeout=max(1e-3, limit - time.monotonic()))
            except TimeoutError:
                raise InputError(
                    "marker", self.pattern, f"a pattern that takes less than {LIMIT:g} s to match"
                ) from None
            if match:
                yield line.end(), match


def _time_of(end: int, marks: Sequence[Mark]) -> float:
    return marks[bisect_left(marks, end, key=lambda mark: mark[0])][1]
