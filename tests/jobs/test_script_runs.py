"""Scripts that need no scheduler, run: what they do, and what they leave behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from job_specs import PLAIN, UID
from patience import ENDLESS, LONG, wait_for

from forerun.jobs import worker
from forerun.jobs.attempts import Attempt, read_attempts, run_seconds
from forerun.jobs.script import render
from forerun.jobs.spec import JobSpec, Staging

# Ends when it is asked to save, and says so; without that it would go on.
SAVES = f"""
import signal, sys, time
def save(*_):
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGUSR1, save)
print("ready", flush=True)
time.sleep({ENDLESS})
"""
STUBBORN = f"trap '' USR1; echo ready; exec sleep {ENDLESS}"


def python(code: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code, *arguments)


def written(folder: Path, *words: str, **changes: Any) -> JobSpec:
    """A job whose script and worker lie in a folder."""
    folder.mkdir(exist_ok=True)
    spec = replace(PLAIN, words=words, folder=str(folder), **changes)
    (folder / "job.sh").write_text(render(spec, "none"))
    shutil.copy(worker.__file__, folder / "worker.py")
    return spec


def started(folder: Path, **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["bash", folder / "job.sh"], cwd="/", **options)


def ran(folder: Path, *words: str, **changes: Any) -> tuple[int, str]:
    """The exit code of a job, and what it printed."""
    written(folder, *words, **changes)
    code = started(folder).wait(timeout=LONG)
    return code, (folder / "job.out").read_text()


def printed(folder: Path, text: str, times: int = 1) -> Callable[[], bool]:
    path = folder / "job.out"
    return lambda: path.exists() and path.read_text().count(text) == times


def only(folder: Path) -> Attempt:
    (attempt,) = read_attempts(folder)
    return attempt


def test_a_run_leaves_its_times_and_its_memory(tmp_path: Path) -> None:
    before, began = time.time(), time.monotonic()
    code, output = ran(tmp_path, *python("import time; time.sleep(0.3); print('hello')"))
    assert (code, output) == (0, "hello\n")
    attempt = only(tmp_path)
    host = os.uname().nodename
    assert (attempt.number, attempt.task, attempt.code) == (1, None, 0)
    assert (attempt.host, attempt.nodes) == (host, (host,))
    times = [attempt.started, attempt.begun, attempt.done, attempt.ended]
    assert all(value is not None for value in times)
    assert before - 0.01 <= times[0] <= times[1] <= times[2] <= times[3] <= time.time() + 0.01  # type: ignore[operator]
    seconds = run_seconds([attempt])
    assert seconds is not None
    assert 0.3 <= seconds <= time.monotonic() - began
    assert 2**22 < attempt.peaks[0] < 2**29
    assert 0.3 <= attempt.ran[0] <= seconds + 0.01
    assert (attempt.staged, attempt.warned, attempt.requeued) == (None, None, None)


def test_a_clock_that_is_set_during_a_run_spoils_its_time(tmp_path: Path) -> None:
    """A `date` that is an hour ahead once the program is through."""
    (tmp_path / "bin").mkdir()
    real = shutil.which("date")
    text = f'#!/bin/sh\ntest -e {tmp_path}/set && exec {real} -d "+1 hour" "$@"\nexec {real} "$@"\n'
    (tmp_path / "bin/date").write_text(text)
    (tmp_path / "bin/date").chmod(0o755)
    path = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    assert ran(tmp_path, "touch", f"{tmp_path}/set", environment=path)[0] == 0
    attempt = only(tmp_path)
    assert attempt.span is not None
    assert attempt.span > 3599
    assert attempt.ran[0] < 2 * LONG
    assert run_seconds([attempt]) is None


def test_the_code_of_the_run_is_kept_and_the_epilogue_follows(tmp_path: Path) -> None:
    epilogue = (("false",), ("echo", "good", "bye"))
    code, output = ran(tmp_path, "sh", "-c", "exit 3", epilogue=epilogue)
    assert code == 3
    assert output == "job.sh: a command of the epilogue failed\ngood bye\n"
    assert only(tmp_path).code == 3
    assert run_seconds([only(tmp_path)]) is None


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    code, output = ran(tmp_path, "no-such-program-here")
    assert code == 127
    assert "no-such-program-here: No such file or directory" in output


def test_without_python_the_program_runs_all_the_same(tmp_path: Path) -> None:
    written(tmp_path, "sh", "-c", "echo hello; exit 4")
    (tmp_path / "worker.py").unlink()
    assert started(tmp_path).wait(timeout=LONG) == 4
    assert only(tmp_path).code == 4
    assert only(tmp_path).peaks == {}


def test_a_prologue_that_fails_ends_the_job_before_the_run(tmp_path: Path) -> None:
    ended = (("echo", "end"),)
    code, output = ran(tmp_path, "echo", "run", prologue=(("sh", "-c", "exit 7"),), epilogue=ended)
    assert (code, output) == (7, "end\n")
    attempt = only(tmp_path)
    assert (attempt.code, attempt.begun, attempt.done) == (7, None, None)
    assert attempt.ended is not None


def test_what_the_prologue_exports_reaches_the_run(tmp_path: Path) -> None:
    prologue = (("export", "A=b  c"), ("cd", "/usr"))
    code, output = ran(tmp_path, "sh", "-c", 'echo "$A" "$PWD"', prologue=prologue)
    assert (code, output) == (0, "b  c /usr\n")


def test_words_environment_and_directory_come_as_they_are(tmp_path: Path) -> None:
    text = """a  b'c"d$HOME`e`*\\f#g~!h"""
    code = "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ['X'], os.getcwd()]))"
    inside = tmp_path / "in side"
    inside.mkdir()
    changes = {"environment": {"X": text}, "directory": str(inside)}
    _, output = ran(tmp_path / "job", *python(code, text, "", "${HOME}"), **changes)
    assert json.loads(output) == [[text, "", "${HOME}"], text, str(inside)]


def test_variables_are_expanded_where_that_is_wished_and_nothing_else(tmp_path: Path) -> None:
    word = """$(x)`y`"z'\\${A}/${A}$A${A:-b}*"""
    code = "import sys; print(sys.argv[1])"
    changes = {"environment": {"A": "a  $(b)"}, "expand": True}
    _, output = ran(tmp_path, *python(code, word), **changes)
    assert output == """$(x)`y`"z'\\a  $(b)/a  $(b)$A${A:-b}*\n"""


def test_a_variable_that_is_not_there_is_an_error_and_not_nothing(tmp_path: Path) -> None:
    code, output = ran(tmp_path, "echo", "${NOT_THERE_AT_ALL}/x", expand=True)
    assert code != 0
    assert "NOT_THERE_AT_ALL: unbound variable" in output


def test_errors_go_apart_where_that_is_asked_for(tmp_path: Path) -> None:
    words = ("sh", "-c", "echo out; echo err >&2")
    _, output = ran(tmp_path, *words, errors="my errors")
    assert output == "out\n"
    assert (tmp_path / "my errors").read_text() == "err\n"


def test_each_start_has_a_file_of_its_own(tmp_path: Path) -> None:
    for _ in range(2):
        ran(tmp_path, "true")
    (tmp_path / "attempts/9").write_text("job 1\n")
    (tmp_path / "attempts/notes.txt").touch()
    ran(tmp_path, "true")
    assert [one.number for one in read_attempts(tmp_path)] == [1, 2, 9, 10]
    assert run_seconds(read_attempts(tmp_path)) is None


def test_a_start_that_is_shown_an_old_listing_takes_no_file_of_another(tmp_path: Path) -> None:
    for _ in range(2):
        ran(tmp_path, "true")
    # With -f a shell lists nothing.
    subprocess.run(["bash", "-f", tmp_path / "job.sh"], cwd="/", check=True, timeout=LONG)
    attempts = read_attempts(tmp_path)
    assert [one.number for one in attempts] == [1, 2, 3]
    assert all(
        (tmp_path / f"attempts/{number}").read_text().count("ended ") == 1 for number in (1, 2, 3)
    )


def test_starts_at_the_same_time_have_files_of_their_own(tmp_path: Path) -> None:
    written(tmp_path, "true")
    jobs = [started(tmp_path) for _ in range(6)]
    assert [job.wait(timeout=LONG) for job in jobs] == [0] * 6
    assert [one.number for one in read_attempts(tmp_path)] == [1, 2, 3, 4, 5, 6]
    assert len({one.job for one in read_attempts(tmp_path)}) == 6


def test_data_is_staged_once_and_its_time_noted(tmp_path: Path) -> None:
    source, target, folder = tmp_path / "from here", tmp_path / "to there", tmp_path / "job"
    (source / "deep").mkdir(parents=True)
    (source / "deep/file").write_text("data")
    words = ("sh", "-c", 'cat "$FORERUN_DATA/deep/file"')
    staging = Staging(str(source), str(target))
    assert ran(folder, *words, staging=staging) == (0, "data")
    assert only(folder).staged is not None
    (source / "deep/file").write_text("other")
    assert ran(folder, *words, staging=staging) == (0, "datadata")


def test_staging_that_fails_ends_the_job(tmp_path: Path) -> None:
    staging = Staging(str(tmp_path / "nowhere"), str(tmp_path / "there"))
    code, output = ran(tmp_path / "job", "echo", "run", staging=staging)
    assert code == 1
    assert "run" not in output
    assert only(tmp_path / "job").begun is None


SEES = ("sh", "-c", 'ls "$FORERUN_DATA"; stat -c %a "$FORERUN_DATA" "$FORERUN_DATA/deep/file"')


def stored(folder: Path) -> Path:
    """Some data, that nobody else may read."""
    (folder / "data/deep").mkdir(parents=True)
    (folder / "data/deep/file").write_text("secret")
    (folder / "data").chmod(0o700)
    return folder / "data"


def test_staged_data_are_for_nobody_else_and_go_with_the_job(tmp_path: Path) -> None:
    source, target = stored(tmp_path), tmp_path / f"fast/forerun-{UID}"
    (source / "deep").chmod(0o555)
    staging = Staging(str(source), str(target))
    assert ran(tmp_path / "job", *SEES, staging=staging) == (0, "deep\n700\n600\n")
    assert list((tmp_path / "fast").iterdir()) == []
    assert (source / "deep/file").read_text() == "secret"


def test_staged_data_stay_for_a_start_that_follows(tmp_path: Path) -> None:
    target = tmp_path / f"forerun-{UID}"
    program = 'echo "$(ls "$FORERUN_DATA/more" 2>/dev/null)ready"; touch "$FORERUN_DATA/more"'
    waits = f"trap 'exit 0' USR1; {program}; while :; do sleep 0.1; done"
    staging = Staging(str(stored(tmp_path)), str(target))
    written(tmp_path / "job", "bash", "-c", waits, staging=staging, requeues=1)
    job = started(tmp_path / "job")
    wait_for(printed(tmp_path / "job", "ready\n"))
    job.send_signal(signal.SIGUSR1)
    wait_for(printed(tmp_path / "job", f"{target}/more"))
    wait_for(printed(tmp_path / "job", "ready\n", 2))
    job.send_signal(signal.SIGUSR1)
    assert job.wait(timeout=LONG) == 0
    assert not target.exists()


def test_data_that_were_staged_to_a_directory_with_a_name_are_left(tmp_path: Path) -> None:
    staging = Staging(str(stored(tmp_path)), str(tmp_path / "mine"))
    assert ran(tmp_path / "job", "true", staging=staging)[0] == 0
    assert (tmp_path / "mine/deep/file").exists()


@pytest.mark.parametrize("planted", ["link", "of another", "file"])
def test_a_place_that_others_prepared_is_not_taken(tmp_path: Path, planted: str) -> None:
    target, elsewhere = tmp_path / f"forerun-{UID}", tmp_path / "elsewhere"
    elsewhere.mkdir()
    if planted == "link":
        target.symlink_to(elsewhere)
    elif planted == "file":
        target.write_text("x")
    elif os.geteuid() != 0:
        pytest.skip("only root can make a directory of another's")
    else:
        target.mkdir()
        (target / f".forerun-{UID}").write_text("staged\n")
        (target / "deep").mkdir()
        os.chown(target, 12345, 12345)
    staging = Staging(str(stored(tmp_path)), str(target))
    code, output = ran(tmp_path / "job", "echo", "ran", staging=staging)
    assert code == 73
    what = "a link, a file or somebody else's directory"
    assert output == f"job.sh: found {what} at {target}, expected one of this job's own\n"
    assert not list(elsewhere.iterdir())
    assert os.path.lexists(target)


def test_a_program_is_built_by_the_first_start(tmp_path: Path) -> None:
    source, folder = tmp_path / "code", tmp_path / "job"
    source.mkdir()
    build = (("sh", "-c", "echo building; echo 'echo made' > program"),)
    changes: dict[str, Any] = {"source": str(source), "build": build}
    assert ran(folder, "sh", "program", **changes) == (0, "building\nmade\n")
    assert ran(folder, "sh", "program", **changes) == (0, "building\nmade\nmade\n")


def test_a_build_that_fails_is_tried_again_by_the_next_start(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    changes: dict[str, Any] = {"source": str(tmp_path), "build": (("test", "-e", "ready"),)}
    assert ran(folder, "echo", "run", **changes) == (1, "")
    (tmp_path / "ready").touch()
    assert ran(folder, "echo", "run", **changes) == (0, "run\n")


def test_several_processes_know_their_ranks(tmp_path: Path) -> None:
    words = ("sh", "-c", 'sleep 0.1; echo "rank $FORERUN_RANK"')
    code, output = ran(tmp_path, *words, processes=3)
    assert code == 0
    assert sorted(output.splitlines()) == ["rank 0", "rank 1", "rank 2"]
    assert set(only(tmp_path).peaks) == {0, 1, 2}


def test_the_first_process_that_fails_ends_the_others(tmp_path: Path) -> None:
    words = ("sh", "-c", f'if test "$FORERUN_RANK" = 1; then exit 5; fi; sleep {ENDLESS}')
    code, _ = ran(tmp_path, *words, processes=3)  # which is an error unless it ends long before
    assert code == 5


def test_tensorflow_gets_its_configuration(tmp_path: Path) -> None:
    code = "import os; print(os.environ['TF_CONFIG'])"
    _, output = ran(tmp_path, *python(code), processes=2, launcher="tensorflow")
    found = sorted(map(json.loads, output.splitlines()), key=lambda one: int(one["task"]["index"]))
    workers = found[0]["cluster"]["worker"]
    port = int(workers[0].partition(":")[2])
    assert workers == [f"127.0.0.1:{port}", f"127.0.0.1:{port + 1}"]
    assert 15000 <= port < 31000
    assert [one["task"] for one in found] == [{"type": "worker", "index": n} for n in (0, 1)]
    assert found[1]["cluster"] == found[0]["cluster"]


# Starts a copy for each of two nodes, which are one machine, after a while: as Torque's does.
OF_TORQUE = """#!/bin/sh
test "$1" = -u || exit 1
shift
sleep 0.5
for host in localhost 127.0.0.1; do HOSTNAME=$host "$@" & done
wait
"""
OF_OPENPBS = "#!/bin/sh\necho pbs_version = 23.06.06\n"


def pbs(folder: Path, pbsdsh: str, **variables: str) -> dict[str, Any]:
    """What a script for two nodes of PBS finds there."""
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin/pbsdsh").write_text(pbsdsh)
    (folder / "bin/pbsdsh").chmod(0o755)
    (folder / "nodes").write_text("localhost\nlocalhost\n127.0.0.1\n")
    path = f"{folder}/bin:{os.environ['PATH']}"
    own = {"PATH": path, "PBS_JOBID": "7[].host", "PBS_NODEFILE": f"{folder}/nodes", **variables}
    return {"env": own}


def test_tasks_of_an_array_on_several_nodes_of_pbs_keep_apart(tmp_path: Path) -> None:
    code = "import os; print(os.environ['PBS_ARRAYID'], os.environ['TF_CONFIG'])"
    spec = written(tmp_path, *python(code))
    spec = replace(spec, nodes=2, processes=2, launcher="tensorflow", array="1-2")
    (tmp_path / "job.sh").write_text(render(spec, "pbs"))
    jobs = [started(tmp_path, **pbs(tmp_path, OF_TORQUE, PBS_ARRAYID=task)) for task in "12"]
    assert [job.wait(timeout=LONG) for job in jobs] == [0, 0]
    ports: list[int] = []
    for task in "12":
        lines = (tmp_path / f"job.out.{task}").read_text().splitlines()
        assert [line[0] for line in lines] == [task] * 4
        found = [json.loads(line[2:]) for line in lines]
        assert sorted(one["task"]["index"] for one in found) == [0, 1, 2, 3]
        ports += [int(one.partition(":")[2]) for one in found[0]["cluster"]["worker"]]
    assert len(set(ports)) == 8
    assert not list(tmp_path.glob("*environment"))


def test_a_pbsdsh_that_is_not_torques_ends_the_job_with_a_line(tmp_path: Path) -> None:
    spec = replace(written(tmp_path, "true"), nodes=2)
    (tmp_path / "job.sh").write_text(render(spec, "pbs"))
    job = started(tmp_path, **pbs(tmp_path, OF_OPENPBS))
    assert job.wait(timeout=LONG) == 69
    assert only(tmp_path).code == 69
    output = (tmp_path / "job.out").read_text()
    assert output.startswith("job.sh: found OpenPBS, whose pbsdsh cannot start one process a node")


def test_mxnet_gets_a_scheduler_a_server_and_workers(tmp_path: Path) -> None:
    # None of them ends before all have said what they are.
    waits = "n=0; until test $(wc -l <job.out) = 4 || test $((n += 1)) = 5000; do sleep 0.05; done"
    text = f'echo "$DMLC_ROLE $DMLC_NUM_SERVER $DMLC_NUM_WORKER"; {waits}'
    words = ("sh", "-c", text)
    code, output = ran(tmp_path, *words, processes=2, launcher="mxnet")
    assert code == 0
    assert sorted(output.splitlines()) == [
        "scheduler 1 2",
        "server 1 2",
        "worker 1 2",
        "worker 1 2",
    ]
    assert set(only(tmp_path).peaks) == {0, 1}


def test_a_cancelled_job_ends_its_program_and_says_when(tmp_path: Path) -> None:
    words = python(f"import time; print('ready', flush=True); time.sleep({ENDLESS})")
    written(tmp_path, *words, epilogue=(("echo", "bye"),))
    job = started(tmp_path)
    wait_for(printed(tmp_path, "ready"))
    job.send_signal(signal.SIGTERM)
    assert job.wait(timeout=LONG) == 143
    attempt = only(tmp_path)
    assert attempt.code == 143
    assert attempt.done is not None
    assert attempt.ended is not None
    assert (tmp_path / "job.out").read_text() == "ready\nbye\n"


def test_a_program_is_asked_to_save_and_the_job_starts_again(tmp_path: Path) -> None:
    (tmp_path / "saves.py").write_text(SAVES)
    written(tmp_path, sys.executable, "saves.py", requeues=2)
    job = started(tmp_path)
    for number in (1, 2, 3):
        wait_for(printed(tmp_path, "ready\n", number))
        job.send_signal(signal.SIGUSR1)
    assert job.wait(timeout=LONG) == 0
    attempts = read_attempts(tmp_path)
    assert [one.number for one in attempts] == [1, 2, 3]
    assert [one.warned is not None for one in attempts] == [True, True, True]
    assert [one.requeued is not None for one in attempts] == [True, True, False]
    assert all(one.ended is not None and one.code == 0 for one in attempts)
    output = (tmp_path / "job.out").read_text()
    assert output.count("saved\n") == 3
    assert "out of time, and it may not start again" in output


@pytest.mark.parametrize("late", [signal.SIGUSR1, signal.SIGTERM])
def test_a_signal_after_the_end_of_the_program_changes_nothing(
    tmp_path: Path, late: signal.Signals
) -> None:
    slow = tmp_path / "bin/date"
    slow.parent.mkdir()
    # Once the program is through, asking for the time takes a while, in which the signal comes.
    asked = f"if test -e {tmp_path}/through; then touch {tmp_path}/asked; sleep 0.7; fi"
    slow.write_text(f'#!/bin/sh\n{asked}\nexec {shutil.which("date")} "$@"\n')
    slow.chmod(0o755)
    path = {"PATH": f"{slow.parent}:{os.environ['PATH']}"}
    written(tmp_path, "touch", f"{tmp_path}/through", requeues=1, environment=path)
    job = started(tmp_path)
    wait_for((tmp_path / "asked").exists)
    job.send_signal(late)
    assert job.wait(timeout=LONG) == 0
    attempt = only(tmp_path)
    assert (attempt.code, attempt.warned, attempt.requeued) == (0, None, None)
    assert attempt.done is not None


def test_the_wall_time_is_kept_where_no_scheduler_does(tmp_path: Path) -> None:
    code, _ = ran(tmp_path, "sleep", str(ENDLESS), walltime=1.0)
    assert code == 124
    assert only(tmp_path).expired is not None
    assert only(tmp_path).code == 124


def test_who_does_not_end_when_asked_is_made_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `sleep` that begins when the program is ready, and for which the wall time is far away."""
    (tmp_path / "bin").mkdir()
    real = shutil.which("sleep")
    ready = f'test "$(grep -c ready {tmp_path}/job.out)" = "$(ls {tmp_path}/attempts | wc -l)"'
    text = f"until {ready}; do {real} 0.05; done\ntest $1 = 4 && set -- {ENDLESS}\n"
    (tmp_path / "bin/sleep").write_text(f'#!/bin/sh\n{text}exec {real} "$@"\n')
    (tmp_path / "bin/sleep").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    code, output = ran(tmp_path, "bash", "-c", STUBBORN, walltime=4.0, warning=2.0, requeues=1)
    attempts = read_attempts(tmp_path)
    assert [one.requeued is not None for one in attempts] == [True, False]
    assert code == 143  # by the timer that follows the warning, before the wall time
    assert output.count("ready") == 2


def test_nothing_is_left_running(tmp_path: Path) -> None:
    ran(tmp_path, "true", walltime=3600.0, requeues=1)
    sought = str(tmp_path).encode()

    def left() -> list[bytes]:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):
                    found.append((entry / "cmdline").read_bytes())
        return [words for words in found if sought in words]

    wait_for(lambda: not left())  # timers that were told to end are about to


def test_the_uid_and_the_attempt_are_in_the_environment(tmp_path: Path) -> None:
    _, output = ran(tmp_path, "sh", "-c", 'echo "$FORERUN_UID"; echo "$FORERUN_ATTEMPT"')
    assert output.splitlines() == [UID, f"{tmp_path}/attempts/1"]


def test_a_job_that_cannot_be_in_its_directory_says_so(tmp_path: Path) -> None:
    code, output = ran(tmp_path, "true", directory=str(tmp_path / "nowhere"))
    assert code == 1
    assert "nowhere: No such file or directory" in output


@pytest.mark.parametrize("name", ["if", "time", "A=b", "{", "!"])
def test_what_stands_first_is_a_program_and_no_word_of_the_shell(tmp_path: Path, name: str) -> None:
    code, output = ran(tmp_path, "true", prologue=((name, "true"),))
    if name == "time" and shutil.which("time"):
        assert code == 0
    else:
        assert code == 127
        assert f"{name}: command not found" in output
