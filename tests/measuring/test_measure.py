import os
import signal
import time
import warnings
from pathlib import Path

import pytest

import forerun
from forerun.errors import ForerunWarning, InputError, StudyError
from forerun.factors import Factor, Space
from forerun.measuring.progress import Limits, Progress
from forerun.study import Study

SPACE = Space([Factor("n", values=(1, 2, 3)), Factor("net", "categorical", values=("a", "b"))])


@pytest.fixture(autouse=True)
def no_warnings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forerun.measuring.noise.machine_warnings", list)
    monkeypatch.setattr("forerun.measuring.noise.load_warning", lambda _: None)


def test_a_functions_wall_time_is_measured(tmp_path: Path) -> None:
    def function(n: int, net: str) -> None:
        time.sleep(n / 100 if net == "a" else n / 50)

    study = Study.create(tmp_path / "a.db", SPACE)
    summary = study.measure(function, design="grid", warmup=0)
    assert (summary.ended, summary.made) == ("done", 6)
    for run in study.runs():
        assert run.seconds is not None
        assert run.seconds >= int(run.point["n"]) / (100 if run.point["net"] == "a" else 50)


def test_a_number_that_a_function_returns_is_its_seconds_where_that_is_said(tmp_path: Path) -> None:
    calls = []

    def function(**point: object) -> float:
        calls.append(point)
        return float(str(point["n"])) * 10

    told: list[Progress] = []
    forerun.measure(
        tmp_path / "new.db",
        function,
        SPACE,
        design="random",
        runs=4,
        returns_seconds=True,
        progress=told.append,
    )
    study = Study.open(tmp_path / "new.db")
    assert len(calls) == 5  # one to warm up
    assert [run.seconds for run in study.runs()] == [
        10 * float(run.point["n"]) for run in study.runs()
    ]
    assert {run.source for run in study.runs()} == {"measure random"}
    assert told[-1].done == 4
    assert "wall_seconds" in study.runs()[0].measures


def test_exceptions_are_failed_runs_with_their_reason(tmp_path: Path) -> None:
    def function(n: int, net: str) -> float:
        if n == 1:
            raise ValueError("no\nsuch net")
        if n == 2:
            raise MemoryError
        return -1.0 if net == "a" else 1.0

    study = Study.create(tmp_path / "a.db", SPACE)
    with pytest.warns(ForerunWarning) as caught:
        summary = study.measure(function, design="grid", retries=0, warmup=0, returns_seconds=True)
    assert (summary.made, summary.failed) == (1, 5)
    assert sorted(run.status for run in study.runs()) == [
        *("failed", "failed", "failed", "ok", "out_of_memory", "out_of_memory"),
    ]
    assert {one.filename for one in caught} == {__file__}  # the line that asked for it
    told = {str(one.message) for one in caught}
    assert "n 1, net a: failed: ValueError: no\\nsuch net; given up" in told
    assert "n 2, net b: out of memory: MemoryError: ; given up" in told
    assert "n 3, net a: failed: returned -1.0 where a positive time is expected; given up" in told


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_function_at_once(tmp_path: Path, number: int) -> None:
    def function(n: int, net: str) -> None:
        if n == 2:
            os.kill(os.getpid(), number)
            time.sleep(60)
        assert net

    before = signal.getsignal(number)
    study = Study.create(tmp_path / "a.db", SPACE)
    summary = study.measure(function, design="grid", warmup=0)
    assert summary.ended == "interrupted"
    assert len(study) == summary.made < 6
    assert signal.getsignal(number) == before
    assert study.measure(lambda n, net: None, design="grid").ended == "done"  # noqa: ARG005


def test_a_function_that_handles_an_interrupt_itself_is_interrupted_all_the_same(
    tmp_path: Path,
) -> None:
    def function(n: int, net: str) -> None:
        assert net
        try:
            if n == 2:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(60)
        except KeyboardInterrupt:
            pass  # as a trainer that ends early, and well

    study = Study.create(tmp_path / "a.db", SPACE)
    summary = study.measure(function, design="grid", warmup=0)
    assert summary.ended == "interrupted"
    assert 2 not in [run.point["n"] for run in study.runs()]


def test_commands_by_name(tmp_path: Path) -> None:
    commands = {"true": "true {n} {net}", "sleep": "sh -c 'sleep 0.0{n}' {net}"}
    summary = forerun.measure(
        tmp_path / "a.db", commands, SPACE, design="grid", allowed="n > 1 and net == 'b'", warmup=0
    )
    study = Study.open(tmp_path / "a.db")
    assert summary.made == 4
    assert {(run.variant, run.point["n"]) for run in study.runs()} == {
        *(("true", 2), ("true", 3), ("sleep", 2), ("sleep", 3)),
    }


def test_one_command_and_the_studys_own_space(tmp_path: Path) -> None:
    study = Study.create(tmp_path / "a.db", SPACE)
    assert study.measure("true {n} {net}", design="latin", runs=2, repeats=2, warmup=0).made == 2
    assert study.commands == {"": "true {n} {net}"}
    again = study.measure("true {n} {net}", design="latin", runs=4, repeats=2, warmup=0)
    assert again.done == 4


def test_without_limits_an_adaptive_design_has_the_usual_ones() -> None:
    limits = Limits.usual()
    assert (limits.target_error, limits.runs, limits.budget_seconds) == (0.1, 60, 3600.0)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda n: n, r"factor net: found no such argument, expected <lambda>\(…, net=…\)"),
        (lambda n, net, x: (n, net, x), r"function <lambda>: found the argument x, expected a fac"),
        (lambda n, /, net: (n, net), "factor n: found no such argument"),
    ],
)
def test_a_function_must_take_the_factors(tmp_path: Path, function: object, message: str) -> None:
    study = Study.create(tmp_path / "a.db", SPACE)
    with pytest.raises(InputError, match=message):
        study.measure(function)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "function",
    [lambda n, net, x=1: (n, net, x), lambda **point: point, lambda n, *_, **others: (n, others)],
)
def test_defaults_and_keywords_are_fine(tmp_path: Path, function: object) -> None:
    study = Study.create(tmp_path / "a.db", SPACE)
    assert study.measure(function, design="grid", runs=1).made == 1  # type: ignore[arg-type]


def test_a_study_of_commands_is_not_for_functions(tmp_path: Path) -> None:
    study = Study.create(tmp_path / "a.db", SPACE, {"": "true {n} {net}"})
    with pytest.raises(StudyError, match="found a study of commands, expected another file"):
        study.measure(lambda n, net: None)  # noqa: ARG005


def test_nothing_is_measured_without_factors(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="no such file"):
        forerun.measure(tmp_path / "none.db", lambda: None)
    with pytest.raises(InputError, match="constraint m > 1: found m, expected one of n, net"):
        forerun.measure(tmp_path / "a.db", "true {n} {net}", SPACE, allowed="m > 1")


def test_a_quiet_campaign_warns_of_nothing(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        study = Study.create(tmp_path / "a.db", SPACE)
        study.measure(lambda n, net: 1.0 + n, design="grid")  # noqa: ARG005
