"""What the starts of a job leave behind, and what is made of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hostile import STRINGS

from forerun.jobs.attempts import MOST_BYTES, Attempt, read_attempts, run_seconds

WHOLE = """\
job 42
nodes n1 n2
host n1
started 1731757200.123
staged 12.3
begun 1731757215.5
done 1731757315.75
code 0
peak 0 1000
ran 0 99.5
peak 1 2000
ran 1 98.125
ended 1731757316
"""


def write(folder: Path, name: str, text: str | bytes) -> None:
    (folder / "attempts").mkdir(exist_ok=True)
    data = text if isinstance(text, bytes) else text.encode(errors="surrogatepass")
    (folder / "attempts" / name).write_bytes(data)


def one(folder: Path, text: str | bytes) -> Attempt:
    write(folder, "1", text)
    (attempt,) = read_attempts(folder)
    return attempt


def test_a_start_with_everything(tmp_path: Path) -> None:
    attempt = one(tmp_path, WHOLE)
    assert attempt == Attempt(
        number=1,
        job="42",
        nodes=("n1", "n2"),
        host="n1",
        started=1731757200.123,
        staged=12.3,
        begun=1731757215.5,
        done=1731757315.75,
        code=0,
        ended=1731757316.0,
        peaks={0: 1000, 1: 2000},
        ran={0: 99.5, 1: 98.125},
    )
    assert attempt.span == 100.25
    assert attempt.seconds == 99.5  # without what started the processes
    assert run_seconds([attempt]) == 99.5


@pytest.mark.parametrize(
    ("ran", "seconds", "clean"),
    [
        ({}, 100.0, True),  # an image without a Python
        ({0: 99.0, 1: 40.0}, 100.0, True),
        ({0: 41.0}, 100.0, True),  # a launcher that took its time
        ({0: 39.0}, 100.0, False),  # the clock was set forward
        ({0: 39_000.0}, 40_000.0, True),
        ({0: 37_000.0}, 40_000.0, False),
        ({0: 100.9}, 100.0, True),
        ({0: 40_030.0}, 40_000.0, True),
        ({0: 102.0}, 100.0, False),  # and back
        ({0: 40.0, 1: 102.0}, 100.0, False),
    ],
)
def test_a_time_during_which_the_clock_was_set_is_not_clean(
    ran: dict[int, float], seconds: float, clean: bool
) -> None:
    attempt = Attempt(1, begun=1000.0, done=1000.0 + seconds, code=0, ran=ran)
    assert attempt.span == seconds
    assert attempt.seconds == max(ran.values(), default=seconds)
    assert run_seconds([attempt]) == (attempt.seconds if clean else None)


def test_a_job_that_never_started_has_none(tmp_path: Path) -> None:
    assert read_attempts(tmp_path) == []
    assert read_attempts(tmp_path / "nowhere") == []
    assert run_seconds([]) is None


def test_starts_come_in_their_order_and_tasks_apart(tmp_path: Path) -> None:
    for name in ("10", "2", "1", "3.2", "3.1", "0.1"):
        write(tmp_path, name, WHOLE)
    found = [(attempt.task, attempt.number) for attempt in read_attempts(tmp_path)]
    assert found == [(None, 1), (None, 2), (None, 10), (0, 1), (3, 1), (3, 2)]


@pytest.mark.parametrize("cut", range(len(WHOLE)))
def test_a_file_that_was_cut_short_keeps_its_whole_lines(tmp_path: Path, cut: int) -> None:
    attempt = one(tmp_path, WHOLE[:cut])
    whole = WHOLE[:cut].rpartition("\n")[0].splitlines()
    assert attempt.done == (1731757315.75 if "done 1731757315.75" in whole else None)
    assert attempt.host == ("n1" if "host n1" in whole else "")
    assert len(attempt.peaks) == sum(line.startswith("peak") for line in whole)


@pytest.mark.parametrize(
    "more", ["warned 1731757300\n", "requeued 1731757316\n", "code 1\n", "begun x\n"]
)
def test_only_a_start_that_went_well_is_a_time(tmp_path: Path, more: str) -> None:
    key = more.partition(" ")[0]
    lines = [line for line in WHOLE.splitlines(keepends=True) if not line.startswith(key)]
    assert run_seconds([one(tmp_path, "".join(lines) + more)]) is None


def test_a_job_that_started_twice_has_no_time(tmp_path: Path) -> None:
    write(tmp_path, "1", "job 42\nstarted 1731757000\n")
    write(tmp_path, "2", WHOLE)
    assert run_seconds(read_attempts(tmp_path)) is None


def test_an_end_before_the_beginning_is_no_time(tmp_path: Path) -> None:
    assert one(tmp_path, "begun 10\ndone 9\ncode 0\n").seconds is None


@pytest.mark.parametrize(
    "line",
    [
        *("begun nan", "begun inf", "begun -1", "begun 1e3", "begun 1_0", "begun  5", "begun ٣"),
        *("begun 999999999999", "begun", "begun 5 6", "Begun 5", " begun 5", "begun\t5"),
    ],
)
def test_a_time_that_is_none_is_ignored(tmp_path: Path, line: str) -> None:
    assert one(tmp_path, f"job 1\n{line}\n").begun is None


@pytest.mark.parametrize("line", ["code 256", "code -1", "code x", "code 0.5", "code"])
def test_a_code_that_is_none_is_ignored(tmp_path: Path, line: str) -> None:
    assert one(tmp_path, f"{line}\n").code is None


@pytest.mark.parametrize("line", ["peak 0", "peak x 1", "peak 0 -1", "peak 0 1 2", "peak 0 1.5"])
def test_a_peak_that_is_none_is_ignored(tmp_path: Path, line: str) -> None:
    assert one(tmp_path, f"{line}\n").peaks == {}


def test_the_first_of_a_key_counts(tmp_path: Path) -> None:
    attempt = one(tmp_path, "code 1\ncode 0\npeak 0 5\npeak 0 9\nbegun x\nbegun 7\n")
    assert (attempt.code, attempt.peaks, attempt.begun) == (1, {0: 5}, 7.0)


@pytest.mark.parametrize("key", ["job", "nodes", "host"])
def test_hostile_values_are_names_or_nothing(tmp_path: Path, key: str) -> None:
    allowed = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-[]:")
    for text in STRINGS:
        attempt = one(tmp_path, f"{key} {text}\n")
        for value in (attempt.job, attempt.host, *attempt.nodes):
            assert set(value) <= allowed
            assert len(value) < 256


def test_what_is_no_file_of_the_script_is_left_alone(tmp_path: Path) -> None:
    write(tmp_path, "1", WHOLE)
    secret = tmp_path / "secret"
    secret.write_text(WHOLE)
    folder = tmp_path / "attempts"
    (folder / "2").symlink_to(secret)
    (folder / "3").mkdir()
    os.mkfifo(folder / "4")
    for name in ("0", "01", "1.txt", "-1", "1.2.3", "٣", "x"):
        (folder / name).write_text(WHOLE)
    assert [attempt.number for attempt in read_attempts(tmp_path)] == [1]


def test_a_huge_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    text = b"code 0\n" + b"x" * MOST_BYTES + b"\nbegun 5\n"
    assert (one(tmp_path, text).code, one(tmp_path, text).begun) == (0, None)


def test_bytes_that_are_no_text_do_no_harm(tmp_path: Path) -> None:
    assert one(tmp_path, b"\xff\xfe\x00\ncode 3\n\x80").code == 3
