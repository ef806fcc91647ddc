"""Slurm's accounting: steps folded into jobs, states, sizes, factors out of names."""

import time
from pathlib import Path
from typing import Any

import pytest
from patience import LONG

from forerun.errors import InputError
from forerun.importing import read_runs

FIXTURES = Path(__file__).parent / "fixtures"
SACCT = FIXTURES / "sacct.txt"
PATTERN = r"b(?P<batch>\d+)_w(?P<workers>\d+)"


def test_one_run_a_job_with_its_steps_folded_in() -> None:
    found = read_runs(SACCT)
    assert [run.status for run in found.runs] == [
        "ok", "ok", "out_of_memory", "timed_out", "cancelled", "failed", "ok",
    ]  # fmt: skip
    assert found.space.names == ("AllocNodes", "AllocCPUS", "gpus", "JobName")
    assert [found.space[name].role for name in found.space] == ["nodes", "threads", "workers", None]
    first, second = found.runs[:2]
    assert dict(first.measures) == {"seconds": 750, "memory_bytes": 1.5 * 2**30, "joules": 52000}
    assert dict(first.point) == {
        "AllocNodes": 1,
        "AllocCPUS": 8,
        "gpus": 1,
        "JobName": "lenet_b16_w1",
    }
    assert (first.host, first.source) == ("n1", "sacct.txt line 2")
    assert second.seconds == 26 * 3600 + 3 * 60 + 4
    assert dict(found.runs[2].measures) == {}
    assert found.runs[6].seconds == 60
    assert found.notes == (
        "left out, not ended yet: 1 jobs",
        "left out, under a second or never started: 1 jobs",
        "left out, not known of every job: NTasks",
        "left out, one value in all runs: Partition (--factors)",
    )


def test_factors_come_out_of_names() -> None:
    found = read_runs(SACCT, pattern=PATTERN)
    assert found.space.names == ("batch", "workers", "AllocNodes", "AllocCPUS", "gpus")
    assert found.space["batch"].values == (16, 32, 64)
    assert found.space["workers"].role == "workers"
    assert [run.point["batch"] for run in found.runs] == [16, 32, 64, 64, 64, 64]
    assert "left out, --pattern does not match: 1 jobs" in found.notes


def test_gpus_that_are_listed_by_type(tmp_path: Path) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text(
        "JobID|AllocTRES|State|Elapsed\n"
        "1|cpu=4,gres/gpu:a100=2,gres/gpu:t4=1|COMPLETED|00:00:05\n"
        "2|cpu=4,gres/gpu:a100=4,gres/gpu=4|COMPLETED|00:00:03\n"
        "3|cpu=4|COMPLETED|00:00:09\n"
    )
    assert [run.point["gpus"] for run in read_runs(path).runs] == [3, 4, 0]


def test_another_duration_is_the_time(tmp_path: Path) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text(
        "JobID|NCPUS|State|Elapsed|TotalCPU\n"
        "1|1|COMPLETED|00:00:05|00:04.500\n"
        "2|2|COMPLETED|00:00:03|00:05.250\n"
    )
    assert [run.seconds for run in read_runs(path, seconds="TotalCPU").runs] == [4.5, 5.25]


def test_a_pattern_that_never_ends_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forerun.importing.pattern.LONGEST_SEARCH", 0.5)
    path = tmp_path / "jobs.txt"
    path.write_text(f"JobID|JobName|State|Elapsed\n1|{'a' * 60}|COMPLETED|00:00:05\n")
    start = time.monotonic()
    with pytest.raises(InputError) as caught:
        read_runs(path, pattern=r"^(?P<x>(a+)+)$b")
    assert time.monotonic() - start < 2 * LONG
    assert str(caught.value) == (
        "--pattern: found '^(?P<x>(a+)+)$b', still searching after 0.5 s,"
        " expected a pattern without nested repeats such as (a+)+"
    )


def test_a_job_keeps_its_name_in_a_longer_listing(tmp_path: Path) -> None:
    lines = SACCT.read_text().splitlines()
    longer = tmp_path / "later.txt"
    longer.write_text(
        "\n".join([lines[0], "99|x|gpu|1|8||gres/gpu=1|COMPLETED|00:01:00||1|n1", *lines[1:]])
    )
    before = {run.uid for run in read_runs(SACCT).runs}
    after = {run.uid for run in read_runs(longer).runs}
    assert before < after
    assert len(after) == len(before) + 1


def test_a_bar_at_the_end_of_each_line_is_sacct_parsable(tmp_path: Path) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text("JobID|NCPUS|State|ElapsedRaw|\n1|1|COMPLETED|5|\n2|2|COMPLETED|3|\n")
    assert [(run.point["NCPUS"], run.seconds) for run in read_runs(path).runs] == [(1, 5), (2, 3)]


HEAD = "JobID|JobName|NCPUS|State|Elapsed\n1|a|1|COMPLETED|00:00:05\n"


@pytest.mark.parametrize(
    ("content", "options", "line"),
    [
        (HEAD + "2|b|2|COMPLETED\n", {}, "line 3: found 4 fields, expected 5, as in the header"),
        (
            HEAD + "2|b|2|COMPLETED|soon\n",
            {},
            "line 3 column Elapsed: found 'soon', expected [days-]hours:minutes:seconds",
        ),
        (
            HEAD + "2|b|2|ODD|00:00:05\n",
            {},
            "line 3 column State: found 'ODD', expected ok, failed, out_of_memory, timed_out,"
            " cancelled, an exit code or a Slurm state",
        ),
        (
            "JobID|State\n1|COMPLETED\n",
            {"format": "sacct"},
            "line 1: found fields JobID, State, expected Elapsed or ElapsedRaw",
        ),
        (
            HEAD,
            {"pattern": "("},
            "--pattern: found '(' (missing ), unterminated subpattern"
            " at position 0), expected a regular expression",
        ),
        (
            HEAD,
            {"pattern": r"b\d"},
            r"--pattern: found 'b\\d', expected named groups, for example b(?P<batch>\d+)",
        ),
        (
            HEAD,
            {"pattern": r"b(?P<batch>\d+)"},
            "--pattern: found no match, first 'a', expected a match",
        ),
        (
            HEAD,
            {"pattern": "(?P<State>a)"},
            "--pattern: found group State, a field of the file, expected another name",
        ),
    ],
)
def test_a_bad_listing_is_refused_in_one_line(
    tmp_path: Path, content: str, options: dict[str, Any], line: str
) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text(content)
    with pytest.raises(InputError) as caught:
        read_runs(path, **options)
    assert str(caught.value).removeprefix(f"{path} ") == line


def test_a_host_with_control_characters_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text("JobID|AllocNodes|Elapsed|NodeList\n1|1|00:10|a\n2|2|00:10|b\x1b[31m\n")
    with pytest.raises(InputError) as caught:
        read_runs(path)
    assert str(caught.value) == (
        f"{path} line 3 column NodeList: found 'b\\x1b[31m', expected text without control"
        " characters"
    )


def test_only_ascii_digits_are_numbers(tmp_path: Path) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text("JobID|AllocNodes|Elapsed\n1|1|00:10\n2|2|00:1\u0661\n")
    with pytest.raises(InputError, match=r"line 3 column Elapsed: found '00:1\u0661', expected"):
        read_runs(path)
