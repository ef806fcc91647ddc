import math
import threading
import time
from pathlib import Path

import pytest
from patience import ENDLESS, LONG, time_outs_begin

from forerun.errors import InputError
from forerun.factors import Point
from forerun.jobs.command import Command, Timing
from forerun.measuring.runner import FunctionRunner, LocalRunner, Task, call_timed, output_of


def task(*words: str, warmups: int = 0) -> Task:
    return Task("f" * 31 + str(len(words)), Point({}), "chosen", "", Command(words), warmups)


def results(runner: LocalRunner, count: int) -> list[Timing]:
    found: list[Timing] = []
    while len(found) < count:
        found += [timing for _, timing in runner.finished(10)]
    return found


def test_commands_run_side_by_side_and_come_back_with_their_timings(tmp_path: Path) -> None:
    runner = LocalRunner(2, tmp_path / "out")
    first, second = task("sh", "-c", "echo one"), task("false")
    runner.start(first)
    runner.start(second)
    ended: dict[str, Timing] = {}
    while len(ended) < 2:
        ended |= {one.uid: timing for one, timing in runner.finished(10)}
    assert ended[first.uid].status == "ok"
    assert ended[second.uid].status == "failed"
    assert output_of(tmp_path / "out", first.uid).read_text() == "one\n"
    assert runner.finished(0) == []
    runner.close()


def test_outputs_do_not_leave_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").symlink_to("elsewhere")
    with pytest.raises(InputError, match="out: found a link, expected a directory of its own"):
        LocalRunner(1, tmp_path / "out").start(task("true"))
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_warm_up_that_fails_is_the_runs_failure(tmp_path: Path) -> None:
    runner = LocalRunner(1, tmp_path / "out")
    runner.start(task("sh", "-c", f"echo x >> {tmp_path}/count; exit 3", warmups=2))
    (timing,) = results(runner, 1)
    assert (timing.status, timing.exit_code) == ("failed", 3)
    assert (tmp_path / "count").read_text() == "x\n"


def test_a_warm_up_that_takes_too_long_leaves_the_run_its_chance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = f"{tmp_path}/hangs-"  # and the launcher of a run that does
    time_outs_begin(monkeypatch, f"os.path.exists({hangs!r} + str(os.getpid()))")
    runner = LocalRunner(1, tmp_path / "out")
    cold = f"touch {tmp_path}/warm {hangs}$PPID; sleep {ENDLESS}"
    text = f"if test -e {tmp_path}/warm; then echo warm; else {cold}; fi"
    command = Command(("sh", "-c", text), timeout=0.3)
    runner.start(Task("f" * 32, Point({}), "chosen", "", command, warmups=1))
    (timing,) = results(runner, 1)
    assert (timing.status, timing.printed_bytes) == ("ok", len("warm\n"))


def test_cancelling_ends_the_commands_and_tells_so(tmp_path: Path) -> None:
    runner = LocalRunner(2, tmp_path / "out")
    runner.start(task("sleep", str(ENDLESS)))
    runner.start(task("sh", "-c", f"sleep {ENDLESS}", warmups=1))
    begun = time.monotonic()
    runner.cancel_all()
    assert time.monotonic() - begun < 2 * LONG
    assert [timing.status for timing in results(runner, 2)] == ["cancelled", "cancelled"]


def test_what_cannot_be_started_is_raised_where_it_is_waited_for(tmp_path: Path) -> None:
    runner = LocalRunner(1, tmp_path / "out")
    runner.start(task("no-such-program"))
    with pytest.raises(InputError, match="found no-such-program, expected a program on the PATH"):
        runner.finished(10)
    runner.close()


def test_what_has_ended_is_told_before_an_exception_is_raised(tmp_path: Path) -> None:
    runner = LocalRunner(3, tmp_path / "out")
    first, broken, last = task("true"), task("no-such-program", ""), task("true", "", "")
    for one in (first, broken, last):
        runner.start(one)
        runner._running[one.uid][0].join()  # so that they end in this order
    assert [one for one, _ in runner.finished(0)] == [first]
    with pytest.raises(InputError, match="found no-such-program"):
        runner.finished(0)
    assert [one for one, _ in runner.finished(0)] == [last]
    assert runner.finished(0) == []
    runner.close()


def test_a_cleanup_that_hangs_is_ended_by_those_in_a_hurry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forerun.jobs.command.CLEANUP", ENDLESS)
    runner = LocalRunner(1, tmp_path / "out")
    begun = tmp_path / "begun"
    cleanup = ("sh", "-c", f"touch {begun}; sleep {ENDLESS}")
    runner.start(Task("f" * 32, Point({}), "chosen", "", Command(("true",), cleanup=cleanup)))
    while not begun.exists():
        time.sleep(0.01)
    at = time.monotonic()
    threading.Timer(0.3, runner.hurry).start()
    runner.cancel_all()
    assert 0.3 <= time.monotonic() - at < 2 * LONG
    ((_, timing),) = runner.finished(0)
    assert (timing.status, timing.reason) == ("ok", "cleanup: cancelled")
    runner.close()
    assert not runner._hurry.is_set()


def test_no_slots_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="slots: found 0, expected a whole number of at least 1"):
        LocalRunner(0, tmp_path)


def test_a_function_is_called_when_it_is_waited_for() -> None:
    calls: list[object] = []
    runner = FunctionRunner(lambda n: calls.append(n))
    one = Task("a", Point({"n": 1}), "chosen", warmups=2)
    runner.start(one)
    assert calls == []
    ((ended, timing),) = runner.finished(0)
    assert (ended, timing.status, calls) == (one, "ok", [1, 1, 1])
    assert timing.seconds == timing.wall_seconds
    runner.start(one)
    runner.cancel_all()
    assert runner.finished(0) == []


def test_processor_time_of_a_function_is_told() -> None:
    def function() -> None:
        limit = time.process_time() + 0.05
        while time.process_time() < limit:
            pass

    timing = call_timed(function, {})
    assert timing.user_seconds + timing.system_seconds >= 0.04


def test_a_function_may_run_in_any_thread() -> None:
    found: list[Timing] = []
    thread = threading.Thread(target=lambda: found.append(call_timed(lambda: None, {})))
    thread.start()
    thread.join()
    assert found[0].status == "ok"


@pytest.mark.parametrize(
    ("returned", "seconds"),
    [(2, 2.0), (2.5, 2.5), (True, None), ("2", None), (None, None), (0, None), (math.nan, None)],
)
def test_what_a_function_returns_is_its_time_where_that_is_said(
    returned: object, seconds: float | None
) -> None:
    timing = call_timed(lambda: returned, {}, returns_seconds=True)
    assert (timing.status, timing.seconds) == ("failed" if seconds is None else "ok", seconds)
    timing = call_timed(lambda: returned, {})  # an accuracy, say
    assert (timing.status, timing.seconds) == ("ok", timing.wall_seconds)


def test_an_exit_is_a_failure() -> None:
    def function() -> None:
        raise SystemExit(3)

    timing = call_timed(function, {})
    assert (timing.status, timing.reason, timing.seconds) == ("failed", "SystemExit: 3", None)
