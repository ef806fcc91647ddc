"""One command, timed: what is told of a program that runs to its end."""

import json
import math
import shlex
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from patience import ENDLESS, LONG, time_outs_begin

from forerun.errors import InputError
from forerun.jobs import Command, Marker, Timing, check_program, time_command
from forerun.jobs.command import MEASURES

MIB = 2**20
SPIN = "import time\nwhile time.process_time() < {}: pass\n"


def shell(text: str, **options: object) -> Command:
    return Command(("sh", "-c", text), **options)  # type: ignore[arg-type]


def python(text: str) -> Command:
    return Command((sys.executable, "-I", "-S", "-c", text))


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "kept" / "output.txt"


def test_a_program_that_waits(output: Path) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    timing = time_command(Command(("sleep", "0.2")), output)
    assert (timing.status, timing.exit_code, timing.reason) == ("ok", 0, "")
    assert timing.seconds == timing.wall_seconds >= 0.2
    assert timing.user_seconds + timing.system_seconds < 0.1
    assert before <= datetime.fromisoformat(timing.started) <= datetime.now(UTC)
    assert (timing.printed_bytes, timing.left_behind) == (0, 0)
    assert output.read_bytes() == b""


def test_processor_time_is_that_of_all_processes(output: Path) -> None:
    spin = SPIN.format(0.1)
    start = f"import subprocess, sys\nsubprocess.run([sys.executable, '-IS', '-c', {spin!r}])\n"
    timing = time_command(python(start + spin), output)
    assert timing.status == "ok"
    assert timing.user_seconds + timing.system_seconds >= 0.19


def test_an_orphan_that_ends_before_the_program_counts_too(
    tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    time_outs_begin(monkeypatch, "True", SETTLE=LONG)
    orphan = f"({sys.executable} -IS -c '{SPIN.format(0.1)}'; touch done) & "
    wait = "until [ -e done ]; do sleep 0.01; done"
    timing = time_command(shell(f"({orphan}) ; {wait}", directory=tmp_path), output)
    assert (timing.status, timing.left_behind) == ("ok", 0)
    assert timing.user_seconds + timing.system_seconds >= 0.09


def test_peak_memory_is_that_of_the_largest_process(output: Path) -> None:
    child = f"bytearray({64 * MIB})"
    start = f"import subprocess, sys\nsubprocess.run([sys.executable, '-IS', '-c', '{child}'])"
    timing = time_command(python(start), output)
    assert 64 * MIB < timing.memory_bytes < 96 * MIB


def test_peak_memory_is_not_that_of_forerun(output: Path) -> None:
    ours = bytearray(128 * MIB)
    timing = time_command(Command(("true",)), output)
    assert len(ours) > 4 * timing.memory_bytes > 0


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    words=st.lists(
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), max_size=20
    )
)
def test_words_arrive_as_they_are(output: Path, words: list[str]) -> None:
    told = python("import json, sys; print(json.dumps(sys.argv[1:]))")
    timing = time_command(Command((*told.words, *words)), output)
    assert timing.status == "ok"
    assert json.loads(output.read_text()) == words


def test_nothing_is_expanded(output: Path) -> None:
    time_command(Command(("printf", "%s\n", "$HOME", "*", "`id`", "a;b")), output)
    assert output.read_text() == "$HOME\n*\n`id`\na;b\n"


def test_directory_environment_and_an_empty_input(
    tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEPT", "as it was")
    monkeypatch.setenv("CHANGED", "before")
    command = shell(
        'cat; pwd; echo "$KEPT, $CHANGED, $ADDED"',
        directory=tmp_path,
        environment={"CHANGED": "after", "ADDED": "è = é"},
    )
    assert time_command(command, output).status == "ok"
    assert output.read_text() == f"{tmp_path}\nas it was, after, è = é\n"


def test_a_program_is_found_as_its_user_would(
    tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "train"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho trained\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    for command in (
        Command(("./train",), directory=Path("bin")),
        Command(("bin/train",)),
        Command(("train",), environment={"PATH": "bin:/usr/bin:/bin"}, directory=Path("/")),
    ):
        assert time_command(command, output).status == "ok"
        assert output.read_text() == "trained\n"


def test_both_streams_are_kept_in_their_order(output: Path) -> None:
    timing = time_command(shell("echo one; echo two >&2; echo three"), output)
    assert output.read_text() == "one\ntwo\nthree\n"
    assert timing.printed_bytes == len("one\ntwo\nthree\n")


def test_signals_reach_a_program_as_if_a_shell_had_started_it(output: Path) -> None:
    time_command(Command(("grep", "-E", "Sig(Blk|Ign)", "/proc/self/status")), output)
    blocked, ignored = (int(line.split()[1], 16) for line in output.read_text().splitlines())
    assert blocked == 0
    assert not any(ignored >> (number - 1) & 1 for number in (signal.SIGPIPE, signal.SIGXFSZ))


@pytest.mark.parametrize(
    ("text", "code", "reason"),
    [
        ("exit 3", 3, "exit code 3"),
        ("echo start; echo 'bad batch' >&2; exit 1", 1, "exit code 1: bad batch"),
        ("printf '10 %%\\r20 %%\\r'; exit 1", 1, "exit code 1: 20 %"),
        ("printf 'a\\033[31mb\\n'; exit 1", 1, "exit code 1: a\\x1b[31mb"),
        ("printf '\\377\\n'; exit 1", 1, "exit code 1: \N{REPLACEMENT CHARACTER}"),
        ("kill -SEGV $$", -11, "ended by SIGSEGV"),
        ("kill -35 $$", -35, "ended by signal 35"),
        ("head -c 9999 /dev/zero | tr '\\0' x; exit 1", 1, f"exit code 1: {'x' * 200}"),
    ],
)
def test_a_failure_has_a_reason_and_no_time(
    output: Path, text: str, code: int, reason: str
) -> None:
    timing = time_command(shell(text), output)
    assert (timing.status, timing.exit_code, timing.reason) == ("failed", code, reason)
    assert timing.seconds is None
    assert timing.wall_seconds > 0
    assert set(timing.measures) == {"memory_bytes"}


def test_prepare_and_cleanup_stand_around_the_timed_part(tmp_path: Path, output: Path) -> None:
    command = shell(
        "echo run >> log; echo printed",
        directory=tmp_path,
        prepare=("sh", "-c", "sleep 0.5; echo prepare >> log; echo not kept"),
        cleanup=("sh", "-c", "sleep 0.5; echo cleanup >> log; echo not kept"),
    )
    began = time.monotonic()
    timing = time_command(command, output)
    beside = time.monotonic() - began - timing.wall_seconds
    assert timing.status == "ok"
    assert beside >= 1.0  # what both of them take
    assert (tmp_path / "log").read_text() == "prepare\nrun\ncleanup\n"
    assert [file.read_text() for file in output.parent.iterdir()] == ["printed\n"]


def test_a_failed_prepare_fails_the_run_which_is_cleaned_up_all_the_same(
    tmp_path: Path, output: Path
) -> None:
    command = shell(
        "echo run >> log",
        directory=tmp_path,
        prepare=("sh", "-c", "echo no data; exit 4"),
        cleanup=("sh", "-c", "echo cleanup >> log"),
    )
    timing = time_command(command, output)
    assert (timing.status, timing.exit_code) == ("failed", None)
    assert timing.reason == "prepare: exit code 4: no data"
    assert (timing.measures, timing.wall_seconds) == ({}, 0.0)
    assert (tmp_path / "log").read_text() == "cleanup\n"
    assert output.read_text() == "no data\n"


def test_a_failed_cleanup_is_told_and_costs_no_time_that_was_measured(output: Path) -> None:
    timing = time_command(shell("true", cleanup=("sh", "-c", "echo busy; exit 1")), output)
    assert (timing.status, timing.reason) == ("ok", "cleanup: exit code 1: busy")
    assert timing.seconds is not None
    timing = time_command(shell("exit 2", cleanup=("false",)), output)
    assert timing.reason == "exit code 2"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "command: found '', expected a program and its arguments"),
        (("",), "command: found '', expected a program and its arguments"),
        (("a\0b",), "command: found a\\x00b, expected a program and its arguments"),
        (("a", "\ud800"), "command: found a \\ud800, expected a program and its arguments"),
        (("no-such-program",), "command: found no-such-program, expected a program on the PATH"),
        (("./none",), "command: found ./none, expected a program on the PATH"),
        (("/usr",), "command: found /usr, expected a program on the PATH"),
        (("./text",), "command: found ./text, expected a file that may be executed (chmod +x)"),
    ],
)
def test_what_is_no_program_is_told_before_anything_runs(
    tmp_path: Path, output: Path, words: tuple[str, ...], message: str
) -> None:
    (tmp_path / "text").write_text("text")
    with pytest.raises(InputError) as alone:
        check_program(words, tmp_path)
    assert str(alone.value) == message
    ran = tmp_path / "ran"
    with pytest.raises(InputError) as caught:
        time_command(Command(words, tmp_path, prepare=("touch", str(ran))), output)
    assert str(caught.value) == message
    if words:
        with pytest.raises(InputError) as caught:
            time_command(Command(("touch", str(ran)), tmp_path, cleanup=words), output)
        assert str(caught.value) == message
    assert not ran.exists()


def test_a_missing_directory(tmp_path: Path, output: Path) -> None:
    with pytest.raises(InputError, match=r"directory: found .*gone, expected a directory that"):
        time_command(Command(("true",), directory=tmp_path / "gone"), output)


def test_an_output_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="expected a file to write to: File exists"):
        time_command(Command(("true",)), tmp_path / "file" / "output.txt")
    with pytest.raises(InputError, match="expected a file to write to: Is a directory"):
        time_command(Command(("true",)), tmp_path)
    (tmp_path / "link").symlink_to("file")
    with pytest.raises(InputError, match="expected a file to write to: Too many levels of sym"):
        time_command(Command(("echo", "text")), tmp_path / "link")
    assert (tmp_path / "file").read_text() == ""


def test_an_output_that_becomes_a_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    output = tmp_path / "output.txt"
    prepare = ("ln", "-sf", "file", str(output))
    timing = time_command(Command(("echo", "text"), tmp_path, prepare=prepare), output)
    assert timing.reason == "cannot be started: Too many levels of symbolic links"
    assert (tmp_path / "file").read_text() == ""


def test_a_file_that_the_kernel_cannot_execute(tmp_path: Path, output: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\0\1\2\3")
    program.chmod(0o755)
    timing = time_command(Command((str(program),), cleanup=("touch", str(tmp_path / "c"))), output)
    assert (timing.status, timing.reason) == ("failed", "cannot be started: Exec format error")
    assert (tmp_path / "c").exists()


def test_more_arguments_than_the_kernel_takes(output: Path) -> None:
    timing = time_command(Command(("true", "x" * 2**20)), output)
    assert timing.reason == "cannot be started: Argument list too long"


@pytest.mark.parametrize(
    "options",
    [
        {"timeout": 0},
        {"timeout": -1.0},
        {"timeout": math.nan},
        {"timeout": math.inf},
        {"output_limit": 0},
        {"environment": {"": "x"}},
        {"environment": {"A=B": "x"}},
        {"environment": {"A": "\0"}},
    ],
)
def test_options_that_mean_nothing(options: dict[str, object]) -> None:
    with pytest.raises(InputError):
        shell("true", **options)


# Waits until the processors were busy for so many seconds.
WAITS = """
import os, time
def busy():
    ticks = [int(word) for word in open("/proc/stat").readline().split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")  # neither idle nor waiting
until = busy() + {}
time.sleep(0.2)
while busy() < until:
    time.sleep(0.02)
"""


def test_other_load_is_that_of_others(output: Path) -> None:
    others = subprocess.Popen((*python(SPIN.format(ENDLESS)).words,))
    try:
        timing = time_command(python(WAITS.format(1.0)), output)
    finally:
        others.kill()
        others.wait()
    assert timing.other_load * timing.wall_seconds > 0.5


def test_several_threads_at_once(tmp_path: Path) -> None:
    def run(number: int) -> Timing:
        return time_command(
            shell(f"sleep 0.2; echo {number}; exit {number}"), tmp_path / f"{number}.txt"
        )

    with ThreadPoolExecutor(4) as threads:
        timings = list(threads.map(run, range(8)))
    assert [timing.exit_code for timing in timings] == list(range(8))
    assert [(tmp_path / f"{n}.txt").read_text() for n in range(8)] == [f"{n}\n" for n in range(8)]


def test_measures_are_what_a_run_stores() -> None:
    timing = Timing("ok", 2.0, 2.0, 1.5, 0.0, 4096, 0)
    assert timing.measures == {"seconds": 2.0, "user_seconds": 1.5, "memory_bytes": 4096}
    marked = Timing("ok", 0.5, 2.0, 1.5, 0.25, 4096, 0)
    assert marked.measures["wall_seconds"] == 2.0
    assert set(marked.measures) <= set(MEASURES)
    assert Timing("timed_out", None, 2.0, 1.5, 0.5, 4096).measures == {"memory_bytes": 4096}


def test_a_marker_takes_the_time_from_the_output(output: Path) -> None:
    # Each line is waited for, until it has come: then the next one comes no earlier than it should.
    come = f'until grep -q "epoch $i" {shlex.quote(str(output))}; do sleep 0.01; done'
    epochs = f"for i in 1 2 3; do echo epoch $i; {come}; sleep 0.1; done"
    text = f"echo start; sleep 0.3; {epochs}"
    timing = time_command(shell(text, marker=Marker("^epoch")), output)
    assert timing.status == "ok"
    assert timing.seconds is not None
    assert 0.1 <= timing.seconds < timing.wall_seconds - 0.3
    captured = time_command(shell(text, marker=Marker("epoch (.*)")), output)
    assert captured.seconds == 3.0


def test_python_does_not_hold_lines_back_that_a_marker_waits_for(output: Path) -> None:
    text = """
import sys, time
for i in range(3):
    print("epoch", i)
    while sys.argv[1:] and f"epoch {i}\\n" not in open(sys.argv[1]).read():  # has it come?
        time.sleep(0.01)
    time.sleep(0.1)
"""
    words = (sys.executable, "-c", text)
    timing = time_command(Command((*words, str(output)), marker=Marker("epoch")), output)
    assert timing.seconds is not None
    assert timing.seconds >= 0.1
    held = Command(words, marker=Marker("epoch"), environment={"PYTHONUNBUFFERED": ""})
    timing = time_command(held, output)
    assert (timing.status, timing.seconds) == ("failed", None)
    assert timing.reason.startswith("marker: found 3 matches that came at once, expected a program")


def test_a_marker_that_finds_nothing_fails_the_run(output: Path) -> None:
    timing = time_command(shell("echo epoch 1", marker=Marker("^epoch")), output)
    assert (timing.status, timing.exit_code) == ("failed", 0)
    assert timing.reason == "marker: found 1 match in the output, expected two or more of ^epoch"
    assert "seconds" not in timing.measures
