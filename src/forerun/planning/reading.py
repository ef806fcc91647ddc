"""What a run takes that reads its data from another storage than the measured runs did.

The measured run has the reading from its own storage in it. What the storage changes depends on the
program:

    it reads, and then computes       run - reading there + reading here
    it reads while it computes        max(run, reading here)

Where nobody says which, the time lies between the two: the middle is stated, and its interval holds
both. On the storage that the runs were measured on, either gives what was measured.

Runs that are quicker than their reading have not read from there, but from a cache. That is found
once for all runs of a study: found for each candidate by its own time it would have a quick run
read twice, and a slower one once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forerun import quantities

SLACK = 1.1  # measured bandwidths and times are no truer than that
FAR = 1.05  # ratio of the bounds from which on it is worth a word


@dataclass(frozen=True, slots=True)
class Reading:
    """Seconds that reading all data takes, and whether the program computes meanwhile."""

    here: float = 0.0  # from the candidate's storage
    there: float = 0.0  # from the one that the runs were measured on
    overlap: bool | None = None  # None: not known
    cached: str = ""  # the storage that the runs cannot have read from: they were too quick

    def bounds(self, run: float) -> tuple[float, float]:
        """The least and the most that a run takes here that took so long there."""
        added = max(run - self.there, 0.0) + self.here
        if self.overlap is False:
            return added, added
        hidden = max(run, self.here)
        least = hidden
        if self.here < self.there and run < SLACK * self.there:
            # The runs waited for their data: how long they would compute is not known.
            least = self.here
        if self.overlap:
            return least, hidden
        if self.here == self.there:
            return hidden, hidden
        return min(least, added), max(hidden, added)

    def likely(self, run: float) -> float:
        """The middle of the two."""
        return sum(self.bounds(run)) / 2

    def cautions(self, run: float) -> tuple[str, ...]:
        """What makes this less sure."""
        found = []
        if self.cached:
            found.append(
                f"the runs were too quick to have read their data from {self.cached}: taken as if "
                "they had it in a cache; data.measured_at says where they read it"
            )
        least, most = self.bounds(run)
        if most > FAR * least:
            between = quantities.between(least, most)
            why = (
                "whether data is read while computing is not known (data.overlap)"
                if self.overlap is None
                else "the measured runs waited for their data"
            )
            found.append(f"{why}: the run takes {between}")
        return tuple(found)


def cannot_have_read(runs: Sequence[float], reading: Sequence[float]) -> bool:
    """Whether most of these runs were quicker than reading their data takes, in seconds of each."""
    quick = sum(there > SLACK * run for run, there in zip(runs, reading, strict=True))
    return 2 * quick > len(runs)
