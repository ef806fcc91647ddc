"""What a program prints: bounded, never in its way, and when it came."""

import os
import signal
import sys
import tempfile
import threading
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from patience import Ticking, time_outs_begin

from forerun.jobs import Command, Marker, launcher, time_command
from forerun.jobs.launcher import PIECE_BYTES, TAIL_BYTES, Output, Task, tail_bytes

NAMES = st.binary(min_size=1).filter(lambda name: b"\0" not in name)
TEXTS = st.binary().filter(lambda text: b"\0" not in text)


@given(
    task=st.builds(
        Task,
        program=NAMES,
        words=st.lists(TEXTS, min_size=1),
        environment=st.dictionaries(NAMES, TEXTS),
        directory=NAMES,
        output=NAMES,
        output_limit=st.integers(1),
        timeout=st.floats(0, exclude_min=True),
        marks=st.booleans(),
    )
)
def test_the_launcher_gets_the_task_that_was_sent(task: Task) -> None:
    size, _, packed = task.packed().partition(b"\n")
    assert len(packed) == int(size)
    assert vars(Task.unpacked(packed)) == vars(task)


@given(pieces=st.lists(st.binary(min_size=1)), limit=st.integers(1, 300))
def test_what_is_kept_is_the_beginning_and_the_end(pieces: list[bytes], limit: int) -> None:
    with tempfile.NamedTemporaryFile() as file:
        output = Output(file.name, limit)
        for now, piece in enumerate(pieces):
            output.add(piece, now)
        output.finish()
        kept = file.read()
    printed = b"".join(pieces)
    assert output.printed == len(printed)
    if len(printed) <= limit:
        assert kept == printed
    else:
        tail = tail_bytes(limit)
        head = limit - tail
        left_out = b"\n[forerun left out %d bytes here]\n" % (len(printed) - limit)
        assert kept == printed[:head] + left_out + printed[len(printed) - tail :]


@given(lines=st.lists(st.binary(max_size=40), max_size=20), size=st.integers(1, 60))
def test_lines_are_dated_by_the_pieces_in_which_they_came(lines: list[bytes], size: int) -> None:
    printed = b"\n".join([*lines, b""])
    output = Output("/dev/null", 10_000)
    for start in range(0, len(printed), size):
        output.add(printed[start : start + size], start / size)
    assert all(a < b for a, b in pairwise(output.offsets))
    newlines = [i for i, byte in enumerate(printed) if byte == ord("\n")]
    for newline in newlines:
        came = next(t for o, t in zip(output.offsets, output.times, strict=True) if o > newline)
        assert came == newline // size


def test_a_full_disk_stops_neither_the_reading_nor_the_program() -> None:
    output = Output("/dev/full", 100)
    for now in range(1000):
        output.add(b"x" * 99 + b"\n", now)
    output.finish()
    assert (output.printed, output.written) == (100_000, 0)


def test_memory_does_not_grow_with_the_output() -> None:
    output = Output("/dev/null", 2**22)
    piece = bytes(PIECE_BYTES)
    for now in range(1000):
        output.add(piece, now)
        assert len(output.tail) <= TAIL_BYTES + PIECE_BYTES
    assert output.printed == 1000 * PIECE_BYTES


@pytest.mark.parametrize("when", ["before", "meanwhile", "never"])
def test_a_time_out_is_nothing_to_a_program_that_has_ended(
    monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    sent: list[signal.Signals] = []
    ended, why, exited = threading.Event(), list[str](), list[int]()

    def send(number: signal.Signals) -> None:
        sent.append(number)
        if when == "meanwhile":
            ended.set()

    lifeline, other_end = os.pipe()
    monkeypatch.setattr(sys, "stdin", lifeline)
    monkeypatch.setattr(os, "_exit", exited.append)
    monkeypatch.setattr(launcher, "send", send)
    monkeypatch.setattr(launcher, "GRACE", 0.1)
    monkeypatch.setattr(launcher, "FORCE", 0.1)
    monkeypatch.setattr(launcher, "time", Ticking(0.05))
    if when == "before":
        ended.set()
    launcher.hold_lifeline(0.01, why, ended)
    os.close(lifeline)
    os.close(other_end)
    assert why == ([] if when == "before" else ["timed_out"])
    assert exited == ([1] if when == "never" else [])
    assert sent[:1] == ([] if when == "before" else [signal.SIGTERM])
    assert (signal.SIGKILL in sent) == (when == "never")


def test_a_gigabyte_is_read_and_little_of_it_kept(tmp_path: Path) -> None:
    kept = tmp_path / "output.txt"
    command = Command(("sh", "-c", "echo first; head -c 1000000000 /dev/zero; echo; echo last"))
    timing = time_command(command, kept)
    assert (timing.status, timing.printed_bytes) == ("ok", 1_000_000_012)
    assert kept.stat().st_size < command.output_limit + 100
    with kept.open("rb") as file:
        assert file.readline() == b"first\n"
        file.seek(-6, 2)
        assert file.read() == b"\nlast\n"


def test_a_program_that_prints_without_end_is_timed_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "output.txt"
    time_outs_begin(monkeypatch, f"os.path.getsize({str(kept)!r}) > 0")
    timing = time_command(Command(("yes",), timeout=0.3), kept)
    assert timing.status == "timed_out"
    assert timing.printed_bytes > 0


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("took (.*) s", ""),
        (
            "took",
            "marker: found more output than is kept, expected all of it, or a capture group",
        ),
        ("first (.*)", "marker: found no match in the output, expected a match of first (.*)"),
    ],
)
def test_a_marker_where_not_all_of_the_output_is_kept(
    tmp_path: Path, pattern: str, reason: str
) -> None:
    text = "echo first 1 took 2 s; seq 10000; echo took 3 s"
    command = Command(("sh", "-c", text), output_limit=1000, marker=Marker(pattern))
    timing = time_command(command, tmp_path / "output.txt")
    assert timing.reason == reason
    assert timing.seconds == (None if reason else 3.0)
