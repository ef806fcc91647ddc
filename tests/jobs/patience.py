"""What keeps tests from failing where the machine is slow, or stands still for a minute.

So what a test waits for may take `LONG`, and what it ends would go on for `ENDLESS`: no machine
takes that long, and a test that does has failed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

LONG = 300.0  # seconds for what takes far less
ENDLESS = 900  # seconds of a process that is ended long before

# The launcher of a command, whose time-out does not begin before something has happened.
_LAUNCH = """\
import os, select, sys
sys.path.append(sys.argv[1])
import launcher

{changes}
hold = launcher.hold_lifeline

def patient(timeout, why, ended):
    while not (ended.is_set() or {happened}):
        if select.select([sys.stdin], [], [], 0.01)[0]:
            break
    hold(timeout, why, ended)

launcher.hold_lifeline = patient
launcher.main()
"""


def wait_for(happened: Callable[[], object]) -> None:
    """Return once it has happened."""
    limit = time.monotonic() + LONG
    while not happened():
        assert time.monotonic() < limit, f"waited for {LONG:g} s"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended may still have its number."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def time_outs_begin(patch: pytest.MonkeyPatch, happened: str, **changes: float) -> None:
    """Let the time-outs of commands begin once this is true in their launcher, or never.

    `happened` is an expression, for the directory of the command; `changes` are the launcher's own
    constants. However late a launcher answers, it is waited for.
    """
    settings = "".join(
        f"launcher.{name} = {value}\n" for name, value in {"FORCE": LONG, **changes}.items()
    )
    launch = _LAUNCH.format(changes=settings, happened=f"({happened})")
    patch.setattr("forerun.jobs.command.LAUNCH", launch)
    patch.setattr("forerun.jobs.command.ENDING", LONG)


class Ticking:
    """A clock that goes on by one step whenever it is looked at, however late that is."""

    sleep = staticmethod(time.sleep)

    def __init__(self, step: float) -> None:
        self._now, self._step = 0.0, step

    def monotonic(self) -> float:
        self._now += self._step
        return self._now
