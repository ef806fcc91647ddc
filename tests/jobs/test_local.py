import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from patience import ENDLESS, LONG, wait_for

from forerun.errors import JobError
from forerun.jobs.backend import Limit, State, Submission, backend_of
from forerun.jobs.local import Local

UID = "0123456789abcdef" * 2
JOB = "local-0123456789ab"
# A part of a script that waits for a file `go`.
WAITS = f"timeout {ENDLESS} sh -c 'until test -e go; do sleep 0.02; done'"
# Runs a script to its end, whose wall time begins when it says `ready`, and which is never forced.
PATIENT = f"""
import os, sys, time
sys.path.append(sys.argv[1])
import supervisor
supervisor.GRACE = {ENDLESS}
spawn = supervisor.spawn

def patient(script):
    pid, limit = spawn(script), time.monotonic() + {LONG}
    while not os.path.exists("ready") and time.monotonic() < limit:
        time.sleep(0.01)
    return pid

supervisor.spawn = patient
supervisor.main()
"""


@pytest.fixture(autouse=True)
def state_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("forerun.jobs.local._STARTING", LONG)


def submission(folder: Path, text: str, uid: str = UID) -> Submission:
    folder.mkdir(exist_ok=True)
    (folder / "job.sh").write_text(f"#!/bin/bash\n{text}\n")
    return Submission(uid, "lenet", folder / "job.sh")


def ended(job: str) -> State:
    wait_for(lambda: Local().state(job).phase != "running")
    return Local().state(job)


def recorded(folder: Path) -> dict[str, str]:
    lines = (folder / "process").read_text().splitlines()
    return dict(line.split(" ", 1) for line in lines)


def test_a_job_runs_in_its_folder_and_its_output_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "a job"
    assert Local().submit(submission(folder, "pwd; echo wrong >&2")) == JOB
    found = ended(JOB)
    assert (found.phase, found.exit_code, found.starts) == ("done", 0, 1)
    assert found.nodes == (os.uname().nodename,)
    assert found.memory_bytes is not None
    assert 2**20 < found.memory_bytes < 2**28
    assert (folder / "job.out").read_text() == f"{folder}\nwrong\n"
    assert float(recorded(folder)["ended"]) >= float(recorded(folder)["began"])


def test_the_default_back_end() -> None:
    assert isinstance(backend_of("none"), Local)
    Local().check()
    assert list(Local().limits()) == [Limit("local", None, 1)]


@pytest.mark.parametrize(
    ("text", "phase", "code"),
    [
        ("exit 3", "failed", 3),
        ("kill -SEGV $$", "failed", 139),
        ("echo MemoryError; exit 1", "out_of_memory", 1),
        ("echo MemoryError", "done", 0),
    ],
)
def test_how_jobs_end(tmp_path: Path, text: str, phase: str, code: int) -> None:
    found = ended(Local().submit(submission(tmp_path / "job", text)))
    assert (found.phase, found.exit_code) == (phase, code)


def test_output_goes_through_no_link(tmp_path: Path) -> None:
    made = submission(tmp_path / "job", "echo through")
    (tmp_path / "diary").write_text("mine\n")
    (tmp_path / "job" / "job.out").symlink_to(tmp_path / "diary")
    with pytest.raises(JobError, match="Too many levels of symbolic links"):
        Local().submit(made)
    assert (tmp_path / "diary").read_text() == "mine\n"
    assert (Local().state(JOB).phase, Local().state(JOB).exit_code) == ("failed", 127)


def test_a_job_outlives_who_started_it(tmp_path: Path) -> None:
    made = submission(tmp_path / "job", f"{WAITS}; echo through")
    code = (
        "from pathlib import Path; from forerun.jobs.backend import Submission;"
        "from forerun.jobs.local import Local;"
        f"Local().submit(Submission({UID!r}, 'lenet', Path({str(made.script)!r})));"
        "import os, signal; os.killpg(0, signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code], start_new_session=True, check=False)
    assert Local().find(UID) == JOB
    assert Local().state(JOB).phase == "running"
    (tmp_path / "job" / "go").touch()
    assert ended(JOB).phase == "done"
    assert (tmp_path / "job" / "job.out").read_text() == "through\n"


def test_the_wall_time_at_the_head_of_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forerun.jobs.local._SUPERVISE", PATIENT)
    text = "# forerun: walltime 0.5\ntrap 'echo saved; exit 4' TERM\n"
    text += f"sleep {ENDLESS} &\ntouch ready\nwait"
    began = time.monotonic()
    found = ended(Local().submit(submission(tmp_path / "job", text)))
    assert (found.phase, found.exit_code) == ("timed_out", 4)
    assert 0.4 < time.monotonic() - began < 2 * LONG
    assert (tmp_path / "job" / "job.out").read_text() == "saved\n"


def test_a_wall_time_further_down_is_none(tmp_path: Path) -> None:
    text = "sleep 0.3\n# forerun: walltime 0.1"
    assert ended(Local().submit(submission(tmp_path / "job", text))).phase == "done"


def test_cancelling_ends_all_of_it(tmp_path: Path) -> None:
    # The second has left the session, but not its ancestors.
    text = f"sleep {ENDLESS} & echo $! > pids; setsid sleep {ENDLESS} & echo $! >> pids; "
    text += "echo ready; wait"
    job = Local().submit(submission(tmp_path / "job", text))
    while (tmp_path / "job" / "job.out").read_text() != "ready\n":
        time.sleep(0.02)
    pids = (tmp_path / "job" / "pids").read_text().split()
    assert all(Path("/proc", pid).exists() for pid in pids)
    Local().cancel(job)
    assert ended(job).phase == "cancelled"
    assert not any(Path("/proc", pid).exists() for pid in pids)
    Local().cancel(job)  # it has ended, and is left as it is
    assert Local().state(job).phase == "cancelled"


def test_a_process_that_has_the_number_of_another(tmp_path: Path) -> None:
    job = Local().submit(submission(tmp_path / "job", "true"))
    assert ended(job).phase == "done"
    record = recorded(tmp_path / "job")
    text = "".join(f"{name} {record[name]}\n" for name in ("uid", "ticks", "boot", "host"))
    (tmp_path / "job" / "process").write_text(f"{text}pid {os.getpid()}\n")
    found = Local().state(job)
    assert (found.phase, found.reason) == ("unknown", "what watched over it was ended while it ran")
    Local().cancel(job)  # would end this process, were it taken for the job


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("boot", "another", "this machine was started again while it ran"),
        ("host", "elsewhere", "it was started on elsewhere: ask there"),
    ],
)
def test_another_machine(tmp_path: Path, name: str, value: str, reason: str) -> None:
    job = Local().submit(submission(tmp_path / "job", "true"))
    assert ended(job).phase == "done"
    record = recorded(tmp_path / "job") | {name: value}
    del record["ended"]
    (tmp_path / "job" / "process").write_text("".join(f"{k} {v}\n" for k, v in record.items()))
    assert (Local().state(job).phase, Local().state(job).reason) == ("unknown", reason)


def test_what_the_script_has_written_counts_when_its_watch_was_killed(tmp_path: Path) -> None:
    text = f"mkdir attempts; {WAITS}; printf 'code 0\\nended 5\\n' > attempts/1"
    job = Local().submit(submission(tmp_path / "job", text))
    os.kill(int(recorded(tmp_path / "job")["pid"]), signal.SIGKILL)
    (tmp_path / "job" / "go").touch()
    wait_for(lambda: Local().state(job).phase == "done")
    assert Local().state(job).phase == "done"


def test_a_folder_is_for_one_job(tmp_path: Path) -> None:
    Local().submit(submission(tmp_path / "job", "true"))
    with pytest.raises(JobError, match="expected a folder for each job"):
        Local().submit(submission(tmp_path / "job", "true", uid="f" * 32))
    assert ended(JOB).phase == "done"


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    gone = Submission(UID, "lenet", tmp_path / "gone" / "job.sh")
    with pytest.raises(JobError, match="expected a script that can be read"):
        Local().submit(gone)
    assert Local().find(UID) is None
    assert Local().state(JOB).phase == "unknown"


@pytest.mark.parametrize("job", ["local-0123456789ab", "local-../../etc", "42", ""])
def test_jobs_that_nobody_started(job: str) -> None:
    for call in (Local().state, Local().cancel):
        with pytest.raises(JobError, match="a job that this user started on this machine"):
            call(job)


def test_without_a_place_for_the_register(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(JobError, match="or another XDG_STATE_HOME"):
        Local().submit(submission(tmp_path / "job", "touch ran"))
    assert not (tmp_path / "job" / "ran").exists()
