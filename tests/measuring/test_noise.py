import math
import random
from pathlib import Path

import pytest

from forerun.factors import Point
from forerun.jobs.command import Timing
from forerun.measuring import noise
from forerun.study import Run


def runs_of(times: dict[int, list[float]]) -> list[Run]:
    """Runs by turns: the first of each point, then the second …"""
    longest = max(map(len, times.values()))
    return [
        Run(Point({"n": n}), {"seconds": found[turn]})
        for turn in range(longest)
        for n, found in times.items()
        if turn < len(found)
    ]


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def test_a_quiet_machine_gives_no_warning(tmp_path: Path) -> None:
    assert noise.machine_warnings(tmp_path, tmp_path) == []
    write(tmp_path / "cpu0/cpufreq/scaling_governor", "performance")
    write(tmp_path / "intel_pstate/no_turbo", "1")
    write(tmp_path / "AC/type", "Mains")
    write(tmp_path / "AC/online", "1")
    assert noise.machine_warnings(tmp_path, tmp_path) == []


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        ("cpu1/cpufreq/scaling_governor", "powersave", "governor powersave"),
        ("intel_pstate/no_turbo", "0", "turbo is on"),
        ("cpufreq/boost", "1", "turbo is on"),
        ("AC/online", "0", "runs on battery"),
    ],
)
def test_what_changes_the_frequency_is_told(
    tmp_path: Path, file: str, text: str, told: str
) -> None:
    write(tmp_path / "cpu0/cpufreq/scaling_governor", "performance")
    write(tmp_path / "AC/type", "Mains")
    write(tmp_path / file, text)
    (line,) = noise.machine_warnings(tmp_path, tmp_path)
    assert told in line
    assert "\n" not in line


def ticks(busy: int, idle: int) -> str:
    """Of two processors: user, nice, system, idle, iowait, irq, softirq, steal, guest, guest's."""
    line = f"{busy} 0 0 {idle} 0 0 0 0 {busy} 0"
    return f"cpu  9999 0 0 0 0 0 0 0 0 0\ncpu0 {line}\ncpu1 {line}\ncpu2 9999 0 0 0 0 0 0 0 0 0"


@pytest.mark.parametrize(
    ("busy", "slots", "told"),
    [
        (45, 1, None),  # 0.9 processors: a run has the other one
        (45, 2, "other programs keep 0.9 of the 2 processors busy: "),
        (82, 1, "other programs keep 1.6 of the 2 processors busy: "),
        (10, 2, None),
    ],
)
def test_a_machine_that_is_busy_now_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: int, slots: int, told: str | None
) -> None:
    stat = tmp_path / "stat"
    write(stat, ticks(1000, 1000))
    later = ticks(1000 + busy, 1000 + 100 - busy)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr("os.getloadavg", lambda: (9.0, 9.0, 9.0))  # of what has ended
    monkeypatch.setattr("time.sleep", lambda _: write(stat, later))
    line = noise.load_warning(slots, stat)
    assert line is None if told is None else line is not None and line.startswith(told)


def test_a_machine_that_does_not_tell_is_quiet(tmp_path: Path) -> None:
    assert noise.load_warning(1, tmp_path / "stat") is None


@pytest.mark.parametrize(
    ("processors", "own", "others", "disturbed"),
    [
        (2, 1.0, 0.9, False),  # there was a processor for it
        (2, 1.9, 0.3, True),
        (2, 2.0, 0.2, False),  # nobody has a machine all to himself
        (2, 0.0, 0.3, True),  # what the run used is not known
        (64, 16.0, 3.0, False),
        (64, 64.0, 3.0, True),
    ],
)
def test_a_run_is_disturbed_by_more_than_it_leaves_idle(
    monkeypatch: pytest.MonkeyPatch, processors: int, own: float, others: float, disturbed: bool
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: processors)
    timing = Timing("ok", 10.0, 10.0, own * 9, own, other_load=others)
    assert noise.is_disturbed(timing) is disturbed


def test_what_went_on_during_a_run_is_told() -> None:
    assert noise.run_warnings("batch 1", other_load=0.2, left_behind=0) == []
    load, left = noise.run_warnings("batch 1", other_load=0.513, left_behind=2)
    assert load.startswith("batch 1: other programs used 0.51 of the processors meanwhile")
    assert left.startswith("batch 1: the program left 2 processes behind")


def test_the_spread_of_repeats_needs_three_points() -> None:
    two = runs_of({1: [1.0, 1.5], 2: [1.0, 1.5]})
    assert noise.study_warnings(two) == {}
    three = runs_of({1: [1.0, 1.5], 2: [2.0, 3.0], 3: [4.0, 6.0], 4: [1.0]})
    assert list(noise.study_warnings(three)) == ["spread"]
    assert "spread by 29 %" in noise.study_warnings(three)["spread"]


def test_a_failed_run_is_no_repeat() -> None:
    failed = [Run(Point({"n": n}), {"seconds": 9.0}, status="failed") for n in (1, 2, 3)]
    assert noise.study_warnings([*runs_of({1: [1.0], 2: [1.0], 3: [1.0]}), *failed]) == {}


@pytest.mark.parametrize("repeats", [2, 3, 5])
def test_the_pooled_spread_is_that_of_the_noise(repeats: int) -> None:
    drawn = random.Random(0)
    times = [
        [size * math.exp(drawn.gauss(0, 0.1)) for _ in range(repeats)] for size in range(1, 2000)
    ]
    assert noise.pooled_spread([*times, [7.0]]) == pytest.approx(0.1, rel=0.03)
    assert noise.pooled_spread([[1.0], [2.0]]) is None


def test_a_slow_first_run_is_told_apart_from_noise() -> None:
    runs = runs_of({1: [2.0, 1.0, 1.0], 2: [2.6, 1.3, 1.3], 3: [5.2, 4.0, 4.0], 4: [1.0]})
    assert noise.slow_first(runs) == pytest.approx(2.0)
    assert "takes 100 % longer than its repeats" in noise.study_warnings(runs)["first"]
    steady = runs_of({1: [1.0, 1.01], 2: [2.0, 2.02], 3: [3.0, 2.99]})
    assert noise.study_warnings(steady) == {}
