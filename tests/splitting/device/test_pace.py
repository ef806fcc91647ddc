import time

import pytest

from forerun.splitting.device.pace import Pace

SLEEP = 0.001  # seconds of processor that a sleep costs


def work(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


class Machine:
    """The clocks of a process; nobody else wants its processor."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._wall = self._cpu = 0.0
        patch.setattr("forerun.splitting.device.pace.time", self)

    def monotonic(self) -> float:
        return self._wall

    def process_time(self) -> float:
        return self._cpu

    def sleep(self, seconds: float) -> None:
        self._wall += seconds
        self._cpu += SLEEP

    def work(self, seconds: float) -> None:
        self._wall += seconds
        self._cpu += seconds


def test_work_ends_no_earlier_than_at_its_pace() -> None:
    pace = Pace(0.25)
    start = time.monotonic()
    pace.begin()
    for _ in range(3):
        work(0.01)
        pace.account()
    assert time.monotonic() - start >= 0.12


def test_waiting_earns_nothing() -> None:
    pace = Pace(0.25)
    pace.account()
    time.sleep(0.1)
    start = time.monotonic()
    pace.begin()
    work(0.01)
    pace.account()
    assert time.monotonic() - start >= 0.04


def test_a_whole_processor_is_not_paced() -> None:
    pace = Pace(1.0)
    work(0.01)
    pace.account()
    assert pace.overhead == 0


def test_what_sleeping_costs_is_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    pace = Pace(0.5)
    pace.begin()
    for turn in range(1, 4):
        machine.work(0.005)
        pace.account()
        assert pace.overhead == pytest.approx(turn * SLEEP)
        assert machine.monotonic() == pytest.approx(turn * 0.005 / 0.5)
