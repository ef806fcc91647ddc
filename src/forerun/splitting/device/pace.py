"""The pace of a weaker processor: work of c CPU seconds takes c/speed, and waiting earns nothing.

A quota of a control group would flatter a device that waits for others: its share refills
meanwhile. Here the CPU time of the whole process (its threads, sockets and quantising too) is
accounted before anything can be seen of the work: before a message goes to the kernel, and before
the device waits.
"""

from __future__ import annotations

import ctypes
import time
from contextlib import suppress

_PR_SET_TIMERSLACK = 29  # of prctl(2)


class Pace:
    """Ends every piece of work no earlier than a processor of this speed would."""

    def __init__(self, speed: float) -> None:
        self.speed = speed
        self.overhead = 0.0  # CPU seconds of sleeping, which a weaker processor would not do
        if speed < 1:
            # Timers are 50 µs late otherwise, to save power.
            with suppress(OSError, AttributeError):
                ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
        self._cpu = time.process_time()
        self._start = time.monotonic()

    def begin(self) -> None:
        """Work starts now: the wait before it has ended.

        Where others had the processor just then it starts late, and ends late: boards that share
        one are never too fast.
        """
        self._start = time.monotonic()

    def account(self) -> None:
        """Work since the last account ends: sleep for as long as the weaker processor would work.

        A timer that wakes late is not that processor's fault: the next work starts when this one
        should have ended. What the sleep itself costs the processor is not counted.
        """
        if self.speed == 1:
            return
        cpu = time.process_time()
        end = self._start + (cpu - self._cpu) / self.speed
        self._cpu = cpu
        now = time.monotonic()
        if end > now:
            time.sleep(end - now)
            self._start = end
            self._cpu = time.process_time()
            self.overhead += self._cpu - cpu
        else:
            self._start = now
