"""Campaigns of real commands: stopped, killed, side by side, gone on with."""

import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from patience import ENDLESS, LONG, time_outs_begin

from forerun.errors import InputError, StudyError
from forerun.factors import Factor, Point, Space
from forerun.measuring.campaign import Campaign
from forerun.measuring.design import Grid
from forerun.measuring.lock import lock_path
from forerun.measuring.opening import open_study
from forerun.measuring.outputs import output_directory
from forerun.measuring.program import Program
from forerun.measuring.progress import Limits, Progress, Summary
from forerun.measuring.runner import FunctionRunner, LocalRunner
from forerun.study import Study

SPACE = Space([Factor("n", values=(1, 2, 3, 4))])

# A campaign in a process of its own, to be stopped or killed: the study, the command, repeats.
CAMPAIGN = """
import sys
from pathlib import Path
from forerun.factors import Factor, Space
from forerun.measuring.campaign import Campaign
from forerun.measuring.design import Grid
from forerun.measuring.opening import open_study
from forerun.measuring.outputs import output_directory
from forerun.measuring.program import Program
from forerun.measuring.runner import LocalRunner

path = Path(sys.argv[1])
space = Space([Factor("n", values=(1, 2, 3, 4))])
opened = open_study(path, space, {"": Program.parse(sys.argv[2])})
design = Grid(opened.space, repeats=int(sys.argv[3]))
runner = LocalRunner(1, output_directory(path))

def tell(progress):
    if progress.finished:
        print(progress.finished.uid, flush=True)
    elif progress.running:
        print("running", flush=True)

summary = Campaign(opened.study, opened.programs, design, runner, warmup=0).run(tell)
print(summary.ended, flush=True)
"""


def campaign_of(
    path: Path, command: str, *, repeats: int = 1, slots: int = 1, limits: Limits | None = None
) -> Campaign:
    opened = open_study(path, SPACE, {"": Program.parse(command)})
    runner = LocalRunner(slots, output_directory(path))
    design = Grid(opened.space, repeats=repeats)
    return Campaign(opened.study, opened.programs, design, runner, limits, warmup=0)


def run_campaign(path: Path, command: str, repeats: int = 1) -> Summary:
    return campaign_of(path, command, repeats=repeats).run()


def started(path: Path, command: str, repeats: int = 1) -> "subprocess.Popen[str]":
    words = [sys.executable, "-c", CAMPAIGN, str(path), command, str(repeats)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def alive(marker: str) -> list[int]:
    """The processes whose command line holds the marker."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if marker.encode() in words:
                found.append(int(entry.name))
    return found


def gone(marker: str) -> bool:
    """Whether all such processes end soon; one that was just being started may still appear."""
    limit, looks = time.monotonic() + LONG, 0
    while looks < 3 and time.monotonic() < limit:
        time.sleep(0.05)
        looks = 0 if alive(marker) else looks + 1
    return looks == 3


def test_real_commands_are_timed_and_stored(tmp_path: Path) -> None:
    summary = run_campaign(tmp_path / "a.db", "sh -c 'sleep 0.0{n}; echo {n}'", repeats=2)
    assert (summary.ended, summary.made, summary.failed) == ("done", 8, 0)
    for run in Study.open(tmp_path / "a.db").runs():
        assert run.seconds is not None
        assert run.seconds >= int(run.point["n"]) / 100
        assert run.started
        assert run.host
    outputs = sorted(output_directory(tmp_path / "a.db").iterdir())
    assert len(outputs) == 5  # the last few
    assert {file.read_text() for file in outputs} <= {"1\n", "2\n", "3\n", "4\n"}


def test_a_failing_point_keeps_its_output_and_the_others_go_on(tmp_path: Path) -> None:
    command = "sh -c 'echo no {n} today; test {n} != 3'"
    summary = run_campaign(tmp_path / "a.db", command)
    assert (summary.made, summary.failed) == (3, 2)
    (lost,) = summary.given_up
    assert (lost.point, lost.attempts, lost.reason) == (
        *(Point({"n": 3}), 2, "exit code 1: no 3 today"),
    )
    (told,) = [line for line in summary.warnings if "given up after 2 tries" in line]
    assert Path(told.split(" its output is in ")[1]).read_text() == "no 3 today\n"


def test_a_run_that_hangs_is_ended_and_stored_as_timed_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = f"{tmp_path}/hangs-"  # and the launcher of a run that does
    time_outs_begin(monkeypatch, f"os.path.exists({hangs!r} + str(os.getpid()))")
    text = f"test {{n}} = 1 || {{{{ touch {hangs}$PPID; sleep {ENDLESS}; }}}}"
    program = Program.parse(f"sh -c '{text}'", timeout=0.2)
    opened = open_study(tmp_path / "a.db", SPACE, {"": program})
    runner = LocalRunner(4, output_directory(opened.study.path))
    summary = Campaign(opened.study, opened.programs, Grid(SPACE), runner, warmup=0).run()
    assert (summary.made, summary.failed) == (1, 3)
    assert {lost.reason for lost in summary.given_up} == {"took longer than 200 ms"}
    assert len(opened.study.runs("timed_out")) == 3


def test_warm_ups_run_before_and_are_not_stored(tmp_path: Path) -> None:
    count = tmp_path / "count"
    opened = open_study(
        tmp_path / "a.db", SPACE, {"": Program.parse(f"sh -c 'echo {{n}} >> {count}'")}
    )
    runner = LocalRunner(1, output_directory(opened.study.path))
    limits = Limits(runs=2)
    Campaign(opened.study, opened.programs, Grid(SPACE), runner, limits, warmup=3).run()
    assert len(opened.study) == 2
    lines = count.read_text().split()
    assert len(lines) == 5
    assert len(set(lines[:4])) == 1  # three times the first point to warm up, then timed


def test_slots_run_at_the_same_time(tmp_path: Path) -> None:
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    # Each waits until all four are there: one after the other they never would be.
    command = f"sh -c 'touch {meeting}/{{n}}; until test -e {meeting}/1 -a -e {meeting}/2 -a -e "
    command += f"{meeting}/3 -a -e {meeting}/4; do sleep 0.01; done'"
    summary = campaign_of(tmp_path / "a.db", command, slots=4).run()
    assert (summary.made, summary.failed) == (4, 0)


def test_a_second_campaign_on_the_study_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    campaign = campaign_of(path, "sleep 0.0{n}")
    errors = []

    def meddle(_: Progress) -> None:
        with pytest.raises(InputError) as caught:
            run_campaign(path, "sleep 0.0{n}")
        errors.append(str(caught.value))

    assert campaign.run(meddle).made == 4
    assert f"{path}: found a campaign under way (process {os.getpid()} on" in errors[0]
    assert not lock_path(path).exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_and_stores_nothing_half(tmp_path: Path, number: int) -> None:
    path = tmp_path / "a.db"
    command = f"sh -c 'touch {tmp_path}/begun; sleep {ENDLESS}; true {{n}}'"
    with started(path, command) as process:
        while not (tmp_path / "begun").exists() and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(number)
        said, complaint = process.communicate(timeout=LONG)
    assert (said, complaint, process.returncode) == ("running\ninterrupted\n", "", 0)
    assert gone(str(tmp_path))
    assert len(Study.open(path)) == 0
    left = {file.name for file in tmp_path.iterdir()}
    assert left == {"a.db", "a.output", "begun", "state"}  # neither a lock nor a side file
    assert list(output_directory(path).iterdir()) == []


def test_a_second_signal_ends_a_cleanup_that_hangs(tmp_path: Path) -> None:
    cleanup = f"sh -c 'sleep {ENDLESS}; true' {tmp_path}"
    campaign = CAMPAIGN.replace("sys.argv[2])", f"sys.argv[2], cleanup={cleanup!r})")
    command = f"sleep {ENDLESS} {{n}}"
    words = [sys.executable, "-c", campaign, str(tmp_path / "a.db"), command, "1"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        while not alive(f"true\0{tmp_path}") and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=LONG)[0] == "interrupted\n"
    assert gone(str(tmp_path))


def test_killed_at_any_instant_nothing_finished_is_lost(tmp_path: Path) -> None:
    path, command = tmp_path / "a.db", f"sh -c 'sleep 0.0{{n}}; echo {tmp_path}'"
    told, drawn = set[str](), random.Random(1)
    for turn in range(6):
        with started(path, command, repeats=300) as process:  # more than it can make
            assert process.stdout is not None
            lines = [process.stdout.readline().strip()]
            while not turn and lines[-1] == "running":  # of the first one, one run is told
                lines.append(process.stdout.readline().strip())
            time.sleep(drawn.uniform(0.0, 0.5))
            process.kill()
            lines += process.stdout.read().split()
        told |= {line for line in lines if line != "running"}
        assert gone(str(tmp_path))
        stored = {run.uid for run in Study.open(path).runs()}
        assert told <= stored
        assert len(stored) <= len(told) + 6  # at most one at each kill was not told any more
    assert told
    made = len(Study.open(path))
    repeats = made // 4 + 2
    summary = run_campaign(path, command, repeats)
    assert (summary.ended, summary.made) == ("done", 4 * repeats - made)
    assert all(run.status == "ok" for run in Study.open(path).runs())


def test_a_disk_that_refuses_to_write_loses_nothing(tmp_path: Path) -> None:
    study = Study.create(tmp_path / "a.db", SPACE)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def function(n: int) -> float:
        if len(study) == 2:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))  # bytes of any file
        return n / 7

    try:
        with pytest.raises(StudyError) as caught:
            Campaign(study, {}, Grid(SPACE), FunctionRunner(function, True), warmup=0).run()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert str(caught.value).startswith(
        f"{study.path}: found an error of the disk, expected a disk"
    )
    assert "1 run is kept in" in str(caught.value)
    assert len(study) == 2
    summary = Campaign(
        study, {}, Grid(SPACE), FunctionRunner(lambda n: n / 7, True), warmup=0
    ).run()
    assert (summary.made, summary.done) == (1, 4)
    assert sorted(study.table()["seconds"]) == [n / 7 for n in (1, 2, 3, 4)]


def test_an_unknown_program_is_refused_before_there_is_a_study(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="command: found no-such-thing, expected a program on"):
        campaign_of(tmp_path / "a.db", "no-such-thing {n}")
    assert list(tmp_path.iterdir()) == []
