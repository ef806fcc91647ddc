from pathlib import Path

import pytest

from forerun.factors import Point
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


def test_a_busy_machine_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr("os.getloadavg", lambda: (0.9, 5.0, 5.0))
    assert noise.load_warning(slots=1) is None
    assert noise.load_warning(slots=2) is not None
    monkeypatch.setattr("os.getloadavg", lambda: (1.63, 0.0, 0.0))
    told = noise.load_warning(slots=1)
    assert told is not None
    assert told.startswith("other programs kept 1.6 of the 2 processors busy in the last minute: ")


def test_what_went_on_during_a_run_is_told() -> None:
    assert noise.run_warnings("batch 1", other_load=0.2, left_behind=0) == []
    load, left = noise.run_warnings("batch 1", other_load=0.513, left_behind=2)
    assert load.startswith("batch 1: other programs kept 0.51 processors busy meanwhile")
    assert left.startswith("batch 1: the program left 2 processes behind")


def test_the_spread_of_repeats_needs_three_points() -> None:
    two = runs_of({1: [1.0, 1.5], 2: [1.0, 1.5]})
    assert noise.spread_of(two) is None
    three = runs_of({1: [1.0, 1.5], 2: [2.0, 3.0], 3: [4.0, 6.0], 4: [1.0]})
    assert noise.spread_of(three) == pytest.approx(0.5**0.5 * 0.4)
    assert list(noise.study_warnings(three)) == ["spread"]
    assert "spread by 28 %" in noise.study_warnings(three)["spread"]


def test_a_failed_run_is_no_repeat() -> None:
    failed = [Run(Point({"n": n}), {"seconds": 9.0}, status="failed") for n in (1, 2, 3)]
    assert noise.spread_of([*runs_of({1: [1.0], 2: [1.0], 3: [1.0]}), *failed]) is None


def test_a_slow_first_run_is_told_apart_from_noise() -> None:
    runs = runs_of({1: [2.0, 1.0, 1.0], 2: [2.6, 1.3, 1.3], 3: [5.2, 4.0, 4.0], 4: [1.0]})
    assert noise.slow_first(runs) == pytest.approx(2.0)
    assert "takes 100 % longer than its repeats" in noise.study_warnings(runs)["first"]
    steady = runs_of({1: [1.0, 1.01], 2: [2.0, 2.02], 3: [3.0, 2.99]})
    assert noise.study_warnings(steady) == {}
